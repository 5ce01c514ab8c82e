"""Find the possible ranks of each method, valid for all methods at once, and test for any difference."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import special

from analysis.stats.davidson import UTILITIES, ComparedPairs, make_parameter_matrix_indices
from guard_eval.estimate import ROUNDING, Estimate, Floats, Integers
from guard_eval.joint_flips import compute_covariance_root, compute_joint_flip_sums, draw_signs
from guard_eval.sign_flip import sign_flip

DRAWS = 20_000
"""The number of random draws of the largest error, whose quantile gets a Monte-Carlo error of about .01."""
DRAWS_AT_ONCE = 500
MANY_UNITS = 1_000
"""The wild bootstrap is used up to this number of units. With more units, Student's t is used alone."""
FEW_UNITS = 20
"""If a method was compared in fewer units, the degrees of freedom are at most its number of units minus 1."""
_MAX_NUMBERS = 4_000_000
"""The largest number of entries of the units' information matrices in memory at once."""
NO_VARIANCE = 1e-20
"""A variance below this value, for a difference of two shares, is a rounding error and counts as 0."""
TINY = 1e-300
"""The divisor that replaces 0 to avoid a division by zero."""
_REMAINING = 1e-6
"""The part of a unit's information that remains if the unit is left out.

Without this part the matrix is not invertible if only this unit joins two groups of methods.
"""


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of methods, with their units.

    Attributes:
        unit: The unit of each comparison, numbered from 0, [n].
        first: The number of the first method of each comparison, [n].
        second: The number of the second method of each comparison, [n].
        points: 2 if the first method won, 1 for a tie, 0 if the second method won, [n].
        strata: The stratum of each unit, [units].
        weight: The weight of each comparison, with the mean 1, [n].
    """

    unit: Integers
    first: Integers
    second: Integers
    points: Integers
    strata: Integers
    weight: Floats

    @cached_property
    def method_count(self) -> int:
        """Return the number of methods."""
        return int(max(self.first.max(), self.second.max())) + 1

    def sum_wins_and_ties(self) -> tuple[Floats, Floats]:
        """Sum the weights of the wins and of the ties of each pair of methods, [K, K] each."""
        counts = np.zeros((3, self.method_count, self.method_count))
        np.add.at(counts, (self.points, self.first, self.second), self.weight)
        lost, tied, won = counts
        return won + lost.T, tied + tied.T

    def sum_net_wins(self) -> Floats:
        """Return each method's weighted wins minus losses by unit, [units, K]."""
        net_wins = np.zeros((len(self.strata), self.method_count))
        net_win = self.weight * (self.points - 1)
        np.add.at(net_wins, (self.unit, self.first), net_win)
        np.add.at(net_wins, (self.unit, self.second), -net_win)
        return net_wins

    def count_units_by_method(self) -> Integers:
        """Count the units in which each method was compared, [K]."""
        is_compared = np.zeros((len(self.strata), self.method_count), dtype=bool)
        for side in (self.first, self.second):
            is_compared[self.unit, side] = True
        return np.asarray(is_compared.sum(axis=0))

    def shrink_strengths(self, parameters: Floats) -> Floats:
        """Shrink strengths towards their mean, by the share of their variance that is error.

        Rank sets need the shrinkage (James and Stein 1961). If strengths are far apart only by chance, the
        errors at these strengths are too small, and the rank sets are correct too rarely. If methods really
        differ, strengths hardly change.

        Args:
            parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
        """
        strengths = parameters[:-1]
        influence = self._compute_strength_influence(parameters)[:, :-1]
        spread = float((strengths**2).sum())
        error = float((influence**2).sum())
        factor = max(0.0, 1 - error / spread) if spread else 0.0
        return np.append(strengths * factor, parameters[-1])

    def estimate_errors(self, parameters: Floats, rater: Integers | None = None) -> "ShareErrors":
        """Return the errors of the expected win shares for these raters, or for raters in general.

        For raters in general, raters and units are crossed clusters: a variance is the variance over units,
        plus the variance over raters, minus the variance over cells of one rater and one unit (Cameron,
        Gelbach and Miller 2011). Degrees of freedom follow Satterthwaite, from the first two variances.

        Args:
            parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1].
            rater: The rater of each comparison, numbered from 0, [n]; None for a result about these raters.
        """
        influence = self.compute_share_influence(parameters)
        covariance = influence.T @ influence
        freedom = max(1.0, len(influence) - 1.0)
        variances = compute_difference_variances(covariance)
        df = np.full_like(variances, freedom)
        if rater is not None:
            raters = self._replace_units(rater).compute_share_influence(parameters)
            over_raters = raters.T @ raters
            rater_count = int(rater.max()) + 1
            cells = self._replace_units(self.unit * rater_count + rater).compute_share_influence(parameters)
            over_cells = cells.T @ cells
            # Satterthwaite's formula assumes that both variances are independent.
            spread_over_units = variances**2 / freedom
            spread_over_raters = compute_difference_variances(over_raters) ** 2 / (len(raters) - 1)
            spread = np.maximum(spread_over_units + spread_over_raters, TINY)
            covariance = covariance + over_raters - over_cells
            variances = np.maximum(variances, compute_difference_variances(covariance))
            df = np.clip(variances**2 / spread, 1.0, freedom)
        return ShareErrors(influence, covariance, variances, df)

    def _replace_units(self, cluster: Integers) -> Self:
        """Return a copy of the comparisons with other units: the cluster of each comparison."""
        clusters, unit = np.unique(cluster, return_inverse=True)
        return replace(self, unit=unit, strata=np.zeros(len(clusters), dtype=np.int64))

    def compute_share_influence(self, parameters: Floats) -> Floats:
        """Return the contribution of each unit to the error of each expected win share, [units, K].

        Shares and strengths have the same order. If a method hardly ever loses, the error of its strength
        grows without limit (Hauck and Donner 1977), but the error of its share does not.
        """
        methods = len(parameters) - 1
        first, second = np.triu_indices(methods, 1)
        model = ComparedPairs.from_strengths(parameters, first, second)
        # A share is a mean of points. Points are the utility of the first strength plus one half.
        slopes = model.information[:, 0] / (methods - 1)
        slopes_of_shares = np.zeros((methods + 1, methods))
        np.add.at(slopes_of_shares, (model.places, first[:, None]), slopes)
        np.add.at(slopes_of_shares, (model.places, second[:, None]), -slopes)
        return self._compute_strength_influence(parameters) @ slopes_of_shares

    def _compute_strength_influence(self, parameters: Floats) -> Floats:
        """Return the contribution of each unit to the error of log-strengths and log ν, [units, K + 1].

        The contribution is the first-order change if the unit is left out: the unit's part of the gradient of
        the likelihood, times the inverse of the information of all other units, minus the mean in the unit's
        stratum. Contributions give the sandwich estimate of the covariance, which allows any dependence of
        verdicts within a unit. The inverse information of the other units makes the error larger if few units
        show a difference (CR3: Bell and McCaffrey 2002).
        """
        model = ComparedPairs.from_strengths(parameters, self.first, self.second)
        surprise = UTILITIES[2 - self.points] - model.expected
        gradient = np.zeros((len(self.strata), len(parameters)))
        np.add.at(gradient, (self.unit[:, None], model.places), self.weight[:, None] * surprise)
        influence = self._divide_by_information_of_others(gradient, model)
        for stratum in np.unique(self.strata):
            members = self.strata == stratum
            if members.sum() > 1:
                influence[members] -= influence[members].mean(axis=0)
        return influence

    def _divide_by_information_of_others(self, gradient: Floats, model: ComparedPairs) -> Floats:
        """Multiply each unit's gradient by the inverse information of all other units, [units, K + 1]."""
        units, size = gradient.shape
        total = model.sum_fisher_information(self.weight)
        information = self.weight[:, None, None] * model.information
        rows, columns = make_parameter_matrix_indices(model.places)
        products = np.empty_like(gradient)
        units_at_once = max(1, _MAX_NUMBERS // size**2)
        for begin in range(0, units, units_at_once):
            block = slice(begin, begin + units_at_once)
            gradients = gradient[block, :, None]
            is_inside = (self.unit >= begin) & (self.unit < block.stop)
            unit = self.unit[is_inside, None, None] - begin
            removed = np.zeros((len(gradients), size, size))
            np.add.at(removed, (unit, rows[is_inside], columns[is_inside]), information[is_inside])
            others = total - (1 - _REMAINING) * removed
            products[block] = np.linalg.solve(others, gradients)[..., 0]
        return products


class ShareErrors(NamedTuple):
    """The errors of expected win shares and of their differences.

    Attributes:
        influence: The contribution of each independent unit to the error of each share, [units, K].
        covariance: The covariance of the shares, [K, K].
        variances: The variances of the differences of shares, [K, K].
        df: The degrees of freedom of these variances, [K, K].
    """

    influence: Floats
    covariance: Floats
    variances: Floats
    df: Floats

    def find_share_limits(self, expected: Floats, *, level: float) -> Floats:
        """Return the t limits of each method's share, [K, 2], which are valid for one method at a time."""
        is_difference = ~np.eye(len(self.df), dtype=bool)
        df = self.df.min(axis=1, where=is_difference, initial=math.inf)
        errors = np.sqrt(np.maximum(0.0, np.diag(self.covariance)))
        half_width = special.stdtrit(df, 0.5 + level / 2) * errors
        limits = np.stack([expected - half_width, expected + half_width], axis=-1)
        return np.asarray(np.clip(limits, 0.0, 1.0))

    def widen_errors_of_few_units(self, units_by_method: Integers, *, level: float) -> Floats:
        """Return the standard error of each difference, [K, K], which is larger if the units are few.

        The factor is t with the degrees of freedom of the difference, divided by t with those of all units.

        Args:
            units_by_method: The number of units in which each method was compared, [K].
            level: The confidence that all sets are correct.
        """
        methods = len(self.df)
        freedom = max(1.0, len(self.influence) - 1.0)
        bonferroni = 1 - (1 - level) / max(2, methods * (methods - 1))
        units = np.minimum(units_by_method[:, None], units_by_method[None, :])
        df = np.where(units < FEW_UNITS, np.minimum(units - 1.0, self.df), self.df)
        t = special.stdtrit(np.maximum(1.0, df), bonferroni)
        t_of_all_units = special.stdtrit(freedom, bonferroni)
        errors = np.sqrt(np.maximum(0.0, self.variances))
        # A single unit has no variance.
        return np.where(df < 1, np.inf, errors * (t / t_of_all_units))


def find_rank_sets(
    scores: Floats, widths: Floats, net_wins: Floats, *, half_width: float, level: float
) -> tuple[tuple[int, int], ...]:
    """Return the best and the worst possible rank of each method. Rank 1 is the highest score.

    A method certainly ranks below another method if the interval of the difference between their scores is
    below 0. The intervals are valid for all differences at once, so all sets contain the true ranks at once
    (Mogstad, Romano, Shaikh and Wilhelm 2024), and methods without a true difference share their ranks. If a
    difference is the same in all units, it has no interval. Then the sign-flip test decides, after
    Bonferroni's correction.

    Args:
        scores: The score of each method, [K].
        widths: The standard error of each difference (`ShareErrors.widen_errors_of_few_units`), [K, K].
        net_wins: Wins minus losses of each method by independent units, [units, K].
        half_width: Half of each interval's width, in standard errors (`find_simultaneous_half_width`).
        level: The confidence that all sets are correct.
    """
    methods = len(scores)
    differences = methods * (methods - 1) / 2
    is_above = (scores[:, None] - scores) > half_width * widths + 1e-12
    is_constant = widths**2 < NO_VARIANCE
    for above, below in zip(*np.nonzero(is_above & is_constant), strict=True):
        p = sign_flip(net_wins[:, above] - net_wins[:, below]).p
        is_above[above, below] = p is not None and p * differences <= 1 - level
    best = 1 + is_above.sum(axis=0)
    worst = methods - is_above.sum(axis=1)
    return tuple(zip(best.tolist(), worst.tolist(), strict=True))


def draw_largest_errors(errors: ShareErrors, *, seed: int = 0) -> Floats:
    """Draw the largest error of all differences, in standard errors, in one or two ways, [ways, draws].

    Differences that share a method are correlated. The first way draws a t vector with the covariance of the
    shares. The second way, used for at most `MANY_UNITS` units, gives the influences random signs and
    computes the standard errors of each draw (wild bootstrap of t: Cameron, Gelbach and Miller 2008). The
    errors of the second way are larger if few units show a difference.
    """
    influence = errors.influence
    units = len(influence)
    df = max(1.0, units - 1.0)
    largest_variance = max(TINY, float(errors.variances.max(initial=0.0)))
    first, second = np.nonzero(np.triu(errors.variances > 1e-24 * largest_variance, 1))
    if not len(first):
        return np.zeros((1, 1))
    variances = errors.variances[first, second]
    over_units = compute_difference_variances(influence.T @ influence)[first, second]
    over_units = np.maximum(over_units, TINY)
    rng = np.random.default_rng(seed)
    root = compute_covariance_root(errors.covariance)

    def square_share_differences(drawn: Floats) -> Floats:
        return (drawn[:, first] - drawn[:, second]) ** 2

    def draw_student_errors() -> Floats:
        drawn = rng.standard_normal((DRAWS_AT_ONCE, len(root))) @ root.T
        largest = (square_share_differences(drawn) / variances).max(axis=1)
        drawn_variances = rng.chisquare(df, DRAWS_AT_ONCE) / df
        return np.asarray(largest / drawn_variances)

    def draw_wild_bootstrap_errors() -> Floats:
        sums = square_share_differences(draw_signs(rng, DRAWS_AT_ONCE, units) @ influence) / over_units
        drawn_variances = np.maximum(1 - sums / units, 1e-9)
        return np.asarray((sums / drawn_variances).max(axis=1) * df / units)

    ways = [draw_student_errors]
    if units <= MANY_UNITS:
        ways.append(draw_wild_bootstrap_errors)
    drawn = [np.concatenate([draw() for _ in range(0, DRAWS, DRAWS_AT_ONCE)]) for draw in ways]
    return np.asarray(np.sqrt(np.sort(drawn, axis=1)))


def find_simultaneous_half_width(largest_errors: Floats, *, level: float = 0.95) -> float:
    """Return half the width of intervals that are valid for all differences at once, in standard errors.

    If there are two ways of drawing, the larger width is used.
    """
    return float(np.quantile(largest_errors, level, axis=1).max())


def compute_any_difference_p(scores: Floats, widths: Floats, largest_errors: Floats) -> float:
    """Return the p of the hypothesis that no methods differ, from the random draws for the rank sets."""
    differences = np.abs(scores[:, None] - scores)
    observed = float((differences / np.maximum(widths, TINY)).max())
    above = int((largest_errors >= observed * (1 - ROUNDING)).sum(axis=1).max())
    return (1 + above) / (1 + int(largest_errors.shape[1]))


def compute_difference_variances(covariance: Floats) -> Floats:
    """Compute the variance of each difference of scores, [K, K], from the covariance of the scores."""
    variances = np.diag(covariance)
    return variances[:, None] + variances - 2 * covariance


SIGN_FLIP_TEST = "sign-flip test of all comparisons together"


def run_any_difference_test(net_wins: Floats, *, seed: int = 0) -> Estimate:
    """Test the hypothesis that no method is preferred to another, in all comparisons together.

    The test flips the sides of all verdicts of a unit together, at random. The statistic is the sum over
    methods of (net wins)² / (sum of the squared net wins by unit), so all methods have the same weight. p is
    exact if the verdicts of a unit and their mirror image are equally likely. With many units, p is valid
    whenever no method is better, because the flips have the covariance of the net wins.

    Args:
        net_wins: Wins minus losses of each method in each unit, [units, K].
        seed: The seed of the flips. Nothing else affects the flips.
    """
    is_tied = ~net_wins.any(axis=1)
    sorted_net_wins = _sort_net_wins(net_wins[~is_tied])
    squares = (sorted_net_wins**2).sum(axis=0)
    differs = squares > 0
    scaled = sorted_net_wins[:, differs] / np.sqrt(squares[differs])
    if not len(scaled):
        why = "every method has as many wins as losses in every unit"
        return Estimate(n=len(net_wins), method=SIGN_FLIP_TEST, note=why, smallest_p=1.0)
    observed = float((scaled.sum(axis=0) ** 2).sum())
    flipped = compute_joint_flip_sums(scaled, seed=seed)
    statistics = (flipped.sums**2).sum(axis=1)
    return Estimate(
        value=observed,
        p=flipped.compute_p(statistics >= observed * (1 - ROUNDING) - ROUNDING),
        n=len(net_wins),
        method=f"{SIGN_FLIP_TEST}, {flipped.drawn}" if flipped.drawn else f"exact {SIGN_FLIP_TEST}",
        smallest_p=flipped.smallest_p,
    )


def _sort_net_wins(net_wins: Floats) -> Floats:
    """Sort methods and units by their net wins, so that the random flips do not depend on their names."""
    squares = (net_wins**2).sum(axis=0)
    methods = np.lexsort((squares, net_wins.sum(axis=0)))
    sorted_columns = net_wins[:, methods]
    units = np.lexsort(sorted_columns.T[::-1])
    return sorted_columns[units]
