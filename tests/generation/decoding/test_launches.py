"""A compiled step of GUARD makes few calls. The step is compiled for a CPU, because counting needs no GPU."""

import re

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.utils._python_dispatch import TorchDispatchMode

from guard_eval.generation.decoding.guard.step import compile_guard_step, mask_all_but_best
from guard_eval.generation.decoding.processor import make_first_state
from guard_eval.generation.strategies import Guard

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of PyTorch, about itself
]

ROWS, VOCABULARY, STEP = 32, 5000, 7  # so many logits that no shortcut of a CPU is taken
VIEWS = {
    "view",
    "slice",
    "select",
    "unsqueeze",
    "expand",
    "transpose",
    "permute",
    "alias",
    "detach",
    "numpy_T",
}


class Calls(TorchDispatchMode):
    """Counts the operations that compute numbers."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket.__name__ not in VIEWS
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("formulation", ["equations", "algorithm1", "released"])
def test_compiled_guard_step_makes_at_most_20_calls(formulation):
    """Calls of compiled code and of PyTorch's sort and topk. Without compilation there are about 100."""
    strategy, source = Guard(formulation=formulation), torch.Generator().manual_seed(2)
    logits = torch.randn(ROWS, VOCABULARY, generator=source) * 3
    state = torch.rand(ROWS, len(make_first_state(strategy)), generator=source, dtype=torch.float64)
    tokens = torch.randint(VOCABULARY, (ROWS, 20), generator=source)
    with torch.inference_mode():
        with Calls() as calls:
            expected, expected_state = mask_all_but_best(strategy, logits, state, STEP, tokens)
        (remaining, after), codes = run_and_get_code(
            compile_guard_step(), strategy, logits, state, STEP, tokens
        )
    assert torch.equal(remaining, expected)
    assert torch.allclose(after, expected_state, rtol=1e-4, atol=1e-5)
    body = "".join(code[code.index("def call(") :] for code in codes)
    compiled = len(
        re.findall(
            r"^ +(?:buf\d+ = )?(?:cpp_fused\w*|extern_kernels\.\w+|torch\.ops\.aten\.[\w.]+)\(",
            body,
            re.MULTILINE,
        )
    )
    assert calls.count > 60
    assert 4 <= compiled <= 20
