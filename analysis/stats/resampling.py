"""Resampling of prompts: the bootstrap's weights, its percentile interval, and the paired randomisation test.

A metric of a set of texts is a function of sums over prompts (repeated and counted n-grams, log-likelihoods
and tokens, …). With each prompt's part of those sums in a row, all replicates of all strategies are one
product of matrices, and strategies that are compared meet the same resampled prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.stats.intervals import Interval
from analysis.stats.significance import TestResult, sign_limit

Sums = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A metric as a function of its sums: `[..., m]` → `[...]`; NaN where it is undefined."""

_UNDEFINED = 0.05
"""Share of replicates without a value from which on no interval is given."""
_BLOCK = 1024
"""Exchanges at a time: as floats they take eight times the memory."""


def prompt_weights(prompts: int, *, replicates: int, seed: int) -> NDArray[np.float64]:
    """Return how often each prompt is drawn in each bootstrap replicate, `[replicates, prompts]`.

    Every row sums to `prompts` (Efron 1979). The seed decides, and nothing else.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, prompts, size=(replicates, prompts))
    flat = drawn + prompts * np.arange(replicates)[:, None]
    counts = np.bincount(flat.ravel(), minlength=replicates * prompts)
    return counts.reshape(replicates, prompts).astype(np.float64)


def percentile(
    estimate: float, replicates: NDArray[np.float64], *, level: float, n: int, seed: int
) -> Interval:
    """Return the percentile interval of bootstrap `replicates`, `[R]`; NaN marks a replicate without value.

    Args:
        estimate: The metric of the texts themselves.
        replicates: The metric of each replicate.
        level: The confidence level.
        n: How many prompts were resampled.
        seed: Named in the method.
    """
    method = f"percentile bootstrap over prompts, {len(replicates)} replicates, seed {seed}"
    defined = replicates[~np.isnan(replicates)]
    whole = Interval(estimate=estimate, level=level, n=n, method=method)
    if n < 2:
        problem = "one prompt says nothing of the spread over prompts"
    elif len(defined) < (1 - _UNDEFINED) * len(replicates):
        problem = "too few prompts have what the metric needs: many resamples have no value"
    elif np.ptp(defined) <= 1e-12 * max(1.0, abs(estimate)):
        problem = "every prompt says the same: an interval would have no width, so none is given"
    else:
        low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2]).tolist()
        return replace(whole, low=low, high=high)
    return replace(whole, warnings=(problem,))


def exchanges(prompts: int, *, permutations: int, seed: int) -> NDArray[np.int8]:
    """Return whether each prompt's texts change places, 0 or 1, `[permutations, prompts]`."""
    return np.random.default_rng(seed).integers(0, 2, size=(permutations, prompts), dtype=np.int8)


def paired_randomisation(
    first: Sequence[NDArray[np.float64]],
    second: Sequence[NDArray[np.float64]],
    value: Sums,
    exchanged: Sequence[NDArray[np.int8]],
) -> TestResult:
    """Test that two strategies would give the same metric, by exchanging their texts prompt by prompt.

    If it does not matter which strategy wrote which of a prompt's texts, each exchange is as likely as not
    (Fisher's randomisation test; for corpus-level metrics Noreen 1989). The statistic is the difference of
    the metrics, averaged over strata. p = (1 + as extreme exchanges) / (1 + all exchanges) is never 0.

    Args:
        first: Parts of the first strategy, `[prompts, m]` for each stratum.
        second: Parts of the second, the same prompts in the same order.
        value: The metric of sums.
        exchanged: `exchanges` of each stratum, the same number for all.
    """
    strata = list(zip(first, second, exchanged, strict=True))
    observed = float(np.mean([value(a.sum(0)) - value(b.sum(0)) for a, b, _ in strata]))
    null = np.mean([_differences(a, b, value, moved) for a, b, moved in strata], axis=0)
    method = f"paired randomisation test over prompts, {len(null)} exchanges"
    n = sum(len(a) for a, _, _ in strata)
    if np.isnan(observed) or np.isnan(null).any():
        why = "the metric is undefined after some exchanges, so there is no test"
        return TestResult(statistic=observed, n=n, method=method, warnings=(why,))
    # What differs by rounding alone is as extreme.
    extreme = int((np.abs(null) >= abs(observed) * (1 - 1e-9) - 1e-12).sum())
    # An exchange and its opposite are as extreme, and so are all where the two texts of a prompt count alike.
    differing = sum(int((a != b).any(axis=1).sum()) for a, b, _ in strata)
    return TestResult(
        p_value=(1 + extreme) / (1 + len(null)),
        statistic=observed,
        n=n,
        method=method,
        smallest=max(sign_limit(differing), 1 / (1 + len(null))),
    )


def _differences(
    first: NDArray[np.float64], second: NDArray[np.float64], value: Sums, exchanged: NDArray[np.int8]
) -> NDArray[np.float64]:
    """Return the difference of the metrics after each exchange, `[permutations]`."""
    gain = second - first
    out = np.empty(len(exchanged))
    for start in range(0, len(out), _BLOCK):
        moved = exchanged[start : start + _BLOCK].astype(np.float64) @ gain
        out[start : start + _BLOCK] = value(first.sum(0) + moved) - value(second.sum(0) - moved)
    return out


FEW = 40
"""With fewer items than this beyond one per stratum the result warns; at 40 it is 4 % narrower than t's."""

_LEAST_IN_TAIL = 10
"""Replicates expected beyond a limit below which its Monte-Carlo error is itself a guess."""
# Numbers drawn at a time, so that many distinct scores do not take the memory of all replicates at once.
_DRAWS = 1 << 22
