"""Intervals of proportions against statsmodels; the item-cluster interval by hand and against scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from analysis.stats.intervals import clopper_pearson, item_mean, unit_proportion, wilson


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_proportions_as_in_statsmodels(counts, level):
    successes, n = counts
    for ours, method in ((wilson, "wilson"), (clopper_pearson, "beta")):
        low, high = proportion_confint(successes, n, alpha=1 - level, method=method)
        interval = ours(successes, n, level=level)
        assert interval.low == pytest.approx(low, abs=1e-10)
        assert interval.high == pytest.approx(high, abs=1e-10)
        assert interval.estimate == successes / n


def test_trials_of_a_unit_that_are_all_the_same_count_once_as_in_statsmodels():
    # 40 pairs with 4 equal verdicts each, half of them for the first: worth 160 / (4 · 40/39) verdicts.
    unit = np.repeat(np.arange(40), 4)
    found = unit_proportion(unit % 2 == 0, unit)
    worth = 39 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2
    assert (found.low, found.high) == pytest.approx(proportion_confint(worth / 2, worth, method="wilson"))
    assert (found.n, wilson(80, 160).low - found.low > 0.05) == (40, True)
    assert unit_proportion(unit % 2 == 0, np.arange(160)) == wilson(80, 160)


def test_a_unit_of_one_kind_of_trials_has_a_limit_by_units():
    unit = np.repeat(np.arange(10), 5)
    found = unit_proportion(np.ones(50), unit)
    assert found.high == 1
    assert found.low < wilson(10, 10).low
    assert unit_proportion([1, 0], np.zeros(2, dtype=int)).low is None
    assert unit_proportion([], np.zeros(0, dtype=int)).estimate is None


@pytest.mark.parametrize("common", [0.0, 0.55, 1.0])
def test_proportions_over_units_cover(common):
    """Four trials of each of 40 pairs, which correlate; Wilson's own covers .68 to .95 here."""
    rng, hits = np.random.default_rng(4), []
    unit = np.repeat(np.arange(40), 4)
    for _ in range(400):
        felt = math.sqrt(common) * rng.standard_normal(40)[unit]
        found = unit_proportion(felt + math.sqrt(1 - common) * rng.standard_normal(160) > 0.5, unit)
        hits.append(found.low <= stats.norm.sf(0.5) <= found.high)
    assert np.mean(hits) > 0.92  # .95 is below it one time in 500


def test_nothing_observed():
    for ours in (wilson, clopper_pearson):
        interval = ours(0, 0)
        assert interval.estimate is None
        assert interval.low is None
        assert interval.warnings
    assert item_mean([], []).estimate is None


def test_wrong_counts_and_levels_are_refused():
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="confidence level"):
        clopper_pearson(1, 2, level=95)


def test_item_mean_of_one_stratum_is_the_t_interval():
    means = [0.5, 0.75, 1.0, 0.25, 0.5, 0.625]
    expected = stats.t.interval(0.95, len(means) - 1, loc=np.mean(means), scale=stats.sem(means))
    interval = item_mean(means, ["a"] * len(means))
    assert (interval.low, interval.high) == pytest.approx(expected)


def test_item_mean_by_hand():
    # Two strata of two items: s² = .125 and .02; v_h = n_h s_h² / n² = .015625 and .0025.
    # df = (.018125)² / (.015625² + .0025²) = 1.3120; mean = .5
    interval = item_mean([0.25, 0.75, 0.4, 0.6], ["a", "a", "b", "b"], level=0.5)
    freedom = 0.018125**2 / (0.015625**2 + 0.0025**2)
    half = stats.t.ppf(0.75, freedom) * math.sqrt(0.018125)
    assert interval.estimate == pytest.approx(0.5)
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_strata_that_differ_narrow_the_interval():
    means = [0.1, 0.2, 0.15, 0.8, 0.9, 0.85]
    apart = item_mean(means, ["a"] * 3 + ["b"] * 3)
    together = item_mean(means, ["a"] * 6)
    assert apart.high - apart.low < together.high - together.low


def test_a_single_item_in_a_stratum_pools_the_strata():
    interval = item_mean([0.1, 0.5, 0.9], ["a", "b", "b"])
    assert "only one item" in interval.warnings[0]
    assert (interval.low, interval.high) != (None, None)


def test_no_spread_gives_no_interval():
    interval = item_mean([1.0, 1.0, 1.0], ["a", "a", "b"])
    assert interval.estimate == 1.0
    assert interval.low is None
    assert "same mean" in interval.warnings[-1]
    assert item_mean([0.5], ["a"]).high is None


def test_limits_stay_within_zero_and_one():
    interval = item_mean([1.0, 1.0, 0.5], ["a"] * 3)
    assert interval.high == 1.0
    assert any("cut" in warning for warning in interval.warnings)


def test_one_stratum_per_item():
    with pytest.raises(ValueError, match="one stratum per item"):
        item_mean([0.5, 0.5], ["a"])
