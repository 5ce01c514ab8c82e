"""The test of any difference and the rank sets of strengths: by hand, by enumeration, by simulation."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.stats.ranks.any_difference import any_difference
from analysis.stats.ranks.rank_sets import (
    Comparisons,
    ShareErrors,
    any_difference_p,
    difference_variances,
    largest_errors,
    rank_sets,
    simultaneous_line,
)


def test_any_difference_p_of_few_units_agrees_with_enumeration():
    nets = np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -2.0], [0.0, 1.0, -1.0], [1.0, 1.0, -2.0]])
    weight = (nets**2).sum(axis=0)

    def statistic(flips):
        return ((np.array(flips) @ nets) ** 2 / weight).sum()

    every = [statistic(flips) for flips in product((1, -1), repeat=4)]
    expected = np.mean([value >= statistic((1, 1, 1, 1)) - 1e-12 for value in every])
    assert any_difference(nets).p == pytest.approx(expected)


def test_any_difference_p_ignores_names_and_tied_units():
    assert any_difference(np.zeros((5, 3))).p is None
    nets = np.array([[1.0, -1.0, 0.0]] * 6)
    assert any_difference(np.concatenate([nets, np.zeros((50, 3))])).p == any_difference(nets).p == 1 / 2**5
    rng = np.random.default_rng(5)
    nets = rng.integers(-3, 4, (40, 3)).astype(float)
    nets[:, 2] = -nets[:, 0] - nets[:, 1]
    turned = nets[rng.permutation(40)][:, [2, 0, 1]]
    assert any_difference(turned).p == any_difference(nets).p


@pytest.mark.slow
def test_any_difference_p_of_many_units_agrees_with_flips(monkeypatch):
    first, second = np.random.default_rng(7).integers(-2, 3, (2, 12_000)).astype(float)
    nets = np.stack([first, second, -first - second], axis=1)
    normal = any_difference(nets)
    monkeypatch.setattr("guard_eval.joint_flips.MANY_UNITS", 20_000)
    # Each of two p from 9 999 draws has a standard error of at most .005.
    assert normal.p == pytest.approx(any_difference(nets).p, abs=0.02)
    assert "normal sums" in normal.method


def errors_of(influence, df=None):
    covariance = influence.T @ influence
    variances = difference_variances(covariance)
    df = np.full_like(variances, len(influence) - 1 if df is None else df)
    return ShareErrors(influence=influence, covariance=covariance, variances=variances, df=df)


def test_rank_sets_separate_only_methods_that_differ():
    noise = np.random.default_rng(1).standard_normal((50, 3))
    influence = (noise - noise.mean(axis=0)) / 50
    line = stats.t.isf(0.05 / 6, 49)

    def error(first, second):
        return np.sqrt(((influence[:, first] - influence[:, second]) ** 2).sum())

    def sets(*scores, compared=50, df=None):
        widths = errors_of(influence, df).widths(np.full(3, compared), level=0.95)
        return rank_sets(np.array(scores), widths, noise, line=line, level=0.95)

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
    sets = rank_sets(np.array([0.8, 0.5, 0.2]), np.zeros((3, 3)), nets, line=3.0, level=0.95)
    assert sets == (((1, 1), (2, 2), (3, 3)) if sure else ((1, 3),) * 3)


def test_raters_without_shared_units_change_no_error():
    """If every rater judges one unit, the three clusterings are the same, and V + V − V = V."""
    rng = np.random.default_rng(4)
    unit = np.repeat(np.arange(30), 3)
    first, second = np.tile([0, 0, 1], 30), np.tile([1, 2, 2], 30)
    compared = Comparisons(unit, first, second, rng.integers(0, 3, 90), np.zeros(30, dtype=np.int64))
    parameters = np.array([0.2, 0.0, -0.2, 0.1])
    alone, crossed = compared.errors(parameters), compared.errors(parameters, unit)
    assert crossed.variances == pytest.approx(alone.variances)
    leaning = compared.errors(parameters, unit // 10)
    assert (leaning.df[0, 1:] <= alone.df[0, 1:]).all()
    assert (leaning.variances >= alone.variances - 1e-15).all()


def test_simultaneous_line_agrees_with_student_and_tukey():
    rng = np.random.default_rng(1)
    influence = rng.normal(size=(40, 1))
    line = simultaneous_line(largest_errors(errors_of(np.hstack([influence, -influence]))))
    assert line == pytest.approx(stats.t.isf(0.025, 39), abs=0.05)
    # Tukey's studentised range, for equal variances without correlation
    equal = np.tile(np.eye(6) - 1 / 6, (200, 1)) * rng.normal(size=(1200, 1))
    assert simultaneous_line(largest_errors(errors_of(equal))) * np.sqrt(2) == pytest.approx(
        stats.studentized_range.isf(0.05, 6, 1199), abs=0.1
    )
    assert simultaneous_line(largest_errors(errors_of(np.zeros((4, 3))))) == 0


def test_p_of_one_difference_agrees_with_student():
    influence = np.random.default_rng(1).normal(size=(40, 1)) / 40
    errors = errors_of(np.hstack([influence, -influence]))
    error = 2 * np.sqrt((influence**2).sum())
    scores, widths = np.array([2.5 * error, 0.0]), np.full((2, 2), error)
    p = any_difference_p(scores, widths, largest_errors(errors))
    assert p == pytest.approx(2 * stats.t.sf(2.5, 39), abs=0.004)
