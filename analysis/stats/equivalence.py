"""Is a share within a margin of one half? Two one-sided t tests (Schuirmann 1987)."""

from __future__ import annotations

import math

from scipy import special

HALF = 0.5
"""The share of methods that do not differ."""
FEWEST_OFF = 5
"""With fewer units that differ from the others, the correlation of a unit's ratings cannot be estimated."""


def tost(
    share: float,
    error: float,
    df: float,
    *,
    margin: float,
) -> float | None:
    """Return the p of two one-sided t tests that a share is near one half (Schuirmann 1987).

    The hypothesis to reject is that the share is `margin` or more away from one half, on either side; p is
    the larger of the two tests'. p ≤ α says the same as that the t interval at level 1 − 2α lies within the
    margin. None where there is no error.

    Args:
        share: The share.
        error: Its standard error.
        df: The degrees of freedom of the error.
        margin: The largest distance from one half that does not matter.

    >>> round(tost(0.51, 0.02, 100, margin=0.05), 4)  # t = (.05 − .01) / .02 = 2
    0.0241
    """
    if error <= 0:
        return None
    t = (margin - abs(share - HALF)) / error
    return float(special.stdtr(df, -t))


def conservative_error(
    error: float,
    counts: tuple[int, int, int],
    sums: tuple[float, float, float],
    units: int,
    *,
    margin: float,
) -> float:
    """Return the larger of the sample's error and the error that a share at the margin must have.

    If nearly all ratings are ties, a sample often lacks the few others by chance, and then shows neither that
    the share is off one half nor how far it spreads: t tests with its error would find equivalence in up to
    .22 of the studies. A mean of wins, ties and losses that is `margin` off one half has a variance of at
    least margin (1 − 2 margin) / 2, that of ties and wins alone; of scores whose wins are smaller, such as a
    composite's, margin (d − 2 margin) / 2, their size being d. The error grows as far as the ratings vary
    less; and if hardly any unit differs, to that of units whose ratings are all the same.

    Args:
        error: The standard error of the sample; an error of 0 stays 0.
        counts: Ratings that were wins, ties and losses.
        sums: The sums of the ratings' scores from −1 to 1, of their sizes, and of their squares.
        units: Of how many units they are.
        margin: As in `tost`.

    >>> round(conservative_error(0.01, (5, 95, 0), (5, 5, 5), 100, margin=0.05), 6)
    0.013765
    >>> round(0.01 * (0.05 * 0.9 / 2 / (0.05 * 0.95 / 4)) ** 0.5, 6)
    0.013765
    """
    n = sum(counts)
    total, size, square = sums
    variance = (square / n - (total / n) ** 2) / 4
    win = square / size if size else 1.0
    least = margin * (win - 2 * margin) / 2
    grown = error * math.sqrt(max(1.0, least / variance)) if variance > 0 else error
    are_few = (n - max(counts)) * units < FEWEST_OFF * n
    floor = math.sqrt(margin * (1 - 2 * margin) / 2 / units)
    return max(grown, floor) if are_few and error > 0 else grown
