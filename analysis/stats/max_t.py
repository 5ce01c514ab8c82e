"""Correction for several criteria that are judged of the same items: step-down max-T by sign flips.

Holm's correction holds whatever the tests have to do with each other, and pays for it: criteria that repeat
each other count as if each were news. Westfall and Young (1993, algorithm 2.8) take the null distribution of
the largest statistic instead. The units are those of the sign-flip test: where neither method is better, to
exchange the methods of a unit changes the signs of its scores on *all* such criteria together. So one and the
same flip of a unit goes to every criterion, and whatever the criteria have in common is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.correction import Corrected

Reals = NDArray[np.float64]

NAME = "Westfall–Young"
"""The correction's name."""
PATTERNS = 1 << 16
"""Sign patterns up to which all are taken: those of 17 units of one comparison."""
DRAWS = (9_999, 99_999)
"""The fewest and the most sign patterns drawn where there are more."""
DRAWN_SIGNS = 10_000_000
"""Signs drawn at most, unless the fewest patterns need more."""
MANY_UNITS = 1_000
"""Units of equal weight from which on sums are drawn as normal. That is off by x⁴ / (12 n) of p at x standard
deviations, .4 % at p = .01: less than drawing any number of patterns up to `DRAWS` is."""
_CELLS = 1 << 21
"""Numbers in one array."""
_ROUNDING = 1e-9
"""A statistic that is the data's but for rounding is as extreme."""


def max_t(
    comparisons: Sequence[ArrayLike],
    *,
    alone: Sequence[float | None] | None = None,
    seed: int = 0,
    draws: int | None = None,
) -> Corrected:
    """Return the step-down max-T adjustment of the sign-flip tests of a family.

    A test's statistic is |Σ s| / √(Σ s²) of its units' scores s. Signs do not change Σ s², so that this is a
    monotone function of the t statistic, without a variance that could be zero; under the flips its mean
    square is 1 for every test. From the largest statistic down, a p-value is the share of sign patterns in
    which the largest of this test's and the later tests' statistics reaches the test's own, and at least the
    p-value before it. The chance of any error among the true hypotheses is held wherever the methods of a
    unit can be exchanged on all of their criteria together.

    Units of different comparisons change signs independently of each other. Where comparisons share methods,
    their statistics depend on each other, and independence is the worst case: of centred normal statistics
    the largest stays below a bound at least as often as if comparisons were independent (Royen 2014).

    Up to `PATTERNS` patterns are all taken; else p is (1 + as extreme) / (1 + drawn). With `MANY_UNITS` units
    a sum of signed scores is drawn from the normal distribution of its covariance.

    Args:
        comparisons: The scores of each comparison, positive for its first method, [units, tests]; NaN where a
            unit was not judged on a criterion, which then says nothing of it.
        alone: The uncorrected p-value of each test, which an adjusted one is never below: drawn patterns
            could otherwise put it there.
        seed: Of the drawn patterns.
        draws: How many patterns are drawn where they are too many to take all; by default 9 999 to 99 999.

    Returns:
        The p-values, the tests of the first comparison first; `None` where every unit is balanced. Such a
        test takes nothing from the others, since it can never be found.

    Raises:
        ValueError: If scores are no matrices of finite numbers, or there are not as many p-values as tests.

    >>> max_t([[[1, 1], [1, 1], [1, -1]]]).p_values  # |Σ| of 3 + 1, 1 + 3, 1 + 1, 1 + 1 under four patterns
    (0.5, 1.0)
    """
    tables = [_scores(table) for table in comparisons]
    tests = sum(table.shape[1] for table in tables)
    if alone is not None and len(alone) != tests:
        raise ValueError(f"one p-value per test: {len(alone)} for {tests}")
    spread = np.concatenate([np.sqrt((table**2).sum(axis=0)) for table in tables] or [np.zeros(0)])
    sums = np.concatenate([np.abs(table.sum(axis=0)) for table in tables] or [np.zeros(0)])
    tested = np.flatnonzero(spread > 0)
    adjusted: list[float | None] = [None] * tests
    if not len(tested):
        return Corrected(p_values=tuple(adjusted), n=tests, method=NAME)
    own = sums[tested] / spread[tested]
    order = tested[np.argsort(-own, kind="stable")]
    limits = sums[order] / spread[order] * (1 - _ROUNDING)
    informative = [_in_order(table[(table != 0).any(axis=1)]) for table in tables]
    patterns = 2 ** sum(max(0, len(table) - 1) for table in informative)
    exact = patterns <= PATTERNS
    count = patterns if exact else draws or _draws(sum(map(len, informative)))
    reached = np.zeros(len(order), dtype=np.int64)
    for totals in _flipped(informative, count, exact=exact, seed=seed):
        largest = np.maximum.accumulate((totals[:, order] / spread[order])[:, ::-1], axis=1)[:, ::-1]
        reached += (largest >= limits).sum(axis=0)
    p_values = reached / count if exact else (1 + reached) / (1 + count)
    if alone is not None:
        p_values = np.fmax(p_values, np.array([alone[place] for place in order], dtype=float))
    for place, value in zip(order.tolist(), np.maximum.accumulate(p_values).tolist(), strict=True):
        adjusted[place] = value
    how = f"all {patterns} sign patterns" if exact else f"{count} drawn sign patterns, seed {seed}"
    return Corrected(p_values=tuple(adjusted), n=tests, method=NAME, how=how)


