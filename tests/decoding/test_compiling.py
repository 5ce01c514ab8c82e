"""The compiled step against the plain one, how often it is compiled, and what it needs."""

import shutil

import pytest
import torch
from torch._dynamo.utils import counters

from guard_eval.decoding.choosers import chooser
from guard_eval.errors import StudyError
from guard_eval.strategies import Guard

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")


def run(strategy: Guard, *, compiled: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(4)
    steps, rows, vocabulary = 256, 4, 2003
    base = torch.randn(vocabulary, generator=generator) * 2
    prompts = torch.randint(-1, vocabulary, (rows, 5), generator=generator)
    choose = chooser(strategy, torch.arange(rows), steps, prompts=prompts, compiled=compiled)
    history = torch.zeros(rows, steps, dtype=torch.long)
    for step in range(steps):
        noise = torch.randn(4, vocabulary, generator=generator)
        sharpness = torch.randn(4, 1, generator=generator).mul(1.3).exp()
        if step == 100:  # a row has ended
            choose.keep(torch.tensor([0, 2, 3]))
            history = history[[0, 2, 3]]
        logits = ((base + noise) * sharpness)[: len(history)]
        history[:, step] = choose(logits, step, history)
    return history, choose.trace


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("strategy", [Guard(), Guard(formulation="released", select="sample")], ids=str)
def test_the_same_tokens_and_few_compilations(strategy: Guard):
    plain, trace = run(strategy, compiled=False)
    torch._dynamo.reset()
    counters.clear()
    compiled, compiled_trace = run(strategy, compiled=True)
    assert torch.equal(compiled, plain)
    assert torch.equal(compiled_trace["k"], trace["k"])
    assert torch.allclose(compiled_trace["H"], trace["H"], atol=1e-5)
    assert 1 <= counters["stats"]["unique_graphs"] <= 2  # the second for fewer rows


def test_without_a_compiler_it_says_so(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(StudyError, match="no 'no-such-compiler' here; install one"):
        chooser(Guard(window=3, decay=0.123), torch.arange(2), 4, compiled=True)
