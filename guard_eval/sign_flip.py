"""The sign-flip test (Fisher 1935), and the interval that agrees with it.

If neither of two methods is better, a unit's score is as likely as its negative. Therefore, the test compares
the sum of the scores with the sums for all 2ⁿ patterns of signs.
"""

import math
import sys
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, optimize, special

from guard_eval.estimate import NO_DATA, ROUNDING, Bounds, Estimate, Floats

Counts = NDArray[np.int64]
MAX_DENOMINATOR = 5040
"""Scores with denominators up to this number, such as 2/3, are tested exactly if possible."""
MAX_POINTS, ROUNDED_POINTS = 1 << 20, 1 << 16
"""The largest number of values of the sum: for exact scores, and for hundreds of rounded scores."""
NEGLIGIBLE = 1e-25
"""The probability of sums that the computation leaves out."""
SLACK = 10.0
"""The allowed rounding error is exceeded with a probability of at most e⁻¹⁰ times Chernoff's bound for p."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _ScoreClasses:
    """Units that are grouped by the absolute value of their score, in whole steps.

    Attributes:
        sizes: The number of steps of each class, above 0, [classes].
        counts: The number of units of each class, [classes].
        step: The length of a step.
        residual: The sum of the squared rounding errors of the scores, in steps.
        largest_residual: The sum of the absolute rounding errors, in steps.
    """

    sizes: Counts
    counts: Counts
    step: float
    residual: float = 0.0
    largest_residual: float = 0.0

    @property
    def largest_sum(self) -> int:
        """Return the sum if all scores are positive, in steps."""
        return int(self.sizes @ self.counts)

    @property
    def distribution_length(self) -> int:
        """Return the number of neighbouring sums that contain all but a negligible part of the distribution.

        The bound comes from Hoeffding (1963). It is also valid for coins that are not fair.
        """
        squares = float(self.counts @ self.sizes.astype(np.float64) ** 2)
        reach = math.ceil(math.sqrt(squares * math.log(2 / NEGLIGIBLE) / 2))
        return min(self.largest_sum + 1, 2 * reach + 2)


def sign_flip(scores: ArrayLike, *, unit: str = "prompt") -> Estimate:
    """Test that units' scores are symmetric about zero, by flipping their signs.

    Units with the same absolute score are a class of fair coins. One Fourier transform computes the
    distribution of the sum over all classes, for any number of units. The coins are loaded so that the
    observed sum is the expected sum, and the result is weighted back (Esscher 1932). Therefore, a tiny p is
    as exact as a large p.

    The result is exact if the scores are multiples of a step that is not too small, such as means of a few
    ratings. Other scores are rounded to a step, and `method` says so. Then p is an upper bound: the observed
    sum is lowered by the largest effect that rounding probably has, and the probability of a larger effect is
    added to p (Hoeffding 1963). Near .05, the bound is above p by at most 1/50 of p for up to a thousand
    scores, and by at most 1/20 for more scores.

    Args:
        scores: The units' scores, positive for one method and negative for the other, `[units]`.
        unit: The word for a unit in notes.

    Returns:
        The mean score with p and the smallest possible p. `n` counts the scores that are not zero.

    >>> sign_flip([1, 1, 1, 1, 1, 1]).p  # 2 of 2⁶ patterns
    0.03125
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("scores must be finite numbers in one dimension")
    method = f"sign-flip test over {unit}s"
    magnitudes = np.abs(values[values != 0])
    n = len(magnitudes)
    if n == 0:
        note = f"no {unit} favours either method" if len(values) else NO_DATA
        return Estimate(unit=unit, method=method, note=note, smallest_p=1.0)
    classes = _group_equal_scores(magnitudes)
    if classes.residual:
        method += ", with scores rounded to a step, so that p is an upper bound"
    else:
        method = f"exact {method}"
    # Sums that differ only by the rounding of binary fractions count as equal.
    slack = ROUNDING * float(magnitudes.sum())
    return Estimate(
        value=float(values.mean()),
        p=_compute_two_sided_p(classes, abs(float(values.sum())) - slack),
        n=n,
        unit=unit,
        method=method,
        smallest_p=math.ldexp(1.0, 1 - n),
    )


