"""Coherence equals a plain loop, and hand arithmetic on a small model."""

import math

import pytest
import torch
from small_tokenizers import words_of
from tiny_models import tiny

from guard_eval.metrics.scorers.coherence import compute_log_likelihoods

pytestmark = pytest.mark.slow

WORDS = ["<s>", "the", "cat", "sat", "on", "a", "mat"]


@pytest.fixture(scope="module")
def tokenizer():
    return words_of(WORDS)


@pytest.fixture(scope="module")
def model():
    return tiny("llama", vocab_size=len(WORDS), bos_token_id=0, max_position_embeddings=16)


def score_in_a_loop(model, before, tokens):
    """Return the log-likelihood of tokens, with one forward pass for each token."""
    before, total = list(before), 0.0
    for token in tokens:
        with torch.no_grad():
            logits = model(torch.tensor([before])).logits[0, -1].double()
        total += (logits[token] - logits.exp().sum().log()).item()
        before.append(token)
    return total


def ids(text):
    return [WORDS.index(word) for word in text.split()]


PAIRS = [
    ("the cat", "sat on a mat"),
    ("a", "mat"),
    ("the cat sat on a", "mat the cat"),
    ("on", "a mat a mat a mat"),
    ("", "the cat"),
]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_log_likelihoods_equal_a_plain_loop(model, tokenizer, batch_size):
    """A continuation without a word has no score."""
    result = compute_log_likelihoods(model, tokenizer, [*PAIRS, ("the", "  \n")], batch_size=batch_size)
    expected = [score_in_a_loop(model, [0, *ids(prompt)], ids(text)) for prompt, text in PAIRS]
    assert result.pop() is None
    assert [score.total for score in result] == pytest.approx(expected, rel=1e-5)
    assert [score.tokens for score in result] == [4, 1, 3, 6, 2]


@pytest.mark.parametrize(("logit", "expected"), [(0.0, -math.log(7)), (math.nan, math.nan)])
def test_log_likelihood_of_equal_logits_is_minus_ln_v(tokenizer, model, logit, expected):
    class Constant(torch.nn.Module):
        config = model.config
        device = model.device

        def forward(self, ids, **_):
            return type("Output", (), {"logits": torch.full((*ids.shape, len(WORDS)), logit)})

    [result] = compute_log_likelihoods(Constant(), tokenizer, [("the", "cat sat")])
    assert result.total == pytest.approx(2 * expected, nan_ok=True)


def test_first_token_without_a_prompt_is_not_scored(model):
    bare = words_of(WORDS)
    bare.bos_token = None
    first, second = compute_log_likelihoods(model, bare, [("", "cat sat on"), ("a", "mat")])
    assert (first.tokens, second.tokens) == (2, 1)
    assert first.total == pytest.approx(score_in_a_loop(model, [2], [3, 4]), rel=1e-5)


def test_long_inputs_are_cut_to_the_context(model, tokenizer):
    long_prompt = " ".join(["the"] * 30 + ["sat"] * 13)
    long_text = " ".join(["mat a"] * 20)
    first, second = compute_log_likelihoods(
        model, tokenizer, [(long_prompt, "cat on"), ("the cat", long_text)]
    )
    assert (first.prompt_cut, first.text_cut, first.tokens) == (True, False, 2)
    # Of 16 positions, two are for the text and one is for the first token, so 13 words remain.
    assert first.total == pytest.approx(score_in_a_loop(model, [0, *[3] * 13], [2, 4]), rel=1e-5)
    assert (second.prompt_cut, second.text_cut, second.tokens) == (True, True, 15)
    assert second.total == pytest.approx(score_in_a_loop(model, [0], ([6, 5] * 8)[:15]), rel=1e-5)
