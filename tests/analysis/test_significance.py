"""The tests, against the paper, scipy, statsmodels, hand arithmetic and all 2ⁿ sign patterns."""

import csv
import itertools
import math
import tracemalloc
import warnings
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from analysis.stats import significance
from analysis.stats.significance import (
    binomial,
    clustered,
    majority_sign,
    sign_flip,
    signed_rank,
    tolerated_correlation,
)

GOLDEN = Path(__file__).parents[1] / "golden"


def test_the_papers_p_values():
    with (GOLDEN / "guard_human_counts_from_paper.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    counts = {
        criterion: [
            sum(int(row[column]) for row in rows if row["criterion"] == criterion)
            for column in ("guard_wins", "acs_wins")
        ]
        for criterion in ("coherence", "fluency")
    }
    assert counts == {"coherence": [251, 156], "fluency": [115, 81]}
    assert binomial(*counts["coherence"]).p_value == pytest.approx(2.874966592398616e-06, rel=1e-12)
    assert binomial(*counts["fluency"]).p_value == pytest.approx(0.0181888, rel=1e-5)


def test_binomial_by_hand():
    # 1 of 5 or more extreme on either side: 2 · (1 + 5) / 32
    assert binomial(1, 4).p_value == pytest.approx(12 / 32)


def test_sign_tests_without_information_or_of_negative_counts():
    assert (binomial(0, 0).p_value, binomial(0, 0).warnings) == (None, ("every rating is a tie",))
    with pytest.raises(ValueError, match="negative"):
        binomial(-1, 3)


def enumerate_all(scores: list[Fraction]) -> float:
    """P(|Σ ± score| ≥ |Σ score|), by going through all sign patterns in exact arithmetic."""
    observed = abs(sum(scores))
    patterns = list(itertools.product((1, -1), repeat=len(scores)))
    extreme = sum(abs(sum(s * v for s, v in zip(p, scores, strict=True))) >= observed for p in patterns)
    return extreme / len(patterns)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 5)), min_size=1, max_size=10))
def test_sign_flip_is_the_share_of_all_sign_patterns(items):
    result = sign_flip([top for top, _ in items], [bottom for _, bottom in items])
    scores = [Fraction(top, bottom) for top, bottom in items]
    if not any(scores):
        assert result.p_value is None
    else:
        assert result.p_value == pytest.approx(enumerate_all(scores), rel=1e-12)
        assert result.n == sum(score != 0 for score in scores)


def test_with_one_rating_per_item_it_is_the_binomial():
    scores = [1] * 61 + [-1] * 51 + [0] * 38
    assert sign_flip(scores, [1] * 150).p_value == pytest.approx(binomial(61, 51).p_value, rel=1e-12)


def test_far_tails_keep_their_digits():
    # All of 200 items for one method: 2 · 2⁻²⁰⁰
    assert sign_flip([1] * 200, [1] * 200).p_value == pytest.approx(2.0**-199, rel=1e-9)


def test_underflow_says_so():
    result = sign_flip([1] * 2000, [1] * 2000)
    assert 0 < result.p_value < 1e-300
    assert "less than" in result.warnings[0]


def test_balanced_items_are_no_test():
    result = sign_flip([0, 0], [4, 4])
    assert result.p_value is None
    assert result.n == 0
    assert sign_flip([], []).p_value is None


UNEVEN = st.lists(
    st.sampled_from([1, 2, 3, 60, 61, 67, 71, 73, 79, 83, 89, 97]).flatmap(
        lambda raters: st.tuples(st.integers(-raters, raters), st.just(raters))
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=40, deadline=None)
@given(UNEVEN)
def test_uneven_raters_are_enumerated(items):
    """Whatever the numbers of raters: no size of a common denominator makes a few items inexact."""
    result = sign_flip([top for top, _ in items], [raters for _, raters in items])
    scores = [Fraction(top, raters) for top, raters in items]
    if any(scores):
        assert result.p_value == pytest.approx(enumerate_all(scores), rel=1e-12)
        assert result.method == "exact sign-flip test on item means"
    else:
        assert result.p_value is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 5)), min_size=1, max_size=9))
def test_every_exact_way_is_the_same(items):
    scores = [Fraction(top, bottom) for top, bottom in items if top]
    if not scores:
        return
    tops, bottoms = [score.numerator for score in scores], [score.denominator for score in scores]
    for name in ("HALF_SUMS", "LATTICE_CELLS"):
        with mock.patch.object(significance, name, 0):
            found = sign_flip(tops, bottoms)
        assert found.p_value == pytest.approx(enumerate_all(scores), rel=1e-12)
        assert found.method == "exact sign-flip test on item means"
    # A prime of 61 bits: beside it no grid of machine integers is exact, and what is too near to tell apart
    # counts as extreme. Too small by even one pattern would be an error.
    large = 2**61 - 1
    found = sign_flip([*tops, 1], [*bottoms, large])
    exact = enumerate_all([*scores, Fraction(1, large)])
    assert exact * (1 - 1e-12) <= found.p_value <= enumerate_all(scores) * (1 + 1e-12)
    assert "exact" in found.method


def test_few_items_with_many_raters_by_hand():
    # All of five items for one method: 2 of 2⁵ patterns; six: 2 of 2⁶.
    five, six = [61, 67, 71, 73, 79], [23, 29, 31, 37, 41, 43]
    assert sign_flip([20, 3, 31, 5, 7], five).p_value == 2 / 2**5
    assert sign_flip([2, 3, 11, 5, 7, 1], six).p_value == 2 / 2**6
    assert sign_flip([-20, -3, -31, -5, -7], five).p_value == 2 / 2**5


