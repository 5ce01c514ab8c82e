"""Finer agreement: of each two raters, on each verdict, and with a tie half-way between the methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.core.agreement import Agreement, fleiss
from analysis.core.agreement_coefficients import Coefficient, gwet
from analysis.core.agreement_cohen import cohen
from analysis.core.patterns import from_counts
from analysis.scores import CELL, rater_scores
from analysis.words import KIND_PLACE

MOST_RATERS = 40
"""Above so many raters of a kind no two are compared one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairOfRaters:
    """How far two raters agree on one comparison and criterion.

    Attributes:
        first: A rater.
        second: Another of the same kind.
        kappa: Cohen's κ on the pairs of texts that both have rated; its `raw` is how often they agree.
    """

    first: str
    second: str
    kappa: Coefficient


@dataclass(frozen=True, kw_only=True, slots=True)
class FineRow:
    """Agreement on one comparison and criterion, of one kind of rater, in detail.

    Attributes:
        method_a: The first method.
        method_b: The other.
        criterion: The quality judged.
        rater_kind: Who judged.
        raters: Their names, sorted.
        categories: Fleiss' κ of method_a, tie and method_b, each against the two others (his κ_j of 1971).
        ac2: Gwet's AC2 with ordinal weights: a tie is half-way between the methods.
        pairs: Of each two raters who share an item, in the order of `raters`.
        reason: Why there are no pairs, or empty.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str
    raters: tuple[str, ...]
    categories: tuple[Agreement, ...]
    ac2: Coefficient
    pairs: tuple[PairOfRaters, ...]
    reason: str = ""

    @property
    def kappas(self) -> tuple[float, ...]:
        """Return the κ of those pairs of raters where it is defined, sorted."""
        return tuple(sorted(pair.kappa.value for pair in self.pairs if pair.kappa.value is not None))


def fine_rows(frame: pd.DataFrame, *, alpha: float = 0.05) -> tuple[FineRow, ...]:
    """Return a row for each comparison, kind of rater and criterion of an oriented table, people first.

    A rater has one score per pair; kinds are never mixed, nor compared with each other.
    """
    rows = []
    for key, scores in rater_scores(frame).groupby(CELL, sort=True):
        method_a, method_b, kind, criterion = (str(part) for part in key)
        item, _ = pd.factorize(scores["pair_id"])
        rater, names = pd.factorize(scores["rater"], sort=True)
        verdict = 1 - np.sign(scores["net"].to_numpy())  # 0 1 2 for method_a, tie, method_b
        raters = tuple(str(name) for name in names)
        counts = np.bincount(3 * item + verdict, minlength=3 * (int(item.max()) + 1)).reshape(-1, 3)
        pairs = (
            tuple(_pairs(raters, _table(item, rater, verdict), level=1 - alpha))
            if len(raters) <= MOST_RATERS
            else ()
        )
        rows.append(
            FineRow(
                method_a=method_a,
                method_b=method_b,
                criterion=criterion,
                rater_kind=kind,
                raters=raters,
                categories=by_category(counts, level=1 - alpha),
                ac2=gwet(from_counts(counts), weights="ordinal", level=1 - alpha),
                pairs=pairs,
                reason="" if pairs else _why_none(len(raters)),
            )
        )
    rows.sort(key=lambda row: (KIND_PLACE[row.rater_kind], row.method_a, row.method_b, row.criterion))
    return tuple(rows)


def by_category(counts: NDArray[np.int64], *, level: float = 0.95) -> tuple[Agreement, ...]:
    """Return Fleiss' κ_j (Fleiss 1971) of each category, with its interval.

    κ_j asks how far raters agree on whether a verdict is j or not: it is Fleiss' κ of j against the rest,
    and so it is computed, with κ's linearised interval over items. It is undefined where nobody, or
    everybody, said j. κ is the mean of all κ_j with weights p_j(1 − p_j).

    Args:
        counts: How many raters said each category, integers `[items, categories]`.
        level: The confidence level.
    """
    whole = counts.sum(axis=1)
    return tuple(fleiss(np.stack([one, whole - one], axis=1), level=level) for one in counts.T)


def _table(item: NDArray[np.int64], rater: NDArray[np.int64], verdict: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the verdicts as [items, raters], −1 for none."""
    table = np.full((int(item.max()) + 1, int(rater.max()) + 1), -1, dtype=np.int8)
    table[item, rater] = verdict
    return table


def _pairs(raters: tuple[str, ...], verdicts: NDArray[np.int8], *, level: float) -> Iterator[PairOfRaters]:
    rated = verdicts >= 0
    for one, other in combinations(range(len(raters)), 2):
        both = rated[:, one] & rated[:, other]
        if both.any():
            kappa = cohen(verdicts[both, one], verdicts[both, other], categories=3, level=level)
            yield PairOfRaters(first=raters[one], second=raters[other], kappa=kappa)


def _why_none(raters: int) -> str:
    if raters == 1:
        return "there is one rater"
    if raters > MOST_RATERS:
        return f"there are {raters} raters, more than {MOST_RATERS}"
    return "no two raters have rated the same pair"
