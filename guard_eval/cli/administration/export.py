"""`guard-eval export`: the verdicts as a long table."""

from __future__ import annotations

import io
import json
import types
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from guard_eval.cli.console import StudyFolder, say, say_next
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import Cell, csv_text
from guard_eval.reporting.writing import write_whole
from guard_eval.store import CheckRow, HistoryRow, Note, Store, TidyRow
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import pyarrow

Row = TidyRow | HistoryRow | CheckRow | Note


def write_rows(rows: Sequence[Row], path: Path, *, form: str, kind: type[Row]) -> None:
    """Write rows of one kind as a file, whole or not at all; the same rows give the same bytes.

    A spreadsheet takes no cell of the CSV for a formula: an apostrophe stands before what looks like one. The
    other formats hold every text as it is.

    Args:
        rows: The rows.
        path: The file.
        form: csv, jsonl or parquet.
        kind: Whose fields are the columns, where there is no row to tell.

    Raises:
        MissingExtraError: Parquet is wanted, and pyarrow is not installed.
        StudyError: The file cannot be written.
    """
    names = [field.name for field in fields(kind)]
    values = [[_plain(getattr(row, name)) for name in names] for row in rows]
    if form == "parquet":
        data = _parquet(names, values, kind)
    elif form == "jsonl":
        lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in values)
        # half a surrogate pair, which UTF-8 has not, is written as JSON's own escape
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
    else:
        data = csv_text([names, *values]).encode()
    write_whole(path, data, make_folder=True)


def _plain(value: Cell | datetime) -> Cell:
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value


def _parquet(names: list[str], values: list[list[Cell]], kind: type[Row]) -> bytes:
    arrow, parquet = pyarrow()
    stored_as = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    hints = get_type_hints(kind)
    columns = []
    for place, name in enumerate(names):
        of = _type(hints[name])
        cells = [row[place] for row in values]
        if of is str:
            cells = [None if cell is None else _storable(str(cell)) for cell in cells]
        columns.append(arrow.array(cells, stored_as[of]))
    sink = io.BytesIO()
    parquet.write_table(arrow.Table.from_arrays(columns, names=names), sink)
    return sink.getvalue()


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _type(hint: Any) -> type:  # noqa: ANN401  (a type hint is any object)
    """Return what a field holds besides None; words of a `Literal` and moments are text."""
    if get_origin(hint) in {types.UnionType, Literal} or hint is datetime:
        inner = [part for part in get_args(hint) if part is not types.NoneType]
        return _type(inner[0]) if get_origin(hint) is types.UnionType else str
    return hint if isinstance(hint, type) else str


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
    with Store.open(study.database, study_hash=study.hash) as store:
        rows = _rows(store, table, surplus=surplus, excluded=excluded)
    write_rows(rows, path, form=form.value, kind=_types()[table])
    say(f"{path}: {len(rows)} {table}")
    if table == "verdicts":
        uncounted = sum(isinstance(row, TidyRow) and (row.surplus or row.excluded) for row in rows)
        _say_report(path, form, uncounted=uncounted)


def _form(output: Path | None, asked: Format | None) -> Format:
    """Return the format that is asked for, or that the file's ending names; csv where neither is given."""
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    form = asked or Format(ending if ending in set(Format) else "csv")
    if ending not in {"", form}:
        wanted = f"--format {asked} writes {form}" if asked else f"it writes {', '.join(Format)}"
        raise StudyError(
            f"guard-eval export writes no .{ending} to {output}: {wanted}; "
            f"name a file such as {output.with_suffix(f'.{form}') if output else form}"
        )
    return form


def _rows(store: Store, table: str, *, surplus: bool, excluded: bool) -> Sequence[Row]:
    if table == "history":
        return store.history()
    if table == "checks":
        return store.checks()
    if table == "notes":
        return store.notes()
    return store.tidy(include_surplus=surplus, include_excluded=excluded)


def _types() -> dict[str, type[Row]]:
    return {"verdicts": TidyRow, "history": HistoryRow, "checks": CheckRow, "notes": Note}


def _say_report(path: Path, form: Format, *, uncounted: int) -> None:
    if uncounted:
        say(f"{uncounted} of them do not count (columns surplus and excluded): leave them out of statistics")
    elif form is not Format.jsonl:
        say_next(f"guard-eval report {path}")
