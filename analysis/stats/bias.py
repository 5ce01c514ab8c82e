"""What moves a win share beside quality: the text that came first, the longer text, and shares without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

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


ORDER_METHOD = "mean over the two orders, item-cluster t interval"
ORDER_BY_PROMPT = "mean over the two orders, prompt-cluster t interval"


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
    whole = Interval(level=level, n=units, method=ORDER_METHOD if clusters is None else ORDER_BY_PROMPT)
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
    whole, unit = replace(whole, estimate=estimate), "prompt" if whole.method == ORDER_BY_PROMPT else "item"
    error = _error(influence)
    if whole.n < 2:
        return replace(whole, warnings=(f"one of the orders was seen on one {unit} only",))
    if error < 1e-15:
        return replace(whole, warnings=(f"{unit}s do not differ: an interval would have no width",))
    return t_interval(whole, error, whole.n - 1, lowest=lowest, highest=1.0)


LENGTH_METHOD = "least squares on log₂ of the length ratio, within datasets, HC3 errors, t"
LENGTH_BY_PROMPT = "least squares on log₂ of the length ratio, within datasets, errors by prompt (CR3), t"
_NO_LEVERAGE = 1 - 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthFit:
    """How a win share goes with length.

    Attributes:
        adjusted: The share predicted where both texts are equally long.
        slope: By how much the share rises when the method's text becomes twice as long, beside the other's.
        slope_test: Of "length makes no difference".
        share_test: Of "the adjusted share is one half".
        correlation: Kendall's τ-b of share and length ratio; `None` where either is the same throughout.
    """

    adjusted: Interval
    slope: Interval
    slope_test: TestResult
    share_test: TestResult
    correlation: float | None


def length_adjusted(
    shares: ArrayLike,
    ratios: ArrayLike,
    strata: Sequence[str],
    *,
    clusters: NDArray[np.integer] | None = None,
    level: float = 0.95,
) -> LengthFit:
    """Return the win share at equal length, by a linear model of item means.

    share = α + β · log₂(ratio) + the dataset's effect, the effects summing to zero over items. α is the
    share where the ratio is 1. That is the idea of AlpacaEval's length-controlled win rate (Dubois et al.
    2024), which a logistic model with a tanh of the length difference predicts at a difference of zero. Here
    the ratio takes the place of the difference, so that no unit or scale enters, and the model is linear,
    so that β reads as a share. The unit is the item, so ratings of one item may depend on each other; errors
    are HC3 (MacKinnon and White 1985), with n − k degrees of freedom. Where items of a prompt depend on each
    other the unit is the prompt: errors are CR3 (Bell and McCaffrey 2002), which are HC3 for single items.

    It is observational: a text may be preferred because it is longer, or be long because it is good; α takes
    away both.

    Args:
        shares: Item means, 0 to 1, shape [items].
        ratios: log₂(length of the method's text / length of the other's), shape [items].
        strata: The item's dataset.
        clusters: The item's prompt, shape [items]; `None` where items are alone.
        level: The confidence level.
    """
    y, x = np.asarray(shares, dtype=float), np.asarray(ratios, dtype=float)
    if y.shape != x.shape or y.ndim != 1 or len(strata) != len(y):
        raise ValueError(f"a share, a ratio and a dataset per item: {y.shape}, {x.shape}, {len(strata)}")
    check_level(level)
    if not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise ValueError("shares and ratios must be finite; leave out items without lengths")
    tau = None if len(y) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0 else float(stats.kendalltau(y, x).statistic)
    design, warnings = _design(x, strata)
    place = np.arange(len(y)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    units = len(np.unique(place))
    whole = Interval(level=level, n=units, method=LENGTH_METHOD if clusters is None else LENGTH_BY_PROMPT)
    why = _why_not(x, design, units, "item" if clusters is None else "prompt")
    if why:
        whole = replace(whole, warnings=(why,))
        test = TestResult(n=units, method="t test, HC3 errors", warnings=(why,))
        return LengthFit(adjusted=whole, slope=whole, slope_test=test, share_test=test, correlation=tau)
    if not x.min() <= 0 <= x.max():
        why = "the same method's text is longer in every pair: the share at equal length is extrapolated"
        warnings = (*warnings, why)
    estimates, errors = _least_squares(design, y, None if clusters is None else place)
    whole, freedom = replace(whole, warnings=warnings), units - design.shape[1]
    share, share_test = _coefficient(
        replace(whole, estimate=estimates[0]), errors[0], freedom, null=0.5, what="the length-adjusted share"
    )
    slope, slope_test = _coefficient(
        replace(whole, estimate=estimates[1]), errors[1], freedom, null=0.0, what="the slope on length"
    )
    return LengthFit(
        adjusted=_between(share, 0.0, 1.0),
        slope=slope,
        slope_test=slope_test,
        share_test=share_test,
        correlation=tau,
    )


def _coefficient(
    whole: Interval, error: float | None, freedom: int, *, null: float, what: str
) -> tuple[Interval, TestResult]:
    """Return the interval of an estimate, and the test that it is `null`."""
    method = f"t test of {what}, HC3 errors"
    if error is None:
        why = "the line goes through some or all items, so their spread about it cannot be estimated"
        test = TestResult(
            n=whole.n, method=method, warnings=("the spread about the line cannot be estimated",)
        )
        return replace(whole, warnings=(*whole.warnings, why)), test
    distance = (whole.estimate or 0.0) - null
    return t_interval(whole, error, freedom), t_test(distance, error, freedom, n=whole.n, method=method)


def _design(x: NDArray[np.float64], strata: Sequence[str]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return the columns 1, ratio, and all datasets but the first, centred; [items, k]."""
    columns = [np.ones(len(x)), x]
    names, code, counts = np.unique(np.asarray(strata, dtype=str), return_inverse=True, return_counts=True)
    warnings: tuple[str, ...] = ()
    if len(names) > 1 and counts.min() < 2:
        warnings = ("a dataset has only one item, so datasets are not distinguished",)
    elif len(names) > 1:
        columns += [(code == place) - counts[place] / len(x) for place in range(1, len(names))]
    return np.column_stack(columns), warnings


