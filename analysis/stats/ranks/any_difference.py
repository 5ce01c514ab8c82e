"""Is there any difference among several methods? One test of all comparisons together."""

from __future__ import annotations

import numpy as np

from guard_eval.estimate import ROUNDING, Estimate, Floats
from guard_eval.joint_flips import flip_together

METHOD = "sign-flip test of all comparisons together"


def any_difference(nets: Floats, *, seed: int = 0) -> Estimate:
    """Test that no method is preferred to another, in all of their comparisons at once.

    Each unit's verdicts change sides together, at random: the statistic adds up the squares of the methods'
    net wins, each over the sum of its squares, so that every method weighs the same. p is exact where the
    verdicts of a unit are as likely as their mirror image, and holds for many units wherever none is better:
    the flips have the covariance of the net wins.

    Args:
        nets: Each unit's wins less losses of each method, [units, K].
        seed: It alone decides the flips.
    """
    is_tied = ~nets.any(axis=1)
    nets_in_order = _sort_nets(nets[~is_tied])
    squares = (nets_in_order**2).sum(axis=0)
    differs = squares > 0
    scaled = nets_in_order[:, differs] / np.sqrt(squares[differs])
    if not len(scaled):
        why = "every method has as many wins as losses in every unit"
        return Estimate(n=len(nets), method=METHOD, note=why, smallest_p=1.0)
    observed = float((scaled.sum(axis=0) ** 2).sum())
    flipped = flip_together(scaled, seed=seed)
    statistics = (flipped.sums**2).sum(axis=1)
    return Estimate(
        value=observed,
        p=flipped.p(statistics >= observed * (1 - ROUNDING)),
        n=len(nets),
        method=f"{METHOD}, {flipped.drawn}" if flipped.drawn else f"exact {METHOD}",
        smallest_p=flipped.smallest_p,
    )


def _sort_nets(nets: Floats) -> Floats:
    """Return methods and units in an order of their numbers: drawn flips do not depend on names."""
    squares = (nets**2).sum(axis=0)
    methods = np.lexsort((squares, nets.sum(axis=0)))
    sorted_columns = nets[:, methods]
    units = np.lexsort(sorted_columns.T[::-1])
    return np.asarray(sorted_columns[units])
