"""What a preference for a place does to a win share, and the share without it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.intervals import Interval, check_level, t_interval
from analysis.stats.significance import TestResult, t_test


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderAdjusted:
    """A win share with each order of the two texts weighing the same.

    Attributes:
        adjusted: The mean of the share when shown first and the share when shown second.
        effect: The first of these less the second: what the first place is worth.
        test: Of "the adjusted share is one half".
        first: Share when shown first; `None` where that was never so.
        second: Share when shown second; `None` likewise.
        both: Items seen in both orders.
    """

    adjusted: Interval
    effect: Interval
    test: TestResult
    first: float | None
    second: float | None
    both: int


METHOD = "mean over the two orders, item-cluster t interval"
BY_PROMPT = "mean over the two orders, prompt-cluster t interval"


def order_adjusted(
    when_first: ArrayLike,
    when_second: ArrayLike,
    *,
    clusters: NDArray[np.integer] | None = None,
    level: float = 0.95,
) -> OrderAdjusted:
    """Return the win share of a method as if it had been shown first half of the time.

    It is the intercept of a linear regression of the score on the place, coded ±½, whose errors may depend
    on each other within an item. An item seen in both orders is compared with itself. The variance of a mean
    over n items has n − 1 below it, and the degrees of freedom are those of the rarer order. Where items of a
    prompt depend on each other the unit is the prompt.

    Args:
        when_first: The method's mean score per item when shown first, 0 to 1, NaN where it was not; [items].
        when_second: The same when shown second, [items].
        clusters: The item's prompt, [items]; `None` where items are alone.
        level: The confidence level.
    """
    first, second = np.asarray(when_first, dtype=float), np.asarray(when_second, dtype=float)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"one score per item and order: shapes {first.shape} and {second.shape}")
    check_level(level)
    seen = ~np.isnan(first), ~np.isnan(second)
    place = np.arange(len(first)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    units = min(len(np.unique(place[one])) for one in seen)
    means = tuple(
        float(one[known].mean()) if known.any() else None
        for one, known in zip((first, second), seen, strict=True)
    )
    both = int((seen[0] & seen[1]).sum())
    whole = Interval(level=level, n=units, method=METHOD if clusters is None else BY_PROMPT)
    test = TestResult(n=units, method="t test of the order-adjusted share")
    found = OrderAdjusted(adjusted=whole, effect=whole, test=test, first=means[0], second=means[1], both=both)
    if means[0] is None or means[1] is None:
        why = ("the method never had one of the two places, so place and method cannot be separated",)
        whole = replace(whole, warnings=why)
        return replace(found, adjusted=whole, effect=whole, test=replace(test, warnings=why))
    one, other = _influence(first, means[0], place), _influence(second, means[1], place)
    adjusted = _interval(whole, (means[0] + means[1]) / 2, (one + other) / 2, lowest=0.0)
    effect = _interval(whole, means[0] - means[1], one - other, lowest=-1.0)
    test = replace(test, warnings=adjusted.warnings)
    if adjusted.low is not None and adjusted.estimate is not None:
        error = _error((one + other) / 2)
        test = t_test(adjusted.estimate - 0.5, error, units - 1, n=units, method=test.method)
    return replace(found, adjusted=adjusted, effect=effect, test=test)


def _influence(scores: NDArray[np.float64], mean: float, place: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return what each unit adds to the error of the mean, so that the squares sum to its variance."""
    seen = ~np.isnan(scores)
    n, units = int(seen.sum()), len(np.unique(place[seen]))
    scale = math.sqrt(n * max(1, n - 1)) if units == n else n * math.sqrt(max(1, units - 1) / units)
    parts = np.where(seen, scores - mean, 0.0) / scale
    return np.bincount(place, weights=parts, minlength=int(place.max()) + 1).astype(float)


def _error(influence: NDArray[np.float64]) -> float:
    return math.sqrt(float(influence @ influence))


def _interval(whole: Interval, estimate: float, influence: NDArray[np.float64], *, lowest: float) -> Interval:
    whole, unit = replace(whole, estimate=estimate), "prompt" if whole.method == BY_PROMPT else "item"
    error = _error(influence)
    if whole.n < 2:
        return replace(whole, warnings=(f"one of the orders was seen on one {unit} only",))
    if error < 1e-15:
        return replace(whole, warnings=(f"{unit}s do not differ: an interval would have no width",))
    return t_interval(whole, error, whole.n - 1, lowest=lowest, highest=1.0)
