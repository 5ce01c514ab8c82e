"""Rank sets: the ranks that each of several methods may have, all right at once with a given chance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.ranks.davidson import UTILITIES, ComparedPairs, Numbers, cells_of
from guard_eval.estimate import ROUNDING, Floats
from guard_eval.joint_flips import covariance_root, random_signs
from guard_eval.sign_flip import sign_flip

DRAWS = 20_000
"""Draws of the largest error among all differences; its quantile has a Monte-Carlo error of some .01."""
DRAWS_AT_ONCE = 500
MANY_UNITS = 1_000
"""With more units, the errors of scores are drawn from their covariance alone."""
FEW_UNITS = 20
"""Where fewer units know a method, its differences have their degrees of freedom, not those of all."""
_MAX_NUMBERS = 4_000_000
"""At most so many numbers of units' information at once."""
NO_VARIANCE = 1e-20
"""A variance of a difference of shares below this is rounding."""
TINY = 1e-300
"""What is divided by in place of 0."""
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

    @cached_property
    def methods(self) -> int:
        """Return the number of methods."""
        return int(max(self.first.max(), self.second.max())) + 1

    def wins_and_ties(self) -> tuple[Floats, Floats]:
        """Return how often each method beat each other one, and how often they tied, [K, K] each."""
        counts = np.zeros((3, self.methods, self.methods))
        np.add.at(counts, (self.points, self.first, self.second), 1)
        lost, tied, won = counts
        return won + lost.T, tied + tied.T

    def nets(self, codes: Numbers) -> Floats:
        """Return the wins less losses of each method by unit or by rater, [codes, K]."""
        nets = np.zeros((int(codes.max()) + 1, self.methods))
        np.add.at(nets, (codes, self.first), self.points - 1)
        np.add.at(nets, (codes, self.second), 1 - self.points)
        return nets

    def units_by_method(self) -> NDArray[np.int64]:
        """Return in how many units each method was compared, [K]."""
        is_compared = np.zeros((len(self.strata), self.methods), dtype=bool)
        for side in (self.first, self.second):
            is_compared[self.unit, side] = True
        return np.asarray(is_compared.sum(axis=0))

    def drawn_in(self, parameters: Floats) -> Floats:
        """Return strengths drawn towards their mean by as much of their spread as is error, for rank sets.

        At the strengths themselves the errors of methods that are far apart by chance come out too small, and
        the sets are right too rarely if all methods are alike (James and Stein 1961). If they are not, hardly
        anything is drawn in.

        Args:
            parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
        """
        spread = float((parameters[:-1] ** 2).sum())
        error = float((self._influence(parameters)[:, :-1] ** 2).sum())
        drawn_in = parameters.copy()
        drawn_in[:-1] *= max(0.0, 1 - error / spread) if spread else 0.0
        return drawn_in

    def errors(self, parameters: Floats, rater: Numbers | None = None) -> ShareErrors:
        """Return the errors of the expected win shares for these raters, or for others like them.

        Raters and units are then crossed clusters: a variance is that over units, plus that over raters, less
        that over what a rater said of a unit (Cameron, Gelbach and Miller 2011). Degrees of freedom are
        Satterthwaite's, of the first two.

        Args:
            parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
            rater: Each comparison's rater, from 0, [n]; None for an answer about these raters.
        """
        influence = self.share_influence(parameters)
        covariance = influence.T @ influence
        freedom = max(1.0, len(influence) - 1.0)
        variances = difference_variances(covariance)
        df = np.full_like(variances, freedom)
        if rater is not None:
            cell = self.unit * (int(rater.max()) + 1) + rater
            raters = self._clustered(rater).share_influence(parameters)
            cells = self._clustered(cell).share_influence(parameters)
            over_raters = raters.T @ raters
            spread = variances**2 / freedom + difference_variances(over_raters) ** 2 / (len(raters) - 1)
            covariance = covariance + over_raters - cells.T @ cells
            variances = np.maximum(variances, difference_variances(covariance))
            df = np.clip(variances**2 / np.maximum(spread, TINY), 1.0, freedom)
        return ShareErrors(influence=influence, covariance=covariance, variances=variances, df=df)

    def _clustered(self, codes: Numbers) -> Comparisons:
        """Return the comparisons by other clusters than their units."""
        clusters, cluster = np.unique(codes, return_inverse=True)
        return replace(self, unit=cluster, strata=np.zeros(len(clusters), dtype=np.int64))

    def share_influence(self, parameters: Floats) -> Floats:
        """Return what each unit adds to the error of each expected win share, [units, K].

        Shares have the strengths' order, and errors that do not grow without limit if a method hardly ever
        loses, as those of strengths do (Hauck and Donner 1977).
        """
        methods = len(parameters) - 1
        first, second = np.triu_indices(methods, 1)
        model = ComparedPairs.of(parameters, first, second)
        # A share is a mean of points, which are the utility of the first strength plus one half.
        slopes = model.information[:, 0] / (methods - 1)
        slopes_of_shares = np.zeros((methods + 1, methods))
        np.add.at(slopes_of_shares, (model.places, first[:, None]), slopes)
        np.add.at(slopes_of_shares, (model.places, second[:, None]), -slopes)
        return self._influence(parameters) @ slopes_of_shares

    def _influence(self, parameters: Floats) -> Floats:
        """Return what each unit adds to the error of Davidson's log-strengths and log ν, [units, K + 1].

        It is what leaving the unit out changes, to first order: its part of the likelihood's gradient by the
        inverse of the information that the others have, less its stratum's mean. It gives the sandwich
        estimate of the covariance, for verdicts that depend on each other within a unit in any way; by the
        others' information, so that a difference that few units know of is not taken for surer than it is
        (CR3: Bell and McCaffrey 2002).
        """
        size, units = len(parameters), len(self.strata)
        model = ComparedPairs.of(parameters, self.first, self.second)
        gradient = np.zeros((units, size))
        np.add.at(gradient, (self.unit[:, None], model.places), UTILITIES[2 - self.points] - model.expected)
        total = model.total_information(np.ones(len(self.unit)))
        rows, columns = cells_of(model.places)
        influence = np.empty_like(gradient)
        units_at_once = max(1, _MAX_NUMBERS // size**2)
        for begin in range(0, units, units_at_once):
            block = slice(begin, min(units, begin + units_at_once))
            is_inside = (self.unit >= block.start) & (self.unit < block.stop)
            unit = self.unit[is_inside, None, None] - begin
            removed = np.zeros((block.stop - begin, size, size))
            np.add.at(removed, (unit, rows[is_inside], columns[is_inside]), model.information[is_inside])
            others = total - (1 - _KEPT) * removed
            influence[block] = np.linalg.solve(others, gradient[block, :, None])[..., 0]
        for stratum in np.unique(self.strata):
            members = self.strata == stratum
            if members.sum() > 1:
                influence[members] -= influence[members].mean(axis=0)
        return influence


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareErrors:
    """The errors of expected win shares and of their differences.

    Attributes:
        influence: What each unit adds to the error of each share, [units, K]; units are independent.
        covariance: The covariance of the shares, [K, K].
        variances: The variances of their differences, [K, K].
        df: The degrees of freedom of these, [K, K].
    """

    influence: Floats
    covariance: Floats
    variances: Floats
    df: Floats

    def limits(self, expected: Floats, *, level: float) -> Floats:
        """Return the t limits of each share, one method at a time, [K, 2]."""
        df = self.df.min(axis=1, where=~np.eye(len(self.df), dtype=bool), initial=math.inf)
        half = special.stdtrit(df, 0.5 + level / 2) * np.sqrt(np.maximum(0.0, np.diag(self.covariance)))
        return np.asarray(np.clip(np.stack([expected - half, expected + half], axis=-1), 0.0, 1.0))

    def widths(self, units_by_method: Numbers, *, level: float) -> Floats:
        """Return each difference's standard error, [K, K].

        It is larger by as much as t is that has the difference's own freedom, not that of all units.

        Args:
            units_by_method: In how many units each method was compared, [K]; few units widen its differences.
            level: The chance that all sets are right.
        """
        methods = len(self.df)
        freedom = max(1.0, len(self.influence) - 1.0)
        bonferroni = 1 - (1 - level) / max(2, methods * (methods - 1))
        units = np.minimum(units_by_method[:, None], units_by_method[None, :])
        df = np.where(units < FEW_UNITS, np.minimum(units - 1.0, self.df), self.df)
        wider = special.stdtrit(np.maximum(1.0, df), bonferroni) / special.stdtrit(freedom, bonferroni)
        # One unit cannot show a spread.
        return np.where(df < 1, np.inf, np.sqrt(np.maximum(0.0, self.variances)) * wider)


def rank_sets(
    scores: Floats, widths: Floats, nets: Floats, *, line: float, level: float
) -> tuple[tuple[int, int], ...]:
    """Return the least and the greatest rank of each method, 1 for the highest score.

    A method ranks surely below another if the interval of the difference of their scores is below 0; the
    intervals of all differences hold at once. Then all sets hold the true ranks at once (Mogstad, Romano,
    Shaikh and Wilhelm 2024), and methods that are truly alike share their ranks. A difference that is the
    same in all units has no interval; its sign-flip test decides, after Bonferroni's correction.

    Args:
        scores: The score of each method, [K].
        widths: The standard error of each difference (`ShareErrors.widths`), [K, K].
        nets: The wins less losses of each method by independent units, [units, K].
        line: Half the width of an interval in standard errors (`simultaneous_line`).
        level: The chance that all sets are right.
    """
    methods = len(scores)
    surely_above = (scores[:, None] - scores) > line * widths + 1e-12
    np.fill_diagonal(surely_above, val=False)
    for above, below in zip(*np.nonzero(surely_above & (widths**2 < NO_VARIANCE)), strict=True):
        p = sign_flip(nets[:, above] - nets[:, below]).p
        surely_above[above, below] = p is not None and p * methods * (methods - 1) / 2 <= 1 - level
    least = 1 + surely_above.sum(axis=0)
    greatest = methods - surely_above.sum(axis=1)
    return tuple((int(low), int(high)) for low, high in zip(least, greatest, strict=True))


def largest_errors(errors: ShareErrors, *, seed: int = 0) -> Floats:
    """Draw the largest of all differences' errors, in standard errors, [ways, draws], each way sorted.

    Differences that share a method go together. They are drawn in two ways: as a t vector with the shares'
    covariance; and, if units are not many, from the influences with random signs and the standard errors of
    each draw (the wild bootstrap of t: Cameron, Gelbach and Miller 2008), which is larger if few units know
    of a difference.
    """
    influence = errors.influence
    units = len(influence)
    df = max(1.0, units - 1.0)
    first, second = np.triu_indices(influence.shape[1], 1)
    variances = errors.variances[first, second]
    varies = variances > 1e-24 * max(TINY, float(errors.variances.max(initial=0.0)))
    if not varies.any():
        return np.zeros((1, 1))
    first, second, variances = first[varies], second[varies], variances[varies]
    over_units = np.maximum(difference_variances(influence.T @ influence)[first, second], TINY)
    rng = np.random.default_rng(seed)
    root = covariance_root(errors.covariance)

    def squares(drawn: Floats) -> Floats:
        return np.asarray((drawn[:, first] - drawn[:, second]) ** 2)

    def student() -> Floats:
        drawn = rng.standard_normal((DRAWS_AT_ONCE, len(root))) @ root.T
        largest = (squares(drawn) / variances).max(axis=1)
        return np.asarray(largest / (rng.chisquare(df, DRAWS_AT_ONCE) / df))

    def wild() -> Floats:
        sums = squares(random_signs(rng, DRAWS_AT_ONCE, units) @ influence) / over_units
        return np.asarray((sums / np.maximum(1 - sums / units, 1e-9)).max(axis=1) * df / units)

    ways = (student, wild) if units <= MANY_UNITS else (student,)
    drawn = [np.concatenate([draw() for _ in range(0, DRAWS, DRAWS_AT_ONCE)]) for draw in ways]
    return np.asarray(np.sqrt(np.sort(np.stack(drawn), axis=1)))


def simultaneous_line(largest: Floats, *, level: float = 0.95) -> float:
    """Return how many standard errors all differences stay within at once, in the way with more of them."""
    return float(np.quantile(largest, level, axis=1).max())


def any_difference_p(scores: Floats, widths: Floats, largest: Floats) -> float:
    """Return the p of "no method differs", which goes with the rank sets."""
    first, second = np.triu_indices(len(scores), 1)
    differences = np.abs(scores[first] - scores[second])
    observed = float((differences / np.maximum(widths[first, second], TINY)).max())
    above = int((largest >= observed * (1 - ROUNDING)).sum(axis=1).max())
    return (1 + above) / (1 + int(largest.shape[1]))


def difference_variances(covariance: Floats) -> Floats:
    """Return the variance of each difference of scores, [K, K], of their covariance."""
    variances = np.diag(covariance)
    return np.asarray(variances[:, None] + variances - 2 * covariance)
