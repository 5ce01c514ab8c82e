"""Intraclass correlation of scores, and what it makes of the number of ratings: the design effect."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.intervals import check_level
from analysis.stats.population import TwoWayDesign

Reals = NDArray[np.float64]
Numbers = NDArray[np.integer]

_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True, slots=True)
class Intraclass:
    """How far scores of an item hang together, of raters who score −1, 0 or 1 or on any other scale.

    Attributes:
        one_way: ICC(1): the correlation of two ratings of an item by any raters.
        low: Its lower limit, by the jackknife over units.
        high: Its upper limit.
        agreement: ICC(2,1): the items' part of the variance of a rating, raters being a sample; `None` where
            raters share too few items to tell.
        consistency: ICC(3,1): the same with what raters differ by throughout taken out.
        kish: 1 + (m − 1) · ICC(1) with m the ratings that a rating's item has in the mean (Kish 1965): by how
            much the variance of a mean exceeds that of as many independent ratings.
        design_effect: The same as observed: the variance of the mean over units over that of independent
            ratings, whatever the reason.
        ratings: How many ratings there are; over the design effect it is how many independent ones they are
            worth.
        items: Items rated.
        level: The level of the limits.
        reason: Why ICC(1) is undefined, or empty.
    """

    one_way: float | None = None
    low: float | None = None
    high: float | None = None
    agreement: float | None = None
    consistency: float | None = None
    kish: float | None = None
    design_effect: float | None = None
    ratings: int
    items: int
    level: float
    reason: str = ""

    @property
    def worth(self) -> float | None:
        """Return how many independent ratings the mean of these is worth."""
        return None if not self.design_effect else self.ratings / self.design_effect


def intraclass(
    item: Numbers,
    rater: Numbers,
    scores: ArrayLike,
    *,
    clusters: Numbers | None = None,
    level: float = 0.95,
) -> Intraclass:
    """Return intraclass correlations (Shrout and Fleiss 1979) of any table of who rated what.

    ICC(1) is that of the one-way analysis of variance, with n₀ = (N − Σm²/N)/(n − 1) ratings an item where
    their numbers m differ (Donner 1986). The two-way ones come from the variances of `TwoWayDesign`; of a
    full table they are the analysis of variance's.

    Args:
        item: Each rating's item, a number ≥ 0, [ratings].
        rater: Its rater, from 0.
        scores: Its score.
        clusters: Its cluster (its prompt), the same for all ratings of an item; `None` where items are alone.
        level: The confidence level.

    >>> shrout_fleiss = [9, 2, 5, 8, 6, 1, 3, 2, 8, 4, 6, 8, 7, 1, 2, 6, 10, 5, 6, 9, 6, 2, 4, 7]
    >>> found = intraclass(*np.divmod(np.arange(24), 4), shrout_fleiss)
    >>> [round(value, 2) for value in (found.one_way, found.agreement, found.consistency)]
    [0.17, 0.29, 0.71]
    """
    check_level(level)
    y = np.asarray(scores, dtype=float)
    item, rater = _numbered(item), _numbered(rater)
    unit = item if clusters is None else _numbered(clusters)
    whole = Intraclass(ratings=len(y), items=int(item.max(initial=-1)) + 1, level=level)
    if whole.items < 2:
        return replace(whole, reason="there are fewer than two items")
    effect = _design_effect(y, unit)
    if whole.items == len(y):
        return replace(whole, design_effect=effect, reason="no item was rated twice")
    if float(np.ptp(y)) < _ROUNDING:
        return replace(whole, reason="all scores are the same")
    sums = _unit_sums(y, item, unit)
    total = sums.sum(axis=0)
    rho = float(_one_way(total[None])[0])
    low, high = _jackknifed(rho, _one_way(total - sums), level)
    agreement, consistency = _two_way(item, rater, y)
    each = float(total[3] / len(y))
    return replace(
        whole,
        one_way=rho,
        low=low,
        high=high,
        agreement=agreement,
        consistency=consistency,
        kish=1 + (each - 1) * rho,
        design_effect=effect,
    )


def _numbered(codes: Numbers) -> Numbers:
    """Return codes without gaps, from 0; themselves where they are so."""
    codes = np.asarray(codes)
    if len(codes) and int(codes.max()) < len(codes) and np.bincount(codes).all():
        return codes
    return np.unique(codes, return_inverse=True)[1]


def _unit_sums(y: Reals, item: Numbers, unit: Numbers) -> Reals:
    """Return each unit's items, ratings, Σy, Σm², Σ(Σy)²/m over items and Σy², [units, 6]."""
    m, sums = np.bincount(item), np.bincount(item, weights=y)
    of = np.zeros(len(m), dtype=np.int64)
    of[item] = unit
    columns = (np.ones(len(m)), m, sums, m.astype(float) ** 2, sums**2 / m, np.bincount(item, weights=y**2))
    return np.stack([np.bincount(of, weights=column) for column in columns], axis=1)


def _one_way(sums: Reals) -> Reals:
    """Return ICC(1) of sums over items as `_unit_sums` makes them, [..., 6]; NaN where there is none."""
    items, ratings, total, squares, between, every = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        within = (every - between) / (ratings - items)
        among = (between - total**2 / ratings) / (items - 1)
        size = (ratings - squares / ratings) / (items - 1)
        rho: Reals = (among - within) / (among + (size - 1) * within)
    return rho


def _jackknifed(value: float, others: Reals, level: float) -> tuple[float | None, float | None]:
    """Return a t interval from the values without each unit."""
    n = len(others)
    if n < 2 or not np.isfinite(others).all():
        return None, None
    error = math.sqrt((n - 1) / n * float(((others - others.mean()) ** 2).sum()))
    if error < _ROUNDING:
        return None, None
    half = float(special.stdtrit(n - 1, 0.5 + level / 2)) * error
    return max(-1.0, value - half), min(1.0, value + half)


def _two_way(item: Numbers, rater: Numbers, y: Reals) -> tuple[float | None, float | None]:
    if int(rater.max()) < 1:
        return None, None
    found = TwoWayDesign(item, rater, np.full(len(y), 1 / len(y))).components(y)
    if found is None:
        return None, None
    of_rater, of_item, rest = found
    both, own = of_rater + of_item + rest, of_item + rest
    return (of_item / both if both > _ROUNDING else None, of_item / own if own > _ROUNDING else None)


def _design_effect(y: Reals, unit: Numbers) -> float | None:
    """Return the variance of the mean over units, over that of as many independent ratings."""
    units, n = int(unit.max()) + 1, len(y)
    off = y - y.mean()
    alone = float(off @ off) / (n - 1)
    if units < 2 or alone < _ROUNDING:
        return None
    sums = np.bincount(unit, weights=off)
    return float(sums @ sums) * units / (units - 1) / n / alone
