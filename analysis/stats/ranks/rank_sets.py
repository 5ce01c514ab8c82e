"""Rank sets: the ranks that each of several methods may have, all right at once with a given chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.ranks import davidson as newton

Floats = NDArray[np.float64]

DRAWS = 20_000
"""Draws of the largest error among all differences; its quantile has a Monte-Carlo error of some .01."""
_BLOCK = 500
_STEP = 1e-5
"""For the derivatives of shares."""


def rank_sets(
    scores: ArrayLike,
    influence: Floats,
    *,
    freedom: float,
    level: float = 0.95,
    inflation: float = 1.0,
    line: float | None = None,
) -> tuple[tuple[int, int], ...]:
    """Return the least and the greatest rank of each method, 1 for the highest score.

    A method ranks surely below another if the t interval of the difference of their scores lies below 0; the
    intervals of all differences hold at once by Bonferroni, or by `line`. Then all sets hold the true ranks
    at once (Mogstad, Romano, Shaikh and Wilhelm 2024), and methods that are truly alike share their ranks.

    Args:
        scores: One of each method, [K].
        influence: What each unit adds to the error of each score, [units, K]; units are independent.
        freedom: Degrees of freedom of the variances.
        level: The chance that all sets are right.
        inflation: By how much variances are larger than the influences say.
        line: Half the width of an interval in standard errors (`simultaneous_line`); Bonferroni's otherwise.
    """
    values = np.asarray(scores, dtype=float)
    methods = len(values)
    pairs = max(1, methods * (methods - 1) // 2)
    variance = _variances(influence.T @ influence)
    if line is None:
        line = float(special.stdtrit(freedom, 1 - (1 - level) / (2 * pairs)))
    half = line * np.sqrt(np.maximum(0.0, inflation * variance))
    surely_above = (values[:, None] - values) > half + 1e-12
    np.fill_diagonal(surely_above, val=False)
    least, greatest = 1 + surely_above.sum(axis=0), methods - surely_above.sum(axis=1)
    return tuple((int(low), int(high)) for low, high in zip(least, greatest, strict=True))


def simultaneous_line(influence: Floats, *, freedom: float, level: float = 0.95, seed: int = 0) -> float:
    """Return how many standard errors all differences of scores stay within at once, at the level.

    It is the quantile of the largest of all |differences| of a t vector with the scores' covariance, by
    simulation: narrower than Bonferroni's, since differences that share a method go together.
    """
    covariance = influence.T @ influence
    first, second = np.triu_indices(len(covariance), 1)
    errors = np.sqrt(np.maximum(0.0, _variances(covariance)[first, second]))
    known = errors > 1e-12 * max(1e-300, float(errors.max(initial=0.0)))
    if not known.any():
        return 0.0
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(0.0, values))
    rng = np.random.default_rng(seed)
    largest = []
    for _ in range(0, DRAWS, _BLOCK):
        drawn = rng.standard_normal((_BLOCK, len(root))) @ root.T
        apart = np.abs(drawn[:, first[known]] - drawn[:, second[known]]) / errors[known]
        scale = np.sqrt(rng.chisquare(freedom, _BLOCK) / freedom)
        largest.append(apart.max(axis=1) / scale)
    return float(np.quantile(np.concatenate(largest), level))


def strength_influence(
    parameters: Floats,
    unit: NDArray[np.int64],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    points: NDArray[np.integer],
    *,
    strata: NDArray[np.int64],
) -> Floats:
    """Return what each unit adds to the error of Davidson's log-strengths and log ν, [units, K + 1].

    It is the inverse information times the unit's part of the likelihood's gradient, less its stratum's mean
    and enlarged as leaving the unit out would: the sandwich estimate of the covariance, for verdicts that
    depend on each other within a unit in any way.

    Args:
        parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
        unit: Each comparison's unit, from 0, [n].
        first: Index of one of its methods, [n].
        second: Index of the other, [n].
        points: 2 where the first won, 1 for a tie, 0 where the second won, [n].
        strata: Each unit's stratum, [units].
    """
    methods, units = len(parameters) - 1, len(strata)
    half = (parameters[first] - parameters[second]) / 2
    logits = np.stack([half, np.full(len(half), parameters[-1]), -half], axis=-1)
    chance = special.softmax(logits, axis=-1)
    lean = (points - 1) / 2 - (chance[:, 0] - chance[:, 2]) / 2
    gradient = np.zeros((units, methods + 1))
    np.add.at(gradient, (unit, first), lean)
    np.add.at(gradient, (unit, second), -lean)
    np.add.at(gradient, (unit, np.full(len(unit), methods)), (points == 1) - chance[:, 1])
    counts = np.zeros((methods, methods))
    np.add.at(counts, (first, second), 1.0)
    upper = np.triu_indices(methods, 1)
    table = np.zeros((1, len(upper[0]), 3))
    table[0, :, 0] = (counts + counts.T)[upper]
    _, information = newton.moments(parameters[None], table)
    solved = np.linalg.solve((information + newton.gauge(information))[0], gradient.T).T
    for stratum in np.unique(strata):
        mine = strata == stratum
        size = int(mine.sum())
        if size > 1:
            solved[mine] = (solved[mine] - solved[mine].mean(axis=0)) * size / (size - 1)
    return np.asarray(solved, dtype=np.float64)


def share_influence(parameters: Floats, influence: Floats) -> Floats:
    """Return what each unit adds to the error of each expected win share, [units, K].

    Shares have the strengths' order, and errors that do not grow without limit where a method hardly ever
    loses (as those of strengths do: Hauck and Donner 1977).

    Args:
        parameters: Log-strengths and log ν, [K + 1].
        influence: Of `strength_influence`.
    """
    steps = np.eye(len(parameters)) * _STEP
    ahead, back = newton.shares(parameters + steps), newton.shares(parameters - steps)
    found: Floats = influence @ (ahead - back) / (2 * _STEP)
    return found


def _variances(covariance: Floats) -> Floats:
    """Return the variance of each difference, [K, K]."""
    own = np.diag(covariance)
    variances: Floats = own[:, None] + own - 2 * covariance
    return variances
