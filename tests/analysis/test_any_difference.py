"""The test of any difference and the rank sets of strengths: by hand, by enumeration, by simulation."""

from itertools import combinations, product

import numpy as np
import pytest

from analysis.stats.ranks.any_difference import any_difference
from analysis.stats.ranks.rank_sets import (
    simultaneous_line,
)
from guard_eval.estimate import sign_flip


def test_two_methods_are_the_sign_flip_test_of_their_comparison():
    scores = np.array([2, -1, 3, 3, 1, -2, 4, 1])
    found = any_difference(np.stack([scores, -scores], axis=1).astype(float))
    assert found.p == pytest.approx(sign_flip(scores).p, abs=1e-12)
    assert found.smallest_p == 1 / 2**7


def test_a_few_units_by_going_through_all_flips():
    nets = np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -2.0], [0.0, 1.0, -1.0], [1.0, 1.0, -2.0]])
    weight = (nets**2).sum(axis=0)

    def statistic(flips):
        return ((np.array(flips) @ nets) ** 2 / weight).sum()

    every = [statistic(flips) for flips in product((1, -1), repeat=4)]
    expected = np.mean([one >= statistic((1, 1, 1, 1)) - 1e-12 for one in every])
    assert any_difference(nets).p == pytest.approx(expected)


def test_nothing_to_test_and_units_that_say_nothing():
    assert any_difference(np.zeros((5, 3))).p is None
    nets = np.array([[1.0, -1.0, 0.0]] * 6)
    more = np.concatenate([nets, np.zeros((50, 3))])
    assert any_difference(more).p == any_difference(nets).p == 1 / 2**5


def test_no_name_moves_a_p_that_is_drawn():
    rng = np.random.default_rng(5)
    nets = rng.integers(-3, 4, (40, 3)).astype(float)
    nets[:, 2] = -nets[:, 0] - nets[:, 1]
    p = any_difference(nets).p
    for _ in range(5):
        again = nets[rng.permutation(40)][:, rng.permutation(3)]
        assert any_difference(again).p == p


def study(rng, quality, prompts, compared, sd=0.6):
    """Verdicts of one rater: unit, first, second, points."""
    pairs = np.array(list(combinations(range(len(quality)), 2)))
    rows = []
    for prompt in range(prompts):
        own = np.asarray(quality) + sd * rng.normal(size=len(quality))
        for i, j in pairs[rng.permutation(len(pairs))[:compared]]:
            gap = own[i] - own[j] + 1.2 * rng.normal()
            rows.append((prompt, i, j, 2 if gap > 0.5 else 0 if gap < -0.5 else 1))
    return np.array(rows).T


def test_the_line_of_one_difference_is_students_and_of_many_is_between_it_and_bonferronis():
    from scipy import stats

    rng = np.random.default_rng(1)
    one = rng.normal(size=(40, 1))
    line = simultaneous_line(np.hstack([one, -one]), freedom=39)
    assert line == pytest.approx(stats.t.isf(0.025, 39), abs=0.05)
    many = rng.normal(size=(40, 6))
    line = simultaneous_line(many - many.mean(axis=1, keepdims=True), freedom=39)
    assert stats.t.isf(0.025, 39) + 0.5 < line < stats.t.isf(0.025 / 15, 39)
    # Tukey's studentised range, for equal variances without correlation
    equal = np.tile(np.eye(6) - 1 / 6, (200, 1)) * rng.normal(size=(1200, 1))
    assert simultaneous_line(equal, freedom=1199) * np.sqrt(2) == pytest.approx(
        stats.studentized_range.isf(0.05, 6, 1199), abs=0.1
    )
    # of a difference that six of forty units know of: enough for the tails of six
    few = np.zeros((40, 1))
    few[:6] = 1.0
    line = simultaneous_line(np.hstack([few, -few]), freedom=39)
    t5 = float(stats.t.isf(0.025, 5))
    share = 6 * t5**2 / (5 + t5**2)  # (Σx)² / Σx², from t of six
    assert line >= np.sqrt(share / (1 - share / 40) * 39 / 40)
    assert simultaneous_line(np.zeros((4, 3)), freedom=3) == 0
