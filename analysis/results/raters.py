"""Each rater beside the others: agreement with the rest, ties, preference for a place, and pace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.stats.intervals import Interval, unit_proportion
from analysis.verdicts.scores import ScoredVerdicts, Verdicts, item_numbers, unit_codes
from guard_eval.records import TIE
from guard_eval.reporting.words import KIND_PLACE


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterRow:
    """What one rater did, over all comparisons and criteria.

    Attributes:
        rater: The name.
        rater_kind: Its kind; a rater is compared with its own kind alone.
        pairs: How many pairs.
        verdicts: How many verdicts.
        ties: The share of ties among them.
        agreement: How often another rater of the same pair and criterion says the same; None where no
            other rater rated what this one rated.
        compared: How many such comparisons that is of.
        first: The share of non-tied verdicts for the text shown first, with an interval over pairs or
            prompts, since verdicts on several criteria of a pair hang together; None where the verdicts do
            not say what was shown first.
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


def rater_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[RaterRow, ...]:
    """Return a row for each rater of a table, people first, by name."""
    scored = ScoredVerdicts.of(verdicts)
    agreeing, places = _agreement(scored.by_kind), _places(scored.frame, level=1 - alpha)
    rows = []
    for kind, rater, pairs, count, ties, seconds in _counts(scored.frame).itertuples(index=False, name=None):
        same, others = agreeing.get((kind, rater), (0, 0))
        rows.append(
            RaterRow(
                rater=rater,
                rater_kind=kind,
                pairs=int(pairs),
                verdicts=int(count),
                ties=int(ties) / int(count),
                agreement=same / others if others else None,
                compared=others,
                first=places.get((kind, rater)),
                seconds=None if pd.isna(seconds) else float(seconds),
            )
        )
    return tuple(sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.rater)))


def _counts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what each rater did, in numbers, by kind and name."""
    tie = frame["verdict"] == TIE
    each = pd.DataFrame(
        {
            "rater_kind": frame["rater_kind"],
            "rater": frame["rater"],
            "pair": pd.factorize(frame["pair_id"])[0],
            "tie": tie,
            "seconds": frame["seconds"] if "seconds" in frame.columns else np.nan,
        }
    )
    counts = each.groupby(["rater_kind", "rater"], sort=True).agg(
        pairs=("pair", "nunique"),
        verdicts=("pair", "size"),
        ties=("tie", "sum"),
        seconds=("seconds", "median"),
    )
    return counts.reset_index()


def _places(frame: pd.DataFrame, *, level: float) -> dict[tuple[str, str], Interval]:
    """Return each rater's preference for the text shown first, by kind and name."""
    if "shown_first" not in frame.columns:
        return {}
    placed = frame[frame["shown_first"].notna() & (frame["verdict"] != TIE)]
    placed = placed.assign(unit=unit_codes(placed), first=placed["verdict"] == placed["shown_first"])
    return {
        (str(kind), str(rater)): unit_proportion(own["first"], own["unit"].to_numpy(), level=level)
        for (kind, rater), own in placed.groupby(["rater_kind", "rater"])
    }


def _agreement(scores: pd.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Return how often others say what a rater says, and how many others there are, summed over items."""
    item, _ = item_numbers(scores)
    verdict = 3 * item + np.sign(scores["net"].to_numpy()) + 1
    others, same = np.bincount(item)[item] - 1, np.bincount(verdict)[verdict] - 1
    sums = scores.assign(others=others, same=same).groupby(["rater_kind", "rater"])[["same", "others"]].sum()
    return {
        (str(kind), str(rater)): (int(same), int(others))
        for (kind, rater), same, others in zip(sums.index, sums["same"], sums["others"], strict=True)
    }
