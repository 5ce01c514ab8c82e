"""Win shares: how often each method was preferred, with intervals and both tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from analysis.core.correction import benjamini_hochberg, holm
from analysis.core.intervals import Interval, item_mean
from analysis.core.significance import TestResult, binomial, sign_flip
from analysis.scores import CELL, item_scores, rater_scores
from analysis.words import KIND_PLACE

Planned = tuple[tuple[str, str, str], ...]
"""The comparisons declared beforehand: (method_a, method_b, criterion)."""
Correction = Literal["holm", "bh"]
CORRECTIONS = {"holm": holm, "bh": benjamini_hochberg}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareRow:
    """What one kind of rater said of one comparison on one criterion, in one dataset or in all.

    Attributes:
        method_a: The method whose share is given.
        method_b: The other.
        criterion: The quality judged.
        rater_kind: Who judged; kinds are never pooled.
        dataset: The dataset, or `None` for all of them.
        wins: Raters' scores of pairs for method_a.
        ties: Scores of one half.
        losses: Scores for method_b.
        verdicts: Verdicts behind them (more than scores where a judge saw both orders).
        items: Pairs.
        raters: Raters.
        pooled: (wins + ties/2) / n, the paper's share (`app:E`).
        share: Mean of item means with its item-cluster interval.
        paper_test: The binomial on pooled non-ties, as in the paper.
        test: The sign-flip test on item means, which holds.
        adjusted: The p-value of `test` after `correction` over the family; `None` outside the family or
            without a test.
        correction: The correction's name.
        family: How many tests the family has; 0 outside it.
        declared: Whether the family was declared beforehand.
        anytime: Whether test and interval are such as hold whenever one looks.
        level: The confidence level.
        warnings: What a reader must know before using it.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str
    dataset: str | None
    wins: int
    ties: int
    losses: int
    verdicts: int
    items: int
    raters: int
    pooled: float
    share: Interval
    paper_test: TestResult
    test: TestResult
    adjusted: float | None = None
    correction: str = "Holm"
    family: int = 0
    declared: bool = False
    anytime: bool = False
    level: float = 0.95
    warnings: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Return how many scores (rater × pair) were counted."""
        return self.wins + self.ties + self.losses

    @property
    def simulated(self) -> bool:
        """Return whether no one was asked: the raters are simulations."""
        return self.rater_kind == "simulated"

    @property
    def cell(self) -> tuple[str, str, str]:
        """Return the comparison and criterion, as a plan names them."""
        return (self.method_a, self.method_b, self.criterion)

    def mirrored(self) -> ShareRow:
        """Return the same result as seen from method_b; the tests are two-sided and stay."""
        low, high = self.share.low, self.share.high
        share = replace(
            self.share,
            estimate=None if self.share.estimate is None else 1 - self.share.estimate,
            low=None if high is None else 1 - high,
            high=None if low is None else 1 - low,
        )
        return replace(
            self,
            method_a=self.method_b,
            method_b=self.method_a,
            wins=self.losses,
            losses=self.wins,
            pooled=1 - self.pooled,
            share=share,
        )


def share_rows(
    frame: pd.DataFrame,
    *,
    planned: Planned | None = None,
    alpha: float = 0.05,
    correction: Correction = "holm",
) -> tuple[ShareRow, ...]:
    """Return win shares per comparison, rater kind and criterion: all datasets first, then each.

    The correction runs over the rows of all datasets, for each kind of rater by itself: over the planned
    cells that this kind judged, or, without a plan, over all of its cells.

    Args:
        frame: An oriented table of verdicts.
        planned: The family declared beforehand; `None` where nothing was declared.
        alpha: One minus the confidence level.
        correction: Holm's, or Benjamini and Hochberg's.
    """
    scores = rater_scores(frame)
    items = item_scores(scores)
    rows: list[ShareRow] = []
    for key in sorted(scores[CELL].drop_duplicates().itertuples(index=False, name=None), key=_order(planned)):
        mine, own_items = _pick(scores, key), _pick(items, key)
        datasets = sorted(own_items["dataset"].unique())
        rows.append(_row(key, None, mine, own_items, alpha=alpha))
        rows += [
            _row(
                key, name, mine[mine["dataset"] == name], own_items[own_items["dataset"] == name], alpha=alpha
            )
            for name in (datasets if len(datasets) > 1 else ())
        ]
    return _adjust(rows, planned, correction)


def _order(planned: Planned | None) -> Callable[[tuple[str, ...]], tuple[int, int, str, str, str]]:
    """Return a sort key for cells: by kind of rater, the planned ones first and in the plan's order."""
    place = {cell: number for number, cell in enumerate(planned or ())}

    def key(cell: tuple[str, ...]) -> tuple[int, int, str, str, str]:
        method_a, method_b, kind, criterion = cell
        return (
            KIND_PLACE[kind],
            place.get((method_a, method_b, criterion), len(place)),
            method_a,
            method_b,
            criterion,
        )

    return key


def _pick(frame: pd.DataFrame, key: tuple[str, ...]) -> pd.DataFrame:
    mask = pd.Series(True, index=frame.index)
    for name, value in zip(CELL, key, strict=True):
        mask &= frame[name] == value
    return frame[mask]


def _row(
    key: tuple[str, ...], dataset: str | None, scores: pd.DataFrame, items: pd.DataFrame, *, alpha: float
) -> ShareRow:
    method_a, method_b, kind, criterion = key
    wins, losses = int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())
    ties = len(scores) - wins - losses
    per_item = items["raters"]
    uneven = int(per_item.min()) != int(per_item.max())
    why = f"pairs have between {per_item.min()} and {per_item.max()} raters; every pair weighs the same"
    return ShareRow(
        method_a=method_a,
        method_b=method_b,
        criterion=criterion,
        rater_kind=kind,
        dataset=dataset,
        wins=wins,
        ties=ties,
        losses=losses,
        verdicts=int(scores["showings"].sum()),
        items=len(items),
        raters=int(scores["rater"].nunique()),
        pooled=(wins + ties / 2) / len(scores),
        share=item_mean(items["share"].to_numpy(), items["dataset"].tolist(), level=1 - alpha),
        paper_test=binomial(wins, losses),
        test=sign_flip(items["numerator"].to_numpy(), items["denominator"].to_numpy()),
        level=1 - alpha,
        warnings=(why,) if uneven else (),
    )


def _adjust(rows: list[ShareRow], planned: Planned | None, correction: Correction) -> tuple[ShareRow, ...]:
    """Put corrected p-values into the rows of each kind's family."""
    family_of: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if row.dataset is None and (planned is None or row.cell in planned):
            family_of.setdefault(row.rater_kind, []).append(place)
    out = list(rows)
    for places in family_of.values():
        corrected = CORRECTIONS[correction]([rows[place].test.p_value for place in places])
        for place, value in zip(places, corrected.p_values, strict=True):
            out[place] = replace(
                rows[place],
                adjusted=value,
                correction=corrected.method,
                family=corrected.n,
                declared=planned is not None,
            )
    return tuple(out)
