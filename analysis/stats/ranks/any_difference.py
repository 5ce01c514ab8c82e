"""Test whether several methods differ at all, with one test of all comparisons together."""

from __future__ import annotations

import numpy as np

from guard_eval.estimate import ROUNDING, Estimate, Floats
from guard_eval.joint_flips import flip_together

METHOD = "sign-flip test of all comparisons together"


def run_any_difference_test(nets: Floats, *, seed: int = 0) -> Estimate:
    """Test the hypothesis that no method is preferred to another, in all comparisons together.

    The test flips the sides of all verdicts of a unit together, at random. The statistic is the sum over
    methods of (net wins)² / (sum of the squared net wins by unit), so all methods have the same weight. p is
    exact if the verdicts of a unit and their mirror image are equally likely. With many units, p is valid
    whenever no method is better, because the flips have the covariance of the net wins.

    Args:
        nets: Wins minus losses of each method in each unit, [units, K].
        seed: The seed of the flips. Nothing else affects the flips.
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
    """Sort methods and units by their numbers, so that the random flips do not depend on names."""
    squares = (nets**2).sum(axis=0)
    methods = np.lexsort((squares, nets.sum(axis=0)))
    sorted_columns = nets[:, methods]
    units = np.lexsort(sorted_columns.T[::-1])
    return np.asarray(sorted_columns[units])
