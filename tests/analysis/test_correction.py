"""Corrections for many tests, by hand and against statsmodels."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from analysis.stats.correction import benjamini_hochberg, benjamini_yekutieli, holm


def test_by_hand():
    # sorted .01 .02 .03 .04 → ·4 ·3 ·2 ·1 = .04 .06 .06 .04 → running maximum .04 .06 .06 .06
    assert holm([0.04, 0.01, 0.03, 0.02]).p_values == pytest.approx((0.06, 0.04, 0.06, 0.06))


def test_a_test_that_could_not_be_made_still_counts():
    corrected = holm([0.01, None, 0.2])
    # The family has three: .01·3, .2·2
    assert corrected.p_values == (pytest.approx(0.03), None, pytest.approx(0.4))
    assert corrected.n == 3


def test_the_false_discovery_rate_by_hand():
    # sorted .01 .02 .03 .04, each · 4/rank: .04 throughout; Yekutieli's: times 1 + 1/2 + 1/3 + 1/4 = 25/12.
    assert benjamini_hochberg([0.04, 0.01, 0.03, 0.02]).p_values == pytest.approx((0.04,) * 4)
    assert benjamini_yekutieli([0.04, 0.01, 0.03, 0.02]).p_values == pytest.approx((1 / 12,) * 4)
    # .2 · 3/2 = .3 for the test that was made second; the one that could not be made counts as the third.
    assert benjamini_hochberg([0.01, None, 0.2]).p_values == pytest.approx((0.03, None, 0.3))


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg, benjamini_yekutieli])
def test_edges_of_every_correction(correct):
    assert correct([]).p_values == ()
    assert correct([None]).p_values == (None,)
    assert correct([1.0, 1.0]).p_values == (1.0, 1.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        correct([-0.1])


@pytest.mark.slow
@settings(max_examples=15)  # statsmodels collects garbage at each call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_as_in_statsmodels(p_values):
    for correct, name in ((holm, "holm"), (benjamini_hochberg, "fdr_bh"), (benjamini_yekutieli, "fdr_by")):
        expected = multipletests(p_values, method=name)[1]
        assert list(correct(p_values).p_values) == pytest.approx(list(expected))
