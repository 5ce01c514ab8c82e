"""Is a share within a margin of one half? Two one-sided t tests (Schuirmann 1987)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

HALF = 0.5
"""The share of methods that do not differ."""
FEWEST_OFF = 5
"""With fewer units that differ from the others, the correlation of a unit's ratings cannot be estimated."""


def tost(estimates: ArrayLike, errors: ArrayLike, df: ArrayLike, *, margin: float) -> NDArray[np.float64]:
    """Return the p-values of two one-sided t tests (Schuirmann 1987) that shares are near one half.

    The hypothesis to reject is that the share is `margin` or more away from one half, on either side; p is
    the larger of the two tests'. p ≤ α says the same as that the t interval at level 1 − 2α lies within the
    margin. NaN where there is no error.

    Args:
        estimates: The shares.
        errors: Their standard errors.
        df: The degrees of freedom of the errors.
        margin: The largest distance from one half that does not matter.

    >>> round(float(tost(0.51, 0.02, 100, margin=0.05)), 4)  # t = (.05 − .01) / .02 = 2
    0.0241
    """
    spread: NDArray[np.float64] = np.asarray(errors, dtype=float)
    distance = margin - np.abs(np.asarray(estimates, dtype=float) - HALF)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(spread > 0, distance / spread, np.nan)
    return np.asarray(special.stdtr(np.asarray(df, dtype=float), -t))


def conservative_error(
    errors: ArrayLike,
    counts: tuple[ArrayLike, ArrayLike, ArrayLike],
    units: int,
    *,
    margin: float,
    sums: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    """Return the larger of the sample's error and the error that a share at the margin must have.

    If nearly all ratings are ties, a sample often lacks the few others by chance, and then shows neither that
    the share is off one half nor how far it spreads: t tests with its error would find equivalence in up to
    .22 of the studies. A mean of wins, ties and losses that is `margin` off one half has a variance of at
    least margin (1 − 2 margin) / 2, that of ties and wins alone; of scores whose wins are smaller, such as a
    composite's, margin (d − 2 margin) / 2, their size being d. The error grows as far as the ratings vary
    less; and if hardly any unit differs, to that of units whose ratings are all the same.

    Args:
        errors: The standard errors of the sample; an error of 0 stays 0.
        counts: Ratings that were wins, ties and losses.
        units: Of how many units they are.
        margin: As in `tost`.
        sums: The sums of the ratings' scores from −1 to 1, of their sizes, and of their squares; None if
            every win is 1 and every loss −1.

    >>> error = conservative_error(0.01, (5, 95, 0), 100, margin=0.05)
    >>> float(error.round(6))  # .01 · √(.0225 / (.05 · .95 / 4))
    0.013765
    """
    sample = np.asarray(errors, dtype=float)
    wins, ties, losses = (np.asarray(count, dtype=float) for count in counts)
    n = wins + ties + losses
    total, size, square = (
        np.asarray(part, dtype=float) for part in sums or (wins - losses, wins + losses, wins + losses)
    )
    variance = (square / n - (total / n) ** 2) / 4
    step = np.where(size > 0, square / np.where(size > 0, size, 1.0), 1.0)
    least = np.maximum(0.0, margin * (step - 2 * margin) / 2)
    grown = sample * np.sqrt(np.maximum(1.0, least / np.where(variance > 0, variance, np.inf)))
    few = (n - np.maximum(np.maximum(wins, ties), losses)) * units < FEWEST_OFF * n
    floor = math.sqrt(margin * (1 - 2 * margin) / 2 / units)
    return np.where(few & (sample > 0), np.maximum(grown, floor), grown)
