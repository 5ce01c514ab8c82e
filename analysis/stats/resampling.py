"""Resampling of prompts: the bootstrap's weights, its percentile interval, and the paired randomisation test.

A metric of a set of texts is a function of sums over prompts (repeated and counted n-grams, log-likelihoods
and tokens, …). With each prompt's part of those sums in a row, all replicates of all strategies are one
product of matrices, and strategies that are compared meet the same resampled prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.counts import distinct_rows
from analysis.stats.intervals import ALONE, NOTHING, Interval, check_level
from analysis.stats.significance import TestResult, sign_limit, whole_fractions

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


@dataclass(frozen=True, kw_only=True, slots=True)
class BootstrapInterval(Interval):
    """A percentile interval with the Monte-Carlo error of its limits.

    How many of R replicates lie below the bootstrap distribution's p-quantile is binomial, so the limit's
    place among them has the standard error δ = √(p(1 − p)/R). The error of the limit is half the distance
    between the replicates' quantiles at p − δ and p + δ; it can be 0 where few values are possible.

    Attributes:
        low_error: Monte-Carlo standard error of `low`; `None` without limits.
        high_error: That of `high`.
    """

    low_error: float | None = None
    high_error: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stratum:
    """The distinct scores of a stratum's items, rising, how many items have each, and what each weighs."""

    scores: NDArray[np.float64]
    items: NDArray[np.int64]
    sizes: NDArray[np.int64]


def win_share_bootstrap(
    numerators: ArrayLike,
    denominators: ArrayLike,
    strata: Sequence[str] | NDArray[np.integer],
    *,
    sizes: ArrayLike | None = None,
    replicates: int = 10_000,
    seed: int,
    level: float = 0.95,
) -> BootstrapInterval:
    """Return items' mean tie-split win share with its percentile interval over items (Efron 1979).

    A replicate draws each stratum's items with replacement, as many as it has and each with all its ratings,
    which may depend on each other in any way. An item's share is (1 + numerator/denominator)/2, and every
    item weighs the same, as in `intervals.item_mean`. As there, strata are ignored where one has a single
    item, and one item, or items that are all the same, have no limits. The items' order makes no difference.

    Args:
        numerators: Item scores' integer numerators, such as wins minus losses, [n].
        denominators: Their positive integer denominators, such as the number of ratings, [n].
        strata: The item's stratum (its dataset): n names, or an integer array of n codes.
        sizes: How many items' scores each of the n is the sum of, where whole prompts are drawn; `None` where
            each is one item.
        replicates: How many resamples.
        seed: Decides all draws.
        level: The confidence level.

    Raises:
        ValueError: If the shapes differ, a score is no fraction from −1 to 1, or a setting is out of range.

    >>> found = win_share_bootstrap([2, -1, 0, 2], [2, 2, 2, 2], ["a", "a", "b", "b"], seed=1)
    >>> found.estimate, found.low, found.high  # either end: one resample in 16
    (0.6875, 0.375, 1.0)
    """
    check_level(level)
    if replicates < 2:
        raise ValueError(f"a bootstrap takes two replicates or more, not {replicates}")
    groups, scale, warnings = _reduced(*_checked(numerators, denominators, strata, sizes))
    n = sum(int(group.items.sum()) for group in groups)
    total = math.fsum(float(group.scores @ group.items) for group in groups)
    weight = sum(int(group.sizes @ group.items) for group in groups)
    unit = "item" if sizes is None else "prompt"
    by = f", each of {len(groups)} strata by itself" if len(groups) > 1 else ""
    whole = BootstrapInterval(
        estimate=0.5 + total / (2 * scale * weight) if n else None,
        level=level,
        n=n,
        method=f"percentile bootstrap over {unit}s{by}, {replicates} replicates, seed {seed}",
        warnings=warnings,
    )
    why = _why_none(groups, n, unit)
    if why:
        return replace(whole, warnings=(*warnings, why))
    sums, weights = _sums(groups, replicates, seed)
    tail = (1 - level) / 2
    step = math.sqrt(tail * (1 - tail) / replicates)
    places = np.array([tail - step, tail, tail + step])
    places = np.clip(np.concatenate([places, 1 - places[::-1]]), 0, 1)
    shares = 0.5 + sums / (2 * scale * weights)
    before, low, after, sooner, high, later = np.quantile(shares, places).tolist()
    if n - len(groups) < FEW:
        why = "with so few items the percentile bootstrap is too narrow; prefer the t interval"
        warnings = (*warnings, why)
    if replicates * tail < _LEAST_IN_TAIL:
        warnings = (*warnings, f"{replicates} replicates are too few for the tails of this level")
    errors = {"low_error": (after - before) / 2, "high_error": (later - sooner) / 2}
    return replace(whole, low=low, high=high, warnings=warnings, **errors)


