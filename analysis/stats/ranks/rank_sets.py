"""Rank sets: the ranks that each of several methods may have, all right at once with a given chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


def rank_sets(
    scores: ArrayLike,
    influence: NDArray[np.float64],
    *,
    freedom: float,
    level: float = 0.95,
    inflation: float = 1.0,
) -> tuple[tuple[int, int], ...]:
    """Return the least and the greatest rank of each method, 1 for the highest score.

    A method ranks surely below another if the t interval of the difference of their scores lies below 0; the
    intervals of all differences hold at once by Bonferroni. Then all sets hold the true ranks at once
    (Mogstad, Romano, Shaikh and Wilhelm 2024), and methods that are truly alike share their ranks.

    Args:
        scores: One of each method, [K].
        influence: What each unit adds to the error of each score, [units, K]; units are independent.
        freedom: Degrees of freedom of the variances.
        level: The chance that all sets are right.
        inflation: By how much variances are larger than the influences say.
    """
    values = np.asarray(scores, dtype=float)
    methods = len(values)
    pairs = max(1, methods * (methods - 1) // 2)
    squares = influence.T @ influence
    variance = np.diag(squares)[:, None] + np.diag(squares) - 2 * squares
    line = float(special.stdtrit(freedom, 1 - (1 - level) / (2 * pairs)))
    half = line * np.sqrt(np.maximum(0.0, inflation * variance))
    surely_above = (values[:, None] - values) > half + 1e-12
    np.fill_diagonal(surely_above, val=False)
    least, greatest = 1 + surely_above.sum(axis=0), methods - surely_above.sum(axis=1)
    return tuple((int(low), int(high)) for low, high in zip(least, greatest, strict=True))
