"""The test that may be looked at after every item: by hand, and under a nasty stopping rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.stats.sequential import MAX_MOMENTS, compute_log_e_values, run_anytime_test

pytestmark = pytest.mark.slow

ALPHA = 0.05


def test_e_value_follows_hand_arithmetic():
    # Two wins: mean of (1 ± k/20)², k = 1 … 19, is 1 + Σk² / 400 / 19 = 1 + 2470 / 7600 = 1.325.
    # A third: (1 + g)³ + (1 − g)³ = 2 + 6g², so 1 + 3 · .325 = 1.975.
    test = run_anytime_test([1, 1, 1])
    assert np.exp(test.log_e) == pytest.approx([1, 1.325, 1.975])
    assert test.share.p == pytest.approx(1 / 1.975)
    assert test.crossed is None


def test_anytime_p_is_the_running_minimum():
    test = run_anytime_test([1] * 12 + [-1] * 12)
    e_values = np.exp(test.log_e)
    assert test.share.p == pytest.approx(1 / e_values.max())
    assert e_values[-1] < 1 < e_values.max()
    assert e_values[test.crossed - 1] >= 1 / ALPHA > e_values[: test.crossed - 1].max()


@settings(max_examples=30)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5))
def test_e_value_has_mean_one_under_the_null(scores):
    # Over all 2ⁿ signs, each as likely: a martingale that starts at 1.
    signs = 1 - 2 * (np.arange(2 ** len(scores))[:, None] >> np.arange(len(scores)) & 1)
    assert np.exp(compute_log_e_values(signs * np.array(scores) / 3)).mean(axis=0) == pytest.approx(1)


@settings(max_examples=30)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=40))
def test_e_value_ignores_the_order_of_methods(scores):
    first, second = run_anytime_test(np.array(scores) / 4), run_anytime_test(-np.array(scores) / 4)
    assert first.log_e == pytest.approx(second.log_e, abs=1e-9)
    if first.share.low is not None:
        assert first.share.low == pytest.approx(1 - second.share.high, abs=1e-6)


def alike(rng, studies, items, raters=3):
    """Draw mean scores of items by raters who agree as the paper's do, without a difference."""
    felt = 0.9 * rng.normal(size=(studies, items, 1)) + rng.normal(size=(studies, items, raters))
    return np.where(np.abs(felt) > 0.45, np.sign(felt), 0).mean(axis=2)


def test_early_stopping_holds_the_error_rate():
    # A look after every one of 600 items, stopping at the first p ≤ .05.
    studies = 1000
    drawn = alike(np.random.default_rng(11), studies, 600)
    stopped = (compute_log_e_values(drawn) >= math.log(1 / ALPHA)).any(axis=1)
    assert 0.01 < stopped.mean() <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / studies)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=120), st.sampled_from([-2, 0, 1, 2]))
def test_confidence_sequence_excludes_one_half_if_test_rejects(scores, lean):
    test = run_anytime_test(np.clip(np.array(scores) + lean, -2, 2) / 2)
    if test.share.low is None:
        assert test.share.note
        return
    outside = not test.share.low <= 0.5 <= test.share.high
    assert outside == (test.crossed is not None)


def test_confidence_sequence_agrees_with_brute_force():
    wins = np.random.default_rng(2).binomial(4, 0.6, 60)
    share = run_anytime_test(wins / 2 - 1).share
    stakes = np.arange(1, 20)[:, None] / 20

    def is_inside(share):
        up = np.cumprod(1 + stakes * (wins / 4 / share - 1), axis=1)
        down = np.cumprod(1 + stakes * ((1 - wins / 4) / (1 - share) - 1), axis=1)
        return ((up + down).mean(axis=0) / 2).max() < 1 / ALPHA

    inside = [value for value in np.arange(1, 2000) / 2000 if is_inside(value)]
    assert share.low == pytest.approx(min(inside), abs=1 / 2000)
    assert share.high == pytest.approx(max(inside), abs=1 / 2000)


def test_sequential_test_weights_prompts_by_items(monkeypatch):
    monkeypatch.setattr("analysis.stats.sequential.FRACTIONS", (0.5,))
    # Sums of two items and of one: stakes are on the largest, so the scores are 1, 1/2 and −1/2.
    test = run_anytime_test([2, 1, -1], sizes=[2, 2, 1])
    assert np.exp(test.log_e[-1]) == pytest.approx((1.5 * 1.25 * 0.75 + 0.5 * 0.75 * 1.25) / 2)
    assert test.share.value == pytest.approx((1 + 2 / 5) / 2)


def test_sequential_test_accepts_extreme_inputs():
    nothing = run_anytime_test([])
    assert (nothing.share.p, nothing.share.value, nothing.crossed) == (None, None, None)
    balanced = run_anytime_test([0, 0, 0])
    assert (balanced.share.p, "balanced" in balanced.share.note) == (None, True)
    assert run_anytime_test([1]).share.p == 1.0
    certain = run_anytime_test([1] * 2000)
    assert 0 < certain.share.p < 1e-300
    assert "less than" in certain.share.note
    assert certain.share.high == 1.0
    drifted = run_anytime_test([1] * 60 + [-1] * 60)
    assert drifted.crossed is not None
    assert "drifted" in drifted.share.note
    many = run_anytime_test(np.tile([1, 0, -1, 1, 0], MAX_MOMENTS)).share
    assert "moments" in many.method
    assert many.low < 0.6 < many.high
