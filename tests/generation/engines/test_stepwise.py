"""Chains of steps write the same texts as transformers' processors."""

import pytest
import torch
from transformers.generation.logits_process import (
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from written_texts import continue_rows

from guard_eval.generation.decoding.noise import draw_gumbel_noise, make_row_key
from guard_eval.generation.strategies import parse, signature

STEPS = 40
TEXTS = [
    "the cat sat on the mat and the cat sat on",
    "the",
    "the dog ran to the old red house and the dog ran to the",
    "a red",
    "the mat",
]
COMBINED = (
    "repetition_penalty(penalty=1.3) + no_repeat_ngram(n=3) + temperature(tau=0.7) "
    "+ top_k(k=20) + top_p(p=0.9)"
)
MODELS = ["llama", "gpt2"]
every_model = pytest.mark.parametrize("loaded", MODELS, indirect=True)


def encoded(loaded):
    return [loaded.tokenizer(text)["input_ids"] for text in TEXTS]


@pytest.mark.slow
@every_model
def test_chains_equal_chains_of_transformers(loaded):
    """Compare to transformers' processors, in their order, with a draw by our random numbers."""
    processors = [
        RepetitionPenaltyLogitsProcessor(1.3),
        NoRepeatNGramLogitsProcessor(3),
        TemperatureLogitsWarper(0.7),
        TopKLogitsWarper(20),
        TopPLogitsWarper(0.9),
    ]
    for prompt in encoded(loaded):
        key = torch.tensor([make_row_key(3, " ".join(map(str, prompt)), signature(parse(COMBINED)))])
        text = list(prompt)
        for step in range(STEPS):
            ids = torch.tensor([text])
            with torch.no_grad():
                scores = loaded.model(input_ids=ids).logits[:, -1].float()
            for processor in processors:
                scores = processor(ids, scores)
            every = torch.arange(scores.shape[1])[None]
            text.append(int((scores.double() + draw_gumbel_noise(key, step, every)).argmax()))
        decoded = continue_rows(loaded.model, [prompt], COMBINED, keys=key, ends=(), limit=STEPS)
        assert decoded.tokens == [text[len(prompt) :]]
