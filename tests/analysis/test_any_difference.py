"""The test of any difference and the rank sets of strengths: by hand, by enumeration, by simulation."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.rank_sets import (
    Comparisons,
    ShareErrors,
    compute_any_difference_p,
    compute_difference_variances,
    draw_largest_errors,
    find_rank_sets,
    find_simultaneous_half_width,
    run_any_difference_test,
)


def test_any_difference_p_of_few_units_agrees_with_enumeration():
    nets = np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -2.0], [0.0, 1.0, -1.0], [1.0, 1.0, -2.0]])
    weight = (nets**2).sum(axis=0)

    def statistic(flips):
        return ((np.array(flips) @ nets) ** 2 / weight).sum()

    every = [statistic(flips) for flips in product((1, -1), repeat=4)]
    expected = np.mean([value >= statistic((1, 1, 1, 1)) - 1e-12 for value in every])
    assert run_any_difference_test(nets).p == pytest.approx(expected)


def test_any_difference_p_ignores_names_and_tied_units():
    assert run_any_difference_test(np.zeros((5, 3))).p is None
    nets = np.array([[1.0, -1.0, 0.0]] * 6)
    assert (
        run_any_difference_test(np.concatenate([nets, np.zeros((50, 3))])).p
        == run_any_difference_test(nets).p
        == 1 / 2**5
    )
    rng = np.random.default_rng(5)
    nets = rng.integers(-3, 4, (40, 3)).astype(float)
    nets[:, 2] = -nets[:, 0] - nets[:, 1]
    turned = nets[rng.permutation(40)][:, [2, 0, 1]]
    assert run_any_difference_test(turned).p == run_any_difference_test(nets).p


@pytest.mark.slow
def test_any_difference_p_of_many_units_agrees_with_draws(monkeypatch):
    first, second = np.random.default_rng(7).integers(-2, 3, (2, 12_000)).astype(float)
    nets = np.stack([first, second, -first - second], axis=1)
    normal = run_any_difference_test(nets)
    monkeypatch.setattr("guard_eval.joint_flips.MANY_UNITS", 20_000)
    # Each of two p from 9 999 draws has a standard error of at most .005.
    assert normal.p == pytest.approx(run_any_difference_test(nets).p, abs=0.02)
    assert "normal sums" in normal.method


@pytest.mark.parametrize("seed", range(10))
def test_any_difference_p_of_balanced_methods_is_one(seed):
    """Each method has as many wins as losses, apart from rounding, so all flips differ by as much or more."""
    nets = np.random.default_rng(seed).integers(-3, 4, (8, 3)).astype(float)
    balanced = np.vstack([nets, -nets.sum(axis=0)])
    assert run_any_difference_test(balanced).p == 1


def errors_of(influence, df=None):
    covariance = influence.T @ influence
    variances = compute_difference_variances(covariance)
    df = np.full_like(variances, len(influence) - 1 if df is None else df)
    return ShareErrors(influence=influence, covariance=covariance, variances=variances, df=df)


def opposed_errors(influence):
    """Return the errors of two methods of which one gains what the other loses."""
    return errors_of(np.hstack([influence, -influence]))


def test_rank_sets_separate_only_methods_that_differ():
    noise = np.random.default_rng(1).standard_normal((50, 3))
    influence = (noise - noise.mean(axis=0)) / 50
    line = stats.t.isf(0.05 / 6, 49)

    def error(first, second):
        return np.sqrt(((influence[:, first] - influence[:, second]) ** 2).sum())

    def sets(*scores, compared=50, df=None):
        widths = errors_of(influence, df).widen_errors_of_few_units(np.full(3, compared), level=0.95)
        return find_rank_sets(np.array(scores), widths, noise, half_width=line, level=0.95)

    far, near, apart = 40 * line * error(0, 1), 0.9 * line * error(0, 1), 1.1 * line * error(1, 2)
    assert sets(far, near, 0.0) == ((1, 1), (2, 3), (2, 3))
    assert sets(far, apart, 0.0) == ((1, 1), (2, 2), (3, 3))
    # Six units compare the methods: Bonferroni's t of 5 degrees of freedom is 4.0 / 2.5 as wide.
    assert sets(far, apart, 0.0, compared=6) == sets(far, apart, 0.0, df=5) == ((1, 1), (2, 3), (2, 3))
    assert sets(far, apart, 0.0, compared=1) == ((1, 3),) * 3


@pytest.mark.parametrize(("units", "sure"), [(7, True), (6, False)])
def test_unanimous_units_are_ranked_by_sign_flips(units, sure):
    """Three pairs of methods: p is 3 · 2/2ⁿ, .047 of seven units and .094 of six."""
    nets = np.tile([2.0, 0.0, -2.0], (units, 1))
    sets = find_rank_sets(np.array([0.8, 0.5, 0.2]), np.zeros((3, 3)), nets, half_width=3.0, level=0.95)
    assert sets == (((1, 1), (2, 2), (3, 3)) if sure else ((1, 3),) * 3)


def test_raters_of_separate_units_leave_errors_unchanged():
    """If every rater judges one unit, the three clusterings are the same, and V + V − V = V."""
    rng = np.random.default_rng(4)
    unit = np.repeat(np.arange(30), 3)
    first, second = np.tile([0, 0, 1], 30), np.tile([1, 2, 2], 30)
    compared = Comparisons(
        unit, first, second, rng.integers(0, 3, 90), np.zeros(30, dtype=np.int64), np.ones(90)
    )
    parameters = np.array([0.2, 0.0, -0.2, 0.1])
    alone, crossed = compared.estimate_errors(parameters), compared.estimate_errors(parameters, unit)
    assert crossed.variances == pytest.approx(alone.variances)
    leaning = compared.estimate_errors(parameters, unit // 10)
    assert (leaning.df[0, 1:] <= alone.df[0, 1:]).all()
    assert (leaning.variances >= alone.variances - 1e-15).all()


def test_simultaneous_half_width_agrees_with_student_and_tukey():
    rng = np.random.default_rng(1)
    influence = rng.normal(size=(40, 1))
    line = find_simultaneous_half_width(draw_largest_errors(opposed_errors(influence)))
    assert line == pytest.approx(stats.t.isf(0.025, 39), abs=0.05)
    # Tukey's studentised range, for equal variances without correlation
    equal = np.tile(np.eye(6) - 1 / 6, (200, 1)) * rng.normal(size=(1200, 1))
    assert find_simultaneous_half_width(draw_largest_errors(errors_of(equal))) * np.sqrt(2) == pytest.approx(
        stats.studentized_range.isf(0.05, 6, 1199), abs=0.1
    )
    assert find_simultaneous_half_width(draw_largest_errors(errors_of(np.zeros((4, 3))))) == 0


def test_p_of_one_difference_agrees_with_student():
    influence = np.random.default_rng(1).normal(size=(40, 1)) / 40
    errors = opposed_errors(influence)
    error = 2 * np.sqrt((influence**2).sum())
    scores, widths = np.array([2.5 * error, 0.0]), np.full((2, 2), error)
    p = compute_any_difference_p(scores, widths, draw_largest_errors(errors))
    assert p == pytest.approx(2 * stats.t.sf(2.5, 39), abs=0.004)


# Two methods without ties: units with 3, 2, 4, 1 and 2 comparisons, of which the first method wins 8 of 12.
SIZES, WINS = np.array([3, 2, 4, 1, 2]), np.array([3, 1, 2, 1, 1])
UNITS = np.repeat(np.arange(5), SIZES)
POINTS = np.concatenate([[2] * won + [0] * (size - won) for won, size in zip(WINS, SIZES, strict=True)])
TWO = Comparisons(UNITS, 0 * UNITS, 0 * UNITS + 1, POINTS, np.array([0, 0, 0, 1, 1]), np.ones(12))
LOG_ODDS = np.log(2)
STRENGTHS = np.array([LOG_ODDS / 2, -LOG_ODDS / 2, -np.inf])


def influence_by_hand():
    """Return each unit's surprise over the information of all others, less the mean of its stratum."""
    changes = (WINS - SIZES * 2 / 3) / ((12 - SIZES) * 2 / 9)
    return changes - np.repeat([changes[:3].mean(), changes[3:].mean()], [3, 2])


