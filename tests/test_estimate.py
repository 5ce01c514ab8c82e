"""The statistics of independent units, against arithmetic by hand, enumeration, scipy and statsmodels."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats
from statsmodels.genmod.cov_struct import Independence
from statsmodels.genmod.generalized_estimating_equations import GEE

from guard_eval.estimate import Estimate, adjust, bootstrap, bootstrap_weights, jackknife, sign_flip, why_no_p


def mean(sums):
    return sums[..., 0] / sums[..., 1]


def parts(values):
    return np.column_stack([values, np.ones(len(values))])


def test_the_jackknife_of_a_mean_is_the_t_interval():
    values = np.array([0.25, 0.5, 1.0, 0.75])  # sd = √(5/48), error = sd/2
    estimate = jackknife(parts(values), mean, null=0.5)
    theirs = stats.ttest_1samp(values, 0.5)
    assert estimate.value == 0.625
    assert estimate.error == pytest.approx(math.sqrt(5 / 48) / 2, rel=1e-13)
    assert (estimate.df, estimate.n, estimate.unit) == (pytest.approx(3), 4, "prompt")
    assert estimate.p == pytest.approx(theirs.pvalue, rel=1e-12)
    interval = theirs.confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_strata_have_their_own_variances_and_satterthwaites_degrees_of_freedom():
    # Σ (n_h/n)² s_h²/n_h with n_h = 2 and 3: s² = .5 and 1; df = (Σ v_h)² / Σ v_h²/(n_h − 1).
    values, strata = np.array([0.0, 1.0, 4.0, 5.0, 6.0]), ["a", "a", "b", "b", "b"]
    estimate = jackknife(parts(values), mean, strata=strata)
    first, second = (2 / 5) ** 2 * 0.5 / 2, (3 / 5) ** 2 * 1 / 3
    assert estimate.value == pytest.approx(16 / 5)
    assert estimate.error == pytest.approx(math.sqrt(first + second), rel=1e-13)
    assert estimate.df == pytest.approx((first + second) ** 2 / (first**2 + second**2 / 2), rel=1e-12)


def test_two_strata_are_welchs_t_test():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, 1, 7), rng.normal(1, 3, 12)
    rows = np.zeros((19, 4))
    rows[:7, 0], rows[:7, 1], rows[7:, 2], rows[7:, 3] = first, 1, second, 1

    def difference(sums):
        return sums[..., 0] / sums[..., 1] - sums[..., 2] / sums[..., 3]

    estimate = jackknife(rows, difference, strata=[0] * 7 + [1] * 12, null=0.0)
    theirs = stats.ttest_ind(first, second, equal_var=False)
    assert (estimate.p, estimate.df) == pytest.approx((theirs.pvalue, theirs.df), rel=1e-10)


def test_a_slope_over_clusters_is_the_bias_reduced_gee():
    rng = np.random.default_rng(2)
    unit, x = np.arange(60) // 2, rng.normal(size=60)
    y = 0.3 * x + rng.normal(size=60) + np.repeat(rng.normal(size=30), 2)
    columns = [np.ones(60), x, y, x * x, x * y]
    sums = np.stack([np.bincount(unit, weights=column) for column in columns], axis=1)

    def slope(s):
        return (s[..., 0] * s[..., 4] - s[..., 1] * s[..., 2]) / (s[..., 0] * s[..., 3] - s[..., 1] ** 2)

    estimate = jackknife(sums, slope)
    design = np.column_stack([np.ones(60), x])
    model = GEE(y, design, groups=unit, cov_struct=Independence()).fit(cov_type="bias_reduced")
    assert estimate.value == pytest.approx(model.params[1], rel=1e-10)
    # Mancl and DeRouen's error is CR3; the jackknife's is it times √((n − 1)/n), about its centre.
    assert estimate.error == pytest.approx(model.bse[1] * math.sqrt(29 / 30), rel=2e-3)


def test_limits_are_cut_at_the_bounds_and_say_so():
    estimate = jackknife(parts(np.array([1.0, 1.0, 0.5])), mean, bounds=(0, 1))
    assert (estimate.high, estimate.value) == (1.0, pytest.approx(5 / 6))
    assert "cut" in estimate.note


@pytest.mark.parametrize(
    ("values", "strata", "words"),
    [
        ([], None, "no observations"),
        ([0.5], None, "only one prompt"),
        ([0.5, 0.5, 0.5], None, "says the same"),
        ([0.1, 0.2, 0.4], ["a", "a", "b"], "datasets are ignored"),
    ],
)
def test_what_is_undefined_has_a_reason(values, strata, words):
    estimate = jackknife(parts(np.array(values, dtype=float)), mean, strata=strata)
    assert words in estimate.note
    assert (estimate.low is None) == (strata is None)


def test_a_statistic_that_needs_every_unit_has_a_value_and_no_error():
    rows = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])  # only the first prompt has ratings
    estimate = jackknife(rows, mean)
    assert (estimate.value, estimate.error) == (1.0, None)
    assert "without one of the prompts" in estimate.note
    assert jackknife(np.zeros((3, 2)), mean).value is None


def test_a_p_is_never_zero():
    estimate = Estimate(value=1.0, p=0.0)
    assert estimate.p is not None
    assert estimate.p > 0
    assert "less than" in estimate.note


def test_a_wrong_level_or_stratum_is_refused():
    with pytest.raises(ValueError, match=r"95 does not"):
        Estimate(level=95)
    with pytest.raises(ValueError, match="one stratum for each prompt: 1 and 2"):
        jackknife(parts(np.array([0.0, 1.0])), mean, strata=["a"])


def test_bootstrap_weights_draw_each_unit_once_on_average():
    weights = bootstrap_weights(30, replicates=2000, seed=3)
    assert (weights.sum(axis=1) == 30).all()
    assert np.abs(weights.mean(axis=0) - 1).max() < 0.1
    assert (weights == bootstrap_weights(30, replicates=2000, seed=3)).all()


def test_the_bootstrap_of_a_mean_agrees_with_scipys():
    values = np.random.default_rng(4).exponential(size=60)
    estimate = bootstrap(parts(values), mean, replicates=20_000, seed=5)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=6)
    limits = theirs.confidence_interval
    assert (estimate.low, estimate.high) == pytest.approx((limits.low, limits.high), abs=0.01)


def test_the_bootstrap_gives_no_limits_where_resamples_have_no_value():
    rows = np.array([[1.0, 1.0]] + [[0.0, 0.0]] * 9)
    estimate = bootstrap(rows, mean, replicates=500, seed=1)
    assert (estimate.value, estimate.low) == (1.0, None)
    assert "resamples have no value" in estimate.note


def enumerated(scores):
    patterns = [
        abs(sum(s * x for s, x in zip(pattern, scores, strict=True))) for pattern in signs(len(scores))
    ]
    return sum(value >= abs(sum(scores)) - 1e-9 for value in patterns) / len(patterns)


def signs(n):
    return itertools.product((-1, 1), repeat=n)


@pytest.mark.parametrize(
    "scores",
    [
        [1, 1, 1, -1],
        [0.5, 1 / 3, -0.25, 1, 0, 2 / 3],
        [1 / 3, 1 / 3, 1 / 3, -1 / 3, 2 / 3, 1, 1, -1, 0.2],
        [0.1234567, 2**0.5, -0.9, math.pi, 1e-3, 0.5, -0.25],  # no fractions: enumerated
        [1, -1],
    ],
)
def test_sign_flips_are_all_patterns(scores):
    estimate = sign_flip(scores)
    assert estimate.p == pytest.approx(enumerated(scores), rel=1e-12)
    assert estimate.method == "exact sign-flip test over prompts"
    assert estimate.smallest_p == 2.0 ** (1 - sum(score != 0 for score in scores))


def test_sign_flips_of_equal_scores_are_the_binomial_test():
    scores = [1] * 251 + [-1] * 156 + [0] * 193
    estimate = sign_flip(scores)
    assert (estimate.n, estimate.p) == (407, pytest.approx(stats.binomtest(251, 407).pvalue, rel=1e-12))


def test_a_tail_far_below_any_drawn_p_is_exact():
    estimate = sign_flip([1] * 5000 + [-1] * 3000 + [0.5] * 2)
    reference = stats.binomtest(5000, 8000).pvalue
    assert estimate.p == pytest.approx(reference, rel=0.1)
    assert sign_flip([1] * 60).p == pytest.approx(2.0**-59, rel=1e-12)


def test_drawn_patterns_are_a_valid_test_with_a_seed():
    rng = np.random.default_rng(7)
    scores = rng.normal(0.3, 1, 50)
    estimate = sign_flip(scores, seed=1)
    theirs = stats.permutation_test((scores,), np.mean, permutation_type="samples", n_resamples=50_000, rng=2)
    assert estimate.p == pytest.approx(theirs.pvalue, abs=0.005)
    assert "drawn patterns, seed 1" in estimate.method
    assert estimate.p == sign_flip(scores, seed=1).p
    assert sign_flip(np.abs(scores), seed=1).p == pytest.approx(1 / 100_001)


def test_sign_flips_of_nothing_have_no_p():
    assert sign_flip([]).note == "there are no observations"
    assert (sign_flip([0, 0]).p, sign_flip([0.0]).note) == (None, "no prompt favours either method")
    with pytest.raises(ValueError, match="finite"):
        sign_flip([1.0, math.nan])


def test_holm_and_benjamini_hochberg_by_hand():
    assert adjust([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust([0.01, 0.04, 0.03], "bh") == pytest.approx([0.03, 0.04, 0.04])
    assert adjust([0.01, 0.04], "by") == pytest.approx([0.03, 0.06])  # · 1 + 1/2
    assert adjust([]) == []


def test_a_declared_test_that_was_not_made_counts_towards_the_family():
    assert adjust([0.01, None, 0.03]) == pytest.approx([0.03, None, 0.06])
    assert adjust([0.02, None], "bh") == pytest.approx([0.04, None])


def test_a_p_that_could_not_have_been_small_is_left_out():
    assert adjust([0.125, 0.01], smallest=[0.125, 0.0]) == [None, 0.02]
    assert adjust([0.03, 0.03], smallest=[0.03, 0.03]) == [None, None]  # .06 at best after two tests
    assert adjust([0.03], smallest=[0.03]) == [0.03]
    assert why_no_p(0.05, 0.05) == ""
    with pytest.raises(ValueError, match=r"1\.5 does not"):
        adjust([1.5])


def test_uneven_raters_and_far_tails_are_exact():
    # All of five items with 61 to 79 raters: 2 of 2⁵ patterns. ⅓ + ⅔ = 1 is a tie that no float sees.
    assert sign_flip([20 / 61, 3 / 67, 31 / 71, 5 / 73, 7 / 79]).p == 2 / 2**5
    scores = [1 / 3, 2 / 3, -1.0, *(1 / prime for prime in (10007, 10009, 10037, 10039, 10061, 10067))]
    assert sign_flip(scores).p == pytest.approx(enumerated(scores), rel=1e-12)
    assert "less than" in Estimate(p=sign_flip([1] * 2000).p / 2).note


@pytest.mark.parametrize(("items", "raters"), [(24, (23, 80)), (300, (1, 40)), (3000, (1, 11))])
def test_memory_is_bounded(items, raters):
    rng = np.random.default_rng(items)
    bottoms = rng.integers(*raters, items)
    tracemalloc.start()
    try:
        sign_flip(rng.integers(-bottoms, bottoms + 1) / bottoms)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20
