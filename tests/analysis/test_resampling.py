"""Resampling prompts: against enumeration, scipy, and its own promise of coverage."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.resampling import exchanges, paired_randomisation, percentile, prompt_weights


def mean(sums):
    return sums[..., 0] / sums[..., 1]


def ratio_or_nan(sums):
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], np.nan)


def rows(values):
    values = np.asarray(values, dtype=float)
    return np.stack([values, np.ones_like(values)], axis=1)


def test_weights_are_draws_with_replacement():
    weights = prompt_weights(40, replicates=5000, seed=3)
    assert (weights.sum(axis=1) == 40).all()
    assert weights.mean() == 1
    # A prompt's weight is binomial(40, 1/40): variance 39/40, and P(0) = (39/40)^40 = .3632.
    assert weights.var() == pytest.approx(39 / 40, rel=0.02)
    assert (weights == 0).mean() == pytest.approx((39 / 40) ** 40, abs=0.003)
    assert np.array_equal(weights, prompt_weights(40, replicates=5000, seed=3))
    assert not np.array_equal(weights, prompt_weights(40, replicates=5000, seed=4))


def test_the_interval_agrees_with_scipy():
    values = np.random.default_rng(1).exponential(size=80)
    weights = prompt_weights(80, replicates=20_000, seed=1)
    ours = percentile(values.mean(), mean(weights @ rows(values)), level=0.9, n=80, seed=1)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=0.9, method="percentile", rng=2
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_the_interval_of_a_ratio_holds_what_it_promises():
    """Two hundred studies of 120 prompts: words and tokens that go together, whose true ratio is 3/5."""
    rng = np.random.default_rng(5)
    weights = prompt_weights(120, replicates=500, seed=9)
    held = 0
    for _ in range(200):
        lengths = rng.integers(10, 60, size=120)
        parts = np.stack([rng.binomial(lengths, 0.6), lengths], axis=1).astype(float)
        found = percentile(0.6, mean(weights @ parts), level=0.95, n=120, seed=9)
        held += found.low <= 0.6 <= found.high
    assert 0.90 <= held / 200 <= 0.99


@pytest.mark.parametrize(
    ("replicates", "n", "why"),
    [
        (np.array([1.0, 2.0]), 1, "one prompt"),
        (np.array([np.nan, 1.0, 2.0, 3.0]), 9, "no value"),
        (np.full(50, 1.5), 9, "no width"),
    ],
)
def test_no_interval_where_there_can_be_none(replicates, n, why):
    found = percentile(1.5, replicates, level=0.95, n=n, seed=1)
    assert (found.low, found.high) == (None, None)
    assert why in found.warnings[0]


def every(prompts):
    return np.array(list(product([0, 1], repeat=prompts)), dtype=np.int8)


def test_all_exchanges_of_three_prompts_by_hand():
    # Differences 1, 1, 1: of 8 exchanges only "none" and "all" are as extreme; (1 + 2) / (1 + 8).
    result = paired_randomisation([rows([2, 3, 4])], [rows([1, 2, 3])], mean, [every(3)])
    assert result.statistic == pytest.approx(1)
    assert result.p_value == pytest.approx(3 / 9)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_scipys_permutation_test(seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=9)
    b = a + rng.normal(0.4, 0.5, size=9)
    exact = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x) - np.mean(y), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    ours = paired_randomisation([rows(a)], [rows(b)], mean, [every(9)])
    assert (ours.p_value * (1 + 2**9) - 1) / 2**9 == pytest.approx(exact)


def test_strata_are_exchanged_by_themselves_and_averaged():
    a, b = [rows([1.0, 2.0]), rows([5.0, 9.0, 2.0])], [rows([0.0, 1.0]), rows([4.0, 9.0, 1.0])]
    moved = np.array([x + y for x in map(tuple, every(2)) for y in map(tuple, every(3))], dtype=np.int8)
    result = paired_randomisation(a, b, mean, [moved[:, :2], moved[:, 2:]])
    # Differences: (1 + 1)/2 = 1 and (1 + 0 + 1)/3 = 2/3, of which the mean is 5/6.
    assert result.statistic == pytest.approx(5 / 6)
    # As extreme: both strata wholly one way (0 exchanges or all that matter), the second prompt of the second
    # stratum free: 2 · 2 of 32.
    assert result.p_value == pytest.approx(5 / 33)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=7))
def test_naming_the_sides_the_other_way_round_changes_nothing(pairs):
    a, b = (rows([pair[side] for pair in pairs]) for side in (0, 1))
    one, other = (paired_randomisation([x], [y], mean, [every(len(pairs))]) for x, y in ((a, b), (b, a)))
    assert one.p_value == other.p_value
    assert one.statistic == -other.statistic
    assert 2 / (1 + 2 ** len(pairs)) <= one.p_value <= 1


def test_no_test_where_exchanges_leave_nothing():
    result = paired_randomisation(
        [np.array([[1.0, 1.0]])], [np.array([[0.0, 0.0]])], ratio_or_nan, [every(1)]
    )
    assert result.p_value is None
    assert "undefined" in result.warnings[0]


def test_random_exchanges_hold_their_level():
    """A thousand studies without a difference: p ≤ .05 in about one of twenty."""
    rng, moved = np.random.default_rng(2), exchanges(30, permutations=199, seed=1)
    rejected = sum(
        paired_randomisation([rows(a)], [rows(b)], mean, [moved]).p_value <= 0.05
        for a, b in (rng.exponential(size=(2, 30)) for _ in range(1000))
    )
    assert 0.03 <= rejected / 1000 <= 0.07
