"""The stratified item bootstrap of a win share, as multinomial draws over the items' distinct scores.

A resample of items is a resample of their scores, and items of a stratum with one and the same score are
exchangeable: how often each distinct score is drawn is multinomial. Raters and choices are few, so a million
items have a few dozen scores, and a replicate costs the same as with a hundred items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.core.intervals import Interval

FEW = 40
"""With fewer items than this beyond one per stratum the result warns; at 40 it is 4 % narrower than t's."""

_LEAST_IN_TAIL = 10
"""Replicates expected beyond a limit below which its Monte-Carlo error is itself a guess."""
# Up to here an array with a cell for every possible score is cheaper than sorting the scores.
_DENSE = 1 << 22
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
        replicates: R.
        seed: What decided the draws.
        strata: How many strata were resampled each by itself.
    """

    low_error: float | None = None
    high_error: float | None = None
    replicates: int
    seed: int
    strata: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stratum:
    """The distinct scores of a stratum's items, rising, and how many items have each, [scores]."""

    scores: NDArray[np.float64]
    items: NDArray[np.int64]


def win_share_bootstrap(
    numerators: ArrayLike,
    denominators: ArrayLike,
    strata: Sequence[str] | NDArray[np.integer],
    *,
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
        replicates: How many resamples.
        seed: Decides all draws.
        level: The confidence level.

    Raises:
        ValueError: If the shapes differ, a score is no fraction from −1 to 1, or a setting is out of range.

    >>> found = win_share_bootstrap([2, -1, 0, 2], [2, 2, 2, 2], ["a", "a", "b", "b"], seed=1)
    >>> found.estimate, found.low, found.high  # either end: one resample in 16
    (0.6875, 0.375, 1.0)
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1; {level} does not")
    if replicates < 2:
        raise ValueError(f"a bootstrap takes two replicates or more, not {replicates}")
    groups, scale, warnings = _reduced(*_checked(numerators, denominators, strata))
    n = sum(int(group.items.sum()) for group in groups)
    total = math.fsum(float(group.scores @ group.items) for group in groups)
    by = f", each of {len(groups)} strata by itself" if len(groups) > 1 else ""
    found = BootstrapInterval(
        estimate=0.5 + total / (2 * scale * n) if n else None,
        low=None,
        high=None,
        level=level,
        n=n,
        method=f"percentile bootstrap over items{by}, {replicates} replicates, seed {seed}",
        warnings=warnings,
        replicates=replicates,
        seed=seed,
        strata=len(groups),
    )
    why = _why_none(groups, n)
    if why:
        return replace(found, warnings=(*warnings, why))
    return _with_limits(found, 0.5 + _sums(groups, replicates, seed) / (2 * scale * n))


def _why_none(groups: list[_Stratum], n: int) -> str:
    if n == 0:
        return "there are no observations"
    if n == 1:
        return "there is only one item, and its spread cannot be told"
    if all(len(group.scores) == 1 for group in groups):
        within = " of a dataset" if len(groups) > 1 else ""
        return f"every item{within} has the same mean: an interval would have no width, so none is given"
    return ""


def _with_limits(found: BootstrapInterval, shares: NDArray[np.float64]) -> BootstrapInterval:
    tail = (1 - found.level) / 2
    step = math.sqrt(tail * (1 - tail) / found.replicates)
    places = np.array([tail - step, tail, tail + step])
    places = np.clip(np.concatenate([places, 1 - places[::-1]]), 0, 1)
    before, low, after, sooner, high, later = np.quantile(shares, places).tolist()
    warnings = found.warnings
    if found.n - found.strata < FEW:
        warnings = (
            *warnings,
            "with so few items the percentile bootstrap is too narrow; prefer the t interval",
        )
    if found.replicates * tail < _LEAST_IN_TAIL:
        warnings = (*warnings, f"{found.replicates} replicates are too few for the tails of this level")
    return replace(
        found,
        low=low,
        high=high,
        low_error=(after - before) / 2,
        high_error=(later - sooner) / 2,
        warnings=warnings,
    )


def _sums(groups: list[_Stratum], replicates: int, seed: int) -> NDArray[np.float64]:
    """Return each replicate's sum of scores over all items, [replicates]."""
    rng = np.random.default_rng(seed)
    sums = np.zeros(replicates)
    for group in groups:
        n, rows = int(group.items.sum()), max(1, _DRAWS // len(group.items))
        # The draws of a replicate follow one another, so the block's size changes nothing.
        for start in range(0, replicates, rows):
            size = min(rows, replicates - start)
            sums[start : start + size] += rng.multinomial(n, group.items / n, size=size) @ group.scores
    return sums


def _checked(
    numerators: ArrayLike, denominators: ArrayLike, strata: Sequence[str] | NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return numerators, denominators and codes of strata, which count from 0 in the order of their names."""
    tops, bottoms = np.asarray(numerators), np.asarray(denominators)
    if tops.ndim != 1 or tops.shape != bottoms.shape or len(strata) != len(tops):
        raise ValueError(
            f"one denominator and stratum per numerator: {tops.shape}, {bottoms.shape} and {len(strata)}"
        )
    if not len(tops):
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    if tops.dtype.kind not in "iu" or bottoms.dtype.kind not in "iu" or bottoms.min() < 1:
        raise ValueError("item scores are integers over positive integers")
    tops, bottoms = tops.astype(np.int64), bottoms.astype(np.int64)
    if (np.abs(tops) > bottoms).any():
        place = int(np.argmax(np.abs(tops) > bottoms))
        raise ValueError(f"a score lies between −1 and 1; {tops[place]}/{bottoms[place]} does not")
    return tops, bottoms, _codes(strata)


def _codes(strata: Sequence[str] | NDArray[np.integer]) -> NDArray[np.int64]:
    if isinstance(strata, np.ndarray) and strata.dtype.kind in "iu":
        codes: NDArray[np.int64] = np.unique(strata, return_inverse=True)[1]
        return codes
    place = {name: code for code, name in enumerate(sorted(set(strata)))}
    return np.fromiter(map(place.__getitem__, strata), dtype=np.int64, count=len(strata))


def _reduced(
    tops: NDArray[np.int64], bottoms: NDArray[np.int64], codes: NDArray[np.int64]
) -> tuple[list[_Stratum], int, tuple[str, ...]]:
    """Return the distinct scores of each stratum times a scale, the scale, and what must be said of it."""
    if not len(tops):
        return [], 1, ()
    warnings: tuple[str, ...] = ()
    if len(tops) > 1 and codes.max() and np.bincount(codes).min() < 2:
        codes = np.zeros_like(codes)
        warnings = ("a dataset has only one item, so the datasets are not resampled each by itself",)
    code, top, bottom, items = _distinct(codes, tops, bottoms)
    common = math.lcm(*np.unique(bottom).tolist())
    # In whole numbers below 2⁵³ sums are exact, whatever their order; too fine a grid is left in fractions.
    scale = common if common * len(tops) < 2**53 else 1
    scores = top * (scale / bottom) if scale == common else top / bottom
    groups = []
    for own in range(int(code.max()) + 1):
        mine = code == own
        values, places = np.unique(scores[mine], return_inverse=True)
        often = np.bincount(places, weights=items[mine]).astype(np.int64)
        groups.append(_Stratum(scores=values, items=often))
    return groups, scale, warnings


def _distinct(
    codes: NDArray[np.int64], tops: NDArray[np.int64], bottoms: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Return the distinct triples of stratum, numerator and denominator, and how often each occurs."""
    least, height = int(tops.min()), int(bottoms.max()) + 1
    width = int(tops.max()) - least + 1
    if (int(codes.max()) + 1) * width * height > _DENSE:
        rows, often = np.unique(np.stack([codes, tops, bottoms], axis=1), axis=0, return_counts=True)
        return rows[:, 0], rows[:, 1], rows[:, 2], often
    cells = np.bincount((codes * width + (tops - least)) * height + bottoms)
    used = np.flatnonzero(cells)
    return used // height // width, used // height % width + least, used % height, cells[used]
