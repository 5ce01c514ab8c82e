"""Columns that several tables share, and tables whose rows are of one cell each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pandas as pd

from analysis.results.cells import CellRow
from analysis.stats.agreement import Coefficient
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import judged_by, number, number_limits, percent, title

CELL_COLUMNS: dict[str, Callable[[CellRow], Cell]] = {
    "simulated": lambda row: row.simulated,
    "rater_kind": lambda row: row.rater_kind,
    "judge": lambda row: row.judge,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
}
"""The first columns of an export whose rows are of one cell each."""

AnyCellRow = TypeVar("AnyCellRow", bound=CellRow)


def left_columns(*, name_methods: bool) -> dict[str, Callable[[CellRow], Cell]]:
    """Return a row's comparison, where it must be named, and its criterion."""
    methods: dict[str, Callable[[CellRow], Cell]] = {
        "Comparison": lambda row: f"{row.method_a} against {row.method_b}"
    }
    return {**(methods if name_methods else {}), "Criterion": lambda row: title(row.criterion)}


def cell_table(
    rows: Sequence[AnyCellRow],
    columns: Columns[AnyCellRow],
    *,
    name_methods: bool,
    caption: str,
    note: str,
    words: int = 0,
    strong: Callable[[AnyCellRow], bool] = lambda _: False,
) -> Table:
    """Return a table of the page: comparison, criterion and who judged, then `columns`.

    Args:
        rows: A line each.
        columns: As in `table_of`; the first `words` of them hold words.
        name_methods: Whether the comparison must be named.
        caption: Above the table.
        note: Below it.
        words: How many of `columns` hold words.
        strong: Which rows are set in bold.
    """
    left = left_columns(name_methods=name_methods)
    left["Judged by"] = lambda row: judged_by(row.rater_kind, row.judge)
    return table_of(
        rows,
        {**left, **columns},
        caption=caption,
        note=note,
        text_columns=len(left) + words,
        strong=strong,
    )


def comparisons(
    rows: Sequence[AnyCellRow], *, judges_apart: bool = True
) -> Iterator[tuple[int, list[AnyCellRow]]]:
    """Yield the rows of each comparison by people and by each judge, numbered from 1, in the rows' order."""
    groups: dict[tuple[str, str, str, str], list[AnyCellRow]] = {}
    for row in rows:
        who = row.who if judges_apart else (row.rater_kind, "")
        groups.setdefault((*who, row.method_a, row.method_b), []).append(row)
    yield from enumerate(groups.values(), start=1)


def interval_name(level: float) -> str:
    """Return the heading of a column of intervals."""
    return f"{percent(level, 0)} interval"


def defined(value: float | None) -> str:
    """Return a coefficient, which may be undefined."""
    return "undefined" if value is None else number(value)


def with_limits(found: Coefficient) -> str:
    """Return a coefficient with its interval, where it has one."""
    interval = number_limits(found)
    return defined(found.value) if interval == NOTHING else f"{defined(found.value)} ({interval})"


def with_simulated(frame: pd.DataFrame, *, simulated: pd.Series | bool) -> pd.DataFrame:
    """Return a frame with the column `simulated` first, in the place of its own where it has one."""
    table = frame.drop(columns="simulated", errors="ignore")
    table.insert(0, "simulated", simulated)
    return table


def frame_table(frame: pd.DataFrame, *, simulated: pd.Series | bool) -> Table:
    """Return any frame unchanged, with the column `simulated` first."""
    table = with_simulated(frame, simulated=simulated)
    cells = tuple(tuple(_cell(value) for value in row) for row in table.itertuples(index=False, name=None))
    return Table(columns=tuple(str(name) for name in table.columns), rows=cells, caption="")


def _cell(value: object) -> Cell:
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):  # noqa: PLR0124  NaN
        return None
    item = value.item() if hasattr(value, "item") else value
    return item if isinstance(item, str | int | float | bool) else str(item)
