"""How many rows go through the model at once: as many as memory holds, found out while generating.

What fits on a GPU is not known beforehand, so batches start small, double while it goes well, and halve when
memory runs out; the rows that did not fit are tried again, so none is lost. The longest rows come first, so
what fitted once fits again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import torch

Row = TypeVar("Row")
Decoded = TypeVar("Decoded")

FIRST_ROWS = 8
MOST_ROWS_ON_CPU = 32
"""More rows gain a CPU nothing: its arithmetic is busy by then."""
_SHARE_OF_FREE = 0.5


class BatchSizes:
    """How many rows to try next.

    Args:
        first: Rows to begin with.
        most: Never more than these; no limit but memory if left out.

    >>> sizes = BatchSizes(first=8)
    >>> sizes.succeed(8), sizes.rows
    (None, 16)
    >>> sizes.fail(16), sizes.rows
    (None, 8)
    >>> sizes.succeed(8), sizes.rows
    (None, 8)
    """

    def __init__(self, *, first: int = FIRST_ROWS, most: int | None = None) -> None:
        self._most = most
        self.rows = first if most is None else min(first, most)

    @classmethod
    def choose(
        cls,
        batch_size: int | Literal["auto"],
        model: Any,  # noqa: ANN401 (transformers' classes are untyped)
        *,
        tokens: int,
        copies: int = 1,
    ) -> BatchSizes:
        """Return sizes for a model and texts of up to `tokens` tokens, prompt included.

        On a CPU memory does not run out with an error but with the process's end, so the limit of `auto` is
        an estimate: what half of the free memory holds, with `copies` caches a row, and at most 32.
        """
        if batch_size != "auto":
            return cls(first=batch_size, most=batch_size)
        if model.device.type != "cpu":
            return cls()
        free = _SHARE_OF_FREE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        fit = int(free // (copies * row_bytes(model.config.get_text_config(), tokens, model.dtype)))
        return cls(most=max(1, min(MOST_ROWS_ON_CPU, fit)))

    def succeed(self, rows: int) -> None:
        """Double `rows` for the next batch, unless so many were too many."""
        self.rows = max(2 * rows, self.rows)
        if self._most is not None:
            self.rows = min(self.rows, self._most)

    def fail(self, rows: int) -> None:
        """Halve `rows` that did not fit, for good."""
        self.rows = self._most = max(1, rows // 2)


def in_batches(
    rows: Sequence[Row], decode: Callable[[Sequence[Row]], Decoded], sizes: BatchSizes
) -> Iterator[tuple[Sequence[Row], Decoded]]:
    """Yield batches of `rows` with what `decode` returns for each.

    Args:
        rows: The longest first.
        decode: May run out of memory; it is then called again with fewer of the same rows.
        sizes: What fits into memory; it learns.

    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """
    start = 0
    while start < len(rows):
        batch = rows[start : start + sizes.rows]
        try:
            result = decode(batch)
        except RuntimeError as error:  # on a CPU a lack of memory has no class of its own
            if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
                raise
            if len(batch) == 1:
                raise torch.OutOfMemoryError(str(error)) from error
        else:
            sizes.succeed(len(batch))
            yield batch, result
            start += len(batch)
            continue
        # Only now, when the error and the tensors that its frames held are released.
        gc.collect()
        torch.cuda.empty_cache()
        sizes.fail(len(batch))


def row_bytes(config: Any, tokens: int, dtype: torch.dtype) -> int:  # noqa: ANN401 (transformers' configurations)
    """Return roughly what a row of `tokens` tokens takes: cache, passage through a layer, logits."""
    width = getattr(config, "hidden_size", None) or 1024
    heads = getattr(config, "num_attention_heads", None) or 1
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head = getattr(config, "head_dim", None) or width // heads
    cache = 2 * (getattr(config, "num_hidden_layers", None) or 1) * kv_heads * head
    passage = 4 * width + 2 * (getattr(config, "intermediate_size", None) or 4 * width)
    # The scores of a step are float32, and a strategy holds a few copies of them.
    return int(tokens * (cache + passage) * dtype.itemsize + 4 * config.vocab_size * 4)
