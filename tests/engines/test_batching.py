"""Batches sized to memory: they grow, shrink where it runs out, and lose no row."""

import types

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guard_eval.engines.batching import BatchSizes, in_batches

pytestmark = pytest.mark.slow


class Memory:
    """A decoder that holds so many tokens at once, and notes what it was asked for."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.tried = []

    def __call__(self, rows):
        self.tried.append(len(rows))
        if sum(rows) > self.tokens:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return [f"text of {row}" for row in rows]


def run(rows, memory, sizes):
    return [(list(batch), made) for batch, made in in_batches(rows, memory, sizes)]


def test_batches_double_until_memory_runs_out_and_then_stay():
    """Rows of 64 tokens in a memory of 1280: 20 fit. 8, 16, 32 (no), then 16 each, also in the next call."""
    memory, sizes = Memory(1280), BatchSizes()
    made = run([64] * 80, memory, sizes)
    assert memory.tried == [8, 16, 32, 16, 16, 16, 8]
    assert [len(batch) for batch, _ in made] == [8, 16, 16, 16, 16, 8]
    later = Memory(1280)
    run([64] * 40, later, sizes)
    assert later.tried == [16, 16, 8]


def test_a_number_is_where_it_begins_and_never_exceeded():
    memory = Memory(10**9)
    run([10] * 10, memory, BatchSizes(first=4, most=4))
    assert memory.tried == [4, 4, 2]
    tight = Memory(20)
    run([10] * 10, tight, BatchSizes(first=4, most=4))
    assert tight.tried == [4, 2, 2, 2, 2, 2]


@settings(max_examples=15)
@given(
    rows=st.lists(st.integers(1, 300), max_size=60),
    tokens=st.integers(300, 4000),
    most=st.none() | st.integers(1, 40),
)
def test_every_row_is_made_once_and_in_order(rows, tokens, most):
    rows = sorted(rows, reverse=True)
    memory = Memory(tokens)
    made = run(rows, memory, BatchSizes(most=most))
    assert [row for batch, _ in made for row in batch] == rows
    assert [text for _, texts in made for text in texts] == [f"text of {row}" for row in rows]
    assert all(n <= (most or 10**9) for n in memory.tried)


def test_a_row_that_does_not_fit_alone_is_an_error():
    memory = Memory(100)
    with pytest.raises(torch.OutOfMemoryError):
        run([200, 50], memory, BatchSizes())
    assert memory.tried == [2, 1]


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def broken(rows):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run([1, 1], broken, BatchSizes())


def test_a_cpu_says_so_in_words():
    with pytest.raises(torch.OutOfMemoryError, match="DefaultCPUAllocator"):
        run([1], lambda rows: torch.empty(1 << 60, dtype=torch.uint8), BatchSizes())


CONFIG = types.SimpleNamespace(
    hidden_size=8, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3, intermediate_size=16,
    vocab_size=100,
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows_free", "copies", "most"), [(1000, 1, 32), (20, 1, 10), (20, 5, 2), (0.1, 1, 1)]
)
def test_on_a_cpu_half_of_the_free_memory_is_the_limit(monkeypatch, rows_free, copies, most):
    # Cache: keys and values of 3 layers of 2 heads of 2 = 24. Passage: 4 · 8 + 2 · 16 = 64. Four bytes each.
    row = 10 * (24 + 64) * 4 + 4 * 100 * 4
    config = types.SimpleNamespace(get_text_config=lambda: CONFIG)
    model = types.SimpleNamespace(device=torch.device("cpu"), dtype=torch.float32, config=config)
    monkeypatch.setattr("os.sysconf", {"SC_AVPHYS_PAGES": int(rows_free * row) + 1, "SC_PAGE_SIZE": 1}.get)
    sizes = BatchSizes.choose("auto", model, tokens=10, copies=copies)
    for _ in range(9):
        sizes.succeed(sizes.rows)
    assert sizes.rows == most
