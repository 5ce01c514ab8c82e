"""Intervals of proportions and of mean shares: against statsmodels, scipy and arithmetic by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from analysis.scores.win_share import estimate_share_of_these_raters
from analysis.stats.proportion import estimate_proportion


def share_of(means, datasets, level=0.95):
    units = -1 - np.arange(len(means))
    return estimate_share_of_these_raters(
        pd.DataFrame({"share": means, "dataset": datasets, "unit": units}), level=level
    )


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_proportions_agree_with_statsmodels(counts, level):
    successes, n = counts
    low, high = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    interval = estimate_proportion(np.arange(n) < successes, np.arange(n), level=level)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-10)
    assert interval.value == successes / n


def test_identical_trials_of_a_unit_count_once():
    # 40 pairs with 4 equal verdicts each, half of them for the first: worth 160 / (4 · 40/39) verdicts.
    unit = np.repeat(np.arange(40), 4)
    share = estimate_proportion(unit % 2 == 0, unit, level=0.95)
    worth = 39 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2
    assert (share.low, share.high) == pytest.approx(proportion_confint(worth / 2, worth, method="wilson"))
    assert share.n == 40


def test_limits_of_unanimous_units_depend_on_their_number():
    unit = np.repeat(np.arange(10), 5)
    share = estimate_proportion(np.ones(50), unit, level=0.95)
    assert share.high == 1
    assert share.low < proportion_confint(10, 10, method="wilson")[0]
    assert estimate_proportion([1, 0], np.zeros(2, dtype=int), level=0.95).low is None
    assert estimate_proportion([], np.zeros(0, dtype=int), level=0.95).value is None


def test_stratified_error_follows_hand_arithmetic():
    # Two strata of two items: s² = .125 and .02; v_h = n_h s_h² / n² = .015625 and .0025.
    # df = (.018125)² / (.015625² + .0025²) = 1.3120; mean = .5
    share = share_of([0.25, 0.75, 0.4, 0.6], ["a", "a", "b", "b"], level=0.5)
    df = 0.018125**2 / (0.015625**2 + 0.0025**2)
    assert (share.value, share.error, share.df) == pytest.approx((0.5, math.sqrt(0.018125), df))


def test_interval_excludes_one_half_when_its_test_rejects():
    """All wins but one of 12: p = 13 · 2/2¹² = .0063."""
    share = share_of([1.0] * 11 + [0.0], list("a" * 12))
    assert share.p == pytest.approx(13 * 2 / 2**12)
    assert share.low is not None
    assert 0.5 < share.low < share.high == 1
    # 7 wins and a loss in 8: p = 9 · 2/2⁸ = .07, where Student's interval begins at .58.
    share = share_of([1.0] * 7 + [0.0], list("a" * 8))
    student = 0.875 - stats.t.ppf(0.975, 7) * stats.sem([1.0] * 7 + [0.0])
    assert share.p == pytest.approx(9 * 2 / 2**8)
    assert share.low == 0.5 < student


def test_interval_of_five_unanimous_pairs_covers_all_shares():
    share = share_of([1.0, 1.0, 0.5, 1.0, 1.0], list("aaaaa"))
    assert (share.p, share.low, share.high) == (1 / 2**3, 0, 1)
