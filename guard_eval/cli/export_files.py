"""Rows as CSV, JSON lines or Parquet: long tables, a column per field."""

from __future__ import annotations

import io
import json
import types
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from guard_eval.errors import MissingExtraError
from guard_eval.escaping import Cell, csv_text
from guard_eval.store import CheckRow, HistoryRow, Note, TidyRow
from guard_eval.writing import write_whole

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
    if find_spec("pyarrow") is None:
        raise MissingExtraError("metrics", "pyarrow")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
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
