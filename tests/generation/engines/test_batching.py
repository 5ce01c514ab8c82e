"""Batch sizes grow, shrink if memory runs out, and lose no row."""

import types

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guard_eval.generation.engines import batch
from guard_eval.generation.engines.batch import BatchSizes, process_in_batches
from guard_eval.generation.strategies import parse

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _no_garbage():
    """Skip Python's garbage collection, which takes long with the objects of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "gc", types.SimpleNamespace(collect=lambda: None))
        yield


class Memory:
    """A decoder with memory for a number of tokens, which records the sizes of its batches."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.tried = []

    def __call__(self, rows):
        self.tried.append(len(rows))
        if sum(rows) > self.tokens:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return [f"text of {row}" for row in rows]


def run(rows, memory, sizes):
    return [(list(batch), texts) for batch, texts in process_in_batches(rows, memory, sizes)]


def test_batches_double_until_memory_runs_out():
    """20 rows of 64 tokens fit into 1280. Batches have 8, 16, 32 (too many), then always 16 rows."""
    memory, sizes = Memory(1280), BatchSizes()
    batches = run([64] * 80, memory, sizes)
    assert memory.tried == [8, 16, 32, 16, 16, 16, 8]
    assert [len(batch) for batch, _ in batches] == [8, 16, 16, 16, 16, 8]
    later = Memory(1280)
    run([64] * 40, later, sizes)
    assert later.tried == [16, 16, 8]


@settings(max_examples=15)
@given(
    rows=st.lists(st.integers(1, 300), max_size=60),
    tokens=st.integers(300, 4000),
    max_rows=st.none() | st.integers(1, 40),
)
def test_every_prompt_is_decoded_once_in_order(rows, tokens, max_rows):
    rows = sorted(rows, reverse=True)
    memory = Memory(tokens)
    results = run(rows, memory, BatchSizes(max_rows))
    assert [row for batch, _ in results for row in batch] == rows
    assert [text for _, texts in results for text in texts] == [f"text of {row}" for row in rows]
    assert all(n <= (max_rows or 10**9) for n in memory.tried)


def test_single_prompt_that_exceeds_memory_is_an_error():
    memory = Memory(100)
    with pytest.raises(torch.OutOfMemoryError):
        run([200, 50], memory, BatchSizes())
    assert memory.tried == [2, 1]


def test_only_lack_of_memory_shrinks_batches():
    def broken(rows):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run([1, 1], broken, BatchSizes())


def test_lack_of_cpu_memory_is_recognised():
    with pytest.raises(torch.OutOfMemoryError, match="DefaultCPUAllocator"):
        run([1], lambda rows: torch.empty(1 << 60, dtype=torch.uint8), BatchSizes())


@pytest.mark.parametrize(
    ("batch_size", "device", "parameters", "beams", "rows"),
    [
        (5, "cuda", 10**10, 4, 5),
        ("auto", "cpu", 3 * 10**6, 1, 32),
        ("auto", "cpu", 7 * 10**9, 1, 8),
        ("auto", "cpu", 7 * 10**9, 5, 1),
        ("auto", "cuda", 7 * 10**9, 1, 64),
    ],
)
def test_batches_grow_only_on_a_gpu(batch_size, device, parameters, beams, rows):
    model = types.SimpleNamespace(device=torch.device(device), num_parameters=lambda: parameters)
    sizes = BatchSizes.choose_first_size(batch_size, model, parse(f"beam(beams={beams})"))
    for _ in range(3):
        sizes.double_after_success(sizes.rows)
    assert sizes.rows == rows
