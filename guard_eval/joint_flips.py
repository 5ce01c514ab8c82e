"""Test several results with the same sign flips: all scores of a unit change their signs together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import ROUNDING, Floats

REPLICATES = 9_999
MANY_UNITS = 10_000
"""With more units than this, the sums of flipped scores are drawn from a normal distribution."""
_MAX_SIGNS = 4_000_000
"""The largest number of random signs in memory at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SignFlipSums:
    """The sum of each result's scores, for many patterns of flipped signs.

    Attributes:
        sums: A row for each pattern of signs, [flips, results].
        drawn: How patterns were drawn at random, in words; empty if `sums` has all possible patterns.
    """

    sums: Floats
    drawn: str = ""

    def compute_p(self, is_as_extreme: NDArray[np.bool_]) -> float:
        """Return the share of flips whose statistic is as extreme as the observed one, [flips]."""
        unflipped = bool(self.drawn)  # the observed signs are one pattern more than the drawn ones
        return (unflipped + int(is_as_extreme.sum())) / (unflipped + len(is_as_extreme))

    @property
    def smallest_p(self) -> float:
        """Return the smallest possible p with these flips."""
        return 1 / (len(self.sums) + bool(self.drawn))


def compute_joint_flip_sums(scores: Floats, *, seed: int) -> SignFlipSums:
    """Return the sums of scores, [units, results], if the sign of a unit changes in all results at once.

    With few units, all patterns of signs are used. With more units, patterns are drawn at random. With very
    many units, only the sums are drawn.
    """
    units = len(scores)
    if 2 ** (units - 1) <= REPLICATES:
        # A flip and its opposite give the same statistic, so one unit never changes.
        codes = np.arange(2 ** (units - 1))[:, None] >> np.arange(units)
        return SignFlipSums(sums=(1.0 - 2.0 * (codes & 1)) @ scores)
    rng = np.random.default_rng(seed)
    if units > MANY_UNITS:
        normal = rng.standard_normal((REPLICATES, scores.shape[1]))
        sums = normal @ compute_covariance_root(scores.T @ scores).T
        return SignFlipSums(sums=sums, drawn=f"{REPLICATES:,} normal sums")
    block = max(1, _MAX_SIGNS // units)
    sizes = [min(block, REPLICATES - begin) for begin in range(0, REPLICATES, block)]
    blocks = [draw_signs(rng, size, units) @ scores for size in sizes]
    return SignFlipSums(sums=np.concatenate(blocks), drawn=f"{REPLICATES:,} random patterns")


def draw_signs(rng: np.random.Generator, draws: int, units: int) -> Floats:
    """Return random signs, 1 or −1, as an array [draws, units]."""
    return np.asarray(rng.integers(0, 2, (draws, units)) * 2.0 - 1)


def compute_covariance_root(covariance: Floats) -> Floats:
    """Return a root of a covariance matrix: R, [K, K], with R Rᵀ = `covariance`."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(0.0, values)))


def compute_max_t_p(scores: Floats, *, seed: int = 0) -> list[float]:
    """Return p-values that are corrected for the number of results by the max-T method.

    This is the step-down procedure of Westfall and Young (1993). A statistic is the sum of a result's scores
    divided by the root of the sum of their squares; flips do not change this root. The correction is valid
    if, for all results without a difference together, the scores are as likely as their mirror image. Power
    increases if results correlate.

    Args:
        scores: The scores of each unit, 0 if a result has no score of this unit, [units, results].
        seed: The seed of drawn flips.
    """
    size = np.sqrt((scores**2).sum(axis=0))
    scaled = scores[scores.any(axis=1)] / np.where(size > 0, size, 1.0)
    if not len(scaled):
        return [1.0] * scores.shape[1]
    flipped = compute_joint_flip_sums(scaled, seed=seed)
    observed = np.abs(scaled.sum(axis=0))
    order = np.argsort(-observed)
    # For each result: the largest statistic of this result and of all results with smaller statistics.
    largest = np.maximum.accumulate(np.abs(flipped.sums[:, order[::-1]]), axis=1)[:, ::-1]
    # If a sum is 0 apart from rounding, all flips are as extreme.
    least = observed[order] * (1 - ROUNDING) - ROUNDING
    steps = [flipped.compute_p(is_as_extreme) for is_as_extreme in (largest >= least).T]
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(steps)
    return corrected.tolist()
