"""Step-down max-T by sign flips: against enumeration by hand and by a program that knows nothing of it."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdicts_by_hand import listed

from analysis.results.shares import share_rows
from analysis.stats import max_t as module
from analysis.stats.correction import holm
from analysis.stats.max_t import max_t
from analysis.stats.significance import sign_flip
from guard_eval.errors import StudyError


def by_enumeration(comparisons):
    """Step down over every sign pattern, one at a time; scores are whole numbers, `None` where missing."""
    tests = [(c, k) for c, table in enumerate(comparisons) for k in range(len(table[0]))]

    def statistic(test, signs):
        c, k = test
        scores = [row[k] or 0 for row in comparisons[c]]
        squares = sum(score**2 for score in scores)
        total = sum(sign * score for sign, score in zip(signs[c], scores, strict=True))
        # Squares compare exactly, as fractions.
        return Fraction(total**2, squares) if squares else None

    data = tuple((1,) * len(table) for table in comparisons)
    own = {test: statistic(test, data) for test in tests if statistic(test, data) is not None}
    order = sorted(own, key=lambda test: -own[test])
    patterns = list(product(*(list(product((1, -1), repeat=len(table))) for table in comparisons)))
    adjusted, before = {}, Fraction(0)
    for place, test in enumerate(order):
        reached = sum(
            max(statistic(other, signs) for other in order[place:]) >= own[test] for signs in patterns
        )
        before = adjusted[test] = max(before, Fraction(reached, len(patterns)))
    return [float(adjusted[test]) if test in adjusted else None for test in tests]


def test_three_items_and_two_criteria_by_hand():
    # Sums under + + +, − + +, + − +, + + − (the rest are these with all signs changed), of squares 6 and 3:
    #   first criterion 2, 1, 1: 4, 0, 2, 2     second criterion 1, 1, −1: 1, −1, −1, 3
    # Statistics |Σ|/√: 4/√6 = 1.63, 0, .82, .82 and .58, .58, .58, 1.73; the largest 1.63, .58, .82, 1.73.
    # First: 1.63 is reached by 1.63 and 1.73, so 2/4. Second, alone: .58 is reached by all.
    found = max_t([[[2, 1], [1, 1], [1, -1]]])
    assert found.p_values == pytest.approx((0.5, 1.0))
    assert (found.n, found.how) == (2, "all 4 sign patterns")
    # Holm takes the first test's own p, 2 of 8 patterns, twice.
    assert holm([0.25, 1.0]).p_values == pytest.approx((0.5, 1.0))


def test_a_criterion_that_repeats_another_costs_nothing():
    scores = np.array([3, 2, 2, 1, 1, 1, -1])
    alone = sign_flip(scores, np.ones(7, dtype=int)).p_value
    assert max_t([np.stack([scores, scores, 2 * scores], axis=1)]).p_values == pytest.approx((alone,) * 3)


whole = st.integers(-2, 2) | st.none()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.integers(1, 3).flatmap(
            lambda width: st.lists(st.lists(whole, min_size=width, max_size=width), min_size=1, max_size=4)
        ),
        min_size=1,
        max_size=2,
    )
)
def test_as_by_enumeration(comparisons):
    tables = [np.array(table, dtype=float) for table in comparisons]
    expected = by_enumeration(comparisons)
    for found, value in zip(max_t(tables).p_values, expected, strict=True):
        assert found is None if value is None else found == pytest.approx(value)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=2, max_size=12), st.randoms())
def test_orders_and_sides_are_nothing(rows, random):
    scores = np.array(rows, dtype=float)
    p_values = np.array(max_t([scores]).p_values, dtype=float)
    assert np.array(max_t([-scores]).p_values, dtype=float) == pytest.approx(p_values, nan_ok=True)
    columns = random.sample(range(3), 3)
    other = np.array(max_t([scores[random.sample(range(len(rows)), len(rows))][:, columns]]).p_values, float)
    assert other == pytest.approx(p_values[columns], nan_ok=True)
    # Each test's own p is the least its corrected one can be.
    alone = [sign_flip(column.astype(int), np.ones(len(rows), dtype=int)).p_value for column in scores.T]
    for own, corrected in zip(alone, p_values, strict=True):
        assert own is None or own <= corrected + 1e-12


def test_drawn_patterns_come_near_all_of_them(monkeypatch):
    rng = np.random.default_rng(3)
    scores = rng.integers(-3, 5, (14, 1)) + rng.integers(-1, 2, (14, 4))
    every = np.array(max_t([scores]).p_values)
    monkeypatch.setattr(module, "PATTERNS", 0)
    drawn = max_t([scores], seed=5)
    assert drawn.how == "99999 drawn sign patterns, seed 5"
    # Four Monte-Carlo errors of 99 999 patterns.
    assert np.abs(np.array(drawn.p_values) - every).max() < 4 * sqrt(0.25 / 99_999)
    assert drawn == max_t([scores], seed=5) != max_t([scores], seed=6)


def test_drawn_patterns_hang_on_no_order_of_units_and_no_side():
    rng = np.random.default_rng(4)
    scores = rng.integers(-3, 5, (60, 3)) / 4
    assert max_t([scores]) == max_t([-scores[rng.permutation(60)]])


def test_p_of_drawn_patterns_counts_the_data():
    # All 40 units for one method: no drawn pattern is as extreme.
    assert max_t([np.ones((40, 2))], draws=99).p_values == (0.01, 0.01)
    assert max_t([np.ones((40, 2))], alone=[0.2, 0.01], draws=99).p_values == (0.2, 0.2)


def test_many_units_are_drawn_as_normal(monkeypatch):
    scores = np.sign(np.random.default_rng(1).normal(size=(1_500, 1)) + 0.04)
    scores = np.hstack([scores, scores, np.sign(np.random.default_rng(2).normal(size=(1_500, 1)))])
    normal = max_t([scores], draws=20_000).p_values
    monkeypatch.setattr(module, "MANY_UNITS", 10**9)
    signs = max_t([scores], draws=9_999).p_values
    assert normal == pytest.approx(signs, abs=5 * sqrt(0.25 / 9_999))
    assert normal[0] == normal[1]


def test_what_cannot_be_tested():
    assert max_t([]).p_values == ()
    assert max_t([np.zeros((3, 2))]).p_values == (None, None)
    # A criterion that nobody was decided on takes nothing from the other.
    assert max_t([[[0, 1], [0, 1], [0, 1]]]).p_values == (None, 0.25)
    with pytest.raises(ValueError, match="finite"):
        max_t([[[np.inf]]])
    with pytest.raises(ValueError, match="one p-value per test: 1 for 2"):
        max_t([[[1, 2]]], alone=[0.5])


def verdicts(rows):
    """Rows are (pair, criterion, verdict) by one rater."""
    return pd.concat(
        [listed("pair_id rater verdict", [(p, "r", v)]).assign(criterion=c) for p, c, v in rows],
        ignore_index=True,
    )


def test_from_a_table():
    # Six pairs, all for x on both criteria, but fluency was not judged on the last two.
    rows = [(str(p), "coherence", "x") for p in range(6)] + [(str(p), "fluency", "x") for p in range(4)]
    table = verdicts(rows)
    found = {row.criterion: row for row in share_rows(table, correction="max-t", alpha=0.25)}
    # Coherence: √6, reached when six signs are the same, 2/64. Fluency: √4, alone 2/16.
    assert found["coherence"].adjusted == pytest.approx(2 / 64)
    assert found["fluency"].adjusted == pytest.approx(2 / 16)
    assert found["coherence"].correction == "Westfall–Young"
    assert (found["coherence"].holm, found["fluency"].holm) == pytest.approx((4 / 64, 2 / 16))
    by_holm = {row.criterion: row for row in share_rows(table, alpha=0.25)}
    assert by_holm["coherence"].adjusted == by_holm["coherence"].holm == pytest.approx(4 / 64)
    assert by_holm["coherence"].max_t == pytest.approx(2 / 64)


def test_pairs_of_a_prompt_flip_together():
    rows = [(str(p), c, "x") for p in range(8) for c in ("coherence", "fluency")]
    table = verdicts(rows)
    table["prompt_id"] = (table["pair_id"].astype(int) // 2).astype(str)
    # Four prompts: 2 of 16 patterns, for both criteria at once.
    assert [row.adjusted for row in share_rows(table, correction="max-t", alpha=0.2)] == [0.125, 0.125]


def test_not_for_raters_like_these():
    with pytest.raises(StudyError, match="take correction = 'holm'"):
        share_rows(verdicts([("1", "coherence", "x")]), correction="max-t", raters="population")


def test_no_p_that_could_not_be_small():
    # Four pairs: p is 1/8 at least.
    for row in share_rows(verdicts([(str(p), "coherence", "x") for p in range(4)]), correction="max-t"):
        assert (row.adjusted, row.max_t, row.holm, row.test.p_value) == (None,) * 4
        assert "cannot be below 0.125" in row.out_of_reach
