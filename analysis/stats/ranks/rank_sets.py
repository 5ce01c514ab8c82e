"""Rank sets: the ranks that each of several methods may have, all right at once with a given chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.ranks.davidson import gauge, shares

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer]

DRAWS, DRAWS_AT_ONCE = 20_000, 500
"""Draws of the largest error among all differences; its quantile has a Monte-Carlo error of some .01."""
MANY_UNITS = 1_000
"""With more units, the errors of scores are drawn from their covariance alone."""
FEW_UNITS = 20
"""Where fewer units know a method, its differences have their degrees of freedom, not those of all."""
_STEP = 1e-5
"""For the derivatives of shares."""
_MAX_NUMBERS = 4_000_000
"""At most so many numbers of units' information at once."""
_KEPT = 1e-6
"""The part of a unit's information that stays when it is left out: it may alone join two groups."""


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of methods, and the units that they are of.

    Attributes:
        unit: Each comparison's unit, from 0, [n].
        first: The number of one of its methods, [n].
        second: The number of the other, [n].
        points: 2 if the first won, 1 for a tie, 0 if the second won, [n].
        strata: Each unit's stratum, [units].
    """

    unit: NDArray[np.int64]
    first: Numbers
    second: Numbers
    points: Numbers
    strata: NDArray[np.int64]

    @property
    def df(self) -> int:
        """Return the degrees of freedom of variances over units."""
        return max(1, len(self.strata) - 1)

    def units_by_method(self, methods: int) -> NDArray[np.int64]:
        """Return in how many units each method was compared, [methods]."""
        either = [(self.first == method) | (self.second == method) for method in range(methods)]
        return np.array([len(np.unique(self.unit[rows])) for rows in either])

    def share_errors(self, parameters: Floats) -> Floats:
        """Return what each unit adds to the error of each expected win share, [units, K], for rank sets.

        It is `share_influence` at strengths that are drawn towards their mean by as much of their spread as
        is error (James and Stein 1961). At the strengths themselves the errors of methods that are far apart
        by chance come out too small, and the sets are right too rarely if all methods are alike. If they are
        not, hardly anything is drawn in.

        Args:
            parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
        """
        spread = float((parameters[:-1] ** 2).sum())
        error = float((self._influence(parameters)[:, :-1] ** 2).sum())
        drawn_in = parameters.copy()
        drawn_in[:-1] *= max(0.0, 1 - error / spread) if spread else 0.0
        return self.share_influence(drawn_in)

    def share_limits(self, parameters: Floats, *, level: float) -> Floats:
        """Return the t limits of each expected win share, one method at a time, [K, 2]."""
        errors = np.sqrt((self.share_influence(parameters) ** 2).sum(axis=0))
        half = float(special.stdtrit(self.df, 0.5 + level / 2)) * errors
        middle = shares(parameters)
        return np.asarray(np.clip(np.stack([middle - half, middle + half], axis=-1), 0.0, 1.0))

    def share_influence(self, parameters: Floats) -> Floats:
        """Return what each unit adds to the error of each expected win share, [units, K].

        Shares have the strengths' order, and errors that do not grow without limit if a method hardly ever
        loses, as those of strengths do (Hauck and Donner 1977).
        """
        steps = np.eye(len(parameters)) * _STEP
        slopes = (shares(parameters + steps) - shares(parameters - steps)) / (2 * _STEP)
        return np.asarray(self._influence(parameters) @ slopes)

    def _influence(self, parameters: Floats) -> Floats:
        """Return what each unit adds to the error of Davidson's log-strengths and log ν, [units, K + 1].

        It is what leaving the unit out changes, to first order: its part of the likelihood's gradient by the
        inverse of the information that the others have, less its stratum's mean. It gives the sandwich
        estimate of the covariance, for verdicts that depend on each other within a unit in any way; by the
        others' information, so that a difference that few units know of is not taken for surer than it is
        (CR3: Bell and McCaffrey 2002).
        """
        first, second, unit = self.first, self.second, self.unit
        methods, units = len(parameters) - 1, len(self.strata)
        half = (parameters[first] - parameters[second]) / 2
        chance = special.softmax(
            np.stack([half, np.full(len(half), parameters[-1]), -half], axis=-1), axis=-1
        )
        expected, tie = (chance[:, 0] - chance[:, 2]) / 2, chance[:, 1]
        net, last = (self.points - 1) / 2 - expected, np.full(len(unit), methods)
        gradient = np.zeros((units, methods + 1))
        for column, score in ((first, net), (second, -net), (last, (self.points == 1) - tie)):
            np.add.at(gradient, (unit, column), score)
        # The information of a comparison, in its two methods' strengths and in log ν.
        spread, joint = (chance[:, 0] + chance[:, 2]) / 4 - expected**2, -expected * tie
        cells = [(first, first, spread), (second, second, spread), (last, last, tie * (1 - tie))]
        for row, column, content in ((first, second, -spread), (first, last, joint), (second, last, -joint)):
            cells += [(row, column, content), (column, row, content)]
        total = np.zeros((methods + 1, methods + 1))
        for row, column, content in cells:
            np.add.at(total, (row, column), content)
        total[-1, -1] += np.isneginf(parameters[-1])
        total += gauge(total)
        influence = np.empty_like(gradient)
        size = max(1, _MAX_NUMBERS // (methods + 1) ** 2)
        for begin in range(0, units, size):
            part = (unit >= begin) & (unit < begin + size)
            removed = np.zeros((min(size, units - begin), methods + 1, methods + 1))
            for row, column, content in cells:
                np.add.at(removed, (unit[part] - begin, row[part], column[part]), content[part])
            others = total - (1 - _KEPT) * removed
            block = slice(begin, begin + size)
            influence[block] = np.linalg.solve(others, gradient[block, :, None])[..., 0]
        for stratum in np.unique(self.strata):
            members = self.strata == stratum
            if members.sum() > 1:
                influence[members] -= influence[members].mean(axis=0)
        return influence


def rank_sets(
    scores: Floats, influence: Floats, known: Numbers, *, line: float, df: float, level: float
) -> tuple[tuple[int, int], ...]:
    """Return the least and the greatest rank of each method, 1 for the highest score.

    A method ranks surely below another if the interval of the difference of their scores is below 0; the
    intervals of all differences hold at once. Then all sets hold the true ranks at once (Mogstad, Romano,
    Shaikh and Wilhelm 2024), and methods that are truly alike share their ranks.

    Args:
        scores: The score of each method, [K].
        influence: What each unit adds to the error of each score, [units, K]; units are independent.
        known: In how many units each method was compared, [K]; few units widen its intervals.
        line: Half the width of an interval in standard errors (`simultaneous_line`).
        df: The degrees of freedom of the variances.
        level: The chance that all sets are right.
    """
    methods = len(scores)
    bonferroni = 1 - (1 - level) / max(2, methods * (methods - 1))
    units = np.minimum(known[:, None], known[None, :])
    own_df = np.where(units < FEW_UNITS, np.minimum(units - 1.0, df), df)
    wider = special.stdtrit(np.maximum(1.0, own_df), bonferroni) / special.stdtrit(df, bonferroni)
    half = line * np.sqrt(np.maximum(0.0, difference_variances(influence))) * wider
    half = np.where(own_df < 1, np.inf, half)  # one unit cannot show a spread
    surely_above = (scores[:, None] - scores) > half + 1e-12
    np.fill_diagonal(surely_above, val=False)
    least, greatest = 1 + surely_above.sum(axis=0), methods - surely_above.sum(axis=1)
    return tuple((int(low), int(high)) for low, high in zip(least, greatest, strict=True))


def simultaneous_line(influence: Floats, *, df: float, level: float = 0.95, seed: int = 0) -> float:
    """Return how many standard errors all differences of scores stay within at once, at the level.

    It is the quantile of the largest of all |differences| in standard errors, by simulation, so that
    differences that share a method go together. It is drawn in two ways and the larger is taken: as a t
    vector with the scores' covariance; and, if units are not many, from the influences with random signs and
    the standard errors of each draw (the wild bootstrap of t: Cameron, Gelbach and Miller 2008), which is
    larger if few units know of a difference.

    Args:
        influence: What each unit adds to the error of each score, [units, K].
        df: The degrees of freedom of the variances.
        level: The chance that all differences stay within.
        seed: The seed of the draws.
    """
    first, second = np.triu_indices(influence.shape[1], 1)
    squares = difference_variances(influence)[first, second]
    varies = squares > 1e-24 * max(1e-300, float(squares.max(initial=0.0)))
    if not varies.any():
        return 0.0
    first, second, squares = first[varies], second[varies], squares[varies]
    rng, units = np.random.default_rng(seed), len(influence)
    values, vectors = np.linalg.eigh(influence.T @ influence)
    root = vectors * np.sqrt(np.maximum(0.0, values))

    def student() -> Floats:
        drawn = rng.standard_normal((DRAWS_AT_ONCE, len(root))) @ root.T
        sums = (drawn[:, first] - drawn[:, second]) ** 2 / squares
        return np.asarray(sums.max(axis=1) / (rng.chisquare(df, DRAWS_AT_ONCE) / df))

    def wild() -> Floats:
        drawn = (rng.integers(0, 2, (DRAWS_AT_ONCE, units)) * 2.0 - 1) @ influence
        sums = (drawn[:, first] - drawn[:, second]) ** 2 / squares
        return np.asarray((sums / np.maximum(1 - sums / units, 1e-9)).max(axis=1) * df / units)

    lines = []
    for draw in (student, wild) if units <= MANY_UNITS else (student,):
        largest = np.concatenate([draw() for _ in range(0, DRAWS, DRAWS_AT_ONCE)])
        lines.append(float(np.quantile(largest, level)))
    return float(np.sqrt(max(lines)))


def difference_variances(influence: Floats) -> Floats:
    """Return the variance of each difference of scores, [K, K], of influences [units, K]."""
    covariance = influence.T @ influence
    variances = np.diag(covariance)
    return np.asarray(variances[:, None] + variances - 2 * covariance)
