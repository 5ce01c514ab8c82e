"""`guard-eval export`: the verdicts as a long table."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, say, say_next
from guard_eval.cli.exchange.row_files import Row, write_rows
from guard_eval.errors import StudyError
from guard_eval.store import CheckRow, HistoryRow, Note, Store, TidyRow, unblind
from guard_eval.store import notes as store_notes
from guard_eval.study.folder import Study


class Format(StrEnum):
    """The kind of file."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


def command(
    folder: StudyFolder,
    output: Annotated[
        Path | None,
        typer.Option(help="The file to write; default: verdicts.csv and so on, in the study."),
    ] = None,
    kind: Annotated[
        Format | None,
        typer.Option(
            "--to",
            "--format",
            help="The file's format; default: by its ending, or csv.",
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Every revision of every verdict, gold and repeats included.")
    ] = False,
    checks: Annotated[
        bool, typer.Option("--checks", help="How raters did on gold pairs and on pairs shown again.")
    ] = False,
    notes: Annotated[
        bool, typer.Option("--notes", help="Comments, problems, consent, background, decisions.")
    ] = False,
    surplus: Annotated[
        bool, typer.Option("--surplus", help="Also ratings that came after their lease ran out.")
    ] = False,
    excluded: Annotated[
        bool, typer.Option("--excluded", help="Also ratings of excluded raters, marked as such.")
    ] = False,
) -> None:
    """Write the verdicts as a table.

    Every current verdict that counts, un-blinded, one a row: the side shown, the button pressed and the
    method it stands for. For guard-eval report or any other program.
    """
    study = Study.open(folder)
    chosen = [name for name, wanted in (("history", history), ("checks", checks), ("notes", notes)) if wanted]
    if len(chosen) > 1:
        raise StudyError(f"{' and '.join(chosen)} are tables of their own; export one at a time")
    table = chosen[0] if chosen else "verdicts"
    if table != "verdicts" and (surplus or excluded):
        raise StudyError(f"the {table} hold surplus and excluded ratings anyway; leave the option out")
    form = _form(output, kind)
    path = output or study.folder / f"{table}.{form}"
    with Store.open(study.database, declared=study.declared) as store:
        rows = _rows(store, table, surplus=surplus, excluded=excluded)
    write_rows(rows, path, form=form.value, kind=_types()[table])
    say(f"{path}: {len(rows)} {table}")
    if table == "verdicts":
        uncounted = sum(isinstance(row, TidyRow) and (row.surplus or row.excluded) for row in rows)
        _say_report(study, count=len(rows), uncounted=uncounted)


def _form(output: Path | None, asked: Format | None) -> Format:
    """Return the format that is asked for, or that the file's ending names; csv where neither is given."""
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    endings = [form.value for form in Format]
    form = asked or Format(ending if ending in endings else "csv")
    if ending not in {"", form}:
        wanted = f"--to {asked} writes {form}" if asked else f"it writes {', '.join(endings)}"
        raise StudyError(
            f"guard-eval export writes no .{ending} to {output}: {wanted}; "
            f"name a file such as {output.with_suffix(f'.{form}') if output else form}"
        )
    return form


def _rows(store: Store, table: str, *, surplus: bool, excluded: bool) -> Sequence[Row]:
    if table == "history":
        return unblind.history(store)
    if table == "checks":
        return unblind.checks(store)
    if table == "notes":
        return store_notes.read(store)
    return unblind.tidy(store, include_surplus=surplus, include_excluded=excluded)


def _types() -> dict[str, type[Row]]:
    return {"verdicts": TidyRow, "history": HistoryRow, "checks": CheckRow, "notes": Note}


def _say_report(study: Study, *, count: int, uncounted: int) -> None:
    if not count:
        say_next(f"guard-eval status {study.folder}")
    elif uncounted:
        say(f"{uncounted} of them do not count (columns surplus and excluded): leave them out of statistics")
    else:
        say_next(f"guard-eval report {study.folder}")
