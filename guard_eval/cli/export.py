"""`guard-eval export`: the verdicts as a tidy table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, say, say_next


def command(
    folder: StudyFolder,
    output: Annotated[
        Path | None, typer.Option(help="The CSV file to write; default: verdicts.csv in the study.")
    ] = None,
    surplus: Annotated[
        bool, typer.Option("--surplus", help="Also ratings that came after their lease ran out.")
    ] = False,
) -> None:
    """Write the verdicts as a table.

    Every current verdict, un-blinded, one a row: for guard-eval report or any other program.
    """
    import csv
    from dataclasses import asdict, fields

    from guard_eval.store import Store, TidyRow
    from guard_eval.study import Study

    study = Study.open(folder)
    path = output or study.folder / "verdicts.csv"
    with Store.open(study.database, study_hash=study.hash) as store:
        rows = store.tidy(include_surplus=surplus)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(TidyRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _harmless(value) for key, value in asdict(row).items()} for row in rows)
    say(f"{path}: {len(rows)} verdicts")
    say_next(f"guard-eval report {path}")


def _harmless(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: a rater may call himself `=HYPERLINK(…)`."""
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )
