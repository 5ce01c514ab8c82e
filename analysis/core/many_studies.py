"""The tests and intervals of many studies at once, for simulations: the same results as one at a time.

Where every rater rates every item, the item-level analyses read nothing but how many items have each net
score (wins minus losses, from −R to R with R raters): a histogram, [2R + 1], for each study. NaN stands for
"no test" and "no interval" here, since arrays hold nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special, stats

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_CELLS = 1 << 22
"""Numbers in one array of the transforms."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tested:
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


def sign_tests(wins: Counts, losses: Counts, *, alpha: float = 0.05) -> Tested:
    """Return `significance.binomial` of each study, [studies]; also the sign test on majorities."""
    n = wins + losses
    p_values = np.minimum(1.0, 2 * stats.binom.cdf(np.minimum(wins, losses), n, 0.5))
    sizes, place = np.unique(n, return_inverse=True)
    # The last count whose two tails together are no more than α; −1 where even none is too likely.
    reached = np.asarray(stats.binom.ppf(alpha / 2, sizes, 0.5))
    last = np.where(2 * stats.binom.cdf(reached, sizes, 0.5) > alpha, reached - 1, reached)
    attained = np.asarray(2 * stats.binom.cdf(last, sizes, 0.5))
    return Tested(
        p_values=np.where(n > 0, p_values, np.nan), sizes=np.where(n > 0, attained[place.ravel()], 0.0)
    )


def majority_signs(histograms: Counts, *, alpha: float = 0.05) -> Tested:
    """Return `other_tests.majority_sign` of each study."""
    raters = histograms.shape[1] // 2
    return sign_tests(
        histograms[:, raters + 1 :].sum(axis=1), histograms[:, :raters].sum(axis=1), alpha=alpha
    )


def sign_flips(histograms: Counts, *, alpha: float = 0.05) -> Tested:
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
    return Tested(
        p_values=np.where(tested, np.clip(p_values, 0.0, 1.0), np.nan), sizes=np.where(tested, sizes, 0.0)
    )


def signed_ranks(histograms: Counts) -> Floats:
    """Return the p-values of `other_tests.signed_rank`, [studies]."""
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
