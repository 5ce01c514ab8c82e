"""Power of the default test by simulation: exact sign-flip p-values of many studies at once, and sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special, stats

from analysis.stats.sequential import FRACTIONS
from analysis.stats.simulation import Design, truth

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_CELLS = 1 << 22
"""Numbers in one array of the transforms."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StudyTests:
    """A test of each study.

    Attributes:
        p_values: Two-sided; NaN where there is no test, [studies].
        sizes: The largest error rate up to α that the exact test can have given what the study's null
            distribution is conditioned on; 0 without a test, [studies].
    """

    p_values: Floats
    sizes: Floats


def net_histograms(verdicts: NDArray[np.int8]) -> Counts:
    """Return how many items have each net score −R … R, [studies, 2R + 1], of [studies, items, raters]."""
    studies, _, raters = verdicts.shape
    width = 2 * raters + 1
    cells = verdicts.sum(axis=2, dtype=np.int64) + raters + width * np.arange(studies)[:, None]
    return np.bincount(cells.ravel(), minlength=studies * width).reshape(studies, width)


def sign_tests(wins: Counts, losses: Counts, *, alpha: float = 0.05) -> StudyTests:
    """Return `significance.binomial` of each study, [studies]; also the sign test on majorities."""
    n = wins + losses
    p_values = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(wins, losses), n, 0.5))
    sizes, place = np.unique(n, return_inverse=True)
    # The last count whose two tails together are no more than α; −1 where even none is too likely.
    reached = np.asarray(stats.binom.ppf(alpha / 2, sizes, 0.5))
    last = np.where(2 * stats.binom.cdf(reached, sizes, 0.5) > alpha, reached - 1, reached)
    attained = np.asarray(2 * stats.binom.cdf(last, sizes, 0.5))
    return StudyTests(
        p_values=np.where(n > 0, p_values, np.nan), sizes=np.where(n > 0, attained[place.ravel()], 0.0)
    )


def majority_signs(histograms: Counts, *, alpha: float = 0.05) -> StudyTests:
    """Return `significance.majority_sign` of each study."""
    raters = histograms.shape[1] // 2
    return sign_tests(
        histograms[:, raters + 1 :].sum(axis=1), histograms[:, :raters].sum(axis=1), alpha=alpha
    )


