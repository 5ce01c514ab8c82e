"""Distinct-n by hand, its jackknife against leaving out text by text, and what must always hold."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from guard_eval.metrics.distinct import distinct

GENERATIONS = Path(__file__).parents[2].parent / "shared" / "data" / "generations"
TEXTS = st.lists(st.text("ab c\n", max_size=12), max_size=7)


def counted(texts, n):
    """Different and all n-grams, as the definition says."""
    rows = [text.split() for text in texts]
    grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)]
    return len(set(grams)), len(grams)


def test_by_hand():
    # bigrams: ab ba ab | ab bc: ab, ba, bc of five. Without the first text 2 of 2, without the second 2 of 3:
    # values 100 and 200/3, their mean 250/3, variance (2 − 1)/2 · 2 · (50/3)² = (50/3)²
    result = distinct(["a b a b", "a b c"], 2)
    assert (result.value, result.n) == (60.0, 2)
    # t of one degree of freedom is 12.706: 60 ± 211.8, cut at both ends
    assert (result.low, result.high) == (0.0, 100.0)


def test_an_interval_by_hand():
    # Ten different words of twelve; x is in two texts, so 2, 3 and 4 words are lost with a text: 8/8, 7/8 and
    # 6/8 without it, that is 100, 87.5 and 75 with the mean 87.5; s² = 2/3 · (12.5² + 0 + 12.5²) = 625/3
    texts = ["a b x x", "c d e x", "f g h i"]
    spread = math.sqrt(625 / 3)
    result = distinct(texts, 1)
    assert result.value == pytest.approx(250 / 3)
    # a table's t of two degrees of freedom: 4.303 at 97.5 %, 0.816 at 75 %
    assert result.low == pytest.approx(250 / 3 - 4.303 * spread, abs=0.01)
    assert result.high == 100.0
    half_level = distinct(texts, 1, level=0.5)
    assert half_level.low == pytest.approx(250 / 3 - 0.816 * spread, abs=0.01)
    assert half_level.high == pytest.approx(250 / 3 + 0.816 * spread, abs=0.01)


@given(TEXTS, st.integers(1, 4))
def test_counts_and_jackknife_are_those_of_leaving_out_text_by_text(texts, n):
    result = distinct(texts, n)
    unique, total = counted(texts, n)
    assert result.value == (100 * unique / total if total else None)
    having = [text for text in texts if counted([text], n)[1]]
    assert result.n == len(having)
    without = [counted(having[:i] + having[i + 1 :], n) for i in range(len(having))]
    if len(having) < 2 or len({u / t for u, t in without}) == 1:
        assert (result.low, result.high) == (None, None)
        return
    values = [100 * u / t for u, t in without]
    mean = sum(values) / len(values)
    spread = math.sqrt((len(values) - 1) / len(values) * sum((value - mean) ** 2 for value in values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * spread
    assert result.low == pytest.approx(max(0, result.value - half), abs=1e-9)
    assert result.high == pytest.approx(min(100, result.value + half), abs=1e-9)


@pytest.mark.parametrize("texts", [[], [""], ["", " \n"], ["word"]])
def test_no_bigram_no_value(texts):
    result = distinct(texts, 2)
    assert (result.value, result.low, result.high, result.n) == (None, None, None, 0)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": -1}, {"n": 1, "level": 0.0}, {"n": 1, "level": 1.0}])
def test_settings_out_of_range(wrong):
    with pytest.raises(ValueError, match="n must be at least 1"):
        distinct(["a b"], **wrong)


def test_published_texts_counted_another_way():
    path = GENERATIONS / "GUARD_wikitext_guard_w7.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here: published continuations may not be copied into the repository")
    texts = [json.loads(line)["text"] for line in path.read_bytes().splitlines()]
    result = distinct(texts, 2)
    unique, total = counted(texts, 2)
    assert result.value == pytest.approx(100 * unique / total)
    # The same number of other texts of the same strategy would give about the same: the interval is narrow.
    assert 0 < result.high - result.low < 2
