"""Looking at the verdicts as they come: the anytime-valid test of each comparison, over items in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.core.correction import holm
from analysis.core.sequential import SequentialTest, anytime
from analysis.scores import CELL, item_scores, rater_scores
from analysis.shares import Planned, ShareRow
from analysis.words import KIND_PLACE

BY_TIME = "by the time of their last verdict"
BY_ROW = "as the table has them, by their last row"


@dataclass(frozen=True, kw_only=True, slots=True)
class SequentialRow:
    """One comparison on one criterion by one kind of rater, over all datasets, tested after every item.

    Attributes:
        method_a: The method whose share is given.
        method_b: The other.
        criterion: The quality judged.
        rater_kind: Who judged; kinds are never pooled.
        test: The e-process over items in order, its p-value and the share's confidence sequence.
        order: How items were put in order, in words.
        adjusted: `test.p_value` after Holm over the family; `None` outside the family or without a test.
        family: How many tests the family has; 0 outside it.
        declared: Whether the family was declared beforehand.
        waiting: Items left out because raters are still to rate them.
        warnings: What a reader must know before using it.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str
    test: SequentialTest
    order: str
    adjusted: float | None = None
    family: int = 0
    declared: bool = False
    waiting: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def simulated(self) -> bool:
        """Return whether no one was asked: the raters are simulations."""
        return self.rater_kind == "simulated"

    @property
    def cell(self) -> tuple[str, str, str]:
        """Return the comparison and criterion, as a plan names them."""
        return (self.method_a, self.method_b, self.criterion)


def sequential_rows(
    frame: pd.DataFrame,
    *,
    planned: Planned | None = None,
    alpha: float = 0.05,
    raters: Callable[[str], int | None] = lambda _: None,
) -> tuple[SequentialRow, ...]:
    """Return a row per comparison, rater kind and criterion.

    Items stand in the order of their last verdict (column `at`), or, where a comparison lacks the time of any
    of its verdicts, in the order of the table's rows; items of one moment stand by the pair's id. An item
    counts when all its raters have rated it: half rated at an earlier look it would have counted twice.

    Args:
        frame: An oriented table of verdicts.
        planned: The family declared beforehand; `None` where nothing was declared.
        alpha: The error rate.
        raters: How many raters of a kind an item waits for; `None` takes every item as it stands, with a
            warning where their numbers differ.
    """
    scores = rater_scores(frame)
    items = item_scores(scores).merge(_last(frame), on=[*CELL, "pair_id"], validate="one_to_one")
    rows = [
        _row(tuple(str(part) for part in key), cell, alpha=alpha, wait=raters(str(key[2])))
        for key, cell in items.groupby(CELL, sort=True)
    ]
    place = {cell: number for number, cell in enumerate(planned or ())}
    rows.sort(key=lambda row: (KIND_PLACE[row.rater_kind], place.get(row.cell, len(place)), row.cell))
    return _adjust(rows, planned)


def _last(frame: pd.DataFrame) -> pd.DataFrame:
    """Return when the last verdict on each item came, if all have a time, and in which row."""
    at = frame["at"] if "at" in frame.columns else pd.Series(None, index=frame.index, dtype=object)
    times = pd.to_datetime(at, utc=True, format="ISO8601", errors="coerce")
    timed = frame[[*CELL, "pair_id"]].assign(time=times, row=range(len(frame)), timed=times.notna())
    grouped = timed.groupby([*CELL, "pair_id"], sort=True)
    return grouped.agg(time=("time", "max"), row=("row", "max"), timed=("timed", "all")).reset_index()


def _row(key: tuple[str, ...], items: pd.DataFrame, *, alpha: float, wait: int | None) -> SequentialRow:
    method_a, method_b, kind, criterion = key
    by_time = bool(items["timed"].all())
    complete = items if wait is None else items[items["raters"] >= wait]
    ordered = complete.sort_values(["time" if by_time else "row", "pair_id"], kind="stable")
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
        method_a=method_a,
        method_b=method_b,
        criterion=criterion,
        rater_kind=kind,
        test=anytime(ordered["numerator"].to_numpy(), ordered["denominator"].to_numpy(), alpha=alpha),
        order=BY_TIME if by_time else BY_ROW,
        waiting=len(items) - len(complete),
        warnings=tuple(warnings),
    )


def _adjust(rows: list[SequentialRow], planned: Planned | None) -> tuple[SequentialRow, ...]:
    """Put Holm's p-values into the rows of each kind's family; they hold at any stopping time."""
    family_of: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if planned is None or row.cell in planned:
            family_of.setdefault(row.rater_kind, []).append(place)
    out = list(rows)
    for places in family_of.values():
        corrected = holm([rows[place].test.p_value for place in places])
        for place, value in zip(places, corrected.p_values, strict=True):
            out[place] = replace(
                rows[place], adjusted=value, family=corrected.n, declared=planned is not None
            )
    return tuple(out)


def told(rows: Sequence[ShareRow], tests: Sequence[SequentialRow]) -> tuple[ShareRow, ...]:
    """Return `rows` of all datasets with the tests and intervals that hold under looking, for the answer."""
    of = {(test.rater_kind, test.cell): test for test in tests}
    out = []
    for row in rows:
        found = of.get((row.rater_kind, row.cell)) if row.dataset is None else None
        if found is not None:
            test = replace(row.test, p_value=found.test.p_value, method=found.test.method)
            out.append(
                replace(row, test=test, share=found.test.interval, adjusted=found.adjusted, anytime=True)
            )
    return tuple(out)
