"""The test that may be looked at after every item: by hand, under a nasty stopping rule, and from a table."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from verdicts_by_hand import listed

from analysis.planning.simulated_power import crossings
from analysis.planning.simulation import Design, simulate
from analysis.stats.correction import holm
from analysis.stats.sequential import MOMENTS, anytime, log_e_values
from analysis.verdicts.tidy import orient

pytestmark = pytest.mark.slow

ALPHA = 0.05


def e_values(numerators, denominators, **more):
    return np.exp(anytime(numerators, denominators, **more).log_e)


def test_by_hand_with_one_stake():
    # A win, a loss, a win by half, half of the fortune staked for and half against:
    # for     1.5, 1.5 · .5 = .75,  .75 · 1.25 = .9375
    # against  .5,  .5 · 1.5 = .75, .75 ·  .75 = .5625
    found = e_values([1, -4, 2], [1, 4, 4], fractions=(0.5,))
    assert found == pytest.approx([(1.5 + 0.5) / 2, (0.75 + 0.75) / 2, (0.9375 + 0.5625) / 2])


def test_by_hand_with_the_default_stakes():
    # Two wins: mean of (1 ± k/20)², k = 1 … 19, is 1 + Σk² / 400 / 19 = 1 + 2470 / 7600 = 1.325.
    # A third: (1 + g)³ + (1 − g)³ = 2 + 6g², so 1 + 3 · .325 = 1.975.
    test = anytime([5, 5, 5], [5, 5, 5])
    assert np.exp(test.log_e) == pytest.approx([1, 1.325, 1.975])
    assert test.e_value == pytest.approx(1.975)
    assert test.p_value == pytest.approx(1 / 1.975)
    assert test.crossed is None


def test_p_is_the_smallest_so_far_and_crossing_the_first():
    wins_then_losses = [1] * 12 + [-1] * 12
    test = anytime(wins_then_losses, [1] * 24)
    found = np.exp(test.log_e)
    assert test.p_value == pytest.approx(1 / found.max())
    assert test.e_value < 1 < found.max()
    assert found[test.crossed - 1] >= 1 / ALPHA > found[: test.crossed - 1].max()


@settings(max_examples=30)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5))
def test_under_the_null_the_e_value_is_one_in_the_mean(scores):
    # Over all 2ⁿ signs, each as likely: a martingale that starts at 1.
    signs = 1 - 2 * (np.arange(2 ** len(scores))[:, None] >> np.arange(len(scores)) & 1)
    every = np.exp(log_e_values(signs * np.array(scores) / 3))
    assert every.mean(axis=0) == pytest.approx(1)


@settings(max_examples=30)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=40))
def test_it_does_not_mind_which_method_is_first(scores):
    fours = [4] * len(scores)
    one, other = anytime(scores, fours), anytime([-score for score in scores], fours)
    assert one.log_e == pytest.approx(other.log_e, abs=1e-9)
    if one.interval.low is not None:
        assert one.interval.low == pytest.approx(1 - other.interval.high, abs=1e-6)


def test_stopping_at_the_first_good_look_errs_at_most_as_often_as_it_says():
    # A look after every one of 1000 items, stopping at the first p ≤ .05; no difference. Correlated ratings.
    looks, studies = 1000, 2000
    design = Design(items=looks, raters=3, ties=0.3, agreement=0.41, model="Dirichlet-multinomial")
    drawn = simulate(design, studies=studies, rng=np.random.default_rng(11))[:, 0]
    stopped = crossings(drawn.sum(axis=2, dtype=np.int8), raters=3, alpha=ALPHA) > 0
    assert stopped.mean() <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / studies)
    assert stopped.mean() > 0.01  # not by never rejecting
    # The exact test for a fixed number, looked at as often: one rater's wins and losses, a binomial each.
    one = drawn[:300, :, 0]
    wins, losses = (one == 1).cumsum(axis=1), (one == -1).cumsum(axis=1)
    p_values = np.minimum(1, 2 * stats.binom.cdf(np.minimum(wins, losses), wins + losses, 0.5))
    at_the_end, ever = p_values[:, -1] <= ALPHA, (p_values <= ALPHA).any(axis=1)
    assert at_the_end.mean() <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / 300)
    assert ever.mean() > 0.25


def test_the_family_error_holds_at_any_time():
    # Three criteria, none with a difference; every look applies Holm to the p-values so far.
    design = Design(items=200, raters=3, criteria=3, correlation=0.5, model="Dirichlet-multinomial")
    drawn = simulate(design, studies=300, rng=np.random.default_rng(5)).sum(axis=3) / 3
    p_values = np.minimum(1, np.exp(-np.maximum.accumulate(log_e_values(drawn), axis=2)))
    last = p_values[:, :, -1]  # p never rises, so a rejection at any look is one at the last
    rejected = [min(holm(study.tolist()).p_values) <= ALPHA for study in last]
    assert np.mean(rejected) <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / 300)


def test_it_finds_what_is_there_for_less_than_twice_the_items():
    # 55 % with 32 % ties at κ = .41 takes a fixed-n test 281 items × 5 raters at 80 % (docs/planning.md).
    design = Design(items=562, raters=5, share=0.55, agreement=0.41, model="Dirichlet-multinomial")
    drawn = simulate(design, studies=500, rng=np.random.default_rng(8))[:, 0]
    stops = crossings(drawn.sum(axis=2, dtype=np.int8), raters=5, alpha=ALPHA)
    assert (stops > 0).mean() > 0.78
    assert np.where(stops > 0, stops, 562).mean() < 330


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=1, max_size=120), st.sampled_from([-2, 0, 1, 2]))
def test_one_half_is_outside_the_confidence_sequence_exactly_when_the_test_rejects(scores, lean):
    moved = np.clip(np.array(scores) + lean, -2, 2)
    test = anytime(moved, np.full(len(moved), 2))
    if test.interval.low is None:
        assert test.interval.warnings
        return
    outside = not test.interval.low <= 0.5 <= test.interval.high
    assert outside == (test.crossed is not None)


def test_the_confidence_sequence_by_brute_force():
    rng = np.random.default_rng(2)
    wins = rng.binomial(4, 0.6, 60)
    found = anytime(2 * wins - 4, np.full(60, 4)).interval
    stakes = np.arange(1, 20)[:, None] / 20

    def kept(share):
        up = np.cumprod(1 + stakes * (wins / 4 / share - 1), axis=1)
        down = np.cumprod(1 + stakes * ((1 - wins / 4) / (1 - share) - 1), axis=1)
        return ((up + down).mean(axis=0) / 2).max() < 1 / ALPHA

    grid = np.arange(1, 2000) / 2000
    inside = [share for share in grid if kept(share)]
    assert found.low == pytest.approx(min(inside), abs=1 / 2000)
    assert found.high == pytest.approx(max(inside), abs=1 / 2000)


def test_the_confidence_sequence_covers_at_all_times_together():
    missed = 0
    for study in range(100):
        rng = np.random.default_rng([3, study])
        wins = rng.binomial(3, rng.beta(1.4, 0.6, 200))  # mean .7, ratings of an item correlated
        found = anytime(2 * wins - 3, np.full(200, 3)).interval
        missed += found.low is None or not found.low <= 0.7 <= found.high
    assert missed / 100 <= ALPHA + 3 * math.sqrt(ALPHA * 0.95 / 100)


def test_edges():
    none = anytime([], [])
    assert (none.p_value, none.e_value, none.crossed, none.interval.estimate) == (None, 1.0, None, None)
    balanced = anytime([0, 0, 0], [4, 4, 4])
    assert balanced.p_value is None
    assert "balanced" in balanced.warnings[0]
    assert anytime([1], [1]).p_value == 1.0
    certain = anytime([1] * 2000, [1] * 2000)
    assert 0 < certain.p_value < 1e-300
    assert "less than" in certain.warnings[0]
    assert math.isfinite(certain.e_value)
    assert certain.interval.high == 1.0


def test_a_share_that_drifts_is_said():
    test = anytime([1] * 60 + [-1] * 60, [1] * 120)
    assert test.crossed is not None
    assert "drifted" in test.interval.warnings[0]


def test_many_items_are_intersected_at_some_moments():
    scores = np.tile([1, 0, -1, 1, 0], MOMENTS)
    interval = anytime(scores, np.ones_like(scores)).interval
    assert "moments" in interval.method
    assert interval.low < 0.6 < interval.high


@pytest.mark.parametrize(
    ("numerators", "denominators", "more", "says"),
    [
        ([0.5], [1], {}, "integers"),
        ([1, 1], [1], {}, "one denominator"),
        ([2], [1], {}, "between −1 and 1"),
        ([1], [0], {}, "positive"),
        ([1], [1], {"alpha": 0}, "error rate"),
        ([1], [1], {"fractions": (1.0,)}, "stakes"),
    ],
)
def test_what_is_no_score_is_refused(numerators, denominators, more, says):
    with pytest.raises(ValueError, match=says):
        anytime(numerators, denominators, **more)


def verdicts(entries, times=None):
    """Verdicts as (pair, rater, verdict) on guard and acs."""
    more = {} if times is None else {"at": times}
    names = {"method_a": "guard", "method_b": "acs", "criterion": "fluency"}
    return orient(listed("pair_id rater verdict", entries, **names, **more))
