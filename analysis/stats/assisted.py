"""Estimate people's mean score if people scored a random part of the items and a judge scored all items.

The method is prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023) with tuning
(PPI++: Angelopoulos, Duchi and Zrnic 2023). For a mean, this is the regression estimator of double sampling
(Cochran 1977, chapter 12): people's mean on the part, plus λ times (the judge's mean on all items − the
judge's mean on the part).
"""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from guard_eval.estimate import Estimate, Floats, Integers, jackknife, sum_columns_by_unit

METHOD = "prediction-powered t interval (PPI++), stratified by dataset"
PRIOR_UNITS = 2
"""The variance of an assisted mean is computed as if this number of further units had people's scores alone.

A few units cannot show that a judge is right on all other units. Agresti and Coull add two successes and two
failures to the interval of a proportion for a similar reason.
"""


class AssistedShare(NamedTuple):
    """People's mean, assisted by a judge.

    Attributes:
        share: The assisted mean with its t interval and the test that it is one half.
        weight: λ, the factor of the difference between the judge's means on all items and on people's items,
            0 or more; None without an estimate.
        correlation: Pearson's r of people's and the judge's scores of an item within datasets, or None.
        effective: The number of items that people alone would need for the same variance, or None.
    """

    share: Estimate
    weight: float | None = None
    correlation: float | None = None
    effective: float | None = None


def count_effective_items(rated: int, judged: int, correlation: float) -> float:
    """Return the number of items that people alone would need for the same precision, with the best λ.

    It is n / (1 − r² (1 − n/N)) for n rated of N judged items.

    >>> count_effective_items(150, 1000, 0.6)
    216.13832853025937
    """
    return rated / (1 - correlation**2 * (1 - rated / judged))


def estimate_assisted_share(
    people: ArrayLike, judge: ArrayLike, strata: ArrayLike, unit: ArrayLike, *, level: float = 0.95
) -> AssistedShare:
    """Estimate people's mean over all items that the judge scored. Each stratum is weighted by these items.

    Within each stratum, people's items must be a random sample of the judge's items. Then errors of the judge
    cause no bias. λ is the slope of people's scores on the judge's scores within strata, at least 0, and only
    affects the width of the interval. λ is above 1 if the judge's scores vary less than people's scores. The
    jackknife computes λ again without each unit, so the interval includes the error of λ. `PRIOR_UNITS` more
    units count with the variance of people alone.

    Args:
        people: People's score of each item, [N], between 0 and 1; NaN if people did not score the item.
        judge: The judge's score of each item, [N], between 0 and 1.
        strata: The stratum (dataset) of each item, numbered from 0, [N].
        unit: The unit of each item, numbered from 0, [N]. A unit lies within one stratum.
        level: The confidence level.
    """
    scores = np.asarray(people, dtype=float)
    predictions = np.asarray(judge, dtype=float)
    is_rated = ~np.isnan(scores)
    stratum = np.asarray(strata, dtype=np.int64)
    _, first, index = np.unique(unit, return_index=True, return_inverse=True)
    stratum_of = stratum[first]
    is_unrated = np.ones_like(stratum_of)
    is_unrated[index[is_rated]] = 0
    note = ""
    rated_units = np.bincount(stratum_of, weights=1 - is_unrated)
    if rated_units.min() < 2 and stratum.any():
        stratum = np.zeros_like(stratum)
        stratum_of = np.zeros_like(stratum_of)
        note = "people scored fewer than two units of a dataset, so the interval ignores the datasets"
    # Rated and unrated units are two samples, so the jackknife runs within each.
    groups = 2 * stratum_of + is_unrated
    _, sizes = np.unique(groups, return_counts=True)
    if sizes.min() < 2:
        groups = is_unrated if is_unrated.sum() > 1 else np.zeros_like(groups)
    sums = _sum_by_unit_and_stratum(scores, predictions, stratum, index)
    weights = np.bincount(stratum) / len(stratum)
    alone, share = (
        jackknife(
            sums,
            partial(_estimate_mean_of_people, weights=weights, is_tuned=is_tuned),
            strata=groups,
            level=level,
            null=0.5,
            bounds=(0.0, 1.0),
        )
        for is_tuned in (False, True)
    )
    n = int((is_unrated == 0).sum())
    rated = int(is_rated.sum())
    effective = None
    if is_rated.all():
        share = alone
    elif share.error is not None and share.df is not None and alone.error is not None:
        variance = (n * share.error**2 + PRIOR_UNITS * alone.error**2) / (n + PRIOR_UNITS)
        share = share.add_t_interval_and_test(
            math.sqrt(variance),
            share.df,
            null=0.5,
            bounds=(0.0, 1.0),
        )
        effective = rated * alone.error**2 / variance
    total = _Moments.from_sums(sums.sum(axis=0))
    return AssistedShare(
        share=replace(share, n=n, method=METHOD).with_note(note),
        weight=float(total.fit_slope(weights)),
        correlation=total.compute_correlation(weights),
        effective=effective,
    )


