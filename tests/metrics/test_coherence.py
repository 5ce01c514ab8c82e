"""Coherence: batches against a plain loop, and hand arithmetic on a model that can be read."""

import json
import math
from pathlib import Path

import pytest
import torch
from small_tokenizers import words_of
from transformers import LlamaConfig, LlamaForCausalLM

from guard_eval.metrics.coherence import log_likelihoods

pytestmark = pytest.mark.slow

WORDS = ["<s>", "the", "cat", "sat", "on", "a", "mat"]
SHARED = Path(__file__).parents[2].parent / "shared"


@pytest.fixture(scope="module")
def tokenizer():
    return words_of(WORDS)


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
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def scored(model, tokenizer, prompts, texts, **options):
    return log_likelihoods(model, tokenizer, prompts, texts, **options)


def plain(model, before, tokens):
    """Score one token after the other, each in a forward pass of its own."""
    before, total = list(before), 0.0
    for token in tokens:
        with torch.no_grad():
            logits = model(torch.tensor([before])).logits[0, -1].double()
        total += (logits[token] - logits.exp().sum().log()).item()
        before.append(token)
    return total


def ids(text):
    return [WORDS.index(word) for word in text.split()]


PROMPTS = ["the cat", "a", "the cat sat on a", "on", ""]
TEXTS = ["sat on a mat", "mat", "mat the cat", "a mat a mat a mat", "the cat"]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_batches_equal_a_plain_loop(model, tokenizer, batch_size):
    result = scored(model, tokenizer, PROMPTS, TEXTS, batch_size=batch_size)
    expected = [plain(model, [0, *ids(p)], ids(t)) for p, t in zip(PROMPTS, TEXTS, strict=True)]
    assert [one.total for one in result] == pytest.approx(expected, abs=1e-5)
    assert [one.tokens for one in result] == [4, 1, 3, 6, 2]
    assert result[0].mean == pytest.approx(expected[0] / 4, abs=1e-5)


@pytest.mark.parametrize(("logit", "expected"), [(0.0, -math.log(7)), (math.nan, math.nan)])
def test_equal_logits_score_minus_ln_v_and_a_model_that_breaks_down_is_no_error(
    tokenizer, model, logit, expected
):
    class Constant(torch.nn.Module):
        config = model.config

        def __init__(self):
            super().__init__()
            self.anything = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids, **_):
            return type("Output", (), {"logits": torch.full((*ids.shape, len(WORDS)), logit)})

    result = scored(Constant(), tokenizer, ["the"], ["cat sat"])[0].mean
    assert result == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_a_continuation_without_a_word_has_none(model, tokenizer, empty):
    first, second = scored(model, tokenizer, ["the", "a"], [empty, "mat"])
    assert first is None
    assert second.total == pytest.approx(plain(model, [0, 5], [6]), abs=1e-5)


def test_without_a_first_token_a_bare_continuation_loses_its_own(model, tokenizer):
    class Bare:
        bos_token_id = None

        def __call__(self, *texts, **options):
            return tokenizer(*texts, **options)

    one, two = scored(model, Bare(), ["", "a"], ["cat sat on", "mat"])
    assert (one.tokens, two.tokens) == (2, 1)
    assert one.total == pytest.approx(plain(model, [2], [3, 4]), abs=1e-5)


def test_a_prompt_that_does_not_fit_loses_its_beginning_but_the_first_token(model, tokenizer):
    long = " ".join(["the"] * 30 + ["sat"] * 13)
    (result,) = scored(model, tokenizer, [long], ["cat on"])
    assert (result.prompt_cut, result.text_cut, result.tokens) == (True, False, 2)
    # Of 16 places two are the text's and one the first token's: 13 words are left.
    assert result.total == pytest.approx(plain(model, [0, *[3] * 13], [2, 4]), abs=1e-5)


def test_a_continuation_that_does_not_fit_loses_its_end(model, tokenizer):
    (result,) = scored(model, tokenizer, ["the cat"], [" ".join(["mat a"] * 20)])
    assert (result.prompt_cut, result.text_cut, result.tokens) == (True, True, 15)
    assert result.total == pytest.approx(plain(model, [0], ([6, 5] * 8)[:15]), abs=1e-5)


def test_a_real_model_in_batches_and_one_by_one():
    folder, generations = SHARED / "models" / "stories3m", SHARED / "data" / "generations"
    if not folder.exists():
        pytest.skip(f"{folder} is not here: its licence does not let it into the repository")
    from guard_eval.engines.loading import load

    loaded = load(str(folder), device="cpu")
    file = generations / "GUARD_wikitext_guard_w7.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:24]]
    prompts, texts = [row["prompt"] for row in rows], [row["text"] for row in rows]
    together = scored(loaded.model, loaded.tokenizer, prompts, texts)
    assert sum(one.prompt_cut for one in together) <= 12  # 512 tokens of context; the plain loop cuts nothing
    for prompt, text, ours in zip(prompts, texts, together, strict=True):
        if ours.prompt_cut:
            continue
        before = [
            loaded.tokenizer.bos_token_id,
            *loaded.tokenizer(prompt, add_special_tokens=False).input_ids,
        ]
        after = loaded.tokenizer(text, add_special_tokens=False).input_ids
        with torch.no_grad():
            logits = loaded.model(torch.tensor([before + after])).logits[0].double()
        logs = logits.log_softmax(-1)[len(before) - 1 : -1].gather(1, torch.tensor(after)[:, None])
        assert ours.mean == pytest.approx(logs.mean().item(), abs=1e-4)