def test_a_tie_of_sums_counts_though_no_float_sees_it():
    # ⅓ + ⅔ is 1, in a table whose other scores have no common denominator of 64 bits.
    primes = [10007, 10009, 10037, 10039, 10061, 10067]
    tops, bottoms = [1, 2, -1, *[1] * 6], [3, 3, 1, *primes]
    expected = enumerate_all([Fraction(top, bottom) for top, bottom in zip(tops, bottoms, strict=True)])
    assert sign_flip(tops, bottoms).p_value == pytest.approx(expected, rel=1e-12)


def test_one_item_and_all_equal_items():
    assert sign_flip([7], [79]).p_value == 1.0
    assert sign_flip([40] * 12, [79] * 12).p_value == 2 / 2**12
    assert sign_flip([0, 0, 5], [61, 67, 71]).n == 1


def test_forty_uneven_items_are_exact():
    """All forty for one method is 2 of 2⁴⁰ patterns; one of the smallest the other way, 4."""
    raters = np.arange(40, 80)
    assert sign_flip(raters // 2, raters).p_value == pytest.approx(2 / 2**40, rel=1e-12)
    scores = raters // 2
    scores[7] = -1  # 1/47, by far the smallest
    assert sign_flip(scores, raters).p_value == pytest.approx(4 / 2**40, rel=1e-12)


@pytest.mark.parametrize(
    ("items", "raters"), [(5, (61, 80)), (24, (23, 80)), (40, (23, 80)), (300, (1, 40)), (3000, (1, 11))]
)
def test_memory_is_bounded(items, raters):
    rng = np.random.default_rng(items)
    bottoms = rng.integers(*raters, items)
    tops = rng.integers(-bottoms, bottoms + 1)
    tracemalloc.start()
    try:
        sign_flip(tops, bottoms)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20


def test_drawn_patterns_are_named_and_close_to_the_exact_distribution():
    """Sixty items with 7 and 9 raters have a lattice; the drawn patterns must find the same tail."""
    rng = np.random.default_rng(3)
    bottoms = rng.choice([7, 9], 60)
    tops = np.clip(rng.integers(-bottoms, bottoms + 1) + 2, -bottoms, bottoms)
    exact = sign_flip(tops, bottoms)
    assert exact.method == "exact sign-flip test on item means"
    with mock.patch.multiple(significance, HALF_SUMS=0, LATTICE_CELLS=0):
        drawn = sign_flip(tops, bottoms)
        again = sign_flip(tops[::-1], bottoms[::-1])
        turned = sign_flip(-tops, bottoms)
    assert "Monte Carlo of 999999 sign patterns, seed 0" in drawn.method
    error = math.sqrt(exact.p_value * (1 - exact.p_value) / 1e6)
    assert abs(drawn.p_value - exact.p_value) < 5 * error + 1e-6
    assert drawn.p_value == again.p_value == turned.p_value


def test_drawn_patterns_never_give_zero():
    raters = np.arange(101, 161)
    result = sign_flip(raters, raters + 1)
    assert "Monte Carlo" in result.method
    assert result.p_value == 1 / 1_000_000


def test_the_normal_approximation_is_for_many_items_alone_and_close():
    rng = np.random.default_rng(5)
    scores = rng.integers(-3, 4, 12_000) + (rng.random(12_000) < 0.02)
    exact = sign_flip(scores, np.full(12_000, 4))
    with mock.patch.multiple(significance, HALF_SUMS=0, LATTICE_CELLS=0, MANY_ITEMS=5_000):
        rough = sign_flip(scores, np.full(12_000, 4))
    assert "normal approximation" in rough.method
    assert "exact" in exact.method
    assert math.isclose(rough.p_value, exact.p_value, rel_tol=0.005)


def test_a_few_heavy_items_among_many_light_ones_are_not_normal():
    """Twenty items at ±1 decide over 20 000 at ±1/1000: nothing is normal about them."""
    tops = np.ones(20_020, dtype=np.int64)
    bottoms = np.concatenate([np.ones(20, dtype=np.int64), np.tile([997, 1009, 1013, 1019], 5_000)])
    tops[20::2] = -1
    assert "normal" not in sign_flip(tops, bottoms).method


def test_awkward_denominators_stay_exact():
    primes = [p for p in range(2, 120) if all(p % q for q in range(2, p))]
    result = sign_flip([1] * len(primes), primes)
    assert result.method == "exact sign-flip test on item means"
    assert result.p_value == 2.0 ** (1 - len(primes))


def test_scores_that_are_no_fractions_are_refused():
    with pytest.raises(ValueError, match="integers"):
        sign_flip([0.5], [1])
    with pytest.raises(ValueError, match="one denominator"):
        sign_flip([1, 2], [1])
    with pytest.raises(ValueError, match="positive"):
        sign_flip([1], [0])


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


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=40))
def test_naming_the_methods_the_other_way_round_changes_nothing(scores):
    mirrored, fours = [-score for score in scores], [4] * len(scores)
    assert sign_flip(scores, fours).p_value == sign_flip(mirrored, fours).p_value
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


@pytest.mark.parametrize(("first", "second"), [(1, 5), (7, 7), (0, 9), (30, 12)])
def test_mcnemar_as_in_statsmodels(first, second):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = statsmodels_mcnemar([[4, first], [second, 8]], exact=True)
    assert sign_flip([1] * first + [-1] * second, [1] * (first + second)).p_value == pytest.approx(
        expected.pvalue
    )
