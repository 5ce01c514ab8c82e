"""Intervals: of a proportion (Wilson, Clopper–Pearson), and of a mean over items rated several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

NOTHING = "there are no observations"
ALONE = "there is only one {unit}, and its spread cannot be estimated"
_LONELY = "a dataset has only one {unit}, so the interval ignores the datasets (which widens it)"


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
        error: The standard error that a t interval rests on; `None` for other intervals.
        freedom: Its degrees of freedom.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    level: float
    n: int
    method: str
    warnings: tuple[str, ...] = ()
    error: float | None = None
    freedom: float | None = None


def check_level(level: float) -> None:
    """Raise ValueError unless `level` lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1; {level} does not")


def t_interval(
    whole: Interval,
    error: float,
    freedom: float,
    *,
    lowest: float = -math.inf,
    highest: float = math.inf,
    units: str = "",
) -> Interval:
    """Return an estimate with the limits of a t interval, cut at `lowest` and `highest`.

    Where `units` are named, a warning says that it was cut.
    """
    half, estimate = float(special.stdtrit(freedom, 0.5 + whole.level / 2)) * error, whole.estimate or 0.0
    low, high = max(lowest, estimate - half), min(highest, estimate + half)
    if units and (low > estimate - half or high < estimate + half):
        why = f"the interval was cut at 0 or 1; with so few {units} it is rough"
        whole = replace(whole, warnings=(*whole.warnings, why))
    return replace(whole, low=low, high=high, error=error, freedom=freedom)


