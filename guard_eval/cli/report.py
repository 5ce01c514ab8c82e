"""`guard-eval report`: the verdicts as shares, tests, agreement, and a page to read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import say, say_remarks

if TYPE_CHECKING:
    import pandas as pd

    from analysis.report.context import Context
    from guard_eval.records import RaterKind
    from guard_eval.study.folder import Study

Source = tuple["pd.DataFrame", "Context"]
"""Verdicts, and what else there is to know of them."""


def command(
    source: Annotated[
        Path, typer.Argument(metavar="STUDY|VERDICTS.csv", help="A study, or a tidy table of verdicts.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="The folder to write; default: report in the study, VERDICTS-report in the current folder."
        ),
    ] = None,
    rater_kind: Annotated[
        str | None,
        typer.Option(
            metavar="person|model|simulated",
            help="Who judged, where a table of verdicts does not say it in a column rater_kind; "
            "default: person.",
        ),
    ] = None,
    random_part: Annotated[
        bool,
        typer.Option(
            "--random-part",
            help="The pairs that people rated are a random part of those that a judge judged, within each "
            "dataset; otherwise a part that looks as if it were not is refused (docs/assisted.md).",
        ),
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Print only the paper's tables, in Markdown: pooled shares, its test, people beside models.",
        ),
    ] = False,
) -> None:
    """Write the significance report.

    index.html opens from disk; beside it are report.md, report.tex, the figures, and every number as CSV
    and JSON.
    """
    if not source.is_dir():
        verdicts, context = _of_file(source, rater_kind=rater_kind)
        folder = output or _own_folder(source)
    elif rater_kind is None:
        from guard_eval.study.folder import Study

        study = Study.open(source)
        verdicts, context = _of_study(study)
        folder = output or study.report
    else:
        from guard_eval.errors import StudyError

        raise StudyError(f"{source} is a study, and knows who judged; leave --rater-kind out")
    if random_part:
        command = f"{context.command} --random-part"
        context = replace(context, random_part=True, command=command)
    if paper:
        say_paper_tables(verdicts, context)
    else:
        _write(verdicts, context, folder)


def run(study: Study, *, output: Path | None = None) -> Path:
    """Report on a study; return the page to open."""
    verdicts, context = _of_study(study)
    return _write(verdicts, context, output or study.report)


def say_paper_tables(verdicts: pd.DataFrame, context: Context) -> None:
    """Print the paper's tables of these verdicts as Markdown."""
    from analysis.results.paper_tables import paper_tables
    from analysis.results.shares import share_rows
    from analysis.verdicts.tidy import orient, validate
    from guard_eval.reporting.tables import to_markdown

    frame = orient(validate(verdicts), context.planned)
    for table in paper_tables(share_rows(frame, planned=context.planned, alpha=context.alpha)):
        typer.echo(f"{to_markdown(table)}\n")


def _of_study(study: Study) -> Source:
    from dataclasses import fields

    import pandas as pd

    from guard_eval.cli.reporting.study import study_context
    from guard_eval.errors import StudyError
    from guard_eval.store import Store

    with Store.open(study.database, study_hash=study.hash) as store:
        rows = store.tidy()
        if not rows:
            raise StudyError(
                f"{study.folder} has no verdicts yet; collect some: guard-eval annotate or guard-eval judge"
            )
        context = study_context(study, store, {row.rater_kind for row in rows})
    # Column by column: a dict for each of a million verdicts takes a minute.
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in fields(rows[0])}
    return pd.DataFrame(columns), context


def _of_file(path: Path, *, rater_kind: str | None) -> Source:
    """Return a table of verdicts that need not come from a study."""
    from analysis.report.context import Context
    from analysis.verdicts.tidy import read
    from guard_eval.cli.reporting.study import versions

    kind = _kind(rater_kind)
    context = Context(
        name=path.stem,
        question="Which of the compared strategies writes better continuations?",
        versions=versions(),
        command=f"guard-eval report {path.name}{f' --rater-kind {kind}' if kind else ''}",
    )
    verdicts = read(path, rater_kind=kind)
    say_remarks(verdicts)
    return verdicts, context


def _own_folder(table: Path) -> Path:
    """Return the folder for the report on a table: in the current one, and no folder of anything else."""
    from guard_eval.errors import StudyError

    folder = Path(f"{table.stem}-report")
    is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not is_new and not (folder / "report.json").is_file():
        raise StudyError(f"{folder} exists and is no report; name another folder: --output FOLDER")
    return folder


def _kind(given: str | None) -> RaterKind | None:
    from typing import get_args

    from guard_eval.errors import StudyError
    from guard_eval.records import RaterKind

    known: tuple[RaterKind, ...] = get_args(RaterKind)
    found = next((kind for kind in known if kind == given), None)
    if given is not None and found is None:
        raise StudyError(f"--rater-kind {given!r} is unknown; write one of: {', '.join(known)}")
    return found


def _write(verdicts: pd.DataFrame, context: Context, folder: Path) -> Path:
    from analysis.report.build import write_report

    report = write_report(verdicts, folder, context)
    page = next(path for path in report.paths if path.name == "index.html")
    say(report.summary)
    say(f"\nreport: {page}")
    return page
