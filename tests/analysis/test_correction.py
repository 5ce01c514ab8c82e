"""Holm's adjustment, by hand and against statsmodels."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from analysis.core.correction import holm


def test_by_hand():
    # sorted .01 .02 .03 .04 → ·4 ·3 ·2 ·1 = .04 .06 .06 .04 → running maximum .04 .06 .06 .06
    assert holm([0.04, 0.01, 0.03, 0.02]).p_values == pytest.approx((0.06, 0.04, 0.06, 0.06))


def test_a_test_that_could_not_be_made_still_counts():
    corrected = holm([0.01, None, 0.2])
    # The family has three: .01·3, .2·2
    assert corrected.p_values == (pytest.approx(0.03), None, pytest.approx(0.4))
    assert corrected.n == 3


def test_no_family():
    assert holm([]).p_values == ()


def test_what_is_no_probability_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([1.2])


@settings(max_examples=15)  # statsmodels collects garbage at each call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_as_in_statsmodels(p_values):
    expected = multipletests(p_values, method="holm")[1]
    assert list(holm(p_values).p_values) == pytest.approx(list(expected))
