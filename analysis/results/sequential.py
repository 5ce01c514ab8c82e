"""Looking at the verdicts as they come: the anytime-valid test of each comparison, over items in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from analysis.results.cells import CellRow, cell_fields, cell_order, families
from analysis.results.shares import ShareRow
from analysis.stats.correction import holm
from analysis.stats.sequential import SequentialTest, anytime
from analysis.verdicts.scores import (
    CELL,
    Cell,
    Planned,
    ScoredVerdicts,
    Verdicts,
    by_cell,
    judge_of,
    unit_sums,
    units,
)
from guard_eval.rubric import COMPOSITE

BY_TIME = "by the time of their last verdict"
BY_ROW = "as the table has them, by their last row"


@dataclass(frozen=True, kw_only=True, slots=True)
class SequentialRow(CellRow):
    """One comparison on one criterion by one kind of rater, over all datasets, tested after every item.

    Attributes:
        test: The e-process over items in order, its p-value and the share's confidence sequence.
        order: How items were put in order, in words.
        adjusted: `test.p_value` after Holm over the family; `None` outside the family or without a test.
        family: How many tests the family has; 0 outside it.
        declared: Whether the family was declared beforehand.
        unit: What counts at once: an item of `test` is a prompt where prompts are known, else a pair.
        waiting: Pairs left out because raters are still to rate them, or others of their prompt.
        warnings: What a reader must know before using it.
    """

    test: SequentialTest
    order: str
    unit: Literal["prompt", "pair"] = "pair"
    adjusted: float | None = None
    family: int = 0
    declared: bool = False
    waiting: int = 0
    warnings: tuple[str, ...] = ()


def sequential_rows(
    verdicts: Verdicts,
    *,
    planned: Planned | None = None,
    alpha: float = 0.05,
    raters: Callable[[str], int | None] = lambda _: None,
) -> tuple[SequentialRow, ...]:
    """Return a row per comparison and criterion, of people and of each judge.

    Items stand in the order of their last verdict (column `at`), or, where a comparison lacks the time of any
    of its verdicts, in the order of the table's rows; items of one moment stand by the pair's id. An item
    counts when all its raters have rated it: half rated at an earlier look it would have counted twice.

    Args:
        verdicts: A table of verdicts.
        planned: The family declared beforehand; `None` where nothing was declared.
        alpha: The error rate.
        raters: How many raters of a kind an item waits for; `None` takes every item at once, with a
            warning where their numbers differ.
    """
    scored = ScoredVerdicts.of(verdicts, planned)
    items = scored.items.merge(_last(scored), on=[*CELL, "pair_id"], validate="one_to_one")
    rows = [_row(cell, rows, alpha=alpha, wait=raters(cell.rater_kind)) for cell, rows in by_cell(items)]
    return _adjust(sorted(rows, key=cell_order(planned)), planned)


def _last(scored: ScoredVerdicts) -> pd.DataFrame:
    """Return when the last verdict on each item came, if all have a time, and in which row.

    A panel's verdict on an item comes with the last of its judges, a composite with the last of its criteria.
    """
    frame = scored.frame.assign(judge=judge_of(scored.frame))
    frame = pd.concat([frame, *(panel.verdicts(frame).assign(judge=panel.name) for panel in scored.panels)])
    if scored.composite is not None:
        own = frame[frame["criterion"].isin(scored.composite.weights)]
        frame = pd.concat([frame, own.assign(criterion=COMPOSITE)])
    at = frame["at"] if "at" in frame.columns else pd.Series(None, index=frame.index, dtype=object)
    times = pd.to_datetime(at, utc=True, format="ISO8601", errors="coerce")
    timed = frame[[*CELL, "pair_id"]].assign(time=times, row=range(len(frame)), timed=times.notna())
    grouped = timed.groupby([*CELL, "pair_id"], sort=True)
    return grouped.agg(time=("time", "max"), row=("row", "max"), timed=("timed", "all")).reset_index()


def _row(cell: Cell, items: pd.DataFrame, *, alpha: float, wait: int | None) -> SequentialRow:
    by_time = bool(items["timed"].all())
    found = units(items)
    short = np.zeros(len(items), dtype=bool) if wait is None else (items["raters"] < wait).to_numpy()
    # A prompt counts once: with its last pair, when all of them are rated.
    complete = items[~(np.bincount(found.place, weights=short) > 0)[found.place]]
    moment = "time" if by_time else "row"
    last = complete.groupby("unit")[moment].transform("max")
    ordered = complete.assign(last=last).sort_values(["last", "unit", moment, "pair_id"], kind="stable")
    if found.clusters is None:
        ordered = complete.sort_values([moment, "pair_id"], kind="stable")
    numerators, denominators, sizes = unit_sums(ordered)
    warnings = []
    if not by_time:
        warnings.append("no time is known: the test holds if items came in the order of the table")
    counts = complete["raters"]
    if wait is None and len(counts) and counts.min() != counts.max():
        warnings.append(
            f"items have between {counts.min()} and {counts.max()} raters; the test holds if none was looked "
            "at before its last verdict"
        )
    return SequentialRow(
        **cell_fields(cell),
        test=anytime(numerators, denominators, sizes=None if found.clusters is None else sizes, alpha=alpha),
        unit=found.name,
        order=BY_TIME if by_time else BY_ROW,
        waiting=len(items) - len(complete),
        warnings=tuple(warnings),
    )


def _adjust(rows: list[SequentialRow], planned: Planned | None) -> tuple[SequentialRow, ...]:
    """Put Holm's p-values into the rows of each family; they hold at any stopping time."""
    out = list(rows)
    for places in families(enumerate(rows), planned):
        corrected = holm([rows[place].test.p_value for place in places])
        for place, value in zip(places, corrected.p_values, strict=True):
            out[place] = replace(
                rows[place], adjusted=value, family=corrected.n, declared=planned is not None
            )
    return tuple(out)


def with_anytime_tests(rows: Sequence[ShareRow], tests: Sequence[SequentialRow]) -> tuple[ShareRow, ...]:
    """Return `rows` of all datasets with the tests and intervals that hold under looking, for the answer."""
    of = {(test.who, test.cell): test for test in tests}
    out = []
    for row in rows:
        found = of.get((row.who, row.cell)) if row.dataset is None else None
        if found is not None:
            test = replace(row.test, p_value=found.test.p_value, method=found.test.method, smallest=0.0)
            out.append(
                replace(
                    row,
                    test=test,
                    share=found.test.interval,
                    adjusted=found.adjusted,
                    out_of_reach="",
                    anytime=True,
                )
            )
    return tuple(out)
