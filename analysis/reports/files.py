"""The numbers of a report as CSV and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import clean, csv_of_escaped, escape_csv


def as_json(facts: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> str:
    """Return every number of a report as JSON: the frames by name, a list of objects each."""
    tables = {name: [_plain(row) for row in frame.to_dict("records")] for name, frame in frames.items()}
    return json.dumps({**facts, "tables": tables}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:  # noqa: ANN401  any cell
    item = value.item() if isinstance(value, np.generic) else value
    if isinstance(item, str):
        return clean(item)
    if item is None or item is pd.NaT or (isinstance(item, float) and not math.isfinite(item)):
        return None
    return item if isinstance(item, int | float | bool) else clean(str(item))


def verdicts_csv(frame: pd.DataFrame) -> bytes:
    """Return the verdicts as CSV, with the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")
    table.insert(0, "simulated", frame["rater_kind"].isin(SIMULATED))
    return frame_csv(table)


def frame_csv(frame: pd.DataFrame) -> bytes:
    """Return a frame as CSV that a spreadsheet takes for data throughout, and fast for a million rows."""
    columns = [_cells(frame[name]) for name in frame.columns]
    names = [escape_csv(str(name)) for name in frame.columns]
    return csv_of_escaped(chain([names], zip(*columns, strict=True))).encode()


def _cells(column: pd.Series) -> list[str]:
    """Return the column's cells escaped for CSV; each different value is escaped once."""
    if column.dtype == object and infer_dtype(column, skipna=True) != "string":
        return [_cell(value) for value in column.tolist()]
    if column.dtype == float:
        codes, bits = pd.factorize(column.to_numpy().view(np.int64))  # as numbers, 0.0 and −0.0 would be one
        values = bits.view(np.float64).tolist()
    else:
        codes, index = pd.factorize(column)
        values = index.tolist()
    texts = [*map(_cell, values), ""]  # the last place is that of −1, an empty cell
    return [texts[code] for code in codes.tolist()]


def _cell(value: object) -> str:
    item = value.item() if isinstance(value, np.generic) else value
    if item is None or item is pd.NA or item is pd.NaT or (isinstance(item, float) and math.isnan(item)):
        return ""
    return escape_csv(item if isinstance(item, str | int | float | bool) else str(item))
