"""Does the text that is shown first win more often, and do verdicts flip with the order?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.analyses.evidence import Evidence, estimate_record, frame_of
from analysis.analyses.win_share import unit_proportion
from analysis.verdicts.scores import with_units
from guard_eval.records import SIMULATED

UNBALANCED = 0.1
"""A share of first places this far from one half is named."""


def position(evidence: Evidence) -> pd.DataFrame:
    """Return a row per criterion, of people and of each judge; none if it is unknown what was shown first.

    A judge's samples of a pair in one order are one verdict: the method that most of them were for.
    `flip_rate` is the share of pairs, judged by one rater in both orders, whose verdict went to the other
    method when the order was turned; `changed` also counts those that became a tie or ceased to be one.
    """
    frame = evidence.frame
    if "shown_first" not in frame.columns or not frame["shown_first"].notna().any():
        return frame_of([])
    records = []
    known = _by_order(with_units(frame[frame["shown_first"].notna()]))
    for (kind, judge, criterion), cell in known.groupby(["rater_kind", "judge", "criterion"], sort=True):
        untied = cell[cell["side"] != 0]
        for_first = (untied["side"] == np.where(untied["a_first"], 1, -1)).to_numpy()
        a_first = float(cell["a_first"].mean())
        flipped, changed, unit = _flips(cell)
        share = unit_proportion(for_first, untied["unit"].to_numpy(), level=evidence.level)
        flips = unit_proportion(flipped, unit, level=evidence.level)
        mixed = (
            f"{a_first:.0%} of verdicts had the same method first, so preferences for place and method mix"
        )
        records.append(
            {
                "simulated": kind in SIMULATED,
                "rater_kind": kind,
                "judge": judge,
                "criterion": criterion,
                "first": int(for_first.sum()),
                "second": int((~for_first).sum()),
                "ties": len(cell) - len(untied),
                **estimate_record(share, "first_share", "first_"),
                "method_a_first": a_first,
                "both_orders": len(unit),
                "flipped": int(flipped.sum()),
                "changed": int(changed.sum()),
                **estimate_record(flips, "flip_rate", "flip_"),
                "note": mixed if abs(a_first - 0.5) > UNBALANCED else "",
            }
        )
    return frame_of(records, order=("rater_kind", "judge", "criterion"))


def _by_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each rater, pair, criterion and order: `side` is 1 for method_a, −1 for method_b."""
    names = ["method_a", "method_b", "rater_kind", "judge", "criterion", "pair_id", "rater"]
    for_a, for_b = ((frame["verdict"] == frame[name]).to_numpy(dtype=int) for name in names[:2])
    a_first = (frame["shown_first"] == frame["method_a"]).to_numpy()
    numbers = frame.assign(a_first=a_first).groupby([*names, "a_first"], sort=True).ngroup().to_numpy()
    _, first, index = np.unique(numbers, return_index=True, return_inverse=True)
    side = np.sign(np.bincount(index, weights=for_a - for_b)).astype(int)
    return frame[[*names, "unit"]].iloc[first].assign(a_first=a_first[first], side=side)


def _flips(cell: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
    """Return for each rater and pair seen in both orders whether it flipped, or changed, and its unit."""
    key = cell.groupby(["method_a", "method_b", "pair_id", "rater"], sort=False).ngroup().to_numpy()
    a_first, side = cell["a_first"].to_numpy(), cell["side"].to_numpy()
    sides = np.full((int(key.max()) + 1, 2), -2)
    for index, order in enumerate((a_first, ~a_first)):
        sides[key[order], index] = side[order]
    unit = np.zeros(len(sides), dtype=np.int64)
    unit[key] = cell["unit"].to_numpy()
    both = (sides > -2).all(axis=1)
    return sides[both].prod(axis=1) == -1, sides[both, 0] != sides[both, 1], unit[both]
