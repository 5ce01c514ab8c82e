"""Rank sets: the ranks that each of several methods may have, all right at once with a given chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.ranks import davidson as newton

Floats = NDArray[np.float64]

DRAWS = 20_000
"""Draws of the largest error among all differences; its quantile has a Monte-Carlo error of some .01."""
MANY_UNITS = 1_000
"""With more units, the errors of scores are drawn from their covariance alone."""
FEW_UNITS = 20
"""Where fewer units know a method, its differences have their degrees of freedom, not those of all."""
_BLOCK = 500
_STEP = 1e-5
"""For the derivatives of shares."""
_NUMBERS = 4_000_000
"""At most so many numbers of units' information at once."""
_LEFT = 1e-6


def rank_sets(
    scores: ArrayLike,
    influence: Floats,
    *,
    freedom: float,
    level: float = 0.95,
    inflation: float = 1.0,
    line: float | None = None,
    known: NDArray[np.integer] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Return the least and the greatest rank of each method, 1 for the highest score.

    A method ranks surely below another if the t interval of the difference of their scores is below 0; the
    intervals of all differences hold at once by Bonferroni, or by `line`. Then all sets hold the true ranks
    at once (Mogstad, Romano, Shaikh and Wilhelm 2024), and methods that are truly alike share their ranks.

    Args:
        scores: One of each method, [K].
        influence: What each unit adds to the error of each score, [units, K]; units are independent.
        freedom: Degrees of freedom of the variances.
        level: The chance that all sets are right.
        inflation: By how much variances are larger than the influences say.
        line: Half the width of an interval in standard errors (`simultaneous_line`); Bonferroni's otherwise.
        known: In how many units each method was compared, [K]; `None` where it is in all of them.
    """
    values = np.asarray(scores, dtype=float)
    methods = len(values)
    pairs = max(1, methods * (methods - 1) // 2)
    variance = _variances(influence.T @ influence)
    if line is None:
        line = float(special.stdtrit(freedom, 1 - (1 - level) / (2 * pairs)))
    half = line * np.sqrt(np.maximum(0.0, inflation * variance))
    if known is not None:
        half *= _of_few(known, freedom, 1 - (1 - level) / (2 * pairs))
    surely_above = (values[:, None] - values) > half + 1e-12
    np.fill_diagonal(surely_above, val=False)
    least, greatest = 1 + surely_above.sum(axis=0), methods - surely_above.sum(axis=1)
    return tuple((int(low), int(high)) for low, high in zip(least, greatest, strict=True))


def _of_few(known: NDArray[np.integer], freedom: float, chance: float) -> Floats:
    """Return by how much the intervals of differences that few units know widen, [K, K]."""
    units = np.minimum(known[:, None], known[None, :])
    own = np.where(units < FEW_UNITS, np.minimum(units - 1.0, freedom), freedom)
    ratio = special.stdtrit(np.maximum(1.0, own), chance) / special.stdtrit(freedom, chance)
    widened: Floats = np.where(own < 1, np.inf, ratio)  # one unit cannot show a spread
    return widened


def simultaneous_line(influence: Floats, *, freedom: float, level: float = 0.95, seed: int = 0) -> float:
    """Return how many standard errors all differences of scores stay within at once, at the level.

    It is the quantile of the largest of all |differences| in standard errors, by simulation, so that
    differences that share a method go together. It is drawn in two ways and the larger is taken: as a t
    vector with the scores' covariance; and, where units are not many, from the influences with random signs
    and the standard errors of each draw (the wild bootstrap of t: Cameron, Gelbach and Miller 2008), which
    is larger where few units know of a difference.

    Args:
        influence: What each unit adds to the error of each score, [units, K].
        freedom: Degrees of freedom of the variances.
        level: The chance that all differences stay within.
        seed: It alone decides the draws.
    """
    first, second = np.triu_indices(influence.shape[1], 1)
    squares = _variances(influence.T @ influence)[first, second]
    known = squares > 1e-24 * max(1e-300, float(squares.max(initial=0.0)))
    if not known.any():
        return 0.0
    first, second, squares = first[known], second[known], squares[known]
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(influence.T @ influence)
    root = vectors * np.sqrt(np.maximum(0.0, values))
    largest = []
    for _ in range(0, DRAWS, _BLOCK):
        drawn = rng.standard_normal((_BLOCK, len(root))) @ root.T
        sums = (drawn[:, first] - drawn[:, second]) ** 2 / squares
        largest.append(sums.max(axis=1) / (rng.chisquare(freedom, _BLOCK) / freedom))
    line = float(np.quantile(np.concatenate(largest), level))
    units = len(influence)
    if units <= MANY_UNITS:
        largest.clear()
        for _ in range(0, DRAWS, _BLOCK):
            drawn = (rng.integers(0, 2, (_BLOCK, units)) * 2.0 - 1) @ influence
            sums = (drawn[:, first] - drawn[:, second]) ** 2 / squares
            largest.append((sums / np.maximum(1 - sums / units, 1e-9)).max(axis=1) * freedom / units)
        line = max(line, float(np.quantile(np.concatenate(largest), level)))
    return float(np.sqrt(line))


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

    It is what leaving the unit out changes, to first order: its part of the likelihood's gradient by the
    inverse of the information that the others have, less its stratum's mean. It gives the sandwich estimate
    of the covariance, for verdicts that depend on each other within a unit in any way; by the others'
    information, so that a difference that few units know of is not taken for surer than it is (CR3: Bell
    and McCaffrey 2002).

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
    expected, tie = (chance[:, 0] - chance[:, 2]) / 2, chance[:, 1]
    lean = (points - 1) / 2 - expected
    last = np.full(len(unit), methods)
    gradient = np.zeros((units, methods + 1))
    for place, value in ((first, lean), (second, -lean), (last, (points == 1) - tie)):
        np.add.at(gradient, (unit, place), value)
    # The information of a comparison, in its two methods' strengths and in log ν.
    spread, joint = (chance[:, 0] + chance[:, 2]) / 4 - expected**2, -expected * tie
    cells = (
        (first, first, spread),
        (second, second, spread),
        (first, second, -spread),
        (second, first, -spread),
        (first, last, joint),
        (last, first, joint),
        (second, last, -joint),
        (last, second, -joint),
        (last, last, tie * (1 - tie)),
    )
    whole = np.zeros((1, methods + 1, methods + 1))
    for row, column, value in cells:
        np.add.at(whole[0], (row, column), value)
    whole[0, -1, -1] += np.isneginf(parameters[-1])
    whole += newton.gauge(whole)
    solved = np.empty_like(gradient)
    size = max(1, _NUMBERS // (methods + 1) ** 2)
    for begin in range(0, units, size):
        mine = (unit >= begin) & (unit < begin + size)
        own = np.zeros((min(size, units - begin), methods + 1, methods + 1))
        for row, column, value in cells:
            np.add.at(own, (unit[mine] - begin, row[mine], column[mine]), value[mine])
        # A unit that alone joins two groups of methods would leave nothing to know their difference by.
        others = whole - (1 - _LEFT) * own
        solved[begin : begin + size] = np.linalg.solve(others, gradient[begin : begin + size, :, None])[
            ..., 0
        ]
    for stratum in np.unique(strata):
        mine = strata == stratum
        if mine.sum() > 1:
            solved[mine] -= solved[mine].mean(axis=0)
    return np.asarray(solved, dtype=np.float64)


def share_errors(
    parameters: Floats,
    unit: NDArray[np.int64],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    points: NDArray[np.integer],
    *,
    strata: NDArray[np.int64],
) -> Floats:
    """Return what each unit adds to the error of each expected win share, [units, K], for sets of ranks.

    It is `share_influence` at strengths that are drawn towards their mean by as much of their spread as is
    error (James and Stein 1961). At the strengths themselves the errors of those methods that lie furthest
    apart by chance come out too small, and the sets are right too rarely where all methods are alike. Where
    they are not, hardly anything is drawn in.

    Args:
        parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
        unit: As the rest in `strength_influence`.
        first: Index of one of a comparison's methods.
        second: Index of the other.
        points: 2, 1 or 0.
        strata: Each unit's stratum.
    """
    influence = strength_influence(parameters, unit, first, second, points, strata=strata)
    spread = float((parameters[:-1] ** 2).sum())
    error = float((influence[:, :-1] ** 2).sum())
    drawn_in = parameters.copy()
    drawn_in[:-1] *= max(0.0, 1 - error / spread) if spread else 0.0
    again = strength_influence(drawn_in, unit, first, second, points, strata=strata)
    return share_influence(drawn_in, again)


def share_intervals(
    parameters: Floats,
    unit: NDArray[np.int64],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    points: NDArray[np.integer],
    *,
    strata: NDArray[np.int64],
    level: float,
) -> Floats:
    """Return the t limits of each expected win share, one method at a time, [K, 2]; see `share_errors`."""
    influence = strength_influence(parameters, unit, first, second, points, strata=strata)
    errors = np.sqrt((share_influence(parameters, influence) ** 2).sum(axis=0))
    half = float(special.stdtrit(max(1, len(strata) - 1), 0.5 + level / 2)) * errors
    middle = newton.shares(parameters)
    return np.stack([middle - half, middle + half], axis=-1)


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
