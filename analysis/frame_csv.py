"""A frame of any size as CSV: each different text is escaped once, and rows are joined in blocks."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.text_codes import are_strings
from guard_eval.escaping import csv_text, escape_csv

_BLOCK = 1 << 14
_QUOTED = re.compile(r'[,"\n]')


def frame_csv(frame: pd.DataFrame, *, simulated: pd.Series | bool) -> bytes:
    """Return what `render.to_csv` makes of `columns.frame_table`: the frame, the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")  # this file may be read again
    table.insert(0, "simulated", simulated)
    columns = [_cells(table[name]) for name in table.columns]
    blocks = [csv_text([[str(name) for name in table.columns]]).encode()]
    for start in range(0, len(table), _BLOCK):
        rows = zip(*(column[start : start + _BLOCK] for column in columns), strict=True)
        blocks.append(("\n".join(map(",".join, rows)) + "\n").encode())
    return b"".join(blocks)


def _cells(column: pd.Series) -> list[str]:
    """Return the column's cells as they stand in a CSV; equal cells are one object."""
    if column.dtype == object and not are_strings(column):
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
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    text = escape_csv(value if isinstance(value, str | int | float | bool) else str(value))
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text
