"""`guard-eval progress`: how far the raters are, and how they do."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, console, say, say_next, say_table
from guard_eval.cli.overview.display import as_html, headline, legend, looks, tables, warnings
from guard_eval.cli.overview.display import as_json as in_json
from guard_eval.cli.overview.overview import Overview, view
from guard_eval.cli.overview.ratings import read
from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE
from guard_eval.reporting.writing import write_whole
from guard_eval.store import Store
from guard_eval.study.folder import Study

ENDINGS = (".html", ".json")

REMARKS = 10
"""So many of the newest comments are shown in the terminal."""


def command(
    folder: StudyFolder,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[int, typer.Option(min=1, help="Seconds between two looks with --watch.")] = 10,
    output: Annotated[
        Path | None, typer.Option(help="Also write a page (.html) or every number (.json).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every number as JSON, and no more.")] = False,
) -> None:
    """See how far the raters are.

    Progress, time left, agreement, gold pairs, raters to look at, comments. Not which method is ahead: that
    is for the report, when all verdicts are there.
    """
    study = Study.open(folder)
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise StudyError(f"{output}: the name of what is written ends in {' or '.join(ENDINGS)}")
    if watch and as_json:
        raise StudyError("--json is printed once; leave --watch out, or write a file: --output progress.json")
    if watch:
        _watch(study, every=every, output=output)
        return
    found, at = progress(study), _now()
    if output is not None:
        _write(study, found, output, at=at, refresh=None)
    if as_json:
        typer.echo(in_json(found, title=study.settings.name, at=at))
        return
    show(found)
    if output is not None:
        say(f"\nprogress: {output}")
    if found.wanted and found.counted >= found.wanted:
        say_next(f"guard-eval report {folder}")
    elif any(line.flags and line.state != "excluded" for line in found.raters):
        say_next(f'guard-eval raters {folder} exclude NAME --reason "…", if you have looked and decided so')


def progress(study: Study) -> Overview:
    """Return how far a running study is and how its raters do; not which method is ahead."""
    with Store.open(study.database, declared=study.declared) as store:
        snapshot = read(store)
    return view(snapshot, slots=study.plan.slots, declared=study.declared[PEOPLE])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def show(overview: Overview) -> None:
    """Print it."""
    if overview.rater_kind == "simulated":
        say("These raters are SIMULATED.")
    say(headline(overview))
    for warning in warnings(overview):
        say(warning)
    for table in tables(overview, narrow=True, remarks=REMARKS):
        say(f"\n{table.caption}")
        say_table(table.columns, [[str(cell) for cell in row] for row in table.rows])
        if table.note:
            say(table.note)
    if flagged := looks(overview):
        say("\nLook at")
        for line in (*flagged, legend(overview)):
            say(line)


def _watch(study: Study, *, every: int, output: Path | None) -> None:
    try:
        while True:
            try:
                found, at = progress(study), _now()
                if output is not None:
                    _write(study, found, output, at=at, refresh=every)
            except StudyError as error:
                # a server that restarts is back soon
                say(f"error: {error}")
            else:
                console().clear()
                say(f"{study.settings.name}, {at}; every {every} s, Ctrl-C ends\n")
                show(found)
            time.sleep(every)
    except KeyboardInterrupt:
        say()


def _write(study: Study, overview: Overview, output: Path, *, at: str, refresh: int | None) -> None:
    title = study.settings.name
    if output.suffix.lower() == ".json":
        text = in_json(overview, title=title, at=at)
    else:
        text = as_html(overview, title=title, at=at, refresh=refresh)
    # a note may hold half a surrogate pair, which no file does
    write_whole(output, text.encode("utf-8", "backslashreplace"), make_folder=True, private=True)
