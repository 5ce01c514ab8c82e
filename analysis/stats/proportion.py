"""Estimate proportions, run the paper's binomial test, and find the smallest share that a study detects."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats
from statsmodels.stats.proportion import proportion_confint

from guard_eval.estimate import NO_DATA, ONE_UNIT, Estimate, Integers, sum_columns_by_unit

_confidence_limits = cache(proportion_confint)  # different raters often have the same numbers
POWER = 0.8
"""The probability with which a study should detect a share."""
BINOMIAL = "exact two-sided binomial test on non-tied ratings, taken as independent"


def estimate_proportion(
    successes: Sequence[bool] | NDArray[np.bool_], unit: Integers, *, level: float
) -> Estimate:
    """Estimate a proportion. Trials of one unit may depend on each other in any way.

    The interval is Wilson's interval for the effective number of trials (Korn and Graubard 1998). This number
    is trials / design effect × (z/t)², with a design effect of at least 1 and t for the number of units. If
    all trials are the same, each unit counts as one trial. If each unit has one trial, the interval is the
    original one (Wilson 1927).

    >>> share = estimate_proportion([True, True, False, False], np.array([0, 0, 1, 1]), level=0.95)
    >>> share.n, round(share.low, 3), round(share.high, 3)
    (2, 0.002, 0.998)
    """
    hits = np.asarray(successes, dtype=float)
    index = np.unique(unit, return_inverse=True)[1]
    by_unit = sum_columns_by_unit(index, hits, np.ones(len(hits)))
    trials = len(hits)
    count = len(by_unit)
    result = Estimate(level=level, n=count)
    if not trials:
        return result.with_note(NO_DATA)
    share = float(hits.mean())
    effective = float(trials)
    result = replace(result, value=share)
    if count == 1 < trials:
        return result.with_note(ONE_UNIT)
    if count < trials:
        off = by_unit[:, 0] - share * by_unit[:, 1]
        chance = share * (1 - share) * trials
        design = trials / count
        if chance > 0:
            design = count / (count - 1) * float(np.sort(off**2).sum()) / chance
        narrow = float(special.ndtri(0.5 + level / 2) / special.stdtrit(count - 1, 0.5 + level / 2))
        effective = trials / max(1.0, design) * narrow**2
    low, high = _confidence_limits(
        share * effective,
        effective,
        alpha=1 - level,
        method="wilson",
    )
    # At 0 and 1 the limit is exactly 0 or 1. Rounding must not move the limit beyond.
    return replace(result, low=float(low) if share > 0 else 0.0, high=float(high) if share < 1 else 1.0)


def run_pooled_binomial_test(wins: int, losses: int) -> Estimate:
    """Run the paper's test, an exact binomial test of ratings without ties (`tab:humaneval_resultglacs`).

    The test treats all ratings as independent. Ratings of the same pair are not independent, and then the
    test errs too often.

    >>> run_pooled_binomial_test(251, 156).p
    2.874966592398616e-06
    """
    if not (n := wins + losses):
        return Estimate(
            method=BINOMIAL,
            note="every rating is a tie",
            smallest_p=1.0,
        )
    p = float(stats.binomtest(wins, n, 0.5).pvalue)
    return Estimate(value=wins / n, p=p, n=n, method=BINOMIAL, smallest_p=math.ldexp(1.0, 1 - n))


def find_detectable_share(
    error: float,
    units: int,
    *,
    alpha: float,
) -> float:
    """Return the smallest share above one half that a two-sided sign-flip test finds with a power of .8.

    The function solves d = z_(α/2) √(e² + d²/n) + z_power e for d = share − ½. The variance of the flipped
    scores of n units comes from the variance of the scores and the square of their mean.

    Args:
        error: The standard error of the share.
        units: The number of independent units.
        alpha: The error rate of the test, already divided by the number of tests in the correction.

    >>> round(find_detectable_share(0.05, 100, alpha=0.05), 3)  # without d²/n: .5 + 2.80 · .05 = .640
    0.644
    """
    rejects = float(special.ndtri(1 - alpha / 2))
    finds = float(special.ndtri(POWER))

    def compute_power_gap(distance: float) -> float:
        return distance - rejects * math.sqrt(error**2 + distance**2 / units) - finds * error

    if compute_power_gap(0.5) <= 0:
        return 1.0
    return 0.5 + float(optimize.brentq(compute_power_gap, 0.0, 0.5))
