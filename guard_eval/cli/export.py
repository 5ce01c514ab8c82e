"""`guard-eval export`: what raters said, as a long table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import StudyFolder, say, say_next

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guard_eval.cli.export_files import Row
    from guard_eval.store import Store


class Format(StrEnum):
    """The kind of file."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


def command(
    folder: StudyFolder,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; default: verdicts.csv and so on, in the study.")
    ] = None,
    kind: Annotated[
        Format | None, typer.Option("--format", help="Default: by the file's ending, or csv.")
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
    """Write what raters said as a table.

    Every current verdict that counts, un-blinded, one a row: the side shown, the button pressed and the
    method it stands for. For guard-eval report or any other program.
    """
    from guard_eval.cli.export_files import write_rows
    from guard_eval.errors import StudyError
    from guard_eval.store import Store, TidyRow
    from guard_eval.study import Study

    study = Study.open(folder)
    chosen = [name for name, wanted in (("history", history), ("checks", checks), ("notes", notes)) if wanted]
    if len(chosen) > 1:
        raise StudyError(f"{' and '.join(chosen)} are tables of their own; export one at a time")
    table = chosen[0] if chosen else "verdicts"
    if table != "verdicts" and (surplus or excluded):
        raise StudyError(f"the {table} hold surplus and excluded ratings anyway; leave the option out")
    form = kind or _by_ending(output)
    path = output or study.folder / f"{table}.{form}"
    with Store.open(study.database, study_hash=study.hash) as store:
        rows = _rows(store, table, surplus=surplus, excluded=excluded)
    write_rows(rows, path, form=form.value, kind=_types()[table])
    say(f"{path}: {len(rows)} {table}")
    if table == "verdicts":
        uncounted = sum(isinstance(row, TidyRow) and (row.surplus or row.excluded) for row in rows)
        _say_report(path, form, uncounted=uncounted)


def _by_ending(output: Path | None) -> Format:
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    return Format(ending) if ending in set(Format) else Format.csv


def _rows(store: Store, table: str, *, surplus: bool, excluded: bool) -> Sequence[Row]:
    if table == "history":
        return store.history()
    if table == "checks":
        return store.checks()
    if table == "notes":
        return store.notes()
    return store.tidy(include_surplus=surplus, include_excluded=excluded)


def _types() -> dict[str, type[Row]]:
    from guard_eval.store import CheckRow, HistoryRow, Note, TidyRow

    return {"verdicts": TidyRow, "history": HistoryRow, "checks": CheckRow, "notes": Note}


def _say_report(path: Path, form: Format, *, uncounted: int) -> None:
    if uncounted:
        say(f"{uncounted} of them do not count (columns surplus and excluded): leave them out of statistics")
    elif form is not Format.jsonl:
        say_next(f"guard-eval report {path}")
