"""Compute a mean over items and raters if both are samples, with its variance and degrees of freedom.

An interval over items alone is valid for the raters who took part. If the result is about raters in general,
differences between raters are a part of the error. The model has two crossed random effects,

    y_ij = μ + item_i + rater_j + rest_ij,

and the estimate is a weighted mean Σ w_ij y_ij. The variances of the three terms make the sums of squares
equal to their expectations (Henderson 1953). This works for any table of ratings, even an incomplete one. If
every rater has rated every item, the result is the analysis of variance. Degrees of freedom follow
Satterthwaite (1946). If raters share too few items, the effect of an item cannot be separated from the
residual. Then the variance between raters follows Paule and Mandel (1982), which allows very different
numbers of items per rater, and items are clusters (Cameron, Gelbach and Miller 2011).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.sparse import csr_array

from guard_eval.estimate import Floats, Integers

FEWEST_RATERS = 3
"""The smallest number of raters for a result about raters in general."""
FEWEST_EQUAL = 2.25
"""The smallest effective number of raters (`explain_too_few_raters`) for a result about raters in general.

If one or two raters gave nearly all ratings, the test for raters in general errs in .11 to .14 of studies.
"""


def explain_too_few_raters(weights: Floats | Integers, fewest: int) -> str:
    """Return the reason why there is no result about raters in general, or an empty text.

    Args:
        weights: The weight of each rater, [raters]. Raters of unequal weight count as (Σb)² / Σb² raters
            (Kish 1965).
        fewest: The smallest number of raters.
    """
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    if len(weights) >= fewest and effective >= FEWEST_EQUAL:
        return ""
    rounded_down = math.floor(100 * effective) / 100  # never printed as enough
    return (
        f"a result for other raters needs at least {fewest} raters with similar numbers of ratings (together "
        f"worth {FEWEST_EQUAL:g} equal raters); there are {len(weights)}, worth {rounded_down:.2f}"
    )


TWO_WAY_T = "items and raters as random effects, t with Satterthwaite's degrees of freedom"
CLUSTERS_T = "raters as random effects, items as clusters, t with Satterthwaite's degrees of freedom"


class TwoWayMean(NamedTuple):
    """A mean over items and raters, with its error.

    Attributes:
        value: The mean, Σ w y.
        variance: The variance of the mean over new items and raters; 0 if the estimate is negative.
        df: The degrees of freedom of the variance.
        raters: The variance of the effect of a rater. The estimate is unbiased, so it can be negative.
    """

    value: float
    variance: float
    df: float
    raters: float


@dataclass(frozen=True, eq=False)
class TwoWayDesign:
    """The item, the rater and the weight of each score.

    Time and memory grow with the number of scores, not with items × raters.

    >>> shrout_fleiss = [9, 2, 5, 8, 6, 1, 3, 2, 8, 4, 6, 8, 7, 1, 2, 6, 10, 5, 6, 9, 6, 2, 4, 7]
    >>> item, rater = np.divmod(np.arange(24), 4)
    >>> round(TwoWayDesign(item, rater, np.full(24, 1 / 24)).estimate_mean(np.array(shrout_fleiss)).raters, 3)
    5.244

    Attributes:
        item: The item of each score, numbered from 0 without gaps, [n]. A rater has at most one score of an
            item.
        rater: The rater of each score, numbered from 0 without gaps, [n].
        weight: The weight of each score, positive, [n]. Weights sum to 1.
        stratum: The stratum of each score's item, numbered from 0 without gaps, [n]. Items are a sample
            within each stratum. `None` means a single stratum.
    """

    item: Integers
    rater: Integers
    weight: Floats
    stratum: Integers | None = None

    @property
    def rater_count(self) -> int:
        """Return the number of raters."""
        return int(self.rater.max()) + 1

    @cached_property
    def rater_weights(self) -> Floats:
        """Return the weight of each rater, [raters]."""
        return np.asarray(np.bincount(self.rater, weights=self.weight), dtype=float)

    @property
    def method(self) -> str:
        """Return the name of the method of estimation, for the report."""
        return TWO_WAY_T if self._is_crossed else CLUSTERS_T

    @cached_property
    def _score_groupings(self) -> tuple[Integers, Integers, Integers]:
        """Return three groupings of the scores, [n] each: by rater, by item, and each score alone."""
        return self.rater, self.item, np.arange(len(self.item))

    @cached_property
    def _score_strata(self) -> Integers:
        """Return the stratum of each score, [n]."""
        return np.zeros(len(self.item), dtype=np.int64) if self.stratum is None else self.stratum

    @cached_property
    def _degrees_of_freedom(self) -> Floats:
        """Return the degrees of freedom of the sums of squares of raters, items and single scores.

        Raters with unequal weights b count as (Σb²)²/Σb⁴ raters.
        """
        items = int(self.item.max()) + 1
        strata = int(self._score_strata.max()) + 1
        squares = self.rater_weights**2
        effective_raters = squares.sum() ** 2 / (squares**2).sum()
        residual = len(self.item) - items - self.rater_count + 1
        return np.array([effective_raters - 1, items - strata, residual])

    @property
    def _is_crossed(self) -> bool:
        """Return whether raters share enough items to separate the effect of a rater from the residual."""
        return bool(self._degrees_of_freedom[2] >= self.rater_count - 1)

    def estimate_mean(self, scores: Floats) -> TwoWayMean:
        """Return the weighted mean of scores, [n], with the error."""
        deviations = scores - self._average_by_stratum(scores)
        sums = [np.bincount(group, weights=self.weight * deviations) for group in self._score_groupings]
        squares = np.array([(total**2).sum() for total in sums])
        if self._is_crossed:
            estimates = self._estimate_two_way_variance(squares)
        else:
            estimates = self._estimate_clustered_variance(deviations, squares)
        return TwoWayMean(float(scores @ self.weight), *estimates)

    def _average_by_stratum(self, scores: Floats) -> Floats:
        """Return the weighted mean of each score's stratum, [n]."""
        totals = np.bincount(self._score_strata, weights=self.weight * scores)
        weights = np.bincount(self._score_strata, weights=self.weight)
        means = totals / weights
        return means[self._score_strata]

    def _estimate_two_way_variance(self, squares: Floats) -> tuple[float, float, float]:
        """Return the variance of the mean, its degrees of freedom, and the variance between raters."""
        expected, target = self._compute_expected_squares()
        # Satterthwaite's formula needs independent sums of squares. The other two sums contain parts of the
        # last sum, so these parts are moved to them. In a full table this is the analysis of variance.
        shared = np.linalg.solve(expected[:-1, :-1].T, expected[-1, :-1])
        factors = np.linalg.solve(expected.T, target)
        of_raters_and_items = (factors[:-1] + factors[-1] * shared) * squares[:-1]
        residual = squares[-1] - squares[:-1] @ shared
        parts = np.append(of_raters_and_items, factors[-1] * residual)
        variance = max(0.0, float(parts.sum()))
        spread = float((parts**2 / self._degrees_of_freedom).sum())
        df = max(1.0, variance**2 / spread) if spread > 0 else 1.0
        return variance, df, float(np.linalg.solve(expected, squares)[0])

    def _estimate_clustered_variance(self, deviations: Floats, squares: Floats) -> tuple[float, float, float]:
        """Return the same figures as `_estimate_two_way_variance`, for raters who share hardly any items.

        Args:
            deviations: The scores minus the mean of their stratum, [n].
            squares: The sums of squares of raters, items and single scores, [3].
        """
        rater_weights = self.rater_weights
        means = np.bincount(self.rater, weights=self.weight * deviations) / rater_weights
        residuals = deviations - means[self.rater]
        residual = float((residuals**2).sum()) / max(1, len(deviations) - self.rater_count)
        # The variance of each rater's mean, without the variance between raters.
        noise = residual * np.bincount(self.rater, weights=self.weight**2) / rater_weights**2

        def compute_excess_squares(between: float) -> float:
            """Return Paule and Mandel's sum of squares minus its expectation."""
            precision = 1 / (between + noise)
            center = precision @ means / precision.sum()
            return float(precision @ (means - center) ** 2) - (self.rater_count - 1)

        between = 0.0
        if residual > 0 and compute_excess_squares(0.0) > 0:
            upper = float((means**2).sum()) + noise.sum()
            between = float(optimize.brentq(compute_excess_squares, 0.0, upper))
        counts = np.array([int(self.item.max()) + 1, len(deviations)])
        items, single_scores = squares[1:] * counts / np.maximum(1, counts - 1)
        over_raters = float(rater_weights**2 @ (between + noise))
        variance = max(0.0, over_raters + float(items - single_scores))
        precision = 1 / (between + noise) if residual > 0 else np.ones(self.rater_count)
        slope = float(precision.sum() - (precision**2).sum() / precision.sum())
        spread = float((rater_weights**2).sum()) ** 2 * (self.rater_count - 1) / slope**2
        largest_df = max(1.0, self._degrees_of_freedom[1])
        df = min(max(1.0, variance**2 / spread), largest_df)
        return variance, df, between

    def _compute_expected_squares(self) -> tuple[Floats, Floats]:
        """Return the coefficients of the variances in E[sums of squares], [3, 3], and in Var(Σ w y), [3].

        Rows and columns are rater, item, score. Each sum of squares adds the squares of linear forms v'y. A
        form is Σ w (y − mean of the stratum) over one rater, item or score, and
        E(v'y)² = Σ σ² |v summed by rater, item, score|². The summed forms are C − Xᵀ M. C are the weights by
        both groupings, X the weights of the first grouping in each stratum, and M the mean weights of the
        second grouping in each stratum.
        """
        parts = [self._sum_weights_by_groups(self._score_strata, group) for group in self._score_groupings]
        total = np.bincount(self._score_strata, weights=self.weight)[:, None]
        expected = np.empty((3, 3))
        for row, weights in enumerate(parts):
            for column, other in enumerate(parts):
                together = self._sum_weights_by_groups(
                    self._score_groupings[row], self._score_groupings[column]
                )
                means = other / total
                # |C − Xᵀ M|² = |C|² + |Xᵀ M|² − 2 ⟨C, Xᵀ M⟩
                of_weights = (together**2).sum()
                of_means = ((weights @ weights.T) * (means @ means.T)).sum()
                of_both = ((weights @ together) * means).sum()
                expected[row, column] = of_weights + of_means - 2 * of_both
        of_mean = np.array([(weights.sum(axis=0) ** 2).sum() for weights in parts])
        return expected, of_mean

    def _sum_weights_by_groups(self, first: Integers, second: Integers) -> csr_array:
        """Sum the weights by two groupings, [first, second]."""
        return csr_array((self.weight, (first, second)))
