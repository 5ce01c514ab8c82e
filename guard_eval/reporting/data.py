"""Write results for other programs: any value as JSON, and a data frame as CSV."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pydantic_core

from guard_eval.reporting.escaping import escape_csv, join_escaped_csv

if TYPE_CHECKING:
    import pandas as pd


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(value: object, *, ascii_only: bool = False) -> str:
    """Return a value as indented JSON."""
    # The json module takes seconds for a large table if it indents.
    return pydantic_core.to_json(to_json_value(value), indent=1, ensure_ascii=ascii_only).decode() + "\n"


def to_json_value(value: Any) -> Any:  # noqa: ANN401, PLR0911 (whatever a result holds)
    """Convert a value to JSON types. Missing values and numbers that are not finite become null."""
    # A report has a hundred thousand cells, nearly all of them of the first three kinds.
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {to_json_value(str(key)): to_json_value(inner) for key, inner in value.items()}
    if hasattr(value, "to_dict"):  # a data frame
        columns = {to_json_value(str(name)): to_json_value(column.tolist()) for name, column in value.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return to_json_value(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(inner) for inner in value]
    # In pandas, NaT and NA are missing values.
    return None if type(value).__name__ in {"NaTType", "NAType"} else to_json_value(str(value))


def make_csv_from_records(record_class: type, records: Iterable[object]) -> str:
    """Return records of a dataclass as CSV without spreadsheet formulas. Each field is a column."""
    names = [field.name for field in fields(record_class)]
    rows = [[_make_csv_cell(getattr(record, name)) for name in names] for record in records]
    return join_escaped_csv([names, *rows])


def make_csv_from_frame(frame: "pd.DataFrame") -> bytes:
    """Return a data frame as CSV without spreadsheet formulas. The function is fast for a million rows."""
    columns = [_escape_csv_column(frame[name]) for name in frame.columns]
    names = [escape_csv(str(name)) for name in frame.columns]
    return join_escaped_csv(chain([names], zip(*columns, strict=True))).encode()


def _escape_csv_column(column: "pd.Series") -> list[str]:
    """Return the column's cells, escaped for CSV. Each distinct value is escaped only once."""
    import numpy as np  # noqa: PLC0415 (commands that write no frame start without them)
    import pandas as pd  # noqa: PLC0415

    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) != "string":
        return [_make_csv_cell(value) for value in column.tolist()]
    if column.dtype == float:
        codes, bits = pd.factorize(column.to_numpy().view(np.int64))  # as numbers, 0.0 and −0.0 would be one
        values = bits.view(np.float64).tolist()
    else:
        codes, index = pd.factorize(column)
        values = index.tolist()
    texts = [*map(_make_csv_cell, values), ""]  # the last place is that of −1, an empty cell
    return [texts[code] for code in codes.tolist()]


def _make_csv_cell(value: object) -> str:
    """Return a value as a CSV cell. A mapping becomes a list of names and values."""
    item = to_json_value(value)
    if isinstance(item, dict):
        item = "; ".join(f"{name}: {inner}" for name, inner in item.items())
    return escape_csv(item if isinstance(item, str | int | float) else None)
