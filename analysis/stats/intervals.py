"""Intervals: of a proportion (Wilson, Clopper–Pearson), and of a mean over items rated several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate between its limits; `None` where the data determine none, and then a warning says why.

    Attributes:
        estimate: The point estimate.
        low: The lower limit.
        high: The upper limit.
        level: The confidence level, such as 0.95.
        n: How many independent units it rests on.
        method: The method and its settings, in words.
        warnings: What a reader must know before using it.
    """

    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    method: str
    warnings: tuple[str, ...] = ()


def _check_counts(successes: int, n: int, level: float) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n, and {successes} of {n} do not")
    check_level(level)


def check_level(level: float) -> None:
    """Raise ValueError unless `level` lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1; {level} does not")


def _none_of_nothing(level: float, method: str) -> Interval:
    return Interval(
        estimate=None,
        low=None,
        high=None,
        level=level,
        n=0,
        method=method,
        warnings=("there are no observations",),
    )


def wilson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a proportion (Wilson 1927), for `n` independent trials.

    >>> interval = wilson(5, 10)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.2366, 0.7634)
    """
    _check_counts(successes, n, level)
    method = "Wilson score interval"
    if n == 0:
        return _none_of_nothing(level, method)
    z = float(special.ndtri(0.5 + level / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the limit is 0 or 1 exactly; rounding must not push it past.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(estimate=share, low=low, high=high, level=level, n=n, method=method)


def clopper_pearson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the exact interval of a proportion (Clopper & Pearson 1934), for `n` independent trials.

    >>> interval = clopper_pearson(0, 10)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.3085)
    """
    _check_counts(successes, n, level)
    method = "Clopper–Pearson exact interval"
    if n == 0:
        return _none_of_nothing(level, method)
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(special.betaincinv(successes + 1, n - successes, 1 - tail))
    return Interval(estimate=successes / n, low=low, high=high, level=level, n=n, method=method)


ITEM_T = "item-cluster t interval, stratified by dataset"
PROMPT_T = "prompt-cluster t interval, stratified by dataset"


def item_mean(
    means: ArrayLike,
    strata: Sequence[str],
    *,
    clusters: NDArray[np.integer] | None = None,
    level: float = 0.95,
) -> Interval:
    """Return the mean of item means, with a t interval whose unit is the item, or the cluster of items.

    Every item weighs the same, so a stratum weighs by its items. The variance is Σ_h (n_h/n)² s_h²/n_h and
    its degrees of freedom are Satterthwaite's. Ratings of one item may depend on each other in any way, and
    so may items of one cluster: their variance is Bell and McCaffrey's (2002), CR2, with their degrees of
    freedom. Both are the same where every cluster has one item.

    Args:
        means: One mean per item, shape [n], each between 0 and 1.
        strata: The item's stratum (its dataset), n of them.
        clusters: The item's cluster (its prompt), [n], each within one stratum; `None` where items are alone.
        level: The confidence level.
    """
    check_level(level)
    values = np.asarray(means, dtype=float)
    if values.ndim != 1 or len(values) != len(strata):
        raise ValueError(f"one stratum per item: {values.shape} means, {len(strata)} strata")
    n = len(values)
    if n == 0:
        return _none_of_nothing(level, ITEM_T)
    estimate = float(values.mean())
    if n == 1:
        why = "there is only one item, and its spread cannot be told"
        return Interval(
            estimate=estimate, low=None, high=None, level=level, n=1, method=ITEM_T, warnings=(why,)
        )
    if clusters is not None:
        return _of_clusters(values, strata, clusters, level=level)
    groups, warnings = _groups(values, strata)
    # s_h²/n_h times (n_h/n)², and its share of the degrees of freedom.
    variances = [len(group) * float(group.var(ddof=1)) / n**2 for group in groups]
    variance = math.fsum(variances)
    if variance <= 1e-30:
        why = "every item has the same mean: a t interval would have no width, so none is given"
        return Interval(
            estimate=estimate, low=None, high=None, level=level, n=n, method=ITEM_T, warnings=(*warnings, why)
        )
    freedom = variance**2 / math.fsum(v**2 / (len(g) - 1) for v, g in zip(variances, groups, strict=True))
    whole = Interval(
        estimate=estimate, low=None, high=None, level=level, n=n, method=ITEM_T, warnings=warnings
    )
    return _within(whole, variance, freedom, "items")


def _within(whole: Interval, variance: float, freedom: float, units: str) -> Interval:
    """Return an estimate of a share with its t limits, cut at 0 and 1."""
    estimate = whole.estimate or 0.0
    half = float(special.stdtrit(freedom, 0.5 + whole.level / 2)) * math.sqrt(variance)
    low, high = estimate - half, estimate + half
    warnings = whole.warnings
    if low < 0 or high > 1:
        warnings = (*warnings, f"the interval was cut at 0 or 1; with so few {units} it is rough")
    return replace(whole, low=max(0.0, low), high=min(1.0, high), warnings=warnings)


def _of_clusters(
    values: NDArray[np.float64], strata: Sequence[str], clusters: NDArray[np.integer], *, level: float
) -> Interval:
    """Return the mean of items with a t interval over their clusters."""
    names, stratum = np.unique(np.asarray(strata, dtype=str), return_inverse=True)
    _, first, place = np.unique(clusters, return_index=True, return_inverse=True)
    n = len(values)
    whole = Interval(
        estimate=float(values.mean()), low=None, high=None, level=level, n=len(first), method=PROMPT_T
    )
    if len(first) == 1:
        return replace(whole, warnings=("there is only one prompt, and its spread cannot be told",))
    of = stratum[first]
    if len(names) > 1 and np.bincount(of).min() < 2:
        of, stratum = np.zeros_like(of), np.zeros_like(stratum)
        why = "a dataset has only one prompt, so the interval ignores the datasets (which widens it)"
        whole = replace(whole, warnings=(why,))
    means = np.bincount(stratum, weights=values) / np.bincount(stratum)
    sums = np.bincount(place, weights=values - means[stratum])
    weights = np.bincount(place) / np.bincount(stratum)[of]
    # Of equal and independent items Σ over clusters has the expectation of the variance (CR2).
    parts = np.bincount(of, weights=sums**2 / (1 - weights)) / n**2
    lever = weights**2 / (1 - weights)
    freedoms = 1 / (np.bincount(of, weights=weights**2 - lever**2) + np.bincount(of, weights=lever) ** 2)
    variance = float(parts.sum())
    if variance <= 1e-30:
        why = "every prompt has the same mean: a t interval would have no width, so none is given"
        return replace(whole, warnings=(*whole.warnings, why))
    return _within(whole, variance, variance**2 / float((parts**2 / freedoms).sum()), "prompts")


def _groups(
    values: NDArray[np.float64], strata: Sequence[str]
) -> tuple[list[NDArray[np.float64]], tuple[str, ...]]:
    """Split by stratum; where a stratum has one item its variance is unknown, and strata are ignored."""
    labels = np.asarray(strata, dtype=object)
    groups = [values[labels == name] for name in sorted(set(strata))]
    if min(len(group) for group in groups) >= 2:
        return groups, ()
    if len(groups) == 1:
        return groups, ()
    return [values], ("a dataset has only one item, so the interval ignores the datasets (which widens it)",)