def _why_not(x: NDArray[np.float64], design: NDArray[np.float64], units: int, unit: str) -> str:
    k = design.shape[1]
    if units <= k:
        return f"{units} {unit}(s) are too few for {k} coefficients"
    if np.ptp(x) == 0:
        return "the length ratio is the same in every pair"
    if np.linalg.matrix_rank(design) < k:
        return "the length ratio does not vary within datasets"
    return ""


def _least_squares(
    design: NDArray[np.float64], y: NDArray[np.float64], cluster: NDArray[np.intp] | None
) -> tuple[tuple[float, float], tuple[float | None, float | None]]:
    """Return intercept and slope, and their HC3 errors, or CR3 errors over clusters.

    The errors are `None` where the line is bound to go through an item, or goes through all of them.
    """
    q, r = np.linalg.qr(design)
    inverse = np.linalg.inv(r)
    estimates = inverse @ (q.T @ y)
    residuals = y - design @ estimates
    value = (float(estimates[0]), float(estimates[1]))
    if _leverage(q, cluster) > _NO_LEVERAGE or np.abs(residuals).max() < 1e-12:
        return value, (None, None)
    moved = (
        (q @ inverse.T) * (residuals / (1 - (q * q).sum(axis=1)))[:, None]
        if cluster is None
        else _without_each(design, residuals, cluster)
    )
    variance = (moved * moved).sum(axis=0)
    if variance.min() < 1e-24:
        return value, (None, None)
    return value, (math.sqrt(float(variance[0])), math.sqrt(float(variance[1])))


def _leverage(q: NDArray[np.float64], cluster: NDArray[np.intp] | None) -> float:
    """Return the largest leverage of an item, or of a cluster of them: 1 binds the line to go through it."""
    if cluster is None:
        return float((q * q).sum(axis=1).max())
    own = np.zeros((int(cluster.max()) + 1, q.shape[1], q.shape[1]))
    np.add.at(own, cluster, q[:, :, None] * q[:, None, :])
    return float(np.linalg.eigvalsh(own).max())


def _without_each(
    design: NDArray[np.float64], residuals: NDArray[np.float64], cluster: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return by how much the estimates move when each cluster is left out, [clusters, k].

    None of them may have full leverage.
    """
    count, k = int(cluster.max()) + 1, design.shape[1]
    own, pulls = np.zeros((count, k, k)), np.zeros((count, k))
    np.add.at(own, cluster, design[:, :, None] * design[:, None, :])
    np.add.at(pulls, cluster, design * residuals[:, None])
    left = design.T @ design - own
    return np.asarray(np.linalg.solve(left, pulls[:, :, None])[:, :, 0], dtype=np.float64)


def _between(interval: Interval, lowest: float, highest: float) -> Interval:
    """Cut what a line predicts beyond the possible."""
    ends = [interval.estimate, interval.low, interval.high]
    cut = [None if end is None else min(highest, max(lowest, end)) for end in ends]
    if cut == ends:
        return interval
    why = "the line predicts beyond 0 or 1 and was cut there"
    return replace(interval, estimate=cut[0], low=cut[1], high=cut[2], warnings=(*interval.warnings, why))
