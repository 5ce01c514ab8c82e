"""Measure the agreement of raters: raw agreement, Cohen's κ, Fleiss' κ, Krippendorff's α, Gwet's AC1, ICC(1).

Verdicts are counts of an item's ratings in each category, [items, categories]. Errors are over independent
units. The argument `unit` gives the unit of each item, [items]; without it every item is a unit.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from guard_eval.estimate import ROUNDING, Estimate, Floats, Statistic, jackknife, sum_columns_by_unit

FEWEST_OFF = 5
"""An interval needs at least this number of items with a verdict other than the most frequent verdict.

In simulated studies with nearly all ties, 95 % intervals from fewer items had a coverage as low as .13.
"""
FEW_OFF = (
    f"fewer than {FEWEST_OFF} items have a verdict other than the most frequent one, so no interval is given"
)
IMPOSSIBLE = "too few items were rated twice, so the coefficient would be below −1"
NOT_PAIRED = "no item was rated twice"
SAME = "all verdicts are the same, so agreement beyond chance is undefined"


def raw_agreement(counts: ArrayLike) -> float | None:
    """Return the share of agreeing pairs of ratings, averaged over items with two or more ratings."""
    table = np.asarray(counts, dtype=float)
    paired = table[table.sum(axis=1) >= 2]
    return float(compute_agreement_by_item(paired).mean()) if len(paired) else None


def fleiss_kappa(counts: ArrayLike, unit: ArrayLike | None = None, *, level: float = 0.95) -> Estimate:
    """Estimate Fleiss' κ (Fleiss 1971).

    Items may have different numbers of ratings (Gwet 2014, ch. 2). An item with one rating counts for the
    shares of the categories, but not for agreement. If all verdicts are the same, κ is undefined, and not 1.
    """
    return _estimate_chance_corrected_agreement(
        counts, unit, lambda shares: (shares**2).sum(axis=-1), level=level
    )


def gwet_ac1(
    counts: ArrayLike, unit: ArrayLike | None = None, *, categories: int | None = None, level: float = 0.95
) -> Estimate:
    """Estimate Gwet's AC1 (Gwet 2008): chance agreement is Σ p(1 − p) / (q − 1) for q categories.

    If all verdicts are the same, AC1 is 1, because chance agreement is then 0.

    Args:
        counts: How often each category was chosen for each item.
        unit: The unit of each item.
        categories: The number of choices that raters had; by default the columns of `counts`.
        level: The confidence level.
    """
    q = categories or np.shape(counts)[1]

    def compute_chance_agreement(shares: Floats) -> Floats:
        return np.asarray((shares * (1 - shares)).sum(axis=-1) / (q - 1))

    estimate = _estimate_chance_corrected_agreement(counts, unit, compute_chance_agreement, level=level)
    return replace(estimate, value=1.0) if estimate.note == SAME else estimate


def _estimate_chance_corrected_agreement(
    counts: ArrayLike,
    unit: ArrayLike | None,
    chance_agreement: Statistic,
    *,
    level: float,
) -> Estimate:
    """Estimate (raw agreement − chance agreement) / (1 − chance agreement), with a jackknife over units.

    `chance_agreement` computes the chance agreement from the shares of the categories.
    """
    table = np.asarray(counts, dtype=float)
    sizes = table.sum(axis=1)
    shares = table / sizes[:, None]
    columns = [np.ones(len(table)), sizes >= 2, compute_agreement_by_item(table), *shares.T]

    def compute_corrected_agreement(sums: Floats) -> Floats:
        items, paired, agreed = np.moveaxis(sums[..., :3], -1, 0)
        mean_shares = sums[..., 3:] / items[..., None]
        return _compute_agreement_beyond_chance(agreed / paired, chance_agreement(mean_shares))

    return _estimate_agreement_coefficient(table, unit, columns, compute_corrected_agreement, level=level)


def _compute_agreement_beyond_chance(agreed: Floats, by_chance: Floats) -> Floats:
    """Return the agreement beyond chance, divided by the largest possible agreement beyond chance."""
    return (agreed - by_chance) / (1 - by_chance)


def compute_agreement_by_item(counts: Floats) -> Floats:
    """Return the share of agreeing pairs of ratings for each item; 0 for an item with one rating."""
    sizes = counts.sum(axis=1)
    alike = (counts * (counts - 1)).sum(axis=1)
    return np.asarray(alike / np.maximum(1, sizes * (sizes - 1)))


def krippendorff_alpha(counts: ArrayLike, unit: ArrayLike | None = None, *, level: float = 0.95) -> Estimate:
    """Estimate Krippendorff's ordinal α (Krippendorff 2019, ch. 12).

    By definition, α leaves out items with one rating. The distance between two categories is the squared
    distance between their mid-ranks among all other ratings.
    """
    table = np.asarray(counts, dtype=float)
    sizes = table.sum(axis=1)
    is_paired = sizes >= 2
    paired = table[is_paired]
    categories = table.shape[1]
    # A rating does not form a pair with itself.
    together = paired[:, :, None] * (paired[:, None, :] - np.eye(categories))
    others = sizes[is_paired] - 1
    coincidences = (together / others[:, None, None]).reshape(-1, categories**2)
    units = None if unit is None else np.asarray(unit)[is_paired]
    return _estimate_agreement_coefficient(
        paired,
        units,
        [*paired.T, *coincidences.T],
        _compute_ordinal_alpha,
        level=level,
    )


def _compute_ordinal_alpha(sums: Floats) -> Floats:
    """Compute α = 1 − (N − 1) Σ o δ / Σ n n δ from category totals and coincidences."""
    q = int(np.sqrt(sums.shape[-1]))  # q totals and q² coincidences
    totals = sums[..., :q]
    coincidences = sums[..., q:].reshape(*sums.shape[:-1], q, q)
    rank = totals.cumsum(axis=-1) - totals / 2
    distance = (rank[..., :, None] - rank[..., None, :]) ** 2
    observed = (coincidences * distance).sum(axis=(-1, -2))
    chance_agreement = totals[..., :, None] * totals[..., None, :]
    expected = (chance_agreement * distance).sum(axis=(-1, -2))
    n = totals.sum(axis=-1)
    return np.asarray(1 - (n - 1) * observed / expected)


def cohen_kappa(first: ArrayLike, second: ArrayLike, *, unit: ArrayLike, level: float = 0.95) -> Estimate:
    """Estimate Cohen's κ of two raters who chose category 0, 1 or 2 for each item (Cohen 1960)."""
    of_first = np.eye(3)[np.asarray(first)]
    of_second = np.eye(3)[np.asarray(second)]
    agreed = (of_first * of_second).sum(axis=1)

    def compute_kappa(sums: Floats) -> Floats:
        shares = sums[..., 1:] / sums[..., :1]
        by_chance = (shares[..., 1:4] * shares[..., 4:]).sum(axis=-1)
        return _compute_agreement_beyond_chance(shares[..., 0], by_chance)

    columns = [np.ones(len(agreed)), agreed, *of_first.T, *of_second.T]
    return _estimate_agreement_coefficient(of_first + of_second, unit, columns, compute_kappa, level=level)


