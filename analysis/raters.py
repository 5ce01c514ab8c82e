"""Each rater beside the others: agreement with the rest, ties, preference for a place, and pace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.core.intervals import Interval, wilson
from analysis.scores import CELL, rater_scores
from analysis.words import KIND_PLACE
from guard_eval.records import TIE


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterRow:
    """What one rater did, over all comparisons and criteria.

    Attributes:
        rater: The name.
        rater_kind: Its kind; a rater is compared with its own kind alone.
        pairs: How many pairs.
        verdicts: How many verdicts.
        ties: The share of ties among them.
        agreement: How often another rater of the same pair and criterion says the same; None where nobody
            else rated what this one rated.
        compared: How many such comparisons that is of.
        first: The share of non-tied verdicts for the text shown first, with Wilson's interval; None where the
            verdicts do not say what was shown first.
        seconds: Median seconds a verdict took; None where not recorded.
    """

    rater: str
    rater_kind: str
    pairs: int
    verdicts: int
    ties: float
    agreement: float | None
    compared: int
    first: Interval | None
    seconds: float | None


def rater_rows(frame: pd.DataFrame, *, alpha: float = 0.05) -> tuple[RaterRow, ...]:
    """Return a row for each rater of an oriented table, people first, by name."""
    agreeing = _agreement(frame)
    rows = []
    for (kind, rater), mine in frame.groupby(["rater_kind", "rater"], sort=True):
        same, others = agreeing.get((str(kind), str(rater)), (0, 0))
        rows.append(
            RaterRow(
                rater=str(rater),
                rater_kind=str(kind),
                pairs=int(mine["pair_id"].nunique()),
                verdicts=len(mine),
                ties=float((mine["verdict"] == TIE).mean()),
                agreement=same / others if others else None,
                compared=others,
                first=_first(mine, alpha),
                seconds=_median(mine),
            )
        )
    return tuple(sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.rater)))


def _agreement(frame: pd.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Return how often others say what a rater says, and how many others there are, summed over items."""
    scores = rater_scores(frame)
    scores["side"] = np.sign(scores["net"])
    item = [*CELL, "dataset", "pair_id"]
    scores["others"] = scores.groupby(item)["side"].transform("size") - 1
    scores["same"] = scores.groupby([*item, "side"])["side"].transform("size") - 1
    sums = scores.groupby(["rater_kind", "rater"])[["same", "others"]].sum()
    return {
        (str(kind), str(rater)): (int(same), int(others))
        for (kind, rater), same, others in zip(sums.index, sums["same"], sums["others"], strict=True)
    }


def _first(mine: pd.DataFrame, alpha: float) -> Interval | None:
    if "shown_first" not in mine.columns:
        return None
    told = mine[mine["shown_first"].notna() & (mine["verdict"] != TIE)]
    if told.empty:
        return None
    return wilson(int((told["verdict"] == told["shown_first"]).sum()), len(told), level=1 - alpha)


def _median(mine: pd.DataFrame) -> float | None:
    if "seconds" not in mine.columns or not mine["seconds"].notna().any():
        return None
    return float(mine["seconds"].median())
