"""How far raters agree: raw agreement, Cohen's κ, Fleiss' κ, Krippendorff's α, Gwet's AC1 and ICC(1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval.estimate import Estimate, Floats, jackknife, sum_by_unit

FEWEST_OFF = 5
"""The smallest number of items with a verdict other than the most frequent one, for an interval.

In simulated studies with nearly all ties, 95 % intervals from fewer such items covered as little as .13.
"""
FEW_OFF = (
    f"fewer than {FEWEST_OFF} items have a verdict other than the most frequent one, so no interval is given"
)
NOT_PAIRED = "no item was rated twice"
SAME = "all verdicts are the same, so agreement beyond chance is undefined"


@dataclass(frozen=True, slots=True, eq=False)
class RatingCounts:
    """The number of ratings of each item in each category.

    Attributes:
        counts: Ratings of each item in each category, [items, categories].
        unit: Each item's unit, from 0, [items].
    """

    counts: Floats
    unit: NDArray[np.int64]

    @classmethod
    def of(cls, counts: ArrayLike, unit: ArrayLike | None = None) -> RatingCounts:
        """Make counts. Each item is its own unit, unless `unit` is given."""
        table = np.asarray(counts, dtype=float)
        units = np.arange(len(table)) if unit is None else np.asarray(unit)
        _, unit_numbers = np.unique(units, return_inverse=True)
        return cls(table, unit_numbers)

    @property
    def sizes(self) -> Floats:
        """Return the number of ratings of each item."""
        return np.asarray(self.counts.sum(axis=1))

    def by_unit(self, *columns: ArrayLike) -> Floats:
        """Return the sums of columns over each unit, [units, columns]."""
        return sum_by_unit(self.unit, *columns)

    def rated_twice(self) -> RatingCounts:
        """Return the items with two or more ratings."""
        twice = self.sizes >= 2
        return RatingCounts.of(self.counts[twice], self.unit[twice])


def raw_agreement(ratings: RatingCounts) -> float | None:
    """Return the share of two ratings of an item that agree, averaged over items with two or more ratings."""
    counts = ratings.rated_twice().counts
    return float(agreeing(counts).mean()) if len(counts) else None


def fleiss_kappa(ratings: RatingCounts, *, level: float = 0.95) -> Estimate:
    """Estimate Fleiss' κ (Fleiss 1971).

    Items may have different numbers of ratings (Gwet 2014, ch. 2): an item with one
    rating counts for the categories' shares and not for agreement. κ is undefined, not 1, if all verdicts are
    the same.
    """
    return _chance_corrected(ratings, "Fleiss' κ", lambda shares: (shares**2).sum(axis=-1), level)


def gwet_ac1(ratings: RatingCounts, *, categories: int | None = None, level: float = 0.95) -> Estimate:
    """Estimate Gwet's AC1 (Gwet 2008): chance agreement is Σ p(1 − p) / (q − 1) for q categories.

    If all verdicts are the same, AC1 is 1, because chance agreement is then 0.

    Args:
        ratings: How often each category was chosen.
        categories: The number of choices that raters had; by default the columns of `ratings`.
        level: The confidence level.
    """
    q = categories or ratings.counts.shape[1]

    def by_chance(shares: Floats) -> Floats:
        return np.asarray((shares * (1 - shares)).sum(axis=-1) / (q - 1))

    estimate = _chance_corrected(ratings, f"Gwet's AC1, {q} categories", by_chance, level)
    return replace(estimate, value=1.0) if estimate.note == SAME else estimate


def _chance_corrected(
    ratings: RatingCounts, name: str, by_chance: Callable[[Floats], Floats], level: float
) -> Estimate:
    """Estimate (raw agreement − chance agreement) / (1 − chance agreement), with a jackknife over units.

    `by_chance` returns the chance agreement of the categories' shares.
    """
    counts = ratings.counts
    sizes = ratings.sizes
    shares = counts / sizes[:, None]
    items = np.ones(len(counts))
    is_paired = sizes >= 2
    sums = ratings.by_unit(items, is_paired, agreeing(counts), *shares.T)

    def function(sums: Floats) -> Floats:
        items, paired, agreed = np.moveaxis(sums[..., :3], -1, 0)
        mean_shares = sums[..., 3:] / items[..., None]
        return _beyond_chance(agreed / paired, by_chance(mean_shares))

    return _coefficient(ratings, sums, function, name, level)


def _beyond_chance(agreed: Floats, by_chance: Floats) -> Floats:
    """Return the agreement beyond chance, as a share of the largest possible one."""
    return np.asarray((agreed - by_chance) / (1 - by_chance))


def agreeing(counts: Floats) -> Floats:
    """Return the share of agreeing pairs of ratings of each item; 0 for an item with one rating."""
    sizes = counts.sum(axis=1)
    alike = (counts * (counts - 1)).sum(axis=1)
    return np.asarray(alike / np.maximum(1, sizes * (sizes - 1)))


def krippendorff_alpha(ratings: RatingCounts, *, level: float = 0.95) -> Estimate:
    """Estimate Krippendorff's ordinal α (Krippendorff 2019, ch. 12).

    By its definition α leaves out items with one rating. The distance of two categories is the squared
    distance of their mid-ranks among all other ratings.
    """
    paired = ratings.rated_twice()
    counts = paired.counts
    items, categories = counts.shape
    # A rating makes no pair with itself.
    with_itself = counts[:, :, None] * np.eye(categories)
    together = counts[:, :, None] * counts[:, None, :] - with_itself
    together /= np.maximum(1, paired.sizes - 1)[:, None, None]
    coincidences = together.reshape(items, categories**2)
    sums = paired.by_unit(*counts.T, *coincidences.T)
    return _coefficient(paired, sums, _ordinal_alpha, "Krippendorff's α, ordinal", level)


def _ordinal_alpha(sums: Floats) -> Floats:
    """Return α = 1 − (N − 1) Σ o δ / Σ n n δ from category totals and coincidences."""
    q = int(np.sqrt(sums.shape[-1]))  # q totals and q² coincidences
    totals = sums[..., :q]
    coincidences = sums[..., q:].reshape(*sums.shape[:-1], q, q)
    rank = totals.cumsum(axis=-1) - totals / 2
    difference = rank[..., :, None] - rank[..., None, :]
    distance = difference**2
    observed = (coincidences * distance).sum(axis=(-1, -2))
    by_chance = totals[..., :, None] * totals[..., None, :]
    expected = (by_chance * distance).sum(axis=(-1, -2))
    n = totals.sum(axis=-1)
    return np.asarray(1 - (n - 1) * observed / expected)


def cohen_kappa(first: ArrayLike, second: ArrayLike, *, unit: ArrayLike, level: float = 0.95) -> Estimate:
    """Estimate Cohen's κ of two raters who chose categories 0, 1 or 2 of each item (Cohen 1960)."""
    first_choices = np.eye(3)[np.asarray(first)]
    second_choices = np.eye(3)[np.asarray(second)]
    ratings = RatingCounts.of(first_choices + second_choices, unit)
    pairs = first_choices[:, :, None] * second_choices[:, None, :]
    cells = pairs.reshape(-1, 9)

    def function(sums: Floats) -> Floats:
        shares = sums / sums.sum(axis=-1, keepdims=True)
        table = shares.reshape(*sums.shape[:-1], 3, 3)
        agreed = np.trace(table, axis1=-1, axis2=-2)
        by_chance = table.sum(axis=-1) * table.sum(axis=-2)
        return _beyond_chance(agreed, by_chance.sum(axis=-1))

    return _coefficient(ratings, ratings.by_unit(*cells.T), function, "Cohen's κ", level)


