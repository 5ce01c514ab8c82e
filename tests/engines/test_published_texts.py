"""Texts that another program published, token for token (llama2.c's stories260K, greedy and top-p 0.9)."""

import json
from pathlib import Path

import pytest
import torch

from guard_eval.decoding.sampling import top_p
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import decode
from guard_eval.engines.local.rows import RowSession
from guard_eval.strategies import Greedy

pytestmark = pytest.mark.slow

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "models" / "stories260k" / "expected.json"
BOS = 1

a_story = pytest.mark.parametrize("loaded", ["stories260k"], indirect=True)


def published() -> dict:
    return json.loads(PUBLISHED.read_text(encoding="utf-8"))


@a_story
@pytest.mark.parametrize("name", ["greedy_from_bos_200_steps", "greedy_doc"])
def test_greedy(loaded, name):
    text = published()[name]
    batch = Batch(prompts=[[BOS]], keys=torch.zeros(1).long(), ends=torch.tensor([BOS]), limit=260)
    tokens = decode(loaded.model, batch, Greedy()).tokens[0]
    assert loaded.tokenizer.decode(tokens).startswith(text)


def coins(seed: int):
    """Yield llama2.c's random numbers in [0, 1), from its xorshift64* generator."""
    state, whole = seed, (1 << 64) - 1
    while True:
        state ^= state >> 12
        state ^= (state << 25) & whole
        state ^= state >> 27
        yield ((((state * 0x2545F4914F6CDD1D) & whole) >> 32) >> 8) / 2**24


@a_story
@torch.inference_mode()
def test_top_p(loaded):
    """Our truncation and the other program's coins: the token where the cumulative weight passes the coin."""
    story = published()["top_p_doc"]
    session = RowSession(loaded.model, [[BOS]], 256)
    logits, tokens = session.prefill(), []
    for coin in coins(story["seed"]):
        log_weights, ids = top_p(logits, story["top_p"])
        kept = log_weights[0] > -torch.inf
        cumulative = log_weights[0][kept].exp().cumsum(0)
        place = int(torch.searchsorted(cumulative, coin * cumulative[-1], right=True))
        token = int(ids[0][kept][place])
        if token == BOS or len(tokens) == 256:
            break
        tokens.append(token)
        logits = session.step(torch.tensor([token]))
    assert loaded.tokenizer.decode(tokens).strip() == story["text"]
