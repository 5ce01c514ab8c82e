"""Unrounded tables for CSV: every column of every row, `simulated` first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pandas as pd

from analysis.render import Table
from guard_eval.escaping import Cell

T = TypeVar("T")


def full_table(columns: Mapping[str, Callable[[T], Cell]], rows: Iterable[T]) -> Table:
    """Return every column of every row."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Table(columns=tuple(columns), rows=cells, caption="")


def frame_table(frame: pd.DataFrame, *, simulated: pd.Series | bool) -> Table:
    """Return any frame as it stands, with the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")  # this file may be read again
    table.insert(0, "simulated", simulated)
    cells = tuple(tuple(_cell(value) for value in row) for row in table.itertuples(index=False, name=None))
    return Table(columns=tuple(str(name) for name in table.columns), rows=cells, caption="")


def _cell(value: object) -> Cell:
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):  # noqa: PLR0124  NaN
        return None
    item = value.item() if hasattr(value, "item") else value
    return item if isinstance(item, str | int | float | bool) else str(item)
