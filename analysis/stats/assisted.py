"""A mean that people scored on a random part of the items, assisted by a judge who scored all of them.

Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023) with its tuning (PPI++:
Angelopoulos, Duchi and Zrnic 2023). For a mean it is the regression estimator of double sampling (Cochran
1977, chapter 12): people's mean on the part, plus λ times (the judge's mean on all items − its mean on the
part).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.intervals import Interval, item_mean
from analysis.stats.significance import TestResult, t_test

PPI_T = "prediction-powered t interval (PPI++), stratified by dataset"
PPI_TEST = "prediction-powered t test of a share of one half"

DOUBT = 2
"""Units' worth of people alone in the variance of a tuned mean: few units cannot show that a judge is right
everywhere else (as Agresti and Coull's two successes and failures in an interval of a proportion)."""

Reals = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class AssistedMean:
    """People's mean, assisted by a judge.

    Attributes:
        interval: The assisted mean with its t interval; `n` counts the units that people scored.
        test: That the mean is one half.
        weight: λ: how much of the judge's difference between all items and people's is added, from 0 to 1.
        correlation: Pearson's r of people's and the judge's scores of an item within datasets; `None` where
            either is the same throughout.
        rated: Items that people scored.
        judged: Items that the judge scored, people's among them.
        effective: Of how many items people alone would give so small a variance; `None` without a variance.
        influence: What each item adds to the error of the mean, [N]: the squares of their sums over clusters
            add up to the variance (before what tuning's doubt adds), and products with those of another mean
            on the same clusters to a covariance.
        freedom: The variance's degrees of freedom.
        inflation: The variance over that of the influences: what tuning's doubt adds.
    """

    interval: Interval
    test: TestResult
    weight: float
    correlation: float | None
    rated: int
    judged: int
    effective: float | None
    influence: Reals = field(repr=False, compare=False)
    freedom: float
    inflation: float


def effective_items(rated: int, judged: int, correlation: float) -> float:
    """Return how many items by people alone are worth what the assisted ones are, by the best λ.

    It is n / (1 − r² (1 − n/N)) for n rated of N judged items.

    >>> effective_items(150, 1000, 0.6)
    216.13832853025937
    """
    return rated / (1 - correlation**2 * (1 - rated / judged))


def needed_correlation(rated: int, judged: int, factor: float) -> float | None:
    """Return the r with which the rated items are worth `factor` times as many; `None` if none is enough.

    >>> round(needed_correlation(150, 1000, 2), 3)
    0.767
    """
    squared = (1 - 1 / factor) / (1 - rated / judged) if rated < judged else math.inf
    return math.sqrt(squared) if squared <= 1 else None


def assisted_mean(
    people: ArrayLike,
    judge: ArrayLike,
    strata: Sequence[str],
    *,
    clusters: NDArray[np.integer] | None = None,
    weight: float | None = None,
    level: float = 0.95,
) -> AssistedMean:
    """Return people's mean over the items' population, estimated from a random part of the judged items.

    The estimand is the expectation of people's score in the population that the *judged* items are drawn
    from, each stratum weighing as its judged items. It is not the mean over just these items: its interval
    would have no width once people have scored them all, while this one is then `item_mean`'s, exactly.

    Within each stratum people's items must be a random sample of the judged ones. The judge may then be as
    wrong as it likes: λ, the slope of people's scores on the judge's within strata, cut at 0 and 1, only
    decides how wide the interval is. The variance of a unit takes the λ of all other units, so that tuning
    is paid for (leave-one-out, in place of the folds of cross-fitting, which would need a random order), and
    `DOUBT` units more have that of people alone. Of units with several items it is CR2 (Bell and McCaffrey
    2002); degrees of freedom are Satterthwaite's.

    In PPI++'s own terms, where the unlabelled items are those that people did not score, its weight is
    λ (1 − n/N) in a stratum with n of N items scored.

    Args:
        people: People's score of each judged item, [N], between 0 and 1; NaN where people gave none.
        judge: The judge's, [N], between 0 and 1.
        strata: The item's stratum (its dataset), N of them.
        clusters: The item's cluster (its prompt), [N], each within one stratum; `None` where items are alone.
        weight: λ, where it is not to be tuned.
        level: The confidence level.

    Raises:
        ValueError: Shapes differ, a judge's score is missing, or people scored fewer than two items.
    """
    scores, predictions = np.asarray(people, dtype=float), np.asarray(judge, dtype=float)
    if scores.ndim != 1 or scores.shape != predictions.shape or len(scores) != len(strata):
        raise ValueError(
            f"one judge's score and stratum per item: {scores.shape}, {predictions.shape}, {len(strata)}"
        )
    rated = ~np.isnan(scores)
    if np.isnan(predictions).any() or rated.sum() < 2:
        raise ValueError("the judge scores every item, and people two or more of them")
    groups = _Groups.make(rated, strata, clusters)
    sums = _Products.of(scores, predictions, groups)
    tuned = sums.slope() if weight is None else weight
    apart = np.full(len(scores), tuned) if weight is not None else sums.slopes_without(groups)
    unassisted, _, _ = _variance(scores, predictions, groups, 0 * apart)
    if rated.all():
        alone = item_mean(scores, strata, clusters=clusters, level=level)
        variance, freedom, influence = _variance(scores, predictions, groups, 0 * apart)
        plain = variance
        whole = replace(alone, method=f"{alone.method} (people scored every item)")
    else:
        variance, freedom, influence = _variance(scores, predictions, groups, apart)
        plain = variance
        if weight is None:
            variance = (groups.units * variance + DOUBT * unassisted) / (groups.units + DOUBT)
        estimate = groups.mean(scores, predictions, tuned)
        whole = _interval(estimate, variance, freedom, groups, level=level)
    return AssistedMean(
        interval=whole,
        test=_test(whole.estimate or 0.0, variance, freedom, groups.units),
        weight=tuned,
        correlation=sums.correlation(),
        rated=int(rated.sum()),
        judged=len(scores),
        effective=float(rated.sum() * unassisted / variance) if variance > 1e-30 else None,
        influence=influence,
        freedom=freedom,
        inflation=variance / plain if plain > 1e-30 else 1.0,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Groups:
    """Which items belong together.

    Attributes:
        group: 2·stratum for items that people scored, 2·stratum + 1 for the others, [N].
        cluster: Which cluster, from 0, [N].
        size: Items of each group.
        part: The items of one cluster in one group: which of them, [N].
        share: Each part's share of its group.
        of: Each part's group.
        warnings: What a reader must know.
    """

    group: Numbers
    cluster: Numbers
    size: Reals
    part: Numbers
    share: Reals
    of: Numbers
    warnings: tuple[str, ...]

    @classmethod
    def make(
        cls, rated: NDArray[np.bool_], strata: Sequence[str], clusters: NDArray[np.integer] | None
    ) -> Self:
        """Group items by stratum, or not at all where a stratum has fewer than two scored units."""
        _, stratum = np.unique(np.asarray(strata, dtype=str), return_inverse=True)
        cluster = np.arange(len(rated)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
        units = np.unique(stratum[rated] * len(rated) + cluster[rated]) // len(rated)
        warnings: tuple[str, ...] = ()
        if np.bincount(units, minlength=int(stratum.max()) + 1).min() < 2 and stratum.any():
            stratum = np.zeros_like(stratum)
            what = "item" if clusters is None else "prompt"
            warnings = (
                f"people scored fewer than two {what}s of a dataset, so the interval ignores the datasets",
            )
        group = 2 * stratum + ~rated
        size = np.bincount(group, minlength=2 * int(stratum.max()) + 2).astype(float)
        keys, part = np.unique(group * len(rated) + cluster, return_inverse=True)
        return cls(
            group=group,
            cluster=cluster,
            size=size,
            part=part,
            share=np.bincount(part) / size[keys // len(rated)],
            of=keys // len(rated),
            warnings=warnings,
        )

    @property
    def rated(self) -> NDArray[np.bool_]:
        """Return which items people scored, [N]."""
        return np.asarray(self.group % 2 == 0)

    @property
    def units(self) -> int:
        """Return how many clusters people scored."""
        return len(np.unique(self.cluster[self.rated]))

    @property
    def weight(self) -> Reals:
        """Return each stratum's share of the judged items."""
        return np.asarray((self.size[::2] + self.size[1::2]) / self.size.sum())

    @property
    def unrated(self) -> Reals:
        """Return which part of each stratum people did not score: 1 − n/N."""
        return np.asarray(self.size[1::2] / (self.size[::2] + self.size[1::2]))

    def means(self, values: Reals) -> Reals:
        """Return the mean of each group, 0 where it is empty."""
        return np.bincount(self.group, weights=values, minlength=len(self.size)) / np.maximum(1, self.size)

    def mean(self, scores: Reals, predictions: Reals, weight: float) -> float:
        """Return the assisted mean."""
        own, judged = self.means(np.where(self.rated, scores, 0.0)), self.means(predictions)
        return float(self.weight @ (own[::2] + weight * self.unrated * (judged[1::2] - judged[::2])))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Products:
    """Products of deviations from the group's mean, of the scored items: [N], 0 for the others.

    `worth` is how much an item's product counts in the variance that λ is to make small.
    """

    both: Reals
    judge: Reals
    people: Reals
    worth: Reals

    @classmethod
    def of(cls, scores: Reals, predictions: Reals, groups: _Groups) -> Self:
        """Return the products of items that people and the judge scored."""
        own, judged = _deviations(scores, groups), _deviations(predictions, groups)
        n, total = groups.size[::2], groups.size[::2] + groups.size[1::2]
        worth = groups.weight**2 * (1 / n - 1 / total) / np.maximum(1, n - 1)
        rated = groups.rated
        return cls(
            both=np.where(rated, own * judged, 0.0),
            judge=np.where(rated, judged**2, 0.0),
            people=np.where(rated, own**2, 0.0),
            worth=np.where(rated, worth[groups.group // 2], 0.0),
        )

    def slope(self) -> float:
        """Return λ: the slope with the smallest variance, cut at 0 and 1; 0 for a judge that is constant."""
        return float(_slope((self.worth * self.both).sum(), (self.worth * self.judge).sum()))

    def slopes_without(self, groups: _Groups) -> Reals:
        """Return for each item the slope of the units other than its own, [N]."""
        # without a unit the others' mean moves, too
        factor = self.worth / np.maximum(1 - groups.share[groups.part], 1e-9)
        sums = [
            (self.worth * each).sum() - np.bincount(groups.cluster, weights=factor * each)[groups.cluster]
            for each in (self.both, self.judge)
        ]
        return np.asarray(_slope(*sums))

    def correlation(self) -> float | None:
        """Return Pearson's r within strata."""
        spread = math.sqrt(self.people.sum() * self.judge.sum())
        return float(self.both.sum() / spread) if spread > 1e-12 else None


def _slope(both: ArrayLike, judge: ArrayLike) -> Reals:
    top, bottom = np.asarray(both, dtype=float), np.asarray(judge, dtype=float)
    known = bottom > 1e-15
    return np.where(known, np.clip(top / np.where(known, bottom, 1.0), 0.0, 1.0), 0.0)


def _deviations(values: Reals, groups: _Groups) -> Reals:
    filled = np.where(np.isnan(values), 0.0, values)
    return np.asarray(filled - groups.means(filled)[groups.group])


def _variance(
    scores: Reals, predictions: Reals, groups: _Groups, weights: Reals
) -> tuple[float, float, Reals]:
    """Return the variance of the assisted mean, by each item's λ, its degrees of freedom, and influences."""
    rated, stratum = groups.rated, groups.group // 2
    weights = weights * groups.unrated[stratum]
    deviations = _deviations(predictions, groups)
    rest = ~rated & (groups.size[groups.group] == 1)
    if rest.any():  # alone among those that people did not score: its own mean is no centre
        deviations[rest] = predictions[rest] - groups.means(predictions)[groups.group[rest] - 1]
    residuals = np.where(rated, _deviations(scores, groups) - weights * deviations, weights * deviations)
    share, of = groups.share, groups.of
    left = np.where(groups.size[of] == 1, 1.0, np.maximum(1 - share, 1e-9))
    scaled = residuals * groups.weight[stratum] / groups.size[groups.group]
    influence = scaled / np.sqrt(left)[groups.part]
    sums = np.bincount(groups.part, weights=influence)
    # A cluster that people scored in part has two sums, which depend on each other.
    whose = np.zeros(len(of), dtype=np.int64)
    whose[groups.part] = groups.cluster
    variance = float((np.bincount(whose, weights=sums) ** 2).sum())
    parts = np.bincount(of, weights=sums**2, minlength=len(groups.size))
    lever = share**2 / left
    freedoms = np.bincount(of, weights=share**2 - lever**2, minlength=len(groups.size))
    freedoms = freedoms + np.bincount(of, weights=lever, minlength=len(groups.size)) ** 2
    error = float((parts**2 * freedoms).sum())
    return variance, (parts.sum() ** 2 / error if error > 0 else 1.0), influence


def _interval(estimate: float, variance: float, freedom: float, groups: _Groups, *, level: float) -> Interval:
    whole = Interval(
        estimate=min(1.0, max(0.0, estimate)),
        low=None,
        high=None,
        level=level,
        n=groups.units,
        method=PPI_T,
        warnings=groups.warnings,
    )
    if variance <= 1e-30:
        why = "scores do not differ: a t interval would have no width, so none is given"
        return replace(whole, warnings=(*whole.warnings, why))
    half = float(special.stdtrit(freedom, 0.5 + level / 2)) * math.sqrt(variance)
    return replace(whole, low=max(0.0, estimate - half), high=min(1.0, estimate + half))


def _test(estimate: float, variance: float, freedom: float, n: int) -> TestResult:
    if variance <= 1e-30:
        return TestResult(n=n, method=PPI_TEST, warnings=("scores do not differ",))
    return t_test(estimate - 0.5, math.sqrt(variance), freedom, n=n, method=PPI_TEST)
