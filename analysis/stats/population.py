"""A mean over items and raters when both are samples: its variance, degrees of freedom, interval and test.

An interval over items alone holds for the raters who took part. Where the conclusion is to hold for raters
like them, how raters differ is part of its error. The model is that of two crossed random effects,

    y_ij = μ + item_i + rater_j + rest_ij,

and the estimate is a weighted mean Σ w_ij y_ij. Sums of squares, equated with their expectations (Henderson
1953), give the variances of the three terms for any table of who rated what, also an incomplete one; where
everybody has rated everything they are those of the analysis of variance. Degrees of freedom are
Satterthwaite's (1946). Where raters share too few items with each other for that, the variance is the sum of
those of items and of raters as clusters, less that of single scores (Cameron, Gelbach and Miller 2011), with
the freedom of the fewer of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FEWEST_RATERS = 3
"""With fewer raters nothing can be learned of the population they are from."""
FEWEST_EQUAL = 2.25
"""Raters of unequal weight must be worth so many of equal weight: where two or fewer gave nearly all ratings,
the test for raters like them errs in .11 to .14 of the studies."""

TWO_WAY_T = "items and raters as random effects, t with Satterthwaite's degrees of freedom"
CLUSTERS_T = "items and raters as crossed clusters, t with the freedom of the fewer"

Reals = NDArray[np.float64]
Numbers = NDArray[np.integer]


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoWayMeans:
    """Means over items and raters of several studies of one design, and their errors.

    Attributes:
        estimates: Σ w y, [studies].
        variances: Of the estimates, over new items and raters, [studies]; 0 where an estimate of it is
            below.
        freedoms: Their degrees of freedom, [studies].
        raters: The variance of a rater's own part of a score, estimated without bias and so possibly below 0,
            [studies]; NaN where the design does not determine it.
    """

    estimates: Reals
    variances: Reals
    freedoms: Reals
    raters: Reals

    def half_widths(self, level: float) -> Reals:
        """Return half the widths of the t intervals of that level, [studies]."""
        return np.asarray(special.stdtrit(self.freedoms, 0.5 + level / 2) * np.sqrt(self.variances))

    def p_values(self, value: float) -> Reals:
        """Return the two-sided p of the t tests that the mean is `value`, [studies]; 1 without a variance."""
        spread = np.where(self.variances > 0, np.sqrt(self.variances), np.inf)
        return np.asarray(2 * special.stdtr(self.freedoms, -np.abs(self.estimates - value) / spread))


@dataclass(frozen=True, eq=False)
class TwoWayDesign:
    """Who rates what, with which weight.

    Time and memory grow with the number of scores, not with items × raters.

    >>> shrout_fleiss = [9, 2, 5, 8, 6, 1, 3, 2, 8, 4, 6, 8, 7, 1, 2, 6, 10, 5, 6, 9, 6, 2, 4, 7]
    >>> item, rater = np.divmod(np.arange(24), 4)
    >>> means = TwoWayDesign(item, rater, np.full(24, 1 / 24)).means(shrout_fleiss)
    >>> round(float(means.raters[0]), 3)
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

    def means(self, scores: ArrayLike) -> TwoWayMeans:
        """Return the weighted means of scores with their errors.

        Args:
            scores: Of one study, [n], or of several, [studies, n].
        """
        y = np.atleast_2d(np.asarray(scores, dtype=float))
        squares, freedoms = self._squares(y), self._freedoms
        if not self._crossed:
            groups = np.array([*freedoms[:2], len(self.item) - 1 - self._strata.max()])
            variances = squares @ (np.array([1, 1, -1]) * (groups + 1) / np.maximum(1, groups))
            return TwoWayMeans(
                estimates=y @ self.weight,
                variances=np.maximum(0, variances),
                freedoms=np.full(len(y), max(1.0, freedoms[:2].min())),
                raters=np.full(len(y), np.nan),
            )
        expected, target = self._expectations()
        # Satterthwaite's formula wants independent sums of squares. So the last one is taken without its
        # parts in the others; of a full table that leaves the analysis of variance.
        within = np.linalg.solve(expected[:-1, :-1].T, expected[-1, :-1])
        factors = np.linalg.solve(expected.T, target)
        parts = np.empty_like(squares)
        parts[:, :-1] = (factors[:-1] + factors[-1] * within) * squares[:, :-1]
        parts[:, -1] = factors[-1] * (squares[:, -1] - squares[:, :-1] @ within)
        variances, spread = np.maximum(0.0, parts.sum(axis=1)), (parts**2 / freedoms).sum(axis=1)
        ratio = np.divide(variances**2, spread, out=np.ones_like(spread), where=spread > 0)
        return TwoWayMeans(
            estimates=y @ self.weight,
            variances=variances,
            freedoms=np.maximum(1.0, ratio),
            raters=np.linalg.solve(expected, squares.T)[0],
        )

    def _squares(self, y: Reals) -> Reals:
        """Return the sums of squares of raters, items and single scores, [studies, 3]."""
        w, strata = self.weight, self._strata
        means = np.stack([np.bincount(strata, weights=w * row) for row in y]) / np.bincount(strata, weights=w)
        off = w * (y - means[:, strata])
        by = [
            [(np.bincount(groups, weights=row) ** 2).sum() for row in off]
            for groups in (self.rater, self.item)
        ]
        return np.stack([*by, (off**2).sum(axis=1)], axis=1)

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
