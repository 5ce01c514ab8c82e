"""The sign-flip test and its interval: against enumeration, the binomial test, scipy and hand arithmetic."""

import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from guard_eval.estimate import Estimate
from guard_eval.sign_flip import invert_sign_flip, sign_flip


def enumerated(scores):
    """Return the share of all patterns of signs whose sum is as extreme."""
    flips = 1 - 2 * (np.arange(2 ** len(scores))[:, None] >> np.arange(len(scores)) & 1)
    sums = np.abs(flips @ np.array(scores))
    return (sums >= abs(np.sum(scores)) - 1e-9).mean()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 6)), min_size=1, max_size=12))
def test_p_of_mean_ratings_agrees_with_enumeration(ratings):
    scores = [net / raters for net, raters in ratings]
    assume(any(scores))
    estimate = sign_flip(scores)
    assert estimate.p == pytest.approx(enumerated(scores), rel=1e-11)
    assert estimate.method == "exact sign-flip test over prompts"
    assert estimate.smallest_p == 2.0 ** (1 - sum(score != 0 for score in scores))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-3, 3).filter(lambda score: abs(score) > 1e-3), min_size=1, max_size=12))
def test_rounded_scores_never_lower_p(scores):
    p, exact = sign_flip(scores).p, enumerated(scores)
    assert p is not None
    assert p >= exact * (1 - 1e-9)
    # What lies between is a sum within a thousandth of the observed one.
    shifted = [*scores, *([math.copysign(1e-3, sum(scores))] if sum(scores) else [])]
    assert p <= 4 * max(exact, enumerated(shifted))


@pytest.mark.parametrize(
    "scores",
    [
        [0.1234567, 2**0.5, -0.9, math.pi, 1e-3, 0.5, -0.25],
        [1 / 3, 2 / 3, -1.0, *(1 / prime for prime in (10007, 10009, 10037, 10039))],  # ⅓ + ⅔ = 1 is a tie
    ],
)
def test_a_few_irregular_scores_agree_with_enumeration(scores):
    estimate = sign_flip(scores)
    assert estimate.p == pytest.approx(enumerated(scores), rel=1e-9)
    assert "upper bound" in estimate.method


@pytest.mark.parametrize(
    ("size", "up", "down"), [(1, 251, 156), (1 / 3, 5000, 3000), (0.5, 11, 11), (1, 62_900, 62_100)]
)
def test_equal_scores_give_the_binomial_test(size, up, down):
    """251 wins and 156 losses are the paper's coherence, whose printed p is 2.9e-6."""
    estimate = sign_flip([size] * up + [-size] * down + [0] * 193)
    reference = stats.binomtest(up, up + down).pvalue
    assert (estimate.n, estimate.p) == (up + down, pytest.approx(reference, rel=1e-8))
    assert estimate.method.startswith("exact")


def test_p_equals_fishers_p_for_darwins_plants():
    """Fisher (1935, section 21): of 32 768 patterns 1 726 are as extreme, p = .0527."""
    eighths_of_an_inch = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip(eighths_of_an_inch).p == pytest.approx(1726 / 2**15)


def test_p_is_never_zero():
    assert sign_flip([1] * 60).p == 2.0**-59
    estimate = sign_flip([1] * 2000)
    assert estimate.p is not None
    assert 0 < estimate.p < 1e-300
    assert "less than" in estimate.note
    assert "less than" in Estimate(value=1.0, p=0.0).note


@pytest.mark.parametrize("size", [50, 1000, 30_000])
def test_sign_flip_approaches_the_normal_test(size):
    """With many units a sum of flipped scores is normal: p differs by the next term, of order 1/n."""
    scores = np.random.default_rng(size).standard_normal(size)
    scores += 2.2 * np.sqrt(size) / size - scores.mean()
    z = scores.sum() / np.sqrt((scores**2).sum())
    assert sign_flip(scores).p == pytest.approx(2 * stats.norm.sf(z), rel=0.05 + 2 / size)


def test_scores_without_a_difference_have_no_p():
    assert sign_flip([]).note == "there are no observations"
    assert (sign_flip([0, 0]).p, sign_flip([0.0]).note) == (None, "no prompt favours either method")
    with pytest.raises(ValueError, match="finite"):
        sign_flip([1.0, math.nan])


@pytest.mark.parametrize(("items", "raters"), [(24, (23, 80)), (3000, (1, 11)), (125_000, (1, 7))])
def test_sign_flip_needs_little_memory_and_time(items, raters):
    rng = np.random.default_rng(items)
    bottoms = rng.integers(*raters, items)
    tracemalloc.start()
    begun = time.process_time()
    try:
        sign_flip(rng.integers(-bottoms, bottoms + 1) / bottoms)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * 2**20
    assert time.process_time() - begun < 5


def shares_of(seed, units):
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, units) / 3 + rng.choice([0, 1 / 3], units)


@pytest.mark.parametrize(("alpha", "nearest"), [(0.05, 0.8), (0.01, 0.5)])
def test_limits_agree_with_enumeration(alpha, nearest):
    """At a limit, scores less the limit are as extreme in α of the patterns, or in somewhat fewer."""
    reached = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sizes = np.exp(0.7 * rng.standard_normal(14))
        scores = sizes * rng.normal(0.1, 1, 14)
        limits = invert_sign_flip(scores, sizes, sign_flip(scores).p, alpha=alpha, bounds=(-9, 9))
        reached += [enumerated(scores - limit * sizes) / alpha for limit in limits]
    assert max(reached) < 1.02
    assert np.mean(reached) > nearest


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 30), st.sampled_from([0.5, 0.1, 0.05, 0.01]))
def test_limits_and_p_never_disagree(seed, units, alpha):
    scores = shares_of(seed, units) - 1 / 6
    test = sign_flip(scores)
    low, high = invert_sign_flip(scores, np.ones(units), test.p, alpha=alpha, bounds=(-1.5, 1.5))
    assert low - 1e-12 <= scores.mean() <= high + 1e-12
    if np.ptp(scores) == 0:
        return
    rejects = test.p is not None and test.p <= alpha
    assert rejects == (not low <= 0 <= high)


def test_five_units_give_an_unlimited_interval():
    assert invert_sign_flip([1, 1, 0.5, 1, 1], np.ones(5), 2 / 2**5, alpha=0.05, bounds=(-1, 1)) == (-1, 1)

    low, _ = invert_sign_flip(
        [1.0, 0.9, 1.0, 0.8, 1.0, 1.0], np.ones(6), 2 / 2**6, alpha=0.05, bounds=(-1, 1)
    )
    assert 0 < low < 0.95