def wilson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a proportion (Wilson 1927), for `n` independent trials.

    >>> interval = wilson(5, 10)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.2366, 0.7634)
    """
    whole = _proportion(successes, n, level, "Wilson score interval")
    return whole if whole.estimate is None else _score_limits(whole, whole.estimate, n)


def _score_limits(whole: Interval, share: float, n: float) -> Interval:
    """Return a share with Wilson's limits for `n` independent trials, which need not be a whole number."""
    z = float(special.ndtri(0.5 + whole.level / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the limit is 0 or 1 exactly; rounding must not push it past.
    return replace(whole, low=0.0 if share == 0 else centre - half, high=1.0 if share == 1 else centre + half)


def unit_proportion(successes: ArrayLike, unit: NDArray[np.integer], *, level: float = 0.95) -> Interval:
    """Return the proportion of trials, those of a unit depending on each other in any way.

    Wilson's interval for the effective number of trials (Korn and Graubard 1998, who put it into Clopper and
    Pearson's): trials over the design effect, which is the variance of the proportion over units by that of
    independent trials and at least 1, and times (z/t)² for the t of so many units. Where all trials are the
    same a unit counts as one. With a trial a unit it is Wilson's own.

    Args:
        successes: Whether each trial is one, [n].
        unit: Each one's unit, [n].
        level: The confidence level.

    >>> found = unit_proportion([1, 1, 0, 0], np.array([0, 0, 1, 1]))  # two units
    >>> found.n, round(found.low, 3), round(found.high, 3)
    (2, 0.002, 0.998)
    """
    hits: NDArray[np.float64] = np.asarray(successes, dtype=float)
    _, place = np.unique(unit, return_inverse=True)
    trials, units = len(hits), int(place.max(initial=-1)) + 1
    if units == trials:
        return wilson(int(hits.sum()), trials, level=level)
    check_level(level)
    share = float(hits.mean())
    method = "Wilson score interval for the effective number of trials, over units"
    whole = Interval(estimate=share, level=level, n=units, method=method)
    if units == 1:
        return replace(whole, warnings=(ALONE.format(unit="unit"),))
    off = np.bincount(place, weights=hits) - share * np.bincount(place)
    chance = share * (1 - share) * trials
    design = trials / units if chance == 0 else units / (units - 1) * float(np.sort(off**2).sum()) / chance
    narrow = special.ndtri(0.5 + level / 2) / special.stdtrit(units - 1, 0.5 + level / 2)
    return _score_limits(whole, share, trials / max(1.0, design) * float(narrow) ** 2)


def clopper_pearson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Return the exact interval of a proportion (Clopper & Pearson 1934), for `n` independent trials.

    >>> interval = clopper_pearson(0, 10)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.3085)
    """
    whole = _proportion(successes, n, level, "Clopper–Pearson exact interval")
    if n == 0:
        return whole
    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(special.betaincinv(successes + 1, n - successes, 1 - tail))
    return replace(whole, low=low, high=high)


def _proportion(successes: int, n: int, level: float, method: str) -> Interval:
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n, and {successes} of {n} do not")
    check_level(level)
    if n == 0:
        return Interval(level=level, n=0, method=method, warnings=(NOTHING,))
    return Interval(estimate=successes / n, level=level, n=n, method=method)


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
        return Interval(level=level, n=0, method=ITEM_T, warnings=(NOTHING,))
    whole = Interval(estimate=float(values.mean()), level=level, n=n, method=ITEM_T)
    if n == 1:
        return replace(whole, warnings=(ALONE.format(unit="item"),))
    if clusters is not None:
        return _of_clusters(whole, values, strata, clusters)
    groups, warnings = _groups(values, strata)
    # s_h²/n_h times (n_h/n)², and its share of the degrees of freedom.
    variances = [len(group) * float(group.var(ddof=1)) / n**2 for group in groups]
    shares = [v**2 / (len(group) - 1) for v, group in zip(variances, groups, strict=True)]
    return _within(replace(whole, warnings=warnings), math.fsum(variances), math.fsum(shares), "item")


def _within(whole: Interval, variance: float, spread: float, unit: str) -> Interval:
    """Return an estimate of a share with its t limits, cut at 0 and 1.

    `variance` is a sum over strata, and `spread` that of its squared terms over their degrees of freedom.
    """
    warnings = whole.warnings
    if variance <= 1e-30:
        why = f"every {unit} has the same mean: a t interval would have no width, so none is given"
        return replace(whole, warnings=(*warnings, why))
    return t_interval(
        whole, math.sqrt(variance), variance**2 / spread, lowest=0.0, highest=1.0, units=f"{unit}s"
    )


def _of_clusters(
    whole: Interval, values: NDArray[np.float64], strata: Sequence[str], clusters: NDArray[np.integer]
) -> Interval:
    """Return the mean of items with a t interval over their clusters."""
    names, stratum = np.unique(np.asarray(strata, dtype=str), return_inverse=True)
    _, first, place = np.unique(clusters, return_index=True, return_inverse=True)
    whole = replace(whole, n=len(first), method=PROMPT_T)
    if len(first) == 1:
        return replace(whole, warnings=(ALONE.format(unit="prompt"),))
    of = stratum[first]
    if len(names) > 1 and np.bincount(of).min() < 2:
        of, stratum = np.zeros_like(of), np.zeros_like(stratum)
        whole = replace(whole, warnings=(_LONELY.format(unit="prompt"),))
    means = np.bincount(stratum, weights=values) / np.bincount(stratum)
    sums = np.bincount(place, weights=values - means[stratum])
    weights = np.bincount(place) / np.bincount(stratum)[of]
    # Of equal and independent items Σ over clusters has the expectation of the variance (CR2).
    parts = np.bincount(of, weights=sums**2 / (1 - weights)) / len(values) ** 2
    lever = weights**2 / (1 - weights)
    freedoms = 1 / (np.bincount(of, weights=weights**2 - lever**2) + np.bincount(of, weights=lever) ** 2)
    return _within(whole, float(parts.sum()), float((parts**2 / freedoms).sum()), "prompt")


def _groups(
    values: NDArray[np.float64], strata: Sequence[str]
) -> tuple[list[NDArray[np.float64]], tuple[str, ...]]:
    """Split by stratum; where a stratum has one item its variance is unknown, and strata are ignored."""
    labels = np.asarray(strata, dtype=object)
    groups = [values[labels == name] for name in sorted(set(strata))]
    if len(groups) == 1 or min(map(len, groups)) >= 2:
        return groups, ()
    return [values], (_LONELY.format(unit="item"),)
