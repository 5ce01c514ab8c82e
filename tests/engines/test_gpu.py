"""What only a GPU can show: no waiting within a step, the CPU's texts, and memory that runs out."""

import pytest
import torch
from tiny_models import tiny

from guard_eval.decoding.choosers import chooser
from guard_eval.decoding.contrastive import AdaptiveProposer, FixedProposer
from guard_eval.engines.batch import Batch
from guard_eval.engines.decode import decode
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, parse

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

GUARDS = [
    "guard",
    "guard(formulation=algorithm1)",
    "guard(formulation=released)",
    "guard(aggregation=winsorized, mapping=log)",
    "guard(select=sample)",
]
OTHERS = ["greedy", "temperature", "top_k", "top_p", "typical", "min_p", "adaptive"]
PROMPTS = [[5, 9, 200, 31], [7], [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24], [40, 41, 42]]


@pytest.fixture
def no_waiting():
    """Let any copy to the host and any other synchronisation raise."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


def batch(device: str) -> Batch:
    return Batch(
        prompts=PROMPTS,
        keys=torch.arange(len(PROMPTS), device=device),
        ends=torch.tensor([0], device=device),
        limit=40,
    )


@pytest.mark.parametrize("name", [*GUARDS, *OTHERS])
@torch.inference_mode()
def test_a_step_does_not_wait(name, no_waiting):
    logits = [torch.randn(4, 5000, device="cuda") * 3 for _ in range(12)]
    prompts = torch.randint(0, 5000, (4, 9), device="cuda")
    choose = chooser(parse(name), torch.arange(4, device="cuda"), 12, prompts=prompts)
    history = torch.zeros(4, 12, dtype=torch.long, device="cuda")
    history[:, 0] = choose(logits[0], 0, history)
    no_waiting()
    for step in range(1, 12):
        history[:, step] = choose(logits[step], step, history)


@torch.inference_mode()
def test_a_proposal_does_not_wait(no_waiting):
    logits = torch.randn(4, 5000, device="cuda") * 3
    device = logits.device
    proposers = [
        FixedProposer(ContrastiveSearch()),
        AdaptiveProposer(AdaptiveContrastiveSearch(), 4, 9, device),
    ]
    for propose in proposers:
        propose(logits, 0)
        no_waiting()
        propose(logits, 1)
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
@pytest.mark.parametrize("name", [*GUARDS, "greedy", "top_p", "contrastive(k=6)", "acs", "beam(beams=3)"])
def test_texts_are_the_cpus_in_float32(kind, name):
    """Rounding differs, but seldom by enough to change a choice among these tokens."""
    torch.backends.cuda.matmul.allow_tf32 = False
    expected = decode(tiny(kind), batch("cpu"), parse(name)).tokens
    assert decode(tiny(kind).cuda(), batch("cuda"), parse(name)).tokens == expected
