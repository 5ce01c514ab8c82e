"""Tests of "neither method is better": the paper's on pooled ratings, and one that respects items."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

EXACT_WORK = 2_000_000_000
"""Items × range of the integer scores up to which the sign-flip test is exact (a second or two); "
"above it, normal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TestResult:
    """A two-sided test.

    Attributes:
        p_value: `None` means no test: the data hold no information on the question.
        statistic: What was compared with its null distribution.
        n: How many units carried information (non-tied ratings, or items off one half).
        method: The test and its settings, in words.
        warnings: What a reader must know before using it.
    """

    __test__ = False  # pytest would take the name for a test class

    p_value: float | None
    statistic: float
    n: int
    method: str
    warnings: tuple[str, ...] = ()


def binomial(wins: int, losses: int) -> TestResult:
    """Return the exact two-sided binomial test on non-tied ratings (`tab:humaneval_resultglacs`).

    It takes every rating for independent. Several ratings of one pair are not, and then its error rate is
    above α.

    >>> binomial(251, 156).p_value
    2.874966592398616e-06
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"counts cannot be negative: {wins} wins, {losses} losses")
    n = wins + losses
    method = "exact two-sided binomial test on non-tied ratings, taken as independent"
    if n == 0:
        return TestResult(
            p_value=None, statistic=0.0, n=0, method=method, warnings=("every rating is a tie",)
        )
    p_value = float(stats.binomtest(wins, n, 0.5, alternative="two-sided").pvalue)
    return TestResult(p_value=p_value, statistic=float(wins), n=n, method=method)


def sign_flip(numerators: ArrayLike, denominators: ArrayLike, *, exact_work: int = EXACT_WORK) -> TestResult:
    """Return the two-sided sign-flip (randomisation) test that item scores are symmetric about zero.

    Under "neither method is better" an item's score is as likely as its negative, whatever its ratings have
    to do with each other; so the null distribution of |Σ score| is that of all 2ⁿ sign patterns. Equal
    magnitudes are one binomial, and a convolution over the magnitudes gives the distribution exactly.

    Args:
        numerators: Item scores' integer numerators, such as wins minus losses, shape [n].
        denominators: Their positive integer denominators, such as the number of ratings, shape [n].
        exact_work: Above this many items × range the normal approximation is used, and the result says so.
    """
    scores, warnings = _integers(numerators, denominators)
    informative = scores[scores != 0]
    n = len(informative)
    if n == 0:
        why = ("every item is balanced between the methods",)
        return TestResult(
            p_value=None, statistic=0.0, n=0, method="sign-flip test on item means", warnings=why
        )
    total = int(informative.sum())
    magnitudes = np.abs(informative)
    reach = int(magnitudes.sum())
    if n * reach <= exact_work:
        p_value = _exact(magnitudes, total)
        method = "exact sign-flip test on item means"
    else:
        # The sum moves in steps of 2, hence the continuity correction of 1.
        distance = max(0.0, abs(total) - 1.0)
        p_value = float(special.erfc(distance / math.sqrt(2 * float((magnitudes.astype(float) ** 2).sum()))))
        method = (
            f"sign-flip test on item means, normal approximation (items × range = {n * reach} > {exact_work})"
        )
    if p_value < sys.float_info.min:
        p_value = sys.float_info.min
        warnings = (*warnings, "p is below the smallest number the machine can hold; read it as 'less than'")
    return TestResult(
        p_value=min(1.0, p_value), statistic=float(total / reach), n=n, method=method, warnings=warnings
    )


def _integers(numerators: ArrayLike, denominators: ArrayLike) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Bring fractions onto one denominator and return the numerators, with their common factor taken out."""
    tops, bottoms = np.asarray(numerators), np.asarray(denominators)
    if tops.shape != bottoms.shape or tops.ndim != 1:
        raise ValueError(f"one denominator per numerator: shapes {tops.shape} and {bottoms.shape}")
    if len(tops) == 0:
        return np.zeros(0, dtype=np.int64), ()
    if tops.dtype.kind not in "iu" or bottoms.dtype.kind not in "iu" or (bottoms <= 0).any():
        raise ValueError("item scores are integers over positive integers")
    common = math.lcm(*(int(value) for value in np.unique(bottoms)))
    if common * max(1, int(np.abs(tops).max())) * len(tops) >= 2**62:
        # Too many numbers of ratings for one denominator: a grid this fine moves p by less than shows.
        rounded = np.round(tops / bottoms * 2**20).astype(np.int64)
        return rounded, ("item means were rounded to 2⁻²⁰ of a rating",)
    scaled = tops.astype(np.int64) * (common // bottoms.astype(np.int64))
    factor = int(np.gcd.reduce(scaled))
    return (scaled // factor if factor else scaled), ()


def _exact(magnitudes: NDArray[np.int64], total: int) -> float:
    """Return P(|Σ ± magnitude| ≥ |total|) over all sign patterns."""
    if total == 0:
        return 1.0
    # (Σ ± m + Σ m) / 2 = Σ m·b with fair bits b: its distribution on 0 … Σ m, whose lower tail is half of p.
    distribution = np.ones(1)
    for size, count in zip(*np.unique(magnitudes, return_counts=True), strict=True):
        flips = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        distribution = _spread(distribution, flips, int(size))
    last = (int(magnitudes.sum()) - abs(total)) // 2
    return 2 * math.fsum(distribution[: last + 1])


def _spread(distribution: NDArray[np.float64], flips: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Convolve `distribution` with `flips` placed `size` apart, at the cost of the shorter way round."""
    out = np.zeros(len(distribution) + size * (len(flips) - 1))
    if len(flips) <= size:
        for step, weight in enumerate(flips):
            out[step * size : step * size + len(distribution)] += weight * distribution
        return out
    for phase in range(min(size, len(distribution))):
        out[phase::size] = np.convolve(distribution[phase::size], flips)
    return out