def _why_none(groups: list[_Stratum], n: int, unit: str) -> str:
    if n == 0:
        return NOTHING
    if n == 1:
        return ALONE.format(unit=unit)
    if all(np.ptp(group.scores / group.sizes) <= 1e-12 for group in groups):
        within = " of a dataset" if len(groups) > 1 else ""
        return f"every {unit}{within} has the same mean: an interval would have no width, so none is given"
    return ""


def _sums(
    groups: list[_Stratum], replicates: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each replicate's sum of scores over all items, and of what they weigh, [replicates]."""
    rng = np.random.default_rng(seed)
    sums, weights = np.zeros(replicates), np.zeros(replicates)
    for group in groups:
        n, rows = int(group.items.sum()), max(1, _DRAWS // len(group.items))
        # The draws of a replicate follow one another, so the block's size changes nothing.
        for start in range(0, replicates, rows):
            size = min(rows, replicates - start)
            drawn = rng.multinomial(n, group.items / n, size=size)
            sums[start : start + size] += drawn @ group.scores
            weights[start : start + size] += drawn @ group.sizes
    return sums, weights


def _checked(
    numerators: ArrayLike,
    denominators: ArrayLike,
    strata: Sequence[str] | NDArray[np.integer],
    sizes: ArrayLike | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return numerators, denominators, sizes, and codes of strata, from 0 in the order of their names."""
    tops, bottoms = whole_fractions(numerators, denominators)
    if len(strata) != len(tops):
        raise ValueError(f"one stratum per score: {len(strata)} and {len(tops)}")
    each = np.ones(len(tops), dtype=np.int64) if sizes is None else np.asarray(sizes, dtype=np.int64)
    beyond = np.flatnonzero(np.abs(tops) > bottoms * each)
    if len(beyond):
        raise ValueError(f"a score lies between −1 and 1; {tops[beyond[0]]}/{bottoms[beyond[0]]} does not")
    if isinstance(strata, np.ndarray) and strata.dtype.kind in "iu":
        return tops, bottoms, each, np.unique(strata, return_inverse=True)[1]
    place = {name: code for code, name in enumerate(sorted(set(strata)))}
    codes = np.fromiter(map(place.__getitem__, strata), dtype=np.int64, count=len(strata))
    return tops, bottoms, each, codes


def _reduced(
    tops: NDArray[np.int64], bottoms: NDArray[np.int64], sizes: NDArray[np.int64], codes: NDArray[np.int64]
) -> tuple[list[_Stratum], int, tuple[str, ...]]:
    """Return the distinct scores of each stratum times a scale, the scale, and warnings."""
    if not len(tops):
        return [], 1, ()
    warnings: tuple[str, ...] = ()
    if len(tops) > 1 and codes.max() and np.bincount(codes).min() < 2:
        codes = np.zeros_like(codes)
        unit = "item" if sizes.max() == 1 else "prompt"
        warnings = (f"a dataset has only one {unit}, so the datasets are not resampled each by itself",)
    (code, size, top, bottom), items = distinct_rows((codes, sizes, tops, bottoms))
    common = math.lcm(*np.unique(bottom).tolist())
    # In whole numbers below 2⁵³ sums are exact, whatever their order; too fine a grid is left in fractions.
    scale = common if common * int(sizes.sum()) < 2**53 else 1
    scores = top * (scale / bottom) if scale == common else top / bottom
    groups = []
    for own in range(int(code.max()) + 1):
        mine = code == own
        values, places = np.unique(np.stack([scores[mine], size[mine]]), axis=1, return_inverse=True)
        often = np.bincount(places, weights=items[mine]).astype(np.int64)
        groups.append(_Stratum(scores=values[0], items=often, sizes=values[1].astype(np.int64)))
    return groups, scale, warnings