def _coefficient(
    ratings: RatingCounts, sums: Floats, function: Callable[[Floats], Floats], name: str, level: float
) -> Estimate:
    """Return a coefficient with its jackknife interval. If there is none, a note gives the reason."""
    method = f"{name}, jackknife t interval over units"
    if not (ratings.sizes >= 2).any():
        return Estimate(level=level, method=method, note=NOT_PAIRED)
    is_used = ratings.counts.sum(axis=0) > 0
    if is_used.sum() == 1:
        return Estimate(level=level, method=method, note=SAME)
    estimate = jackknife(sums, function, level=level, bounds=(-1.0, 1.0))
    estimate = replace(estimate, method=method)
    has_other_verdict = ratings.counts < ratings.sizes[:, None]
    if has_other_verdict.sum(axis=0).min() >= FEWEST_OFF:
        return estimate
    return replace(estimate, low=None, high=None, error=None, df=None).with_note(FEW_OFF)


def intraclass(item: ArrayLike, scores: ArrayLike, unit: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Estimate ICC(1), the correlation of two raters' scores of an item (Shrout and Fleiss 1979).

    Args:
        item: Each score's item, from 0, [n].
        scores: The scores, [n].
        unit: Each item's unit, [items].
        level: The confidence level.
    """
    index = np.asarray(item, dtype=np.int64)
    y = np.asarray(scores, dtype=float)
    size, total, squares = sum_by_unit(index, np.ones(len(y)), y, y**2).T
    method = "ICC(1), jackknife t interval over units"
    if size.max(initial=0) < 2:
        return Estimate(level=level, method=method, note=NOT_PAIRED)

    def function(sums: Floats) -> Floats:
        items, n, total, squared_sizes, between, squares = np.moveaxis(sums, -1, 0)
        within = (squares - between) / (n - items)
        among = (between - total**2 / n) / (items - 1)
        raters = (n - squared_sizes / n) / (items - 1)
        return np.asarray((among - within) / (among + (raters - 1) * within))

    _, units = np.unique(unit, return_inverse=True)
    sums = sum_by_unit(units, np.ones(len(size)), size, total, size**2, total**2 / size, squares)
    estimate = jackknife(sums, function, level=level, bounds=(-1.0, 1.0))
    return replace(estimate, method=method)
