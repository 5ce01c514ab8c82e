"""Power of the default test in simulated studies: exact p-values of many at once, and the items needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.planning.simulation import Design, truth
from analysis.stats.correction import holms
from analysis.stats.sequential import FRACTIONS

_CELLS = 1 << 22
"""Studies × frequencies at a time."""
_NEGLIGIBLE = 1e-15
"""What a frequency adds to a probability where it is left out."""
_ROUNDING = 1e-9
"""A p-value that is α but for rounding is α."""


def flip_p_values(net: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the exact two-sided sign-flip p-value of each study, [studies].

    The same as `significance.sign_flip`. The null distribution's characteristic function is a product of
    cosines, and a tail is a sum of it over the frequencies of a discrete Fourier transform, of which most add
    nothing. Without an item off zero p is 1.

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
    # Σ m·b with fair bits b lies on 0 … reach: an odd number of frequencies above it separates all places.
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
    """How often simulated studies of one size find the true difference.

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


def item_moments(design: Design) -> tuple[float, float]:
    """Return mean and variance of an item's score, the mean of its raters' +1, 0 and −1."""
    true = truth(design)
    sides = np.array([1.0, 0.0, -1.0])
    mean = float(sides @ true.chances)
    square = float(sides**2 @ true.chances) - mean**2
    shared = float(sides @ np.array(true.together) @ sides) - mean**2
    return mean, (square + (design.raters - 1) * shared) / design.raters


def approximate_items(design: Design, *, alpha: float, wanted: float) -> float:
    """Return about how many items the test needs, from the normal approximation.

    n = ((z for α/2 · √(v + m²) + z for the power · √v) / m)², with m and v the mean and variance of an item's
    score: v follows from the chances of two raters' verdicts on an item, and the null distribution of the
    sign-flip test has the variance v + m².
    """
    mean, variance = item_moments(design)
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
