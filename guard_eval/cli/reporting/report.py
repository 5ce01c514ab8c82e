"""What `guard-eval report` does: verdicts of a study or of a table, and the report on them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.report.build import Report, write_report
from analysis.report.context import Context
from analysis.report.paper_tables import paper_tables as tables_of
from analysis.results.shares import Estimand, share_rows
from analysis.verdicts.panel import Panel, PanelRule
from analysis.verdicts.tidy import orient, validate
from guard_eval.cli.reporting.study import study_context, versions
from guard_eval.cli.reporting.verdicts import rows_of, table_of, verdicts
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.reporting.tables import to_markdown
from guard_eval.store import Store
from guard_eval.study.folder import Study


def report(
    source: Study | Path,
    output: Path | None = None,
    *,
    rater_kind: RaterKind | None = None,
    raters: Estimand | None = None,
    random_part: bool = False,
    panel: PanelRule | None = None,
    compare: tuple[str, str] | None = None,
) -> Report:
    """Write the significance report.

    Args:
        source: A study, or a table of verdicts.
        output: The folder to write; the study's own, or TABLE-report in the current folder.
        rater_kind: Who judged, where a table does not say it.
        raters: For whom the answer on a table is to hold, by default for these raters; a study declares it.
        compare: Of three or more methods, the two whose comparison is shown in full.
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
    if panel is not None and isinstance(source, Study):
        raise StudyError(
            f"{source.folder} is a study, whose study.toml declares a panel in its table [panel], if any; "
            "leave --panel out"
        )
    table, context = _with_context(source, rater_kind=rater_kind)
    if panel is not None:
        context = replace(context, panel=Panel(rule=panel), command=f"{context.command} --panel {panel}")
    if compare is not None:
        command = f"{context.command} --compare {' '.join(map(shlex.quote, compare))}"
        context = replace(context, compare=(compare,), command=command)
    if raters is not None:
        context = replace(context, raters=raters, command=f"{context.command} --raters {raters}")
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
    return [to_markdown(found) for found in tables_of(rows)]


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
