"""Diversity by hand, at its edges, and as published."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.metrics.ngrams import diversity, diversity_of_sums, ngram_counts, textbook_diversity

GENERATIONS = Path(__file__).parents[2].parent / "shared" / "data" / "generations"


@pytest.mark.parametrize(
    ("file", "column", "published"),
    [
        ("GUARD_wikitext_guard_w7.jsonl", "text", 92.86),
        ("CSvsCD_wikitext_contrastive_k5_a0.6.jsonl", "text", 89.35),
        ("CSvsCD_wikitext_contrastive_k5_a0.6.jsonl", "reference", 92.98),
    ],
)
def test_published_figures(file, column, published):
    path = GENERATIONS / file
    if not path.exists():
        pytest.skip(f"{path} is not here: published continuations may not be copied into the repository")
    texts = [json.loads(line)[column] for line in path.read_bytes().splitlines()]
    assert diversity(texts).diversity == published


def test_by_hand_over_two_texts():
    # "a b a b a": n-grams without the last: ab ba ab | aba bab | abab; "c c c c c": cc cc cc | ccc ccc | cccc
    # rep-2 = 1 − (2 + 1)/6 = 50 %, rep-3 = 1 − (2 + 1)/4 = 25 %, rep-4 = 1 − 2/2 = 0
    result = diversity(["a b a b a", "c c c c c"])
    assert result.rep == {2: 50.0, 3: 25.0, 4: 0.0}
    assert result.diversity == 37.5


def test_rates_are_rounded_before_the_product():
    # seven words, of six bigrams five are counted: ab bc ca ab bc → 3 different; rep-2 = 40; trigrams abc bca
    # cab abc → 25 4-grams abca bcab cabc → 0. One more text of 4 words adds 3−1 bigrams: rep-2 = 1 − 5/7 =
    # 28.57 (not 28.5714…)
    result = diversity(["a b c a b c a", "x y z w"])
    assert result.rep == {2: 28.57, 3: 20.0, 4: 0.0}
    assert result.diversity == round(100 * (1 - 0.2857) * 0.8, 2)


@pytest.mark.parametrize("texts", [[], [""], ["one"], ["one two three four"]])
def test_texts_too_short_for_a_fourgram_have_no_diversity(texts):
    assert diversity(texts).diversity is None


def slow_counts(text, dropped):
    """The n-grams of a text one by one, as tuples of words."""
    words, out = text.split(), []
    for n in (2, 3, 4):
        grams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1 - dropped)]
        out += [len(set(grams)), len(grams)]
    return out


@pytest.mark.parametrize("dropped", [0, 1])
@given(texts=st.lists(st.lists(st.sampled_from("abc"), max_size=14).map(" ".join), max_size=8))
def test_counting_all_texts_at_once_is_counting_each(texts, dropped):
    expected = [slow_counts(text, dropped) for text in texts]
    assert ngram_counts(texts, dropped=dropped).tolist() == expected


@given(st.lists(st.text("ab ", max_size=30), max_size=6))
def test_diversity_of_sums_is_diversity(texts):
    of_sums = diversity_of_sums(ngram_counts(texts).sum(axis=0))
    whole = diversity(texts).diversity
    assert np.isnan(of_sums) if whole is None else whole == pytest.approx(of_sums, abs=0.0051)


def test_the_textbooks_definition_by_hand():
    # "a b a b a": 2/4 · 2/3 · 2/2 = 1/3; "c d e f": 1; "c d e" has no 4-gram.
    assert textbook_diversity(["a b a b a", "c d e f", "c d e"]).tolist() == pytest.approx(
        [100 / 3, 100, np.nan], nan_ok=True
    )
