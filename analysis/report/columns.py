"""Unrounded tables for CSV: every column of every row, `simulated` first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pandas as pd

from analysis.results.cells import CellRow
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import RATERS, number, title

T = TypeVar("T")

CELL_COLUMNS: dict[str, Callable[[CellRow], Cell]] = {
    "simulated": lambda row: row.simulated,
    "rater_kind": lambda row: row.rater_kind,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
}
"""The first columns of an export whose rows are of one cell each."""


def left_names(*, name_methods: bool, who: str = "Judged by") -> tuple[str, ...]:
    """Return the headings of what `left_cells` returns; the comparison only where it must be named."""
    return (*(("Comparison",) if name_methods else ()), "Criterion", who)


def left_cells(row: CellRow, *, name_methods: bool) -> tuple[str, ...]:
    """Return a row's comparison, criterion and kind of rater for a table of the page."""
    methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
    return (*methods, title(row.criterion), RATERS[row.rater_kind])


def with_limits(value: float | None, low: float | None, high: float | None) -> str:
    """Return a coefficient with its interval, where it is defined and has one."""
    if value is None:
        return "undefined"
    if low is None or high is None:
        return number(value)
    return f"{number(value)} ({number(low)} to {number(high)})"


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
