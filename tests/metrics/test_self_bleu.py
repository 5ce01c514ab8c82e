"""Self-BLEU by hand, against sacrebleu, and what must always hold."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from guard_eval.metrics.ngrams import self_bleus

GENERATIONS = Path(__file__).parents[2].parent / "shared" / "data" / "generations"
TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=12).map(" ".join), max_size=7)


def oracle(texts, max_n=4):
    """Sentence BLEU of each text against all others by sacrebleu; None where ours is undefined."""
    bleu = BLEU(
        tokenize="none",
        smooth_method="floor",
        smooth_value=0.1,
        effective_order=False,
        max_ngram_order=max_n,
        force=True,
    )
    return [
        bleu.sentence_score(text, texts[:i] + texts[i + 1 :]).score
        if len(text.split()) >= max_n and len(texts) > 1
        else None
        for i, text in enumerate(texts)
    ]


def agree(texts, max_n=4):
    wanted = [math.nan if each is None else each for each in oracle(texts, max_n)]
    assert self_bleus(texts, max_n=max_n).tolist() == pytest.approx(wanted, abs=1e-6, nan_ok=True)


@given(TEXTS, st.integers(1, 5))
@example(["a a b c", "", "a b c d e a b c d"], 4)
def test_sacrebleu_says_the_same_of_random_texts(texts, max_n):
    agree(texts, max_n)


@pytest.mark.slow
def test_sacrebleu_says_the_same_of_published_texts():
    path = GENERATIONS / "GUARD_wikitext_guard_w7.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here: published continuations may not be copied into the repository")
    texts = [json.loads(line)["text"] for line in path.read_bytes().splitlines()[:60]]
    agree(texts)


def test_by_hand():
    # "a a b c" against "a b c d" and "a a x": clipped by the larger count of the two
    # n = 1: a 2, b 1, c 1 of 4; n = 2: aa, ab, bc of 3; n = 3: abc of 2 (aab is nowhere); n = 4: 0.1 of 1
    # lengths 4 and 3, its own 4: no penalty
    first = 100 * (4 / 4 * 3 / 3 * 1 / 2 * 0.1) ** (1 / 4)
    # "a b c d" against the others: a, b, c of 4; ab, bc of 3; abc of 2; 0.1 of 1
    second = 100 * (3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** (1 / 4)
    found = self_bleus(["a a b c", "a b c d", "a a x"]).tolist()
    assert found == pytest.approx([first, second, math.nan], nan_ok=True)


def test_the_brevity_penalty_by_hand():
    # unigrams alone; the others have 2 and 6 words, both 2 away from 4: the shorter counts, no penalty
    others = ["x y", "a b c d y z"]
    assert self_bleus(["a b c d", *others], max_n=1)[0] == pytest.approx(100.0)
    # against six words alone: exp(1 − 6/4)
    assert self_bleus(["a b c d", others[1]], max_n=1)[0] == pytest.approx(100 * math.exp(-0.5))
    # a text's own length does not count, and another's that equals it does
    assert self_bleus(["a b c d", "a b c d", others[1]], max_n=1)[0] == pytest.approx(100.0)


@pytest.mark.parametrize("texts", [[], ["a b c d e"], ["", "a b"], ["a b c", "a b c"]])
def test_no_value(texts):
    assert np.isnan(self_bleus(texts)).all()
