"""What `guard-eval report` does: verdicts of a study or of a table, and the report on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.report.build import Report, write_report
from analysis.report.context import Context
from analysis.report.paper_tables import paper_tables as tables_of
from analysis.results.shares import Correction, Estimand, share_rows
from analysis.verdicts.panel import Panel, PanelRule
from analysis.verdicts.tidy import orient, validate
from guard_eval.cli.reporting.study import study_context, versions
from guard_eval.cli.reporting.verdict_tables import rows_of, table_of, verdicts
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.reporting.tables import to_markdown
from guard_eval.reporting.words import titled
from guard_eval.store import Store
from guard_eval.study.folder import Study


def report(
    source: Study | Path,
    output: Path | None = None,
    *,
    rater_kind: RaterKind | None = None,
    raters: Estimand | None = None,
    correction: Correction | None = None,
    margin: float | None = None,
    random_part: bool = False,
    panel: PanelRule | None = None,
) -> Report:
    """Write the significance report.

    Args:
        source: A study, or a table of verdicts.
        output: The folder to write; the study's own, or TABLE-report in the current folder.
        rater_kind: Who judged, where a table does not say it.
        raters: For whom the answer on a table is to hold, by default for these raters; a study declares it.
        correction: For the number of results of a table, by default Holm's; a study declares it.
        margin: The largest distance of a table's win shares from one half that does not matter, for claims of
            equivalence; a study declares it.
        panel: Take all judges of a table together besides, by this rule; a study declares its panel.
        random_part: The pairs that people rated are a random part, within each dataset, of those judged.

    Returns:
        The files that were written, and the answer in words.

    Raises:
        StudyError: There are no verdicts, or the folder holds something else.
    """
    if raters is not None and isinstance(source, Study):
        declared = source.settings.analysis.raters
        raise StudyError(
            f"{source.folder} is a study, whose study.toml declares raters = {declared!r} under [analysis]; "
            "leave --raters out"
        )
    if isinstance(source, Study):
        _refuse_declared(source, correction, margin)
    if panel is not None and isinstance(source, Study):
        raise StudyError(
            f"{source.folder} is a study, whose study.toml declares a panel in its table [panel], if any; "
            "leave --panel out"
        )
    table, context = _with_context(source, rater_kind=rater_kind)
    if panel is not None:
        context = replace(context, panel=Panel(rule=panel), command=f"{context.command} --panel {panel}")
    if raters is not None:
        context = replace(context, raters=raters, command=f"{context.command} --raters {raters}")
    if correction is not None:
        context = replace(
            context, correction=correction, command=f"{context.command} --correction {correction}"
        )
    if margin is not None:
        context = replace(context, margin=margin, command=f"{context.command} --margin {margin:g}")
    if random_part:
        context = replace(context, random_part=True, command=f"{context.command} --random-part")
    if output is None:
        output = source.report if isinstance(source, Study) else _own_folder(source)
    return write_report(table, output, context)


def paper_tables(source: Study | Path, *, rater_kind: RaterKind | None = None) -> list[str]:
    """Return the paper's tables of these verdicts, in Markdown.

    Raises:
        StudyError: There are no verdicts.
    """
    table, context = _with_context(source, rater_kind=rater_kind)
    frame = orient(validate(table), context.planned)
    rows = share_rows(frame, planned=context.planned, alpha=context.alpha)
    with titled(context.titles):
        return [to_markdown(found) for found in tables_of(rows)]


def _refuse_declared(study: Study, correction: Correction | None, margin: float | None) -> None:
    """Refuse to replace what a study has declared before there were verdicts."""
    declared = study.settings.analysis
    for option, value, name, own in (
        ("--correction", correction, "correction", declared.correction),
        ("--margin", margin, "equivalence_margin", declared.equivalence_margin),
    ):
        if value is not None:
            what = f"declares {name} = {own!r}" if own is not None else f"declares no {name}"
            raise StudyError(
                f"{study.folder} is a study, whose study.toml {what} under [analysis]; leave {option} out"
            )


def _with_context(
    source: Study | Path, *, rater_kind: RaterKind | None = None
) -> tuple[pd.DataFrame, Context]:
    """Return verdicts, and what else is known of them."""
    if not isinstance(source, Study):
        context = Context(
            name=source.stem,
            question="Which of the compared strategies writes better continuations?",
            versions=versions(),
            command=f"guard-eval report {source.name}{f' --rater-kind {rater_kind}' if rater_kind else ''}",
        )
        return verdicts(source, rater_kind=rater_kind), context
    with Store.open(source.database, study_hash=source.hash) as store:
        rows = rows_of(source, store)
        context = study_context(source, store, {row.rater_kind for row in rows})
    return table_of(rows), context


def _own_folder(table: Path) -> Path:
    """Return the folder for the report on a table: in the current one, and no folder of anything else."""
    folder = Path(f"{table.stem}-report")
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_new and not (folder / "report.json").is_file():
        raise StudyError(f"{folder} exists and is no report; name another folder: --output FOLDER")
    return folder
