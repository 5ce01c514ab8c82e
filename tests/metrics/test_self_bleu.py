"""Self-BLEU by hand, against sacrebleu, and what must always hold."""

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from guard_eval.metrics.self_bleu import self_bleu

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
    result, wanted = self_bleu(texts, max_n=max_n), oracle(texts, max_n)
    assert result.values == tuple(None if w is None else pytest.approx(w, abs=1e-6) for w in wanted)
    defined = [w for w in wanted if w is not None]
    assert result.texts == len(defined)
    assert result.too_short == sum(len(text.split()) < max_n for text in texts)
    assert result.value == (pytest.approx(sum(defined) / len(defined), abs=1e-6) if defined else None)
    return result


@given(TEXTS, st.integers(1, 5))
@example(["a a b c", "", "a b c d e a b c d"], 4)
def test_sacrebleu_says_the_same_of_random_texts(texts, max_n):
    agree(texts, max_n)


def test_sacrebleu_says_the_same_of_texts_with_the_words_frequencies_of_language():
    draw = random.Random(7)
    words = [f"w{rank}" for rank in range(400)]
    weights = [1 / (rank + 1) for rank in range(400)]
    texts = [" ".join(draw.choices(words, weights, k=draw.randint(2, 120))) for _ in range(40)]
    assert 0 < agree(texts).value < 100


@pytest.mark.slow
def test_sacrebleu_says_the_same_of_published_texts():
    path = GENERATIONS / "GUARD_wikitext_guard_w7.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not here: published continuations may not be copied into the repository")
    texts = [json.loads(line)["text"] for line in path.read_bytes().splitlines()[:60]]
    assert agree(texts).texts == 60


def test_by_hand():
    # "a a b c" against "a b c d" and "a a x": clipped by the larger count of the two
    # n = 1: a 2, b 1, c 1 of 4; n = 2: aa, ab, bc of 3; n = 3: abc of 2 (aab is nowhere); n = 4: 0.1 of 1
    # lengths 4 and 3, its own 4: no penalty
    first = 100 * (4 / 4 * 3 / 3 * 1 / 2 * 0.1) ** (1 / 4)
    # "a b c d" against the others: a, b, c of 4; ab, bc of 3; abc of 2; 0.1 of 1
    second = 100 * (3 / 4 * 2 / 3 * 1 / 2 * 0.1) ** (1 / 4)
    result = self_bleu(["a a b c", "a b c d", "a a x"])
    assert result.values == (pytest.approx(first), pytest.approx(second), None)
    assert result.value == pytest.approx((first + second) / 2)
    assert (result.texts, result.too_short) == (2, 1)


def test_the_brevity_penalty_by_hand():
    # unigrams alone; the others have 2 and 6 words, both 2 away from 4: the shorter counts, no penalty
    others = ["x y", "a b c d y z"]
    assert self_bleu(["a b c d", *others], max_n=1).values[0] == pytest.approx(100.0)
    # against six words alone: exp(1 − 6/4)
    assert self_bleu(["a b c d", others[1]], max_n=1).values[0] == pytest.approx(100 * math.exp(-0.5))
    # a text's own length does not count, and another's that equals it does
    assert self_bleu(["a b c d", "a b c d", others[1]], max_n=1).values[0] == pytest.approx(100.0)


def test_copies_are_alike_and_strangers_are_not():
    assert self_bleu(["a b c d e"] * 3).value == pytest.approx(100.0)
    assert self_bleu(["a b c d", "e f g h", "i j k l"]).value == 0.0


@pytest.mark.parametrize(
    ("texts", "too_short"),
    [([], 0), (["a b c d e"], 0), (["", "a b"], 2), ([""], 1), (["a b c", "a b c"], 2)],
)
def test_no_value(texts, too_short):
    result = self_bleu(texts)
    assert result.value is None
    assert result.values == (None,) * len(texts)
    assert (result.texts, result.too_short) == (0, too_short)


@given(TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_texts_does_not_matter(texts, draw):
    places = list(range(len(texts)))
    draw.shuffle(places)
    one, other = self_bleu(texts), self_bleu([texts[place] for place in places])
    assert other.values == tuple(one.values[place] for place in places)
    assert other.value == one.value


def test_max_n_out_of_range():
    with pytest.raises(ValueError, match="max_n must be at least 1, not 0"):
        self_bleu(["a b c d"], max_n=0)
