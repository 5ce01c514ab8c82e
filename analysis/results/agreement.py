"""Agreement between raters of one kind, per comparison and criterion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.results.cells import CellRow, cell_fields
from analysis.stats.agreement import Coefficient, cohen, fleiss, gwet, krippendorff
from analysis.stats.counts import from_counts
from analysis.stats.intraclass import Intraclass, intraclass
from analysis.verdicts.scores import Cell, ScoredVerdicts, Verdicts, by_cell, item_numbers, units

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
class AgreementRow(CellRow):
    """How far raters of one kind agree on which continuation is better (method_a, tie, method_b).

    Attributes:
        items: Pairs of texts that were judged; `agreement.n` counts only those rated at least twice.
        raters: The raters' names, sorted.
        unit: What intervals are over: prompts where they are known, else pairs.
        units: How many of them.
        agreement: Raw agreement and Fleiss' κ.
        alpha: Krippendorff's α, ordinal.
        nominal: The same, nominal: a tie is as far from either method as they are from each other.
        interval: The same, interval: distances are squares of −1, 0 and 1.
        intraclass: Intraclass correlations of scores from −1 to 1, and the design effect.
        ac1: Gwet's AC1.
        ac2: Gwet's AC2 with ordinal weights: a tie is half-way between the methods.
        categories: Fleiss' κ of method_a, tie and method_b, each against the two others (his κ_j of 1971).
        pairs: Of each two raters who share an item, in the order of `raters`.
        no_pairs: Why there are no pairs of raters, or empty.
    """

    items: int
    raters: tuple[str, ...]
    unit: Literal["prompt", "pair"]
    units: int
    agreement: Coefficient
    alpha: Coefficient
    nominal: Coefficient
    interval: Coefficient
    intraclass: Intraclass
    ac1: Coefficient
    ac2: Coefficient
    categories: tuple[Coefficient, ...]
    pairs: tuple[PairOfRaters, ...]
    no_pairs: str = ""

    @property
    def paradox(self) -> bool:
        """Return whether raters mostly agree and κ is low because one verdict dominates (Feinstein 1990)."""
        kappa, ac1, raw = self.agreement.value, self.ac1.value, self.agreement.raw
        return kappa is not None and ac1 is not None and raw is not None and raw >= 0.7 and ac1 - kappa > 0.3

    @property
    def kappas(self) -> tuple[float, ...]:
        """Return the κ of those pairs of raters where it is defined, sorted."""
        return tuple(sorted(pair.kappa.value for pair in self.pairs if pair.kappa.value is not None))


def agreement_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[AgreementRow, ...]:
    """Return a row for each comparison, kind of rater and criterion of a table, people first.

    A rater has one score per pair; kinds are never mixed, nor compared with each other.
    """
    return tuple(
        _row(cell, scores, level=1 - alpha) for cell, scores in by_cell(ScoredVerdicts.of(verdicts).by_kind)
    )


def _row(cell: Cell, scores: pd.DataFrame, *, level: float) -> AgreementRow:
    item, first = item_numbers(scores)
    found = units(scores.iloc[first])
    rater, names = pd.factorize(scores["rater"], sort=True)
    raters = tuple(str(name) for name in names)
    verdict = 1 - np.sign(scores["net"].to_numpy())  # 0 1 2 for method_a, tie, method_b
    counts = np.bincount(3 * item + verdict, minlength=3 * len(first)).reshape(-1, 3)
    patterns = from_counts(counts, found.clusters)
    pairs: tuple[PairOfRaters, ...] = ()
    if len(raters) <= MOST_RATERS:
        table = np.full((len(first), len(raters)), -1, dtype=np.int8)
        table[item, rater] = verdict
        pairs = tuple(_pairs(raters, table, found.clusters, level=level))
    return AgreementRow(
        **cell_fields(cell),
        items=len(counts),
        raters=raters,
        unit=found.name,
        units=found.n,
        agreement=fleiss(patterns, level=level),
        alpha=krippendorff(patterns, metric="ordinal", level=level),
        nominal=krippendorff(patterns, metric="nominal", level=level),
        interval=krippendorff(patterns, metric="interval", level=level),
        intraclass=intraclass(
            item,
            rater,
            scores["net"].to_numpy() / scores["showings"].to_numpy(),
            clusters=None if found.clusters is None else found.clusters[item],
            level=level,
        ),
        ac1=gwet(patterns, level=level),
        ac2=gwet(patterns, weights="ordinal", level=level),
        categories=by_category(counts, found.clusters, level=level),
        pairs=pairs,
        no_pairs="" if pairs else _why_none(len(raters)),
    )


def by_category(
    counts: NDArray[np.int64], clusters: NDArray[np.int64] | None = None, *, level: float = 0.95
) -> tuple[Coefficient, ...]:
    """Return Fleiss' κ_j (Fleiss 1971) of each category, with its interval.

    κ_j asks how far raters agree on whether a verdict is j or not: it is Fleiss' κ of j against the rest,
    and so it is computed, with κ's linearised interval over items. It is undefined where no rater, or
    everybody, chose j. κ is the mean of all κ_j with weights p_j(1 − p_j).

    Args:
        counts: How many raters chose each category, integers `[items, categories]`.
        clusters: The item's prompt, `[items]`; `None` where items are alone.
        level: The confidence level.
    """
    whole = counts.sum(axis=1)
    return tuple(
        fleiss(from_counts(np.stack([one, whole - one], axis=1), clusters), level=level) for one in counts.T
    )


def _pairs(
    raters: tuple[str, ...],
    verdicts: NDArray[np.int8],
    clusters: NDArray[np.int64] | None,
    *,
    level: float,
) -> Iterator[PairOfRaters]:
    rated = verdicts >= 0
    for one, other in combinations(range(len(raters)), 2):
        both = rated[:, one] & rated[:, other]
        if both.any():
            kappa = cohen(
                verdicts[both, one],
                verdicts[both, other],
                categories=3,
                clusters=None if clusters is None else clusters[both],
                level=level,
            )
            yield PairOfRaters(first=raters[one], second=raters[other], kappa=kappa)


def _why_none(raters: int) -> str:
    if raters == 1:
        return "there is one rater"
    if raters > MOST_RATERS:
        return f"there are {raters} raters, more than {MOST_RATERS}"
    return "no two raters have rated the same pair"
