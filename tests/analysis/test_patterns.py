"""Count patterns against counting item by item."""

from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.counts import distinct_rows, from_counts, from_verdicts


def as_counter(patterns):
    return Counter(
        {
            tuple(row): often
            for row, often in zip(patterns.counts.tolist(), patterns.items.tolist(), strict=True)
        }
    )


def by_hand(verdicts, categories):
    counted = Counter(tuple(item.count(k) for k in range(categories)) for item in verdicts)
    unrated = counted.pop((0,) * categories, 0)
    return counted, unrated


@st.composite
def ratings(draw):
    """Draw verdicts with missing ones, for studies small and too wide for one code per combination."""
    categories, raters = draw(st.sampled_from([(1, 1), (2, 3), (3, 5), (3, 12), (7, 9), (40, 30)]))
    item = st.lists(st.integers(-1, categories - 1), min_size=raters, max_size=raters)
    return categories, draw(st.lists(item, min_size=1, max_size=30))


@given(ratings(), st.sampled_from("CF"), st.sampled_from([np.int8, np.int64]))
def test_patterns_of_verdicts_are_those_counted_item_by_item(drawn, order, dtype):
    categories, verdicts = drawn
    patterns = from_verdicts(np.array(verdicts, dtype=dtype, order=order), categories=categories)
    counted, unrated = by_hand(verdicts, categories)
    assert as_counter(patterns) == counted
    assert patterns.n == len(verdicts) - unrated
    assert patterns.ratings == sum(verdict >= 0 for item in verdicts for verdict in item)
    assert patterns.counts.tolist() == sorted(patterns.counts.tolist())


@given(ratings())
def test_counts_and_verdicts_have_the_same_patterns(drawn):
    categories, verdicts = drawn
    ours = from_verdicts(verdicts, categories=categories)
    table = np.array([[item.count(k) for k in range(categories)] for item in verdicts])
    theirs = from_counts(table)
    assert ours.counts.tolist() == theirs.counts.tolist()
    assert ours.items.tolist() == theirs.items.tolist()


@pytest.mark.parametrize("largest", [2, 10**5, 10**15])
@given(st.data())
def test_distinct_rows_counted_by_place_by_code_and_by_row(largest, data):
    row = st.lists(st.sampled_from([-largest, 0, largest]), min_size=2, max_size=2)
    rows = data.draw(st.lists(row, min_size=1, max_size=20))
    columns, often = distinct_rows(tuple(np.array(rows).T))
    counted = Counter(map(tuple, rows))
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == sorted(counted)
    assert often.tolist() == [counted[key] for key in sorted(counted)]


def test_five_raters_and_three_choices_have_21_patterns():
    # 150 000 items are more than one block; C(5 + 3 − 1, 3 − 1) = 21.
    verdicts = np.random.default_rng(1).integers(0, 3, (150_000, 5)).astype(np.int8)
    patterns = from_verdicts(verdicts, categories=3)
    assert len(patterns.items) == comb(7, 2) == 21
    counts, often = np.unique(
        np.stack([(verdicts == k).sum(axis=1) for k in range(3)], axis=1), axis=0, return_counts=True
    )
    assert patterns.counts.tolist() == counts.tolist()
    assert patterns.items.tolist() == often.tolist()


def test_wide_studies_have_no_code_per_combination():
    verdicts = np.tile(np.arange(12) % 3, (70_000, 1)).astype(np.int8)
    patterns = from_verdicts(verdicts, categories=3)
    assert patterns.counts.tolist() == [[4, 4, 4]]
    assert patterns.items.tolist() == [70_000]


def test_nothing_has_no_patterns():
    for patterns in (from_counts(np.zeros((0, 3), dtype=int)), from_verdicts(np.zeros((0, 5)), categories=3)):
        assert patterns.counts.shape == (0, 3)
        assert patterns.n == patterns.ratings == 0
    assert from_verdicts(np.full((4, 2), -1), categories=3).n == 0


def test_patterns_cannot_be_changed():
    patterns = from_counts([[1, 2]])
    with pytest.raises(ValueError, match="read-only"):
        patterns.counts[0, 0] = 5


@pytest.mark.parametrize("wrong", [3, -2])
@pytest.mark.parametrize("raters", [2, 12])
def test_a_verdict_that_is_none_is_named(wrong, raters):
    verdicts = np.zeros((4, raters), dtype=np.int8)
    verdicts[2, 1] = wrong
    with pytest.raises(ValueError, match=f"from 0 to 2; {wrong} is neither"):
        from_verdicts(verdicts, categories=3)


def test_tables_of_another_shape_or_kind_are_refused():
    with pytest.raises(ValueError, match="integers"):
        from_verdicts([[0.5, 1.0]], categories=3)
    with pytest.raises(ValueError, match="shape"):
        from_verdicts([0, 1], categories=3)
    with pytest.raises(ValueError, match="at least one category"):
        from_verdicts([[0]], categories=0)
    with pytest.raises(ValueError, match="non-negative"):
        from_counts([[1, -1]])
    with pytest.raises(ValueError, match="non-negative"):
        from_counts([1, 2])
