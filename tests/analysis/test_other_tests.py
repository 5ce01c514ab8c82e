"""The other tests: hand arithmetic, scipy, and the paper's counts under correlation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.significance import binomial, clustered, majority_sign, signed_rank, tolerated_correlation

# The paper's human study (tab:humaneval_resultglacs), four raters of 150 pairs: wins, ties, losses of GUARD.
COHERENCE, FLUENCY = (251, 193, 156), (115, 404, 81)


def test_the_sign_test_by_hand():
    # Five for, one against, one balanced: 2 · (C(6, 0) + C(6, 1)) / 2⁶ = 14/64.
    result = majority_sign([1, 0.5, 0.25, 0.75, 0.5, -1, 0])
    assert result.p_value == pytest.approx(14 / 64)
    assert result.n == 6


def test_no_majority_no_test():
    assert majority_sign([0, 0]).p_value is None
    assert signed_rank([0.0, 0.0]).p_value is None
    assert signed_rank([]).p_value is None


def test_the_rank_test_by_hand():
    # |scores| 0 0 1 2 3 have ranks 1.5 1.5 3 4 5; zeros leave: T+ = 3 + 5, T- = 4. Mean 6, variance
    # (3² + 4² + 5²)/4 = 12.5; z = (|8 - 6| - 1/2)/√12.5.
    result = signed_rank([0, 0, 1, -2, 3])
    z = 1.5 / np.sqrt(12.5)
    assert result.p_value == pytest.approx(2 * stats.norm.sf(z))
    assert "fewer than 20" in result.warnings[0]


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_naming_the_methods_the_other_way_round_changes_nothing(scores):
    mirrored = [-score for score in scores]
    assert majority_sign(scores).p_value == majority_sign(mirrored).p_value
    one, other = signed_rank(scores).p_value, signed_rank(mirrored).p_value
    assert one == other if one is None else one == pytest.approx(other)


def test_the_papers_counts_if_ratings_of_a_pair_correlate_as_its_kappa():
    # κ = .41 for the intra-item correlation: 2.9e-6 → .0013 and .018 → .10.
    assert clustered(*COHERENCE, raters=4, correlation=0.41).p_value == pytest.approx(0.0013, abs=5e-5)
    assert clustered(*FLUENCY, raters=4, correlation=0.41).p_value == pytest.approx(0.10, abs=5e-3)
    assert tolerated_correlation(*FLUENCY, raters=4) == pytest.approx(0.18, abs=0.01)


def test_without_correlation_it_is_near_the_binomial():
    for wins, ties, losses in (COHERENCE, FLUENCY):
        exact = binomial(wins, losses).p_value
        assert clustered(wins, ties, losses, raters=4, correlation=0).p_value == pytest.approx(exact, rel=0.5)


def test_the_tolerated_correlation_is_where_p_meets_alpha():
    rho = tolerated_correlation(*FLUENCY, raters=4, alpha=0.03)
    assert clustered(*FLUENCY, raters=4, correlation=rho).p_value == pytest.approx(0.03)
    assert tolerated_correlation(50, 0, 50, raters=4) is None
    assert tolerated_correlation(0, 9, 0, raters=4) is None
    assert tolerated_correlation(100, 0, 1, raters=2) == 1.0


@pytest.mark.parametrize("counts", [(0, 5, 0), (7, 0, 0)])
def test_counts_without_spread_have_no_test(counts):
    assert clustered(*counts, raters=3, correlation=0.2).p_value is None
