"""Results by a column of the table: a row a value, corrected together, and a test of the interaction."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.interaction import interaction


def test_interaction_agrees_with_all_permutations():
    """Of the C(6, 3) = 20 ways to give three of six prompts a value, two put 1 and 0 apart: p = .1."""
    estimate = interaction([1, 1, 1, 0, 0, 0], [1] * 6, [0, 0, 0, 1, 1, 1], range(6))
    assert estimate.p == pytest.approx(0.1, abs=0.01)


def test_interaction_agrees_with_scipy():
    rng = np.random.default_rng(5)
    scores, values = rng.choice([-1.0, 0.0, 1.0], 60), np.repeat([0, 1, 2], 20)
    scores[values == 2] += rng.choice([0.0, 1.0], 20)

    def statistic(*groups, axis=-1):
        return sum(group.sum(axis=axis) ** 2 / group.shape[axis] for group in groups)

    groups = [scores[values == value] for value in range(3)]
    other = stats.permutation_test(
        groups, statistic, permutation_type="independent", alternative="greater", n_resamples=9999, rng=1
    )
    estimate = interaction(scores, np.ones(60), values, np.arange(60))
    assert estimate.p == pytest.approx(other.pvalue, abs=0.01)


def test_interaction_within_units_is_that_of_paired_differences():
    """All of eight units favour the same of two values: two of 2^8 exchanges are as far apart."""
    sums = np.concatenate([np.ones(8), np.zeros(8)])
    estimate = interaction(sums, np.ones(16), np.repeat([0, 1], 8), np.tile(np.arange(8), 2))
    assert "within prompts" in estimate.method
    assert estimate.p == pytest.approx(2 / 2**8, abs=0.003)


def test_interaction_holds_its_level_without_one():
    rng = np.random.default_rng(0)
    small = [
        interaction(rng.normal(size=30), rng.integers(1, 4, 30), rng.integers(0, 2, 30), range(30), seed=n).p
        for n in range(200)
    ]
    # At most 10 + 2 · 3.1 of 200 p-values below .05 are to be expected.
    assert sum(p <= 0.05 for p in small) <= 17


def test_interaction_needs_two_values():
    assert interaction([1, 0], [1, 1], [0, 0], [0, 1]).p is None
