"""Contrastive decoding equals a slow beam search over whole texts, in plain Python."""

import math

import pytest
import torch
from tiny_models import tiny
from written_texts import continue_rows

pytestmark = pytest.mark.slow

PROMPTS = [[5, 9, 200, 31], [7], [12, 13, 14, 15, 16, 17]]
STEPS = 9
ENDS = {0, 33, 96, 150, 201}


def log_softmax(logits):
    top = max(logits)
    z = math.log(sum(math.exp(x - top) for x in logits)) + top
    return [x - z for x in logits]


@torch.inference_mode()
def scores(expert, amateur, text, *, start, alpha, tau):
    """Return ln p_expert − ln p_amateur of each token with p_expert ≥ α max p_expert.

    The amateur sees the text from its token `start` on.
    """
    ids = torch.tensor([text])
    strong = log_softmax(expert(input_ids=ids).logits[0, -1].double().tolist())
    weak = log_softmax([x / tau for x in amateur(input_ids=ids[:, start:]).logits[0, -1].double().tolist()])
    least = max(strong) + math.log(alpha)
    return {v: strong[v] - weak[v] for v in range(len(strong)) if strong[v] >= least}


def search_slowly(expert, amateur, prompt, beams, *, alpha, tau, sees):
    running = [(0.0, [])]
    ended = []
    start = len(prompt) - 1 if sees == "last" else 0
    for step in range(STEPS):
        grown = [
            (total + score, [*new, v])
            for total, new in running
            for v, score in scores(expert, amateur, prompt + new, start=start, alpha=alpha, tau=tau).items()
        ]
        grown.sort(key=lambda pair: -pair[0])
        last = step + 1 == STEPS
        ended += [(t / (step + 1), new) for t, new in grown[:beams] if new[-1] in ENDS or last]
        ended = sorted(ended, key=lambda pair: -pair[0])[:beams]
        running = [pair for pair in grown if pair[1][-1] not in ENDS][:beams]
        if not running or (len(ended) == beams and running[0][0] / (step + 1) <= ended[-1][0]):
            break
    return ended[0][1]


@pytest.mark.parametrize(
    ("beams", "alpha", "tau", "sees"),
    [(1, 0.1, 0.5, "last"), (4, 0.1, 0.5, "last"), (4, 0.01, 1.0, "whole"), (4, 0.6, 2.0, "whole")],
)
def test_contrastive_decoding_equals_the_definition(beams, alpha, tau, sees):
    expert, amateur = tiny("llama"), tiny("gpt2")
    expected = [
        search_slowly(expert, amateur, prompt, beams, alpha=alpha, tau=tau, sees=sees) for prompt in PROMPTS
    ]
    settings = f"alpha={alpha}, amateur_tau={tau}, beams={beams}, amateur_prompt={sees}"
    strategy = f"contrastive_decoding({settings})"
    decoded = continue_rows(expert, PROMPTS, strategy, ends=sorted(ENDS), limit=STEPS, amateur=amateur)
    assert decoded.tokens == expected
