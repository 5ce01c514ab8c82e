"""Diversity, distinct-n and self-BLEU equal hand arithmetic, published scores and other programs."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from paper_data import read_published_lines
from sacrebleu.metrics import BLEU

from guard_eval.metrics.scorers.ngrams import (
    compute_distinct_share,
    compute_diversity,
    compute_self_bleus,
    compute_unrounded_diversity,
    count_ngrams,
)


def test_diversity_equals_a_published_figure():
    lines = read_published_lines(
        "generations/CSvsCD_wikitext_contrastive_k5_a0.6.jsonl", "other authors' texts"
    )
    assert compute_diversity([line["text"] for line in lines]).diversity == 89.35


def test_repetition_rates_are_rounded_before_the_product():
    # seven words, of six bigrams five are counted: ab bc ca ab bc → 3 different; abc bca cab abc → 25 %.
    # One more text of 4 words adds 3−1 bigrams: rep-2 = 1 − 5/7 = 28.57 (not 28.5714…)
    result = compute_diversity(["a b c a b c a", "x y z w"])
    assert result.rep == {2: 28.57, 3: 20.0, 4: 0.0}
    assert result.diversity == round(100 * (1 - 0.2857) * 0.8, 2)


@pytest.mark.parametrize("texts", [[], [""], ["one"], ["one two three four"]])
def test_texts_too_short_for_a_fourgram_have_no_diversity(texts):
    assert compute_diversity(texts).diversity is None


@given(st.lists(st.text("ab ", max_size=30), max_size=6))
def test_unrounded_diversity_is_near_published_diversity(texts):
    """The two differ only by the rounding of three rates and of their product, by .005 each."""
    of_sums = compute_unrounded_diversity(count_ngrams(texts).sum(axis=0))
    whole = compute_diversity(texts).diversity
    assert np.isnan(of_sums) if whole is None else whole == pytest.approx(of_sums, abs=0.0201)


def test_distinct_equals_hand_arithmetic():
    assert compute_distinct_share(["a b a b", "a b c"], 2) == 60.0  # ab, ba, bc of ab ba ab ab bc
    assert compute_distinct_share(["a b x x", "c d e x", "f g h i"], 1) == pytest.approx(100 * 10 / 12)


BLEU_TEXTS = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=12).map(" ".join), max_size=7
)


def sacrebleu_of(texts, max_n=4):
    """Return sacrebleu's BLEU of each text against all others, or None where our score is undefined."""
    smoothing = {"smooth_method": "floor", "smooth_value": 0.1, "effective_order": False}
    bleu = BLEU(tokenize="none", max_ngram_order=max_n, force=True, **smoothing)
    return [
        bleu.sentence_score(text, texts[:i] + texts[i + 1 :]).score
        if len(text.split()) >= max_n and len(texts) > 1
        else None
        for i, text in enumerate(texts)
    ]


def assert_equal_to_sacrebleu(texts, max_n=4):
    expected = [math.nan if score is None else score for score in sacrebleu_of(texts, max_n)]
    assert compute_self_bleus(texts, max_n=max_n).tolist() == pytest.approx(expected, abs=1e-6, nan_ok=True)


@given(BLEU_TEXTS, st.integers(1, 5))
@example(["a a b c", "", "a b c d e a b c d"], 4)
@example(["a b c d", "x y", "a b c d y z"], 1)
def test_self_bleu_equals_sacrebleu_on_random_texts(texts, max_n):
    assert_equal_to_sacrebleu(texts, max_n)


@pytest.mark.parametrize("texts", [[], ["a b c d e"], ["", "a b"], ["a b c", "a b c"]])
def test_short_or_single_texts_have_no_self_bleu(texts):
    assert np.isnan(compute_self_bleus(texts)).all()
