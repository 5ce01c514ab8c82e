"""Is there any difference among several methods? One test of all comparisons together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import Estimate

REPLICATES = 9_999
METHOD = "sign-flip test of all comparisons together"
MANY_UNITS = 10_000
"""With more units the sums over flipped units are normal, and drawn from their covariance."""
_MAX_SIGNS = 4_000_000
"""Signs that are drawn at once."""


def any_difference(nets: NDArray[np.float64], *, seed: int = 0) -> Estimate:
    """Test that no method is preferred to another, in all of their comparisons at once.

    Each unit's verdicts change sides together, at random: the statistic adds up the squares of the methods'
    net wins, each over the sum of its squares, so that every method weighs the same. p is exact where the
    verdicts of a unit are as likely as their mirror image, and holds for many units wherever none is better:
    the flips have the covariance of the net wins. All flips are tried where there are few units; where there
    are many, their sums are drawn, which are normal.

    Args:
        nets: Each unit's wins less losses of each method, [units, K].
        seed: It alone decides the flips.
    """
    nets_in_order = _in_order(nets[np.abs(nets).sum(axis=1) > 0])
    squares = (nets_in_order**2).sum(axis=0)
    scaled = nets_in_order[:, squares > 0] / np.sqrt(squares[squares > 0])
    if not len(scaled):
        why = "every method has as many wins as losses in every unit"
        return Estimate(n=len(nets), method=METHOD, note=why, smallest_p=1.0)
    observed = float((scaled.sum(axis=0) ** 2).sum())
    if 2 ** (len(scaled) - 1) <= REPLICATES:
        # Both signs of all flips give the same statistic: one unit stays as it is.
        codes = np.arange(2 ** (len(scaled) - 1))[:, None] >> np.arange(len(scaled))
        flips = 1.0 - 2.0 * (codes & 1)
        p = float((_statistics(flips, scaled) >= observed * (1 - 1e-12)).mean())
        return Estimate(value=observed, p=p, n=len(nets), method=f"exact {METHOD}", smallest_p=1 / len(flips))
    rng, drawn = np.random.default_rng(seed), "random patterns"
    if len(scaled) > MANY_UNITS:
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        normal = rng.standard_normal((REPLICATES, len(values))) * np.sqrt(np.maximum(0.0, values))
        statistics, drawn = ((normal @ vectors.T) ** 2).sum(axis=1), "normal sums"
    else:
        block = max(1, _MAX_SIGNS // len(scaled))
        blocks = [min(block, REPLICATES - begin) for begin in range(0, REPLICATES, block)]
        statistics = np.concatenate(
            [_statistics(rng.integers(0, 2, (size, len(scaled))) * 2.0 - 1, scaled) for size in blocks]
        )
    above = int((statistics >= observed * (1 - 1e-12)).sum())
    return Estimate(
        value=observed,
        p=(1 + above) / (1 + REPLICATES),
        n=len(nets),
        method=f"{METHOD}, {REPLICATES:,} {drawn}",
        smallest_p=1 / (1 + REPLICATES),
    )


def _in_order(nets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return methods and units in an order of their numbers: drawn flips do not depend on names."""
    sorted_columns = nets[:, np.lexsort(((nets**2).sum(axis=0), nets.sum(axis=0)))]
    return np.asarray(sorted_columns[np.lexsort(sorted_columns.T[::-1])])


def _statistics(flips: NDArray[np.floating], scaled: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(((flips @ scaled) ** 2).sum(axis=1))