def test_influence_of_a_unit_follows_hand_arithmetic():
    shares = TWO.compute_share_influence(STRENGTHS)
    assert shares[:, 0] == pytest.approx(2 / 9 * influence_by_hand(), rel=1e-5)
    assert shares[:, 1] == pytest.approx(-shares[:, 0])
    # The part of the spread of strengths that is error: half of a log-odds each, two methods.
    error = (influence_by_hand() ** 2).sum() / LOG_ODDS**2
    assert TWO.shrink_strengths(STRENGTHS)[0] == pytest.approx(max(0, 1 - error) * LOG_ODDS / 2, rel=1e-4)
    assert 0 < error < 1


def test_degrees_of_freedom_follow_satterthwaite():
    rater = np.arange(12) % 3
    errors = TWO.estimate_errors(STRENGTHS, rater)
    over_units, over_raters = (
        4 * (clustered.compute_share_influence(STRENGTHS)[:, 0] ** 2).sum()
        for clustered in (TWO, replace(TWO, unit=rater, strata=np.zeros(3, dtype=np.int64)))
    )
    expected = errors.variances[0, 1] ** 2 / (over_units**2 / 4 + over_raters**2 / 2)
    assert errors.df[0, 1] == pytest.approx(np.clip(expected, 1, 4))
    assert 1 < expected < 4


def test_share_limits_are_student_limits_within_zero_and_one():
    influence = np.random.default_rng(1).normal(size=(9, 1)) / 30
    errors = opposed_errors(influence)
    half = stats.t.ppf(0.975, 8) * np.sqrt((influence**2).sum())
    limits = errors.find_share_limits(np.array([0.5, 0.99]), level=0.95)
    assert limits[0] == pytest.approx((0.5 - half, 0.5 + half))
    assert limits[1] == pytest.approx((0.99 - half, 1))


def test_half_width_grows_if_few_units_differ(monkeypatch):
    """Five of six units differ by as much: in 2 of 2⁵ patterns all agree, and t² is 5 · 5/6 over 1 − 5/6."""
    influence = np.array([[1.0]] * 5 + [[0.0]])
    errors = opposed_errors(influence)
    assert find_simultaneous_half_width(draw_largest_errors(errors)) == pytest.approx(5)
    monkeypatch.setattr("analysis.stats.rank_sets.MANY_UNITS", 0)
    student = find_simultaneous_half_width(draw_largest_errors(errors))
    assert student == pytest.approx(stats.t.isf(0.025, 5), abs=0.05)
