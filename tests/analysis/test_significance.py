"""The two tests, against the paper, against scipy's definition, and against all 2ⁿ sign patterns."""

import csv
import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.core.significance import binomial, sign_flip

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


def test_binomial_without_information_is_no_test():
    result = binomial(0, 0)
    assert result.p_value is None
    assert "tie" in result.warnings[0]


def test_negative_counts_are_refused():
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


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=60))
def test_sign_flip_does_not_mind_which_method_is_first(scores):
    ones = [4] * len(scores)
    assert sign_flip(scores, ones).p_value == sign_flip([-score for score in scores], ones).p_value


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


def test_the_normal_approximation_is_named_and_close():
    rng = np.random.default_rng(5)
    scores = rng.integers(-4, 5, 400) + (rng.random(400) < 0.2)
    exact = sign_flip(scores, np.full(400, 4))
    rough = sign_flip(scores, np.full(400, 4), exact_work=10)
    assert "normal approximation" in rough.method
    assert "exact" in exact.method
    assert math.isclose(rough.p_value, exact.p_value, rel_tol=0.05)


def test_awkward_denominators_are_rounded_and_said():
    primes = [p for p in range(2, 120) if all(p % q for q in range(2, p))]
    result = sign_flip([1] * len(primes), primes)
    assert result.warnings
    assert result.p_value == pytest.approx(2.0 ** (1 - len(primes)), rel=1e-6)


def test_scores_that_are_no_fractions_are_refused():
    with pytest.raises(ValueError, match="integers"):
        sign_flip([0.5], [1])
    with pytest.raises(ValueError, match="one denominator"):
        sign_flip([1, 2], [1])
    with pytest.raises(ValueError, match="positive"):
        sign_flip([1], [0])
