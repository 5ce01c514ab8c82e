"""What length does to a win share, and the share at equal length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.stats.intervals import Interval, check_level, t_interval
from analysis.stats.significance import TestResult, t_test

METHOD = "least squares on log₂ of the length ratio, within datasets, HC3 errors, t"
BY_PROMPT = "least squares on log₂ of the length ratio, within datasets, errors by prompt (CR3), t"
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
    whole = Interval(level=level, n=units, method=METHOD if clusters is None else BY_PROMPT)
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
