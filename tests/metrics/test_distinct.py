"""Distinct-n by hand and by its definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.metrics.ngrams import distinct

TEXTS = st.lists(st.text("ab c\n", max_size=12), max_size=7)


def test_by_hand():
    assert distinct(["a b a b", "a b c"], 2) == 60.0  # ab, ba, bc of ab ba ab ab bc
    assert distinct(["a b x x", "c d e x", "f g h i"], 1) == pytest.approx(100 * 10 / 12)


@given(TEXTS, st.integers(1, 4))
def test_it_is_different_ngrams_over_all(texts, n):
    rows = [text.split() for text in texts]
    grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)]
    assert distinct(texts, n) == (100 * len(set(grams)) / len(grams) if grams else None)
