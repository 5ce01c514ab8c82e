"""Texts equal the stories that llama2.c published, token by token."""

import json
from pathlib import Path

import pytest
import torch
from stepping import logits_after
from written_texts import continue_rows

from guard_eval.generation.strategies import TopP

pytestmark = pytest.mark.slow

PUBLISHED = Path(__file__).parents[3].parent / "shared" / "models" / "stories260k" / "expected.json"
BOS = 1

a_story = pytest.mark.parametrize("loaded", ["stories260k"], indirect=True)


def published():
    return json.loads(PUBLISHED.read_text(encoding="utf-8"))


@a_story
@pytest.mark.parametrize("name", ["greedy_from_bos_200_steps", "greedy_doc"])
def test_greedy_writes_the_published_stories(loaded, name):
    text = published()[name]
    [tokens] = continue_rows(loaded.model, [[BOS]], "greedy", ends=(BOS,), limit=260).tokens
    assert loaded.tokenizer.decode(tokens).startswith(text)


def coins(seed):
    """Yield the random numbers in [0, 1) of llama2.c's xorshift64* generator."""
    state, whole = seed, (1 << 64) - 1
    while True:
        state ^= state >> 12
        state ^= (state << 25) & whole
        state ^= state >> 27
        yield ((((state * 0x2545F4914F6CDD1D) & whole) >> 32) >> 8) / 2**24


@a_story
@torch.inference_mode()
def test_top_p_writes_the_published_story(loaded):
    """Draw from our top-p truncation with the random numbers of llama2.c."""
    story = published()["top_p_doc"]
    tokens = []
    for coin in coins(story["seed"]):
        logits = loaded.model(input_ids=torch.tensor([[BOS, *tokens]])).logits[:, -1]
        likeliest, ids = logits_after(TopP(p=story["top_p"]), logits)[0].sort(descending=True, stable=True)
        cumulative = likeliest.softmax(-1).cumsum(0)
        token = int(ids[torch.searchsorted(cumulative, coin * cumulative[-1], right=True)])
        if token == BOS or len(tokens) == 256:
            break
        tokens.append(token)
    assert loaded.tokenizer.decode(tokens).strip() == story["text"]
