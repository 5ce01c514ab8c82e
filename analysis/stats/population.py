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

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

FEWEST_RATERS = 3
"""With fewer raters nothing can be learned of the population they are from."""
FEWEST_EQUAL = 2.25
"""Raters of unequal weight must be worth so many of equal weight: where two or fewer gave nearly all ratings,
the test for raters like them errs in .11 to .14 of the studies."""

TWO_WAY_T = "items and raters as random effects, t with Satterthwaite's degrees of freedom"
CLUSTERS_T = "raters as random effects, items as clusters, t with Satterthwaite's degrees of freedom"

Reals = NDArray[np.float64]
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

    def half_width(self, level: float) -> float:
        """Return half the width of the t interval of that level."""
        return float(special.stdtrit(self.df, 0.5 + level / 2)) * math.sqrt(self.variance)


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
    weight: Reals
    stratum: Numbers | None = None

    @property
    def raters(self) -> int:
        """Return how many raters there are."""
        return int(self.rater.max()) + 1

    @property
    def equal_raters(self) -> float:
        """Return how many raters of equal weight these are worth: 1 / Σb² of their weights b (Kish 1965)."""
        return float(1 / (np.bincount(self.rater, weights=self.weight) ** 2).sum())

    @property
    def method(self) -> str:
        """Return the method in words."""
        return TWO_WAY_T if self._crossed else CLUSTERS_T

    @cached_property
    def _freedoms(self) -> Reals:
        """Return the degrees of freedom of the sums of squares of raters, items and single scores.

        Raters who weigh unequally count as fewer: (Σb²)²/Σb⁴ of their weights b.
        """
        items, strata = int(self.item.max()) + 1, int(self._strata.max()) + 1
        b = np.bincount(self.rater, weights=self.weight)
        equal = (b**2).sum() ** 2 / (b**4).sum()
        return np.array([equal - 1, items - strata, len(self.item) - items - self.raters + 1])

    @property
    def _crossed(self) -> bool:
        """Return whether raters share enough items to separate their own part from the rest."""
        return bool(self._freedoms[2] >= self.raters - 1)

    def mean(self, scores: Reals) -> TwoWayMean:
        """Return the weighted mean of scores, [n], with its error."""
        if not self._crossed:
            return self._mean_over_raters(scores)
        squares, freedoms = self._squares(scores), self._freedoms
        expected, target = self._expectations()
        # Satterthwaite's formula wants independent sums of squares. So the last one is taken without its
        # parts in the others; of a full table that leaves the analysis of variance.
        within = np.linalg.solve(expected[:-1, :-1].T, expected[-1, :-1])
        factors = np.linalg.solve(expected.T, target)
        first = (factors[:-1] + factors[-1] * within) * squares[:-1]
        parts = np.append(first, factors[-1] * (squares[-1] - squares[:-1] @ within))
        variance, spread = max(0.0, float(parts.sum())), float((parts**2 / freedoms).sum())
        return TwoWayMean(
            value=float(scores @ self.weight),
            variance=variance,
            df=max(1.0, variance**2 / spread) if spread > 0 else 1.0,
            raters=float(np.linalg.solve(expected, squares)[0]),
        )

    def _mean_over_raters(self, scores: Reals) -> TwoWayMean:
        """Return the mean with its error, if raters share hardly any items."""
        w, rater = self.weight, self.rater
        squares, items = self._squares(scores), int(self.item.max()) + 1
        off = (
            scores
            - (np.bincount(self._strata, weights=w * scores) / np.bincount(self._strata, weights=w))[
                self._strata
            ]
        )
        loads = np.bincount(rater, weights=w)
        means = np.bincount(rater, weights=w * off) / loads
        rest = float(((off - means[rater]) ** 2).sum()) / max(1, len(off) - self.raters)
        # Of each rater's mean, the variance that is not between raters.
        noise = rest * np.bincount(rater, weights=w**2) / loads**2

        def excess(between: float) -> float:
            trust = 1 / (between + noise)
            return float(trust @ (means - trust @ means / trust.sum()) ** 2) - (self.raters - 1)

        between = 0.0
        if rest > 0 and excess(0.0) > 0:
            between = float(optimize.brentq(excess, 0.0, float((means**2).sum()) + noise.sum()))
        clusters = squares[1:] * np.array([items, len(scores)]) / np.maximum(1, [items - 1, len(scores) - 1])
        raters = float(loads**2 @ (between + noise))
        variance = max(0.0, raters + float(clusters[0] - clusters[1]))
        trust = 1 / (between + noise) if rest > 0 else np.ones(self.raters)
        slope = float(trust.sum() - (trust**2).sum() / trust.sum())
        spread = float((loads**2).sum()) ** 2 * (self.raters - 1) / slope**2
        df = min(max(1.0, variance**2 / spread), max(1.0, self._freedoms[1]))
        return TwoWayMean(value=float(scores @ w), variance=variance, df=df, raters=between)

    def _squares(self, y: Reals) -> Reals:
        """Return the sums of squares of raters, items and single scores, [3]."""
        w, strata = self.weight, self._strata
        off = w * (y - (np.bincount(strata, weights=w * y) / np.bincount(strata, weights=w))[strata])
        sums = (np.bincount(groups, weights=off) for groups in (self.rater, self.item))
        return np.array([*((each**2).sum() for each in sums), (off**2).sum()])

    @cached_property
    def _strata(self) -> Numbers:
        return np.zeros(len(self.item), dtype=np.int64) if self.stratum is None else self.stratum

    def _expectations(self) -> tuple[Reals, Reals]:
        """Return E[sums of squares], a matrix on the variances, and Var(Σ w y), a vector on them.

        Rows and columns are rater, item, score. A sum of squares is one of linear forms v'y, Σ w (y − mean of
        the stratum) over a rater, an item or a score, and E(v'y)² = Σ σ² |v added up by rater, item, score|².
        """
        w, s = self.weight, self._strata
        strata = int(s.max()) + 1
        total = np.bincount(s, weights=w)  # W_s
        a = np.bincount(self.item, weights=w)
        of_item = np.zeros(len(a), dtype=np.int64)
        of_item[self.item] = s
        b = np.bincount(s * self.raters + self.rater, weights=w, minlength=strata * self.raters)
        b = b.reshape(strata, self.raters)
        # Of each stratum, what a mean's square is made of: Σ over raters, items, scores.
        whole = np.stack(
            [
                (b**2).sum(axis=1),
                np.bincount(of_item, weights=a**2, minlength=strata),
                np.bincount(s, weights=w**2),
            ]
        )
        mine, theirs = a[self.item], b[s, self.rater]
        part = {"rater": b / total[:, None], "item": a / total[of_item], "score": w / total[s]}
        shared = b.sum(axis=0)
        by_rater = (part["rater"] ** 2).sum(axis=1) * whole
        rater_rater = (shared**2).sum() - 2 * (shared * (b * part["rater"]).sum(axis=0)).sum()
        rater_rater += ((b @ b.T) ** 2 / np.outer(total, total)).sum()
        by_item = (part["item"] ** 2 * whole[:, of_item]).sum(axis=1)
        by_score = (part["score"] ** 2 * whole[:, s]).sum(axis=1)
        crossed = (w**2 - 2 * w * theirs * mine / total[s]).sum()
        terms = [(w**2 * (1 - 2 * weight / total[s])).sum() for weight in (theirs, mine, w)]
        expected = np.array(
            [
                [rater_rater, crossed + by_rater[1].sum(), terms[0] + by_rater[2].sum()],
                [
                    crossed + by_item[0],
                    (a**2 - 2 * a**2 * part["item"]).sum() + by_item[1],
                    terms[1] + by_item[2],
                ],
                [terms[0] + by_score[0], terms[1] + by_score[1], terms[2] + by_score[2]],
            ]
        )
        return expected, np.array([(shared**2).sum(), (a**2).sum(), (w**2).sum()])