class _Moments(NamedTuple):
    """The moments of each stratum, `[..., strata]` each. Deviations are over the items that people scored.

    Attributes:
        rated: The number of items that people scored.
        judged: The number of all items.
        people: People's mean score.
        gap: The judge's mean on all items minus the judge's mean on the items that people scored.
        judge_squares: The sum of squared deviations of the judge's scores.
        products: The sum of products of the deviations of both scores.
        people_squares: The sum of squared deviations of people's scores.
    """

    rated: Floats
    judged: Floats
    people: Floats
    gap: Floats
    judge_squares: Floats
    products: Floats
    people_squares: Floats

    @classmethod
    def from_sums(cls, sums: Floats) -> Self:
        """Compute the moments from sums, `[..., strata · 8]` (`_sum_by_unit_and_stratum`)."""
        by_stratum = sums.reshape(*sums.shape[:-1], -1, 8)
        n, y, f, ff, yf, yy, total, f_on_all = np.moveaxis(by_stratum, -1, 0)
        deviations = (ff - f * f / n, yf - y * f / n, yy - y * y / n)
        return cls(n, total, y / n, f_on_all / total - f / n, *deviations)

    def _weigh_strata(self, weights: Floats) -> Floats:
        """Return the weight of each stratum in the variance that λ minimises."""
        spread = 1 / self.rated - 1 / self.judged
        return weights**2 * spread / np.maximum(1, self.rated - 1)

    def fit_slope(self, weights: Floats) -> Floats:
        """Return λ, the slope with the smallest variance: at least 0, and 0 if the judge is constant."""
        worth = self._weigh_strata(weights)
        top = (worth * self.products).sum(axis=-1)
        bottom = (worth * self.judge_squares).sum(axis=-1)
        varies = bottom > 1e-15
        slope = top / np.where(varies, bottom, 1.0)
        return np.where(varies, np.maximum(0.0, slope), 0.0)

    def compute_correlation(self, weights: Floats) -> float | None:
        """Return Pearson's r of people's and the judge's scores within strata."""
        is_part = bool((self.rated < self.judged).any())
        worth = self._weigh_strata(weights) if is_part else np.ones_like(self.rated)
        variances = (worth * self.judge_squares).sum() * (worth * self.people_squares).sum()
        spread = math.sqrt(float(variances))
        return float((worth * self.products).sum()) / spread if spread > 1e-12 else None


def _sum_by_unit_and_stratum(
    scores: Floats,
    predictions: Floats,
    stratum: Integers,
    unit: Integers,
) -> Floats:
    """Return the sums by unit, [units, strata · 8]: n, Σy, Σf, Σf², Σyf, Σy², N, and Σf over all items."""
    rated = ~np.isnan(scores)
    y = np.where(rated, scores, 0.0)
    f = np.where(rated, predictions, 0.0)
    columns = (rated, y, f, f * f, y * f, y * y, np.ones(len(y)), predictions)
    is_in_stratum = np.eye(int(stratum.max()) + 1)[stratum]
    by_stratum = is_in_stratum[:, :, None] * np.stack(columns, axis=-1)[:, None, :]
    return sum_columns_by_unit(unit, *by_stratum.reshape(len(y), -1).T)


def _estimate_mean_of_people(sums: Floats, *, weights: Floats, is_tuned: bool) -> Floats:
    """Return people's mean. If tuned, add λ times the gap of the judge's means (`_Moments`)."""
    moments = _Moments.from_sums(sums)
    slope = moments.fit_slope(weights)[..., None] if is_tuned else 0.0
    means = moments.people + slope * moments.gap
    return np.asarray((weights * means).sum(axis=-1))
