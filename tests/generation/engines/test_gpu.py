"""Tests for a GPU: steps do not wait, texts equal those of a CPU, and lack of memory loses no text."""

import pytest
import torch
from tiny_models import tiny
from transformers import LlamaConfig, LlamaForCausalLM
from written_texts import continue_rows

from guard_eval.generation.decoding import Context, StrategyProcessor
from guard_eval.generation.decoding.contrastive import Proposer
from guard_eval.generation.decoding.processor import choose_tokens, make_first_state
from guard_eval.generation.engines.batch import BatchSizes, process_in_batches
from guard_eval.generation.strategies import STRATEGIES, LogitStrategy, parse

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

GUARDS = [
    *(f"guard(formulation={name})" for name in ("equations", "algorithm1", "released")),
    "guard(aggregation=winsorized, mapping=log)",
    "guard(select=sample)",
]
OTHERS = [
    name for name, kind in STRATEGIES.items() if isinstance(kind(), LogitStrategy) and name != "guard"
] + ["dry + mirostat + min_p + temperature"]
PROMPTS = [[5, 9, 200, 31], [7], [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24], [40, 41, 42]]


@pytest.fixture
def no_waiting():
    """Make each copy to the host, and each other synchronisation, raise an error."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", [*GUARDS, *OTHERS])
@torch.inference_mode()
def test_decoding_step_does_not_wait_for_the_gpu(name, no_waiting):
    logits = [torch.randn(4, 5000, device="cuda") * 3 for _ in range(12)]
    ids, processor = torch.randint(0, 5000, (4, 9), device="cuda"), StrategyProcessor(name)
    state = torch.tensor([make_first_state(parse(name))] * 4, dtype=torch.float64, device="cuda")
    text_context = Context(torch.arange(4, device="cuda"), 1, ids, ids, state)
    choose_tokens(processor.strategy, logits[0], text_context)
    no_waiting()
    for step in logits[1:]:
        choose_tokens(processor.strategy, step, text_context)


@torch.inference_mode()
def test_contrastive_candidates_do_not_wait_for_the_gpu(no_waiting):
    logits = torch.randn(4, 5000, device="cuda") * 3
    for strategy in ("contrastive", "acs"):
        propose = Proposer(parse(strategy), 4, 9, logits.device)
        propose(logits, 0)
        no_waiting()
        propose(logits, 1)
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
@pytest.mark.parametrize("name", [*GUARDS, "greedy", "top_p", "contrastive(k=6)", "acs", "beam(beams=3)"])
@pytest.mark.parametrize("static", [False, True])
def test_gpu_texts_equal_cpu_texts_in_float32(kind, name, static):
    """Rounding differs, but it rarely changes a choice among these tokens."""
    torch.backends.cuda.matmul.allow_tf32 = False
    expected = continue_rows(tiny(kind), PROMPTS, name, limit=40).tokens
    assert continue_rows(tiny(kind).cuda(), PROMPTS, name, limit=40, static_cache=static).tokens == expected


def test_lack_of_memory_loses_no_text():
    """There is room for a few dozen rows with wide logits, and batches grow until they do not fit."""
    torch.manual_seed(5)
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, num_hidden_layers=1, vocab_size=60_000)
    model = LlamaForCausalLM(config).eval().cuda()
    prompts = [[1 + n % 50, 2, 3 + n % 7] for n in range(300)]
    tried = []

    def write(rows):
        tried.append(len(rows))
        return continue_rows(model, rows, "guard", ends=(), limit=6).tokens

    expected = write(prompts[:4])
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 60e6) / total)
    try:
        batches = list(process_in_batches(prompts, write, BatchSizes()))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [row for rows, _ in batches for row in rows] == prompts
    assert [text for _, texts in batches for text in texts][:4] == expected
    worked = [len(rows) for rows, _ in batches]
    assert max(worked) < max(tried), "memory never ran out"
    assert worked[:2] == [8, 16]
