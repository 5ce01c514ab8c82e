"""Rows of the store as files: CSV, JSONL and Parquet."""

from __future__ import annotations

import io
import json
import types
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from guard_eval.errors import MissingExtraError
from guard_eval.records import Pair
from guard_eval.reporting.escaping import Cell, csv_text
from guard_eval.reporting.writing import write_whole
from guard_eval.store import CheckRow, HistoryRow, Note, TidyRow

Row = TidyRow | HistoryRow | CheckRow | Note | Pair


def write_rows(rows: Sequence[Row], path: Path, *, form: str, kind: type[Row]) -> None:
    """Write rows of one kind as a file, whole or not at all; the same rows give the same bytes.

    A spreadsheet takes no cell of the CSV for a formula: an apostrophe precedes what looks like one. The
    other formats hold every text as it is.

    Args:
        rows: The rows.
        path: The file.
        form: csv, jsonl or parquet.
        kind: Whose fields are the columns, where there is no row to tell.

    Raises:
        MissingExtraError: Parquet needs pyarrow, which is not installed.
        StudyError: The file cannot be written.
    """
    write_whole(path, row_bytes(rows, form=form, kind=kind), make_folder=True, private=True)


def row_bytes(rows: Sequence[Row], *, form: str, kind: type[Row]) -> bytes:
    """Return what `write_rows` writes."""
    names = [field.name for field in fields(kind)]
    values = [[_plain(getattr(row, name)) for name in names] for row in rows]
    if form == "parquet":
        return _parquet(names, values, kind)
    return (
        json_lines(dict(zip(names, row, strict=True)) for row in values)
        if form == "jsonl"
        else (csv_text([names, *values]).encode())
    )


def json_lines(records: Iterable[object]) -> bytes:
    """Return records as lines of JSON; half a surrogate pair, which UTF-8 has not, as JSON's own escape."""
    text = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    return text.encode("utf-8", "backslashreplace")


def _plain(value: Cell | datetime) -> Cell:
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value


def _parquet(names: list[str], values: list[list[Cell]], kind: type[Row]) -> bytes:
    if find_spec("pyarrow") is None:
        raise MissingExtraError("metrics", "pyarrow")
    import pyarrow as pa  # noqa: PLC0415 (an extra)
    from pyarrow import parquet  # noqa: PLC0415

    stored_as = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    hints = get_type_hints(kind)
    columns = []
    for place, name in enumerate(names):
        of = _type(hints[name])
        cells = [row[place] for row in values]
        if of is str:
            cells = [None if cell is None else _storable(str(cell)) for cell in cells]
        columns.append(pa.array(cells, stored_as[of]))
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays(columns, names=names), sink)
    return sink.getvalue()


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _type(hint: Any) -> type:  # noqa: ANN401  (a type hint is any object)
    """Return what a field holds besides None; words of a `Literal` and moments are text."""
    if get_origin(hint) in {types.UnionType, Literal} or hint is datetime:
        inner = [part for part in get_args(hint) if part is not types.NoneType]
        return _type(inner[0]) if get_origin(hint) is types.UnionType else str
    return hint if isinstance(hint, type) else str