def _group_equal_scores(magnitudes: Floats) -> _ScoreClasses:
    """Group absolute scores by size. The step is exact for fractions, and as fine as possible for others."""
    values, counts = np.unique(magnitudes, return_counts=True)
    bottom = _find_common_denominator(values)
    if bottom:
        sizes = np.rint(values * bottom)
        common = int(np.gcd.reduce(sizes.astype(np.int64)))
        classes = _merge_equal_sizes(sizes / common, counts, common / bottom)
        if classes.distribution_length <= MAX_POINTS:
            return classes
    # Few scores leave time for fine steps. Many scores need fine steps, because their errors add up.
    n = len(magnitudes)
    points = max(ROUNDED_POINTS, 64 * ROUNDED_POINTS // n, 16 * n)
    points = min(MAX_POINTS, points)
    squares = float(counts @ values**2)
    step = math.sqrt(2 * squares * math.log(2 / NEGLIGIBLE)) / points
    steps = values / step
    sizes = np.maximum(1.0, np.rint(steps))
    residuals = np.abs(steps - sizes)
    return replace(
        _merge_equal_sizes(sizes, counts, step),
        residual=float(counts @ residuals**2),
        largest_residual=float(counts @ residuals),
    )


def _merge_equal_sizes(sizes: Floats, counts: Counts, step: float) -> _ScoreClasses:
    distinct, index = np.unique(sizes.astype(np.int64), return_inverse=True)
    merged = np.bincount(index, weights=counts).astype(np.int64)
    return _ScoreClasses(sizes=distinct, counts=merged, step=step)


def _find_common_denominator(values: Floats) -> int:
    """Return a common denominator of all values; 0 if there is none that is small enough."""
    bottom = 1
    for value in values.tolist():
        fraction = Fraction(value).limit_denominator(MAX_DENOMINATOR)
        bottom = math.lcm(bottom, fraction.denominator)
        if bottom * values[-1] > MAX_POINTS:
            return 0
    numerators = values * bottom
    whole = np.rint(numerators)
    are_whole = np.allclose(whole, numerators, rtol=ROUNDING, atol=ROUNDING * bottom)
    # A value that is rounded to 0 would be lost.
    return bottom if are_whole and whole.all() else 0


def _compute_two_sided_p(classes: _ScoreClasses, total: float) -> float:
    """Return the probability that |Σ ± size| is at least `total`; an upper bound if the sizes are rounded.

    Σ ± m = 2 Σ m·b − Σ m with coins b that are 0 or 1. A coin of size m is loaded to
    P(b = 1) = e^(θm)/(1 + e^(θm)), so that Σ m·b has the observed sum as its mean. Then
    P(Σ m·b ≥ s) = M(θ) e^(−θs) Σ_(t ≥ s) e^(−θ(t − s)) P_θ(t).
    """
    whole = classes.largest_sum
    sizes = classes.sizes
    counts = classes.counts
    # The coins that show 1 have this sum.
    observed = (whole + total / classes.step) / 2
    if observed <= whole / 2:
        return 1.0
    smallest = int(sizes.min())
    # No load has the sum of all coins as its mean.
    target = min(observed, whole - 0.5 * smallest)
    load = _find_coin_load(classes, target)
    log_moment = float(counts @ (np.logaddexp(0.0, load * sizes) - math.log(2)))
    log_chernoff = log_moment - load * target
    # Rounding may have taken `lost` from the observed sum, and with probability `chance` even more.
    lost = math.sqrt(2 * classes.residual * (SLACK - log_chernoff))
    chance = math.exp(log_chernoff - SLACK)
    if lost >= classes.largest_residual:
        lost = classes.largest_residual
        chance = 0.0
    first = math.ceil(observed - lost / 2 - 1e-6)
    if first > whole - smallest:  # only one pattern is as extreme
        units = int(counts.sum())
        return min(1.0, math.ldexp(2.0, -units) + 2 * chance)
    points = classes.distribution_length
    reach = whole - first + 1 if points > whole else points // 2
    beyond = np.arange(reach)
    tail = _compute_loaded_coin_distribution(classes, load, points)[(first + beyond) % points]
    weighed = math.fsum(tail * np.exp(-load * beyond))
    one_sided = math.exp(log_moment - load * first) * weighed + chance
    return min(1.0, 2 * one_sided)


def _find_coin_load(classes: _ScoreClasses, target: float) -> float:
    """Return the θ for which the sum of the loaded coins has the mean `target`."""
    sizes = classes.sizes
    weights = sizes * classes.counts

    def subtract_target(load: float) -> float:
        chances = special.expit(load * sizes)
        return float(weights @ chances) - target

    high = 1 / float(sizes.max())
    while subtract_target(high) < 0:
        high *= 2
    return float(optimize.brentq(subtract_target, 0.0, high, rtol=1e-6))


def _compute_loaded_coin_distribution(classes: _ScoreClasses, load: float, points: int) -> Floats:
    """Return the probabilities of the sums of loaded coins, modulo `points`."""
    frequency = np.arange(points // 2 + 1)
    transform = np.ones(len(frequency), dtype=np.complex128)
    # Large classes come first, because they make most of the transform vanish.
    for index in np.argsort(-classes.counts):
        size = int(classes.sizes[index])
        count = int(classes.counts[index])
        heads = float(special.expit(load * size))
        turn = np.exp(-2j * math.pi / points * (frequency * size % points))
        transform *= (1 - heads + heads * turn) ** count
        is_alive = np.abs(transform) > NEGLIGIBLE / points
        if 2 * is_alive.sum() < len(frequency):  # most of a long transform soon vanishes
            frequency = frequency[is_alive]
            transform = transform[is_alive]
    whole = np.zeros(points // 2 + 1, dtype=np.complex128)
    whole[frequency] = transform
    return np.asarray(fft.irfft(whole, points))


def invert_sign_flip(
    scores: ArrayLike, sizes: ArrayLike, p: float | None, *, alpha: float, bounds: Bounds
) -> tuple[float, float]:
    """Return the limits of Σ score / Σ size that invert the sign-flip test (as Fay and Lumbard 2020 do).

    A shift μ is inside the limits if flipping the signs of score − μ · size does not reject μ. The critical
    value of the flipped sums follows from their second and fourth cumulants (Cornish and Fisher 1938). At
    zero, the exact test decides, so the limits exclude zero if and only if p ≤ α.

    Args:
        scores: The units' summed scores, `[units]`.
        sizes: The weights of the units, `[units]`.
        p: The p-value of `sign_flip(scores)`.
        alpha: One minus the level.
        bounds: The smallest and the largest possible shift, on either side of zero.
    """
    values = np.asarray(scores, dtype=np.float64)
    weights = np.asarray(sizes, dtype=np.float64)
    if math.ldexp(1.0, 1 - len(values)) > alpha:  # not even equal signs of all units could reject
        return bounds
    quantile = float(special.ndtri(1 - alpha / 2))

    def subtract_critical_sum(shift: float) -> float:
        shifted = values - shift * weights
        squares = shifted**2
        variance = float(squares.sum())
        fourth_cumulant = -2 * float((squares**2).sum())
        kurtosis = fourth_cumulant / max(variance**2, sys.float_info.min)
        critical = quantile + (quantile**3 - 3 * quantile) / 24 * kurtosis
        return abs(float(shifted.sum())) - critical * math.sqrt(variance)

    mean = float(values.sum() / weights.sum())
    if subtract_critical_sum(mean) >= 0:  # all units say the same
        return mean, mean

    def find_limit(bound: float) -> float:
        if subtract_critical_sum(bound) <= 0:  # the test rejects no possible shift on this side
            return bound
        return float(optimize.brentq(subtract_critical_sum, mean, bound, xtol=1e-9))

    low, high = map(find_limit, bounds)
    if p is None or p > alpha * (1 + 1e-9):
        return min(low, 0.0), max(high, 0.0)
    if mean > 0:
        return max(low, ROUNDING), high
    return low, min(high, -ROUNDING)
