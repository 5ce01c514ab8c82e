"""Compute the smallest share that a study of a given size and variance would probably find."""

from __future__ import annotations

import math

from scipy import optimize, special


def find_detectable_share(
    error: float,
    units: int,
    *,
    alpha: float,
    power: float = 0.8,
) -> float:
    """Return the smallest share above one half that a two-sided sign-flip test finds with this power.

    The function solves d = z_(α/2) √(e² + d²/n) + z_power e for d = share − ½. The variance of the flipped
    scores of n units comes from the variance of the scores and the square of their mean.

    Args:
        error: The standard error of the share.
        units: The number of independent units.
        alpha: The error rate of the test, already divided by the number of tests in the correction.
        power: The probability to find the share.

    >>> round(find_detectable_share(0.05, 100, alpha=0.05), 3)  # without d²/n: .5 + 2.80 · .05 = .640
    0.644
    """
    rejects = float(special.ndtri(1 - alpha / 2))
    finds = float(special.ndtri(power))

    def compute_power_gap(distance: float) -> float:
        return distance - rejects * math.sqrt(error**2 + distance**2 / units) - finds * error

    if compute_power_gap(0.5) <= 0:
        return 1.0
    return 0.5 + float(optimize.brentq(compute_power_gap, 0.0, 0.5))
