"""What a preference for a place does to a win share, and the share without it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.intervals import Interval
from analysis.stats.significance import TestResult


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
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1; {level} does not")
    there, here = ~np.isnan(first), ~np.isnan(second)
    place = np.arange(len(first)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    counts = len(np.unique(place[there])), len(np.unique(place[here]))
    means = tuple(
        float(one[seen].mean()) if seen.any() else None for one, seen in ((first, there), (second, here))
    )
    method = METHOD if clusters is None else BY_PROMPT
    nothing = Interval(estimate=None, low=None, high=None, level=level, n=min(counts), method=method)
    no_test = TestResult(
        p_value=None, statistic=0.0, n=min(counts), method="t test of the order-adjusted share"
    )
    both = int((there & here).sum())
    if means[0] is None or means[1] is None:
        why = ("the method never had one of the two places, so place and method cannot be told apart",)
        empty = replace(nothing, warnings=why)
        return OrderAdjusted(
            adjusted=empty,
            effect=empty,
            test=replace(no_test, warnings=why),
            first=means[0],
            second=means[1],
            both=both,
        )
    parts = _influence(first, means[0], place), _influence(second, means[1], place)
    adjusted = _interval(nothing, (means[0] + means[1]) / 2, (parts[0] + parts[1]) / 2, counts, lowest=0.0)
    effect = _interval(nothing, means[0] - means[1], parts[0] - parts[1], counts, lowest=-1.0)
    return OrderAdjusted(
        adjusted=adjusted,
        effect=effect,
        test=_test(no_test, adjusted, (parts[0] + parts[1]) / 2, counts),
        first=means[0],
        second=means[1],
        both=both,
    )


def _influence(scores: NDArray[np.float64], mean: float, place: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return what each unit adds to the error of the mean, so that the squares sum to its variance."""
    seen = ~np.isnan(scores)
    n, units = int(seen.sum()), len(np.unique(place[seen]))
    scale = math.sqrt(n * max(1, n - 1)) if units == n else n * math.sqrt(max(1, units - 1) / units)
    parts = np.where(seen, scores - mean, 0.0) / scale
    sums: NDArray[np.float64] = np.bincount(place, weights=parts, minlength=int(place.max()) + 1).astype(
        float
    )
    return sums


def _error(influence: NDArray[np.float64]) -> float:
    return math.sqrt(float(influence @ influence))


def _interval(
    nothing: Interval,
    estimate: float,
    influence: NDArray[np.float64],
    counts: tuple[int, int],
    *,
    lowest: float,
) -> Interval:
    whole, unit = replace(nothing, estimate=estimate), "prompt" if nothing.method == BY_PROMPT else "item"
    error = _error(influence)
    if min(counts) < 2:
        return replace(whole, warnings=(f"one of the orders was seen on one {unit} only",))
    if error < 1e-15:
        return replace(whole, warnings=(f"{unit}s do not differ: an interval would have no width",))
    half = float(special.stdtrit(min(counts) - 1, 0.5 + nothing.level / 2)) * error
    return replace(whole, low=max(lowest, estimate - half), high=min(1.0, estimate + half))


def _test(
    no_test: TestResult, adjusted: Interval, influence: NDArray[np.float64], counts: tuple[int, int]
) -> TestResult:
    if adjusted.low is None or adjusted.estimate is None:
        return replace(no_test, warnings=adjusted.warnings)
    t = (adjusted.estimate - 0.5) / _error(influence)
    return replace(no_test, p_value=2 * float(special.stdtr(min(counts) - 1, -abs(t))), statistic=t)
