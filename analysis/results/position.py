"""Position: how often the text shown first was preferred, and how often turning the order flips a verdict.

And what a win share is with each order weighing the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.results.cells import CellRow, cell_fields
from analysis.stats.intervals import Interval, wilson
from analysis.stats.order import OrderAdjusted, order_adjusted
from analysis.verdicts.scores import ScoredVerdicts, Verdicts, by_cell, units, with_units
from guard_eval.records import TIE
from guard_eval.reporting.words import KIND_PLACE


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionRow:
    """Preference for the first place, of one kind of rater on one criterion.

    Attributes:
        rater_kind: Who judged.
        criterion: The quality judged.
        first: Non-tied verdicts for the text shown first.
        second: Those for the text shown second.
        ties: Ties.
        share: first / (first + second) with Wilson's interval, every verdict taken as independent.
        a_first: Share of verdicts with the comparison's first method shown first; one half is balance.
        both_orders: Pairs that one rater judged in both orders.
        flipped: Those where the verdict went to the other method when the order was turned.
        changed: Those where it did, or came to be a tie or ceased to be one.
        flips: flipped / both_orders with Wilson's interval.
        warnings: What a reader must know before using it.
    """

    rater_kind: str
    criterion: str
    first: int
    second: int
    ties: int
    share: Interval
    a_first: float
    both_orders: int
    flipped: int
    changed: int
    flips: Interval
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderRow(CellRow):
    """A comparison on one criterion, judged by one kind of rater, with each order weighing the same.

    Attributes:
        result: The share when shown first and when shown second, and their mean.
    """

    result: OrderAdjusted


def position_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[PositionRow, ...]:
    """Return a row per rater kind and criterion; none where the table does not say what was shown first."""
    frame = ScoredVerdicts.of(verdicts).frame
    if "shown_first" not in frame.columns:
        return ()
    known = frame[frame["shown_first"].notna()]
    rows = []
    for key, cell in known.groupby(["rater_kind", "criterion"], sort=True):
        kind, criterion = (str(part) for part in key)
        ties = int((cell["verdict"] == TIE).sum())
        first = int((cell["verdict"] == cell["shown_first"]).sum())
        a_first = float((cell["shown_first"] == cell["method_a"]).mean())
        both, flipped, changed = _flips(cell)
        why = f"{a_first:.0%} of verdicts had the same method first: preferences for place and method mix"
        rows.append(
            PositionRow(
                rater_kind=kind,
                criterion=criterion,
                first=first,
                second=len(cell) - ties - first,
                ties=ties,
                share=wilson(first, len(cell) - ties, level=1 - alpha),
                a_first=a_first,
                both_orders=both,
                flipped=flipped,
                changed=changed,
                flips=wilson(flipped, both, level=1 - alpha),
                warnings=(why,) if abs(a_first - 0.5) > 0.1 else (),
            )
        )
    return tuple(sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.criterion)))


def _flips(cell: pd.DataFrame) -> tuple[int, int, int]:
    """Count the rater–pair combinations seen in both orders; of these, the flipped and the changed ones."""
    key = cell.groupby(["method_a", "method_b", "pair_id", "rater"], sort=False).ngroup().to_numpy()
    size = int(key.max()) + 1
    a_first = (cell["shown_first"] == cell["method_a"]).to_numpy()
    for_a = (cell["verdict"] == cell["method_a"]).to_numpy()
    tie = (cell["verdict"] == TIE).to_numpy()
    seen = [np.bincount(key[one], minlength=size) > 0 for one in (a_first, ~a_first)]
    said_a, said_tie, said_b = (
        np.bincount(key[one], minlength=size) > 0 for one in (for_a, tie, ~for_a & ~tie)
    )
    both = seen[0] & seen[1]
    several = said_a.astype(int) + said_tie + said_b >= 2
    return int(both.sum()), int((both & said_a & said_b).sum()), int((both & several).sum())


def order_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[OrderRow, ...]:
    """Return win shares with each order weighing the same, per comparison, rater kind and criterion.

    An item's score in an order is the mean of the verdicts it got in that order, whoever gave them.

    Args:
        verdicts: A table of verdicts; none of its rows counts that does not say what was shown first.
        alpha: One minus the confidence level.
    """
    frame = ScoredVerdicts.of(verdicts).frame
    if "shown_first" not in frame.columns:
        return ()
    rows = []
    frame = with_units(frame)
    for cell, own in by_cell(frame[frame["shown_first"].notna()]):
        item, pairs = pd.factorize(own["pair_id"], sort=True)
        clusters = units(own.drop_duplicates("pair_id").sort_values("pair_id")).clusters
        for_a, for_b = (
            (own["verdict"] == own[name]).to_numpy(dtype=int) for name in ("method_a", "method_b")
        )
        score = (1 + for_a - for_b) / 2
        a_first = (own["shown_first"] == own["method_a"]).to_numpy()
        means = []
        for order in (a_first, ~a_first):
            count = np.bincount(item[order], minlength=len(pairs))
            total = np.bincount(item[order], weights=score[order], minlength=len(pairs))
            means.append(np.where(count > 0, total / np.maximum(1, count), np.nan))
        rows.append(
            OrderRow(
                **cell_fields(cell),
                result=order_adjusted(means[0], means[1], clusters=clusters, level=1 - alpha),
            )
        )
    return tuple(rows)
