"""A mean over items and raters when both are samples: its variance, degrees of freedom, interval and test.

An interval over items alone holds for the raters who took part. Where the conclusion is to hold for raters
like them, how raters differ is part of its error. The model is that of two crossed random effects,

    y_ij = μ + item_i + rater_j + rest_ij,

and the estimate is a weighted mean Σ w_ij y_ij. Sums of squares, equated with their expectations (Henderson
1953), give the variances of the three terms for any table of who rated what, also an incomplete one; where
everybody has rated everything they are those of the analysis of variance. Degrees of freedom are
Satterthwaite's (1946). Where raters share too few items with each other for that, an item's part of a score
is not separated from the rest: the variance between raters is Paule and Mandel's (1982), for which raters may
have rated very different numbers of items, and what scores of an item have in common is added as that of
clusters (Cameron, Gelbach and Miller 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.sparse import csr_array

from guard_eval.estimate import Floats

FEWEST_RATERS = 3
"""With fewer raters nothing can be learned of the population they are from."""
FEWEST_EQUAL = 2.25
"""Raters of unequal weight must be worth so many of equal weight: where two or fewer gave nearly all ratings,
the test for raters like them errs in .11 to .14 of the studies."""

TWO_WAY_T = "items and raters as random effects, t with Satterthwaite's degrees of freedom"
CLUSTERS_T = "raters as random effects, items as clusters, t with Satterthwaite's degrees of freedom"

Numbers = NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoWayMean:
    """A mean over items and raters, and its error.

    Attributes:
        value: Σ w y.
        variance: Its variance over new items and raters; 0 where an estimate of it is below.
        df: Its degrees of freedom.
        raters: The variance of a rater's own part of a score, estimated without bias and so possibly below 0.
    """

    value: float
    variance: float
    df: float
    raters: float


@dataclass(frozen=True, eq=False)
class TwoWayDesign:
    """Who rates what, with which weight.

    Time and memory grow with the number of scores, not with items × raters.

    >>> shrout_fleiss = [9, 2, 5, 8, 6, 1, 3, 2, 8, 4, 6, 8, 7, 1, 2, 6, 10, 5, 6, 9, 6, 2, 4, 7]
    >>> item, rater = np.divmod(np.arange(24), 4)
    >>> round(TwoWayDesign(item, rater, np.full(24, 1 / 24)).mean(np.array(shrout_fleiss)).raters, 3)
    5.244

    Attributes:
        item: The item of each score, numbered from 0 without gaps, shape [n]; no item and rater twice.
        rater: The rater of each, numbered in the same way, [n].
        weight: The weight of each, positive, adding up to 1, [n].
        stratum: The stratum of each score's item, numbered in the same way, [n]; items are a sample within
            each. `None` for one stratum.
    """

    item: Numbers
    rater: Numbers
    weight: Floats
    stratum: Numbers | None = None

    @property
    def raters(self) -> int:
        """Return how many raters there are."""
        return int(self.rater.max()) + 1

    @cached_property
    def loads(self) -> Floats:
        """Return the weight of each rater, [raters]."""
        return np.asarray(np.bincount(self.rater, weights=self.weight), dtype=float)

    @property
    def equal_raters(self) -> float:
        """Return how many raters of equal weight these are worth: 1 / Σb² of their weights b (Kish 1965)."""
        return float(1 / (self.loads**2).sum())

    @property
    def method(self) -> str:
        """Return the method in words."""
        return TWO_WAY_T if self._is_crossed else CLUSTERS_T

    @cached_property
    def _groups(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the rater, the item and the number of each score, [n] each."""
        return self.rater, self.item, np.arange(len(self.item))

    @cached_property
    def _strata(self) -> Numbers:
        return np.zeros(len(self.item), dtype=np.int64) if self.stratum is None else self.stratum

    @cached_property
    def _freedoms(self) -> Floats:
        """Return the degrees of freedom of the sums of squares of raters, items and single scores.

        Raters who weigh unequally count as fewer: (Σb²)²/Σb⁴ of their weights b.
        """
        items = int(self.item.max()) + 1
        strata = int(self._strata.max()) + 1
        equal = (self.loads**2).sum() ** 2 / (self.loads**4).sum()
        return np.array([equal - 1, items - strata, len(self.item) - items - self.raters + 1])

    @property
    def _is_crossed(self) -> bool:
        """Return whether raters share enough items to separate their own part from the rest."""
        return bool(self._freedoms[2] >= self.raters - 1)

    def mean(self, scores: Floats) -> TwoWayMean:
        """Return the weighted mean of scores, [n], with its error."""
        off = scores - self._stratum_means(scores)
        sums = [np.bincount(group, weights=self.weight * off) for group in self._groups]
        squares = np.array([(total**2).sum() for total in sums])
        if self._is_crossed:
            variance, df, raters = self._two_way_variance(squares)
        else:
            variance, df, raters = self._clustered_variance(off, squares)
        value = float(scores @ self.weight)
        return TwoWayMean(value=value, variance=variance, df=df, raters=raters)

    def _stratum_means(self, scores: Floats) -> Floats:
        """Return the weighted mean of each score's stratum, [n]."""
        totals = np.bincount(self._strata, weights=self.weight * scores)
        return np.asarray((totals / np.bincount(self._strata, weights=self.weight))[self._strata])

    def _two_way_variance(self, squares: Floats) -> tuple[float, float, float]:
        """Return the variance of the mean, its degrees of freedom, and the variance between raters."""
        expected, target = self._expectations()
        # Satterthwaite's formula wants independent sums of squares. So the last one is taken without its
        # parts in the others; of a full table that leaves the analysis of variance.
        within = np.linalg.solve(expected[:-1, :-1].T, expected[-1, :-1])
        factors = np.linalg.solve(expected.T, target)
        first = (factors[:-1] + factors[-1] * within) * squares[:-1]
        parts = np.append(first, factors[-1] * (squares[-1] - squares[:-1] @ within))
        variance = max(0.0, float(parts.sum()))
        spread = float((parts**2 / self._freedoms).sum())
        df = max(1.0, variance**2 / spread) if spread > 0 else 1.0
        return variance, df, float(np.linalg.solve(expected, squares)[0])

    def _clustered_variance(self, off: Floats, squares: Floats) -> tuple[float, float, float]:
        """Return the same, if raters share hardly any items.

        Args:
            off: The scores less their stratum's mean, [n].
            squares: The sums of squares of raters, items and single scores, [3].
        """
        loads = self.loads
        means = np.bincount(self.rater, weights=self.weight * off) / loads
        residual = float(((off - means[self.rater]) ** 2).sum()) / max(1, len(off) - self.raters)
        # Of each rater's mean, the variance that is not between raters.
        noise = residual * np.bincount(self.rater, weights=self.weight**2) / loads**2

        def excess(between: float) -> float:
            trust = 1 / (between + noise)
            return float(trust @ (means - trust @ means / trust.sum()) ** 2) - (self.raters - 1)

        between = 0.0
        if residual > 0 and excess(0.0) > 0:
            between = float(optimize.brentq(excess, 0.0, float((means**2).sum()) + noise.sum()))
        counts = np.array([int(self.item.max()) + 1, len(off)])
        items, single_scores = squares[1:] * counts / np.maximum(1, counts - 1)
        over_raters = float(loads**2 @ (between + noise))
        variance = max(0.0, over_raters + float(items - single_scores))
        trust = 1 / (between + noise) if residual > 0 else np.ones(self.raters)
        slope = float(trust.sum() - (trust**2).sum() / trust.sum())
        spread = float((loads**2).sum()) ** 2 * (self.raters - 1) / slope**2
        df = min(max(1.0, variance**2 / spread), max(1.0, self._freedoms[1]))
        return variance, df, between

    def _expectations(self) -> tuple[Floats, Floats]:
        """Return E[sums of squares], a matrix on the variances, and Var(Σ w y), a vector on them.

        Rows and columns are rater, item, score. A sum of squares is one of linear forms v'y, Σ w (y − mean of
        the stratum) over a rater, an item or a score, and E(v'y)² = Σ σ² |v added up by rater, item, score|².
        The forms added up are C − Xᵀ M: the weights C of both groups together, less the part X of a group in
        each stratum by the means M of the stratum in the other group.
        """
        parts = [self._weights(self._strata, group) for group in self._groups]
        total = np.bincount(self._strata, weights=self.weight)[:, None]
        expected = np.empty((3, 3))
        for row, weights in enumerate(parts):
            for column, other in enumerate(parts):
                together = self._weights(self._groups[row], self._groups[column])
                means = other / total
                squares = (together**2).sum() + ((weights @ weights.T) * (means @ means.T)).sum()
                expected[row, column] = squares - 2 * ((weights @ together) * means).sum()
        return expected, np.array([(weights.sum(axis=0) ** 2).sum() for weights in parts])

    def _weights(self, first: Numbers, second: Numbers) -> csr_array:
        """Return the summed weights of scores by two groupings, [first, second]."""
        return csr_array((self.weight, (first, second)))
