"""Position: how often the text shown first was preferred, and how often turning the order flips a verdict."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.core.intervals import Interval, wilson
from analysis.words import KIND_PLACE
from guard_eval.records import TIE


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
    warnings: tuple[str, ...] = ()


def position_rows(frame: pd.DataFrame, *, alpha: float = 0.05) -> tuple[PositionRow, ...]:
    """Return a row per rater kind and criterion; none where the table does not say what was shown first."""
    if "shown_first" not in frame.columns:
        return ()
    known = frame[frame["shown_first"].notna()]
    rows = []
    for key, cell in known.groupby(["rater_kind", "criterion"], sort=True):
        kind, criterion = (str(part) for part in key)
        ties = int((cell["verdict"] == TIE).sum())
        first = int((cell["verdict"] == cell["shown_first"]).sum())
        a_first = float((cell["shown_first"] == cell["method_a"]).mean())
        both, flipped = _flips(cell)
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
                warnings=(why,) if abs(a_first - 0.5) > 0.1 else (),
            )
        )
    return tuple(sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.criterion)))


def _flips(cell: pd.DataFrame) -> tuple[int, int]:
    """Count the rater–pair combinations seen in both orders, and those whose verdict follows the place."""
    keys = ["method_a", "method_b", "pair_id", "rater"]
    both = cell[cell.groupby(keys)["shown_first"].transform("nunique") == 2]
    if both.empty:
        return 0, 0
    methods = both[both["verdict"] != TIE].groupby(keys)["verdict"].nunique()
    return int(both.groupby(keys).ngroups), int((methods == 2).sum())
