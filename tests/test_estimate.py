"""The statistics of independent units, against arithmetic by hand, scipy and statsmodels."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from guard_eval.estimate import adjust_p_values, jackknife


def mean(sums):
    return sums[..., 0] / sums[..., 1]


def parts(values):
    return np.column_stack([values, np.ones(len(values))])


def test_jackknife_of_a_mean_equals_t_interval():
    values = np.array([0.25, 0.5, 1.0, 0.75])  # sd = √(5/48), error = sd/2
    estimate = jackknife(parts(values), mean, null=0.5)
    theirs = stats.ttest_1samp(values, 0.5)
    interval = theirs.confidence_interval(0.95)
    assert (estimate.value, estimate.n, estimate.unit) == (0.625, 4, "prompt")
    assert (estimate.error, estimate.df) == pytest.approx((math.sqrt(5 / 48) / 2, 3), rel=1e-13)
    limits = (estimate.p, estimate.low, estimate.high)
    assert limits == pytest.approx((theirs.pvalue, interval.low, interval.high), rel=1e-12)


def test_two_strata_agree_with_welchs_t_test():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, 1, 7), rng.normal(1, 3, 12)
    rows = np.zeros((19, 4))
    rows[:7, 0], rows[:7, 1], rows[7:, 2], rows[7:, 3] = first, 1, second, 1
    estimate = jackknife(rows, lambda s: mean(s) - mean(s[..., 2:]), strata=[0] * 7 + [1] * 12, null=0.0)
    theirs = stats.ttest_ind(first, second, equal_var=False)
    assert (estimate.p, estimate.df) == pytest.approx((theirs.pvalue, theirs.df), rel=1e-10)


def test_noise_widens_the_interval_up_to_its_bounds():
    rows = parts(np.array([1.0, 2.0, 4.0]))
    alone = jackknife(rows, mean).error
    assert jackknife(rows, mean, noise=0.5).error == pytest.approx(math.sqrt(alone**2 + 0.5))
    estimate = jackknife(parts(np.array([1.0, 1.0, 0.5])), mean, bounds=(0, 1))
    assert (estimate.high, estimate.value) == (1.0, pytest.approx(5 / 6))
    assert "cut" in estimate.note


@pytest.mark.parametrize(
    ("rows", "strata", "value", "words"),
    [
        (np.zeros((0, 2)), None, None, "no observations"),
        (np.zeros((3, 2)), None, None, "undefined for these data"),
        (parts([0.5]), None, 0.5, "only one prompt"),
        (parts([0.5, 0.5, 0.5]), None, 0.5, "have the same value"),
        (np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), None, 1.0, "without one of the prompts"),
        (parts([0.25, 0.25, 1.0]), ["a", "a", "b"], 0.5, "ignores datasets"),
    ],
)
def test_undefined_estimate_gives_its_reason(rows, strata, value, words):
    estimate = jackknife(rows, mean, strata=strata)
    assert words in estimate.note
    assert (estimate.value, estimate.low is None) == (value, strata is None)


@pytest.mark.parametrize(("method", "theirs"), [("holm", "holm"), ("bh", "fdr_bh"), ("by", "fdr_by")])
def test_adjusted_p_values_agree_with_statsmodels(method, theirs):
    p_values = np.random.default_rng(3).uniform(0, 0.3, 9).tolist()
    p_values[4] = p_values[2]
    assert adjust_p_values(p_values, method) == pytest.approx(
        multipletests(p_values, method=theirs)[1], rel=1e-12
    )


def test_adjust_refuses_an_unknown_correction():
    with pytest.raises(ValueError, match="no correction is called 'max-t'; choose one of holm, bh, by"):
        adjust_p_values([0.01], "max-t")


def test_missing_tests_count_in_holms_correction():
    assert adjust_p_values([0.01, None, 0.03]) == pytest.approx([0.03, None, 0.06])
    assert adjust_p_values([0.02, None], "bh") == pytest.approx([0.04, None])
    assert adjust_p_values([]) == adjust_p_values([], "bh") == []
    with pytest.raises(ValueError, match=r"the p-value 1\.5 is not"):
        adjust_p_values([1.5])


def test_adjust_keeps_p_if_smallest_p_equals_alpha():
    assert adjust_p_values([0.05], smallest_p_values=[0.05]) == [0.05]