def _scores(table: ArrayLike) -> Reals:
    scores = np.asarray(table, dtype=float)
    if scores.ndim != 2 or np.isinf(scores).any():
        raise ValueError(f"scores are finite numbers or NaN, [units, tests]; got shape {scores.shape}")
    known: Reals = np.nan_to_num(scores)
    return known


def _in_order(table: Reals) -> Reals:
    """Return units in an order of their scores, first score above 0: drawn flips hang on no other order."""
    if not len(table):
        return table
    first = np.take_along_axis(table, (table != 0).argmax(axis=1)[:, None], axis=1)
    turned = table * np.sign(first)
    ordered: Reals = turned[np.lexsort(turned.T[::-1])]
    return ordered


def _draws(units: int) -> int:
    low, high = DRAWS
    return min(high, max(low, DRAWN_SIGNS // units))


def _flipped(tables: Sequence[Reals], count: int, *, exact: bool, seed: int) -> Iterator[Reals]:
    """Yield |Σ ± s| of every test under `count` sign patterns, [patterns, tests], some patterns at a time."""
    weights = [table if exact else _normal_scores(table) for table in tables]
    widest = max(sum(table.shape[1] for table in tables), *(len(table) for table in weights), 1)
    step = max(1, _CELLS // widest)
    streams = [np.random.default_rng([seed, place]) for place in range(len(tables))]
    for start in range(0, count, step):
        numbers = np.arange(start, min(count, start + step))
        parts, used = [], 0
        for table, weight, rng in zip(tables, weights, streams, strict=True):
            if not exact and weight is not table:
                parts.append(np.abs(rng.standard_normal((len(numbers), len(weight))) @ weight))
                continue
            bits = _every(numbers, used, len(table)) if exact else _drawn(rng, len(numbers), len(table))
            used += max(0, len(table) - 1)
            parts.append(np.abs(table.sum(axis=0) - 2.0 * (bits @ table)))
        yield np.concatenate(parts, axis=1)


def _every(numbers: NDArray[np.int64], used: int, units: int) -> Reals:
    """Return which units change sign in the patterns of these numbers, whose first `used` bits are others'.

    The first unit keeps its sign: all signs changed give the same statistic.
    """
    bits = np.zeros((len(numbers), units))
    bits[:, 1:] = (numbers[:, None] >> np.arange(used, used + max(0, units - 1))) & 1
    return bits


def _drawn(rng: np.random.Generator, patterns: int, units: int) -> Reals:
    """Return which units change sign in random patterns."""
    packed = np.frombuffer(rng.bytes(patterns * -(-units // 8)), dtype=np.uint8)
    return np.unpackbits(packed.reshape(patterns, -1), axis=1, count=units).astype(float)


def _normal_scores(table: Reals) -> Reals:
    """Return few scores with the same covariance for normal signs, where units are many; else the table."""
    squares = table**2
    fourth = (squares**2).sum(axis=0)
    used = fourth > 0
    if not used.any() or (squares.sum(axis=0)[used] ** 2 / fourth[used]).min() < MANY_UNITS:
        return table
    values, vectors = np.linalg.eigh(table.T @ table)
    few: Reals = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return few