def _estimate_agreement_coefficient(
    counts: Floats,
    unit: ArrayLike | None,
    columns: Sequence[ArrayLike],
    function: Statistic,
    *,
    level: float,
) -> Estimate:
    """Compute an agreement coefficient from the sums of the columns, with a jackknife interval.

    If the coefficient is undefined, a note gives the reason.
    """
    sizes = counts.sum(axis=1)
    if sizes.max(initial=0) < 2:
        return Estimate(level=level, note=NOT_PAIRED)
    if np.count_nonzero(counts.sum(axis=0)) == 1:
        return Estimate(level=level, note=SAME)
    items = np.arange(len(counts)) if unit is None else unit
    estimate = _jackknife_coefficient(items, columns, function, level=level)
    has_other_verdict = counts < sizes[:, None]
    if has_other_verdict.sum(axis=0).min() >= FEWEST_OFF:
        return estimate
    return replace(estimate, low=None, high=None, error=None, df=None).with_note(FEW_OFF)


def _jackknife_coefficient(
    unit: ArrayLike,
    columns: Sequence[ArrayLike],
    function: Statistic,
    *,
    level: float,
) -> Estimate:
    """Compute a coefficient from the sums of the columns; undefined if it is below −1, which is impossible.

    Items with one rating change the shares of the categories, but not the agreement. So a coefficient can be
    below −1 if raters agree less than by chance and nearly all items have one rating.
    """
    units = np.unique(unit, return_inverse=True)[1]
    sums = sum_columns_by_unit(units, *columns)
    estimate = jackknife(sums, function, level=level, bounds=(-1.0, 1.0))
    if estimate.value is not None and estimate.value < -1 - ROUNDING:
        return Estimate(level=level, note=IMPOSSIBLE)
    return estimate


def intraclass_correlation(
    item: ArrayLike, scores: ArrayLike, unit: ArrayLike, *, level: float = 0.95
) -> Estimate:
    """Estimate ICC(1), the correlation of two raters' scores of an item (Shrout and Fleiss 1979).

    Args:
        item: The item of each score, numbered from 0, [n].
        scores: The scores, [n].
        unit: The unit of each item, [items].
        level: The confidence level.
    """
    y = np.asarray(scores, dtype=float)
    size, total, squares = sum_columns_by_unit(np.asarray(item), np.ones(len(y)), y, y**2).T
    if size.max(initial=0) < 2:
        return Estimate(level=level, note=NOT_PAIRED)

    def compute_correlation(sums: Floats) -> Floats:
        items, n, total, squared_sizes, between, squares = np.moveaxis(sums, -1, 0)
        within = (squares - between) / (n - items)
        among = (between - total**2 / n) / (items - 1)
        raters = (n - squared_sizes / n) / (items - 1)
        return np.asarray((among - within) / (among + (raters - 1) * within))

    columns = (np.ones(len(size)), size, total, size**2, total**2 / size, squares)
    return _jackknife_coefficient(unit, columns, compute_correlation, level=level)
