"""Test whether a share is near one half, with two one-sided t tests (Schuirmann 1987)."""

import math

import numpy as np
from scipy import special

from guard_eval.estimate import Floats

HALF = 0.5
"""The win share if the two methods do not differ."""
FEWEST_OFF = 5
"""The correlation within units cannot be estimated if fewer units than this differ from the others."""


def run_two_one_sided_tests(
    share: float,
    error: float,
    df: float,
    *,
    margin: float,
) -> float | None:
    """Test whether a share is near one half, and return p: two one-sided t tests (Schuirmann 1987).

    The null hypothesis says that the share is at least `margin` above or below one half. p is the larger p of
    the two tests. p ≤ α if and only if the t interval with the level 1 − 2α lies within the margin. The
    result is None if the error is 0.

    Args:
        share: The share.
        error: Its standard error.
        df: The degrees of freedom of the error.
        margin: The largest distance from one half that does not matter.

    >>> round(run_two_one_sided_tests(0.51, 0.02, 100, margin=0.05), 4)  # t = (.05 − .01) / .02 = 2
    0.0241
    """
    if error <= 0:
        return None
    t = (margin - abs(share - HALF)) / error
    return float(special.stdtr(df, -t))


def compute_conservative_standard_error(
    error: float,
    scores: Floats,
    units: int,
    *,
    margin: float,
) -> float:
    """Return the standard error of the sample, or the smallest error of a share at the margin if larger.

    If nearly all ratings are ties, a sample may lack the few other ratings by chance. Such a sample does not
    show that the share differs from one half, and its error is too small. With this error, t tests would find
    equivalence in up to .22 of the studies. A mean of wins, ties and losses at the distance `margin` from one
    half has a variance of at least margin (1 − 2 margin) / 2, which is the variance of ties and wins alone.
    If the scores of wins have a smaller size d, as in a composite, the variance is at least
    margin (d − 2 margin) / 2. If the ratings vary less, the error is increased to fit this variance. If few
    units differ from the others, the error is that of units whose ratings are all equal.

    Args:
        error: The standard error of the sample. An error of 0 stays 0.
        scores: The scores of the ratings: 1 for a win, 0 for a tie, −1 for a loss, or between them.
        units: The number of units of the ratings.
        margin: The largest distance from one half that does not matter.

    >>> round(compute_conservative_standard_error(0.01, np.repeat([1, 0], [5, 95]), 100, margin=0.05), 6)
    0.013765
    >>> round(0.01 * (0.05 * 0.9 / 2 / (0.05 * 0.95 / 4)) ** 0.5, 6)
    0.013765
    """
    n = len(scores)
    _, counts = np.unique(np.sign(scores), return_counts=True)
    variance = scores.var() / 4
    size = np.abs(scores).sum()
    win = (scores**2).sum() / size if size else 1.0
    least = margin * (win - 2 * margin) / 2
    grown = error * math.sqrt(max(1.0, least / variance)) if variance > 0 else error
    are_few = (n - counts.max()) * units < FEWEST_OFF * n
    floor = math.sqrt(margin * (1 - 2 * margin) / 2 / units)
    return max(grown, floor) if are_few and error > 0 else grown
