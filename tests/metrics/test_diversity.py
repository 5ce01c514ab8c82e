"""Diversity by hand, at its edges, and as published."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.metrics.diversity import diversity

GENERATIONS = Path(__file__).parents[2].parent / "shared" / "data" / "generations"


@pytest.mark.parametrize(
    ("file", "published"),
    [("GUARD_wikitext_guard_w7.jsonl", 92.86), ("CSvsCD_wikitext_contrastive_k5_a0.6.jsonl", 89.35)],
)
def test_published_figures(file, published):
    path = GENERATIONS / file
    if not path.exists():
        pytest.skip(f"{path} is not here: published continuations may not be copied into the repository")
    texts = [json.loads(line)["text"] for line in path.read_bytes().splitlines()]
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


def test_empty_texts_contribute_nothing():
    assert diversity(["a b a b a", "", " \n"]).rep == diversity(["a b a b a"]).rep


@given(st.lists(st.text("ab ", max_size=30), max_size=6))
def test_order_does_not_matter_and_rates_are_percentages(texts):
    result = diversity(texts)
    assert result == diversity(texts[::-1])
    assert all(rate is None or 0 <= rate <= 100 for rate in result.rep.values())
