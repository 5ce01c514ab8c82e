"""`guard-eval report`: the verdicts as shares, tests, agreement, and a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from guard_eval.cli import commands
from guard_eval.cli.console import say
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.study.folder import Study


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
            metavar="|".join(get_args(RaterKind)),
            help="Who judged, where a table of verdicts does not say it in a column rater_kind; "
            "default: person.",
        ),
    ] = None,
    raters: Annotated[
        Literal["these", "population"] | None,
        typer.Option(
            help="For whom the answer on a table of verdicts is to hold: the raters who took part, or all "
            "raters like them; a study declares it in study.toml. Default: these.",
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
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Of three or more methods show the comparison of these two in full: by dataset, with "
            "figures, agreement and sensitivity.",
        ),
    ] = None,
    panel: Annotated[
        Literal["majority", "mean"] | None,
        typer.Option(
            help="Take the judges of a table of verdicts together besides, as a panel that decides by "
            "majority or whose score is their mean; a study declares it in study.toml.",
        ),
    ] = None,
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
    if source.is_dir() and rater_kind is not None:
        raise StudyError(f"{source} is a study, and knows who judged; leave --rater-kind out")
    known: tuple[RaterKind, ...] = get_args(RaterKind)
    kind = next((kind for kind in known if kind == rater_kind), None)
    if rater_kind is not None and kind is None:
        raise StudyError(f"--rater-kind {rater_kind!r} is unknown; write one of: {', '.join(known)}")
    opened = Study.open(source) if source.is_dir() else source
    if paper:
        for table in commands.paper_tables(opened, rater_kind=kind):
            typer.echo(f"{table}\n")
        return
    report = commands.report(
        opened, output, rater_kind=kind, raters=raters, random_part=random_part, panel=panel, compare=compare
    )
    say(report.summary)
    say(f"\nreport: {report.paths[0]}")
