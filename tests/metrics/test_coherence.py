"""Coherence: batches against a plain loop, and hand arithmetic on a model that can be read."""

import math

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from guard_eval.metrics.coherence import coherence

WORDS = ["<s>", "the", "cat", "sat", "on", "a", "mat"]


@pytest.fixture(scope="module")
def tokenizer():
    tokens = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<s>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token="<s>", eos_token="<s>")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        bos_token_id=0,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def plain(model, prompt, text):
    """Score one token after the other, each in a forward pass of its own."""
    before = [0] + [WORDS.index(word) for word in prompt.split()]
    logs = []
    for word in text.split():
        with torch.no_grad():
            logits = model(torch.tensor([before])).logits[0, -1].double()
        token = WORDS.index(word)
        logs.append((logits[token] - logits.exp().sum().log()).item())
        before.append(token)
    return sum(logs) / len(logs)


PROMPTS = ["the cat", "a", "the cat sat on a", "on"]
TEXTS = ["sat on a mat", "mat", "mat the cat", "a mat a mat a mat"]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_batches_equal_a_plain_loop(model, tokenizer, batch_size):
    result = coherence(model, tokenizer, PROMPTS, TEXTS, batch_size=batch_size)
    expected = [plain(model, p, t) for p, t in zip(PROMPTS, TEXTS, strict=True)]
    assert result.values == pytest.approx(expected, abs=1e-5)
    assert result.mean == pytest.approx(sum(expected) / 4, abs=1e-5)


def test_a_model_that_knows_nothing_scores_minus_ln_v(tokenizer, model):
    class Uniform(torch.nn.Module):
        config = model.config

        def __init__(self):
            super().__init__()
            self.anything = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids, **_):
            return type("Output", (), {"logits": torch.zeros(*ids.shape, len(WORDS))})

    assert coherence(Uniform(), tokenizer, ["the"], ["cat sat"]).mean == pytest.approx(-math.log(7))


def test_an_empty_continuation_has_none(model, tokenizer):
    result = coherence(model, tokenizer, ["the", "a"], ["", "mat"])
    assert result.values[0] is None
    assert result.empty == 1
    assert result.mean == result.values[1]


def test_a_prompt_that_does_not_fit_loses_its_beginning_and_is_counted(model, tokenizer):
    long = " ".join(["the"] * 40)
    result = coherence(model, tokenizer, [long], ["cat"])
    assert result.truncated == 1
    assert math.isfinite(result.mean)


def test_progress_adds_up(model, tokenizer):
    seen = []
    coherence(model, tokenizer, [*PROMPTS, "a"], [*TEXTS, ""], batch_size=2, on_progress=seen.append)
    assert sum(seen) == 5
