"""What `guard-eval report` does: verdicts of a study or of a table, and the report on them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import pandas as pd

from analysis.reports.build import Report, scored, write_report
from analysis.reports.context import Context, versions
from analysis.reports.paper_tables import paper_tables as tables_of
from analysis.results.shares import share_rows
from analysis.verdicts.tidy import orient, validate
from guard_eval.cli.console import say
from guard_eval.cli.reporting.table_settings import TableOptions, declared, stem, table_context
from guard_eval.cli.reporting.verdict_tables import rows_of, table_of, verdicts
from guard_eval.errors import StudyError
from guard_eval.reporting.tables import to_markdown
from guard_eval.reporting.words import titled
from guard_eval.study.folder import Study


def report(
    source: Study | Path,
    output: Path | None = None,
    *,
    settings: Path | None = None,
    random_part: bool = False,
    compare: tuple[str, str] | None = None,
    **given: Unpack[TableOptions],
) -> Report:
    """Write the significance report.

    Args:
        source: A study, or a table of verdicts.
        output: The folder to write; the study's own, or TABLE-report in the current folder.
        settings: A file that declares what holds for a table; by default the report.toml beside it, if any.
        given: What holds for a table, before the file; a study declares all of it in study.toml.
        compare: Of three or more methods, the two whose comparison is shown in full.
        random_part: The pairs that people rated are a random part, within each dataset, of those judged.

    Returns:
        The files that were written, and the answer in words.

    Raises:
        StudyError: There are no verdicts, or the folder holds something else.
    """
    table, context = _with_context(source, given, settings)
    if compare is not None:
        command = f"{context.command} --compare {' '.join(map(shlex.quote, compare))}"
        context = replace(context, compare=(compare,), command=command)
    if random_part:
        context = replace(context, random_part=True, command=f"{context.command} --random-part")
    if output is None:
        output = source.report if isinstance(source, Study) else _own_folder(source)
    return write_report(scored(table, context), output, context)


def paper_tables(
    source: Study | Path, *, settings: Path | None = None, **given: Unpack[TableOptions]
) -> list[str]:
    """Return the paper's tables of these verdicts, in Markdown.

    Raises:
        StudyError: There are no verdicts.
    """
    table, context = _with_context(source, given, settings)
    frame = orient(table, context.planned)
    rows = share_rows(frame, planned=context.planned, alpha=context.alpha)
    with titled(context.titles):
        return [to_markdown(found) for found in tables_of(rows)]


def _with_context(
    source: Study | Path, given: TableOptions, settings: Path | None
) -> tuple[pd.DataFrame, Context]:
    """Return verdicts, and what else is known of them."""
    if not isinstance(source, Study):
        declaration = declared(source, given, settings)
        if declaration.file is not None:
            say(f"settings: {declaration.file}")
        found = verdicts(source, rater_kind=declaration.settings.rater_kind)
        return table_context(source, found, declaration, versions())
    of_table = {"settings": settings, **given}
    if first := next((name for name, value in of_table.items() if value is not None), None):
        raise StudyError(
            f"{source.folder} is a study, whose study.toml declares what holds for it; leave "
            f"--{first.replace('_', '-')} out"
        )
    # Only for a study: a table's report would wait half a second for SQLAlchemy.
    from guard_eval.cli.reporting.study import study_context  # noqa: PLC0415
    from guard_eval.store import Store  # noqa: PLC0415

    with Store.open(source.database, study_hash=source.hash) as store:
        rows = rows_of(source, store)
        context = study_context(source, store, rows)
    return validate(table_of(rows)), context


def _own_folder(table: Path) -> Path:
    """Return the folder for the report on a table: in the current one, and no folder of anything else."""
    folder = Path(f"{stem(table)}-report")
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_new and not (folder / "report.json").is_file():
        raise StudyError(f"{folder} exists and is no report; name another folder: --output FOLDER")
    return folder