def sign_flips(histograms: Counts, *, alpha: float = 0.05) -> StudyTests:
    """Return the exact `significance.sign_flip` of each study.

    The null distribution of Σ ± m has the characteristic function Π cos(m t)^n_m, whose discrete Fourier
    transform gives its probabilities to some 1e-13.
    """
    raters = histograms.shape[1] // 2
    scores = np.arange(-raters, raters + 1)
    magnitudes = scores[raters + 1 :]
    totals = np.abs(histograms @ scores)
    often = histograms[:, raters + 1 :] + histograms[:, raters - 1 :: -1]
    reach = int((often @ magnitudes).max(initial=0))
    length = 2 * reach + 1
    # Of odd length no cosine is 0, so that logarithms can be added.
    cosines = np.cos(2 * np.pi / length * np.outer(magnitudes, np.arange(reach + 1)))
    p_values, sizes = np.empty(len(often)), np.empty(len(often))
    step = max(1, _CELLS // length)
    for start in range(0, len(often), step):
        block = slice(start, start + step)
        transform = np.exp(often[block] @ np.log(np.abs(cosines)))
        transform *= 1 - 2 * (often[block] @ (cosines < 0) % 2)
        chances = fft.irfft(transform, n=length, axis=1)[:, : reach + 1]
        chances[:, 0] /= 2
        tails = 2 * chances[:, ::-1].cumsum(axis=1)[:, ::-1]
        p_values[block] = np.take_along_axis(tails, totals[block, None], axis=1)[:, 0]
        sizes[block] = np.where(tails <= alpha, tails, 0.0).max(axis=1)
    tested = often.sum(axis=1) > 0
    return StudyTests(
        p_values=np.where(tested, np.clip(p_values, 0.0, 1.0), np.nan), sizes=np.where(tested, sizes, 0.0)
    )


def signed_ranks(histograms: Counts) -> Floats:
    """Return the p-values of `significance.signed_rank`, [studies]."""
    raters = histograms.shape[1] // 2
    often = histograms[:, raters:].copy()
    often[:, 1:] += histograms[:, raters - 1 :: -1]
    ranks = often.cumsum(axis=1) - often + (often + 1) / 2
    ranks[:, 0] = 0.0
    # Given the ranks, each has a fair sign.
    mean, variance = (often * ranks).sum(axis=1) / 2, (often * ranks**2).sum(axis=1) / 4
    away = (histograms[:, raters:] * ranks).sum(axis=1) - mean
    with np.errstate(invalid="ignore"):
        z = (away - np.sign(away) / 2) / np.sqrt(variance)
    p_values: Floats = 2 * special.ndtr(-np.abs(z))
    return p_values


def holms(p_values: Floats) -> Floats:
    """Return `correction.holm` of each study's family, [studies, tests]; NaN counts as a test not made."""
    order = np.argsort(p_values, axis=1)
    size = p_values.shape[1]
    stepped = np.take_along_axis(p_values, order, axis=1) * np.arange(size, 0, -1)
    adjusted = np.fmin(1.0, np.maximum.accumulate(stepped, axis=1))
    adjusted[np.isnan(stepped)] = np.nan
    out = np.empty_like(adjusted)
    np.put_along_axis(out, order, adjusted, axis=1)
    return out


def item_means(histograms: Counts, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the limits of `intervals.item_mean` without strata, [studies] each."""
    raters, n = histograms.shape[1] // 2, histograms[0].sum()
    shares = 0.5 + np.arange(-raters, raters + 1) / (2 * raters)
    mean = histograms @ shares / n
    spread = (histograms * (shares - mean[:, None]) ** 2).sum(axis=1)
    half = special.stdtrit(n - 1, 0.5 + level / 2) * np.sqrt(spread / (n * (n - 1)))
    half[spread < 1e-20] = np.nan
    return np.maximum(0.0, mean - half), np.minimum(1.0, mean + half)


def item_bootstraps(histograms: Counts, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the limits of the percentile item bootstrap with infinitely many replicates, [studies] each.

    What n items drawn with replacement add up to has the n-th power of one draw's characteristic function.
    """
    raters, n = histograms.shape[1] // 2, int(histograms[0].sum())
    length = int(fft.next_fast_len(2 * raters * n + 1, real=True))
    low, high = np.empty(len(histograms)), np.empty(len(histograms))
    step = max(1, _CELLS // length)
    for start in range(0, len(histograms), step):
        block = slice(start, start + step)
        chances = fft.irfft(_power(fft.rfft(histograms[block] / n, n=length, axis=1), n), n=length, axis=1)
        below = chances[:, : 2 * raters * n + 1].cumsum(axis=1)
        low[block] = (below < (1 - level) / 2).sum(axis=1)
        high[block] = (below < (1 + level) / 2).sum(axis=1)
    none = (histograms == n).any(axis=1)
    low[none] = high[none] = np.nan
    return low / (2 * raters * n), high / (2 * raters * n)


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return a whole power by squaring, several times as fast as numpy's for complex numbers."""
    out = np.ones_like(base)
    while True:
        if exponent & 1:
            out *= base
        exponent >>= 1
        if not exponent:
            return out
        base *= base


def wilsons(successes: Counts, n: Counts, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the limits of `intervals.wilson`, [studies] each."""
    z = float(special.ndtri(0.5 + level / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = successes / n
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return centre - half, centre + half


def clopper_pearsons(successes: Counts, n: Counts, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the limits of `intervals.clopper_pearson`, [studies] each."""
    tail = (1 - level) / 2
    low = np.where(successes == 0, 0.0, special.betaincinv(successes, n - successes + 1, tail))
    high = np.where(successes == n, 1.0, special.betaincinv(successes + 1, n - successes, 1 - tail))
    return np.where(n > 0, low, math.nan), np.where(n > 0, high, math.nan)


_NEGLIGIBLE = 1e-15
"""What a frequency adds to a probability where it is left out."""
_ROUNDING = 1e-9
"""A p-value that is α but for rounding is α."""
"""Studies × frequencies at a time."""


def flip_p_values(net: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the exact two-sided sign-flip p-value of each study, [studies].

    The same as `significance.sign_flip`. The null distribution's characteristic function is a product of
    cosines, and a tail is a sum of it over the frequencies of a discrete Fourier transform, of which most add
    nothing: this is some ten times as fast as `sign_flips`, which needs the whole distribution.
    Without an item off zero p is 1.

    Args:
        net: Wins minus losses of each item, [studies, items]; every item has as many ratings.
    """
    studies, items = net.shape
    most = int(np.abs(net).max(initial=0))
    if most == 0 or items == 0:
        return np.ones(studies)
    magnitudes = np.arange(1, most + 1)
    counts = np.stack([np.count_nonzero(np.abs(net) == size, axis=1) for size in magnitudes], axis=1)
    reach = counts @ magnitudes
    last = (reach - np.abs(net.sum(axis=1, dtype=np.int64))) // 2
    # Σ m·b with fair bits b lies on 0 … reach: an odd number of frequencies above it tells all places apart.
    places = 2 * (int(reach.max()) // 2) + 1
    places += 2 if places <= reach.max() else 0
    half = np.pi * np.arange(1, places // 2 + 1) / places
    cosines = np.cos(magnitudes[:, None] * half)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.abs(cosines)), -700.0)
    out = np.empty(studies)
    step = max(1, _CELLS // len(half))
    for start in range(0, studies, step):
        mine = slice(start, start + step)
        size = counts[mine] @ logs
        used = size.max(axis=0) > math.log(_NEGLIGIBLE)
        odd = (counts[mine] @ (cosines[:, used] < 0)) % 2
        wave = np.exp(size[:, used]) * (1 - 2 * odd)
        wave *= np.cos((reach - last)[mine, None] * half[used])
        wave *= np.sin((last + 1)[mine, None] * half[used]) / np.sin(half[used])
        out[mine] = (last[mine] + 1 + 2 * wave.sum(axis=1)) / places
    return np.clip(2 * out, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """How often simulated studies of one size find the difference that is there.

    Attributes:
        each: Chance that a criterion is found after Holm's correction, averaged over criteria.
        error: Its Monte-Carlo standard error.
        at_least_one: Chance that at least one criterion is found.
        all_of_them: Chance that every criterion is found.
        alone: Chance that a criterion is found where the methods do not differ in the others (at α over the
            number of criteria: the least that Holm's correction leaves).
    """

    each: float
    error: float
    at_least_one: float
    all_of_them: float
    alone: float


def power(net: NDArray[np.int8], *, alpha: float) -> Power:
    """Return the power of the sign-flip test with Holm's correction over the criteria.

    Args:
        net: Wins minus losses of each item, [studies, criteria, items].
        alpha: The family's error rate.
    """
    studies, criteria, items = net.shape
    p_values = flip_p_values(net.reshape(-1, items)).reshape(studies, criteria)
    limit = alpha * (1 + _ROUNDING)
    found = holms(p_values) <= limit
    each = found.mean(axis=1)
    return Power(
        each=float(each.mean()),
        error=monte_carlo_error(each),
        at_least_one=float(found.any(axis=1).mean()),
        all_of_them=float(found.all(axis=1).mean()),
        alone=float((p_values * criteria <= limit).mean()),
    )


def monte_carlo_error(rates: NDArray[np.float64]) -> float:
    """Return the standard error of a mean of shares, [studies].

    Half a squared difference is added, so that it is not zero where all studies agree.
    """
    n = len(rates)
    mean = float(rates.mean())
    spread = float(((rates - mean) ** 2).sum()) + 0.5
    return math.sqrt(spread / n / (n + 1))


def approximate_items(design: Design, *, alpha: float, wanted: float) -> float:
    """Return about how many items the test needs, from the normal approximation.

    n = ((z for α/2 · √(v + m²) + z for the power · √v) / m)², with m and v the mean and variance of an item's
    score: v follows from the chances of two raters' verdicts on an item, and the null distribution of the
    sign-flip test has the variance v + m².
    """
    known = truth(design)
    sides = np.array([1.0, 0.0, -1.0])
    mean = float(sides @ known.chances)
    square = float(sides**2 @ known.chances) - mean**2
    shared = float(sides @ np.array(known.together) @ sides) - mean**2
    variance = (square + (design.raters - 1) * shared) / design.raters
    null = float(special.ndtri(1 - alpha / 2)) * math.sqrt(variance + mean**2)
    return ((null + float(special.ndtri(wanted)) * math.sqrt(variance)) / mean) ** 2


def smallest(rate: Callable[[int], float], *, wanted: float, guess: int, most: int) -> int | None:
    """Return the smallest size, up to `most`, whose `rate` is `wanted`; `None` if there is none.

    `rate` is taken to rise with the size. (Exact tests on few items saw up and down: then it is one of the
    places where the rate passes `wanted`.)
    """
    low = high = max(1, min(guess, most))
    step = max(1, high // 16)
    if rate(high) >= wanted:
        while low > 0 and rate(low) >= wanted:
            low, high, step = max(0, low - step), low, 2 * step
    else:
        while rate(high) < wanted:
            if high >= most:
                return None
            low, high, step = high, min(most, high + step), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rate(middle) >= wanted else (middle, high)
    return high


def size_error(found: float, *, items: int, error: float, alpha: float) -> float:
    """Return the Monte-Carlo standard error of a number of items, from that of the power at it.

    Power is taken for Φ(c √n − z), and its slope in n turns one error into the other.
    """
    inside = float(special.ndtri(min(max(found, 0.02), 0.98)))
    root = inside + float(special.ndtri(1 - alpha / 2))
    slope = math.exp(-(inside**2) / 2) / math.sqrt(2 * math.pi) * root / (2 * items)
    return error / slope


def crossings(
    net: NDArray[np.int8], *, raters: int, alpha: float, fractions: Sequence[float] = FRACTIONS
) -> NDArray[np.int64]:
    """Return after how many items the e-process of `sequential.anytime` first reaches 1/α, [studies].

    0 stands for never.

    Args:
        net: Wins minus losses of each item, [studies, items].
        raters: Ratings of an item.
        alpha: The error rate.
        fractions: Stakes.
    """
    stakes = np.array([*fractions, *(-fraction for fraction in fractions)], dtype=np.float64)
    gains = 1 + np.arange(-raters, raters + 1)[:, None] / raters * stakes
    out = np.zeros(len(net), dtype=np.int64)
    running = np.arange(len(net))
    fortune = np.full((len(net), len(stakes)), 1 / len(stakes))
    for item in range(net.shape[1]):
        fortune *= gains[net[running, item].astype(np.int64) + raters]
        crossed = fortune.sum(axis=1) >= 1 / alpha
        if crossed.any():
            out[running[crossed]] = item + 1
            running, fortune = running[~crossed], fortune[~crossed]
            if not len(running):
                break
    return out
