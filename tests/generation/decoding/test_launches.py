"""How many operations a step of GUARD takes, each of which a GPU launches; compiled for a CPU, without a GPU."""

import pytest
import torch
from torch._inductor import metrics
from torch.profiler import ProfilerActivity, profile

from guard_eval.generation.decoding.guard.step import compile_step, leave_candidates
from guard_eval.generation.decoding.steps import first_state
from guard_eval.generation.strategies import Guard

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of PyTorch, about itself
]

VIEWS = {
    "slice",
    "as_strided",
    "empty",
    "empty_strided",
    "to",
    "resize_",
    "lift_fresh",
    "arange",
    "is_nonzero",
}
ROWS, VOCABULARY, STEP = 32, 5000, 7  # so many logits that no shortcut of a CPU is taken


@pytest.mark.parametrize("formulation", ["equations", "algorithm1", "released"])
def test_a_compiled_step_has_at_most_20_launches(formulation):
    """The kernels that are generated, and the operations that are called beside them."""
    torch._dynamo.reset()
    strategy, step = Guard(formulation=formulation), compile_step()
    source = torch.Generator().manual_seed(2)
    state = torch.zeros(ROWS, len(first_state(strategy)), dtype=torch.float64)
    written = torch.randint(VOCABULARY, (ROWS, 20), generator=source)
    kernels = []
    with torch.inference_mode():
        for length in range(9, 13):  # of the first length, of any length, and twice with what is compiled
            metrics.reset()
            logits, tokens = torch.randn(ROWS, VOCABULARY, generator=source) * 3, written[:, :length].clone()
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                left, after = step(strategy, logits, state, STEP, tokens)
            kernels.append(metrics.generated_kernel_count)
            expected, expected_after = leave_candidates(strategy, logits, state, STEP, tokens)
            assert torch.equal(left, expected)
            assert torch.allclose(after, expected_after, rtol=1e-4, atol=1e-5)
            state = expected_after
    names = {event.key.removeprefix("aten::") for event in profiler.key_averages() if "aten::" in event.key}
    called = names - VIEWS
    print(kernels, called)
    assert kernels[-2:] == [0, 0]
    assert max(kernels) + len(called) <= 20
