"""How many rows go through the model at once: as many as memory holds, found out while generating.

What fits on a GPU is not known beforehand, so batches start modest, double while it goes well, and halve
when memory runs out; the rows that did not fit are tried again, so none is lost. The longest rows come first,
so what fitted once fits again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

Row = TypeVar("Row")
Decoded = TypeVar("Decoded")

FIRST = 8
"""Rows of the first batch."""
MOST_ON_CPU = 32
"""More rows gain a CPU nothing: its arithmetic is busy by then."""
_SHARE_OF_FREE = 0.5


class BatchSizes:
    """How many rows to try next, by kind of decoding: a beam of five needs five times the cache.

    Args:
        first: Rows to begin with.
        most: Never more than these; no limit but memory if left out.

    >>> sizes = BatchSizes(first=8)
    >>> sizes.worked("sampling", 8), sizes.rows("sampling")
    (None, 16)
    >>> sizes.failed("sampling", 16), sizes.rows("sampling")
    (None, 8)
    >>> sizes.worked("sampling", 8), sizes.rows("sampling")
    (None, 8)
    """

    def __init__(self, *, first: int = FIRST, most: int | None = None) -> None:
        self._first = first if most is None else min(first, most)
        self._most = most
        self._next: dict[str, int] = {}
        self._limits: dict[str, int] = {}

    @classmethod
    def capped(cls, most: int) -> BatchSizes:
        """Return sizes that begin with `most`, and shrink if that is too many."""
        return cls(first=most, most=most)

    @classmethod
    def auto(cls, model: Any, *, tokens: int, copies: int = 1) -> BatchSizes:  # noqa: ANN401 (transformers' classes)
        """Return sizes for a model and texts of up to `tokens` tokens, prompt included.

        On a CPU memory does not run out with an error but with the process's end, so the limit is an
        estimate: what half of the free memory holds, with `copies` caches a row, and at most 32.
        """
        if model.device.type != "cpu":
            return cls()
        free = _SHARE_OF_FREE * free_memory()
        fit = int(free // (copies * row_bytes(model.config.get_text_config(), tokens, model.dtype)))
        return cls(most=max(1, min(MOST_ON_CPU, fit)))

    def rows(self, kind: str) -> int:
        """Return how many rows to try next with a kind of decoding."""
        return self._next.get(kind, self._first)

    def worked(self, kind: str, rows: int) -> None:
        """Remember that `rows` rows fitted: twice as many are next, if so many were never too many."""
        limits = (limit for limit in (self._most, self._limits.get(kind)) if limit is not None)
        self._next[kind] = min((max(2 * rows, self.rows(kind)), *limits))

    def failed(self, kind: str, rows: int) -> None:
        """Remember that `rows` rows did not fit: half of them are next, and never more than these."""
        self._next[kind] = self._limits[kind] = max(1, rows // 2)


def in_batches(
    rows: Sequence[Row], decode: Callable[[Sequence[Row]], Decoded], sizes: BatchSizes, *, kind: str
) -> Iterator[tuple[Sequence[Row], Decoded]]:
    """Yield batches of `rows` with what `decode` returns for each.

    Args:
        rows: The longest first.
        decode: What may run out of memory; it is then called again with fewer of the same rows.
        sizes: What fits into memory; it learns.
        kind: The decoding strategy, as far as memory is concerned.

    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """
    start = 0
    while start < len(rows):
        batch = rows[start : start + sizes.rows(kind)]
        result = _try(decode, batch)
        if result is None:
            # Only now, when the error and the tensors that its frames held are released.
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            sizes.failed(kind, len(batch))
            continue
        sizes.worked(kind, len(batch))
        yield batch, result[0]
        start += len(batch)


def _try(decode: Callable[[Sequence[Row]], Decoded], batch: Sequence[Row]) -> tuple[Decoded] | None:
    try:
        return (decode(batch),)
    except RuntimeError as error:  # on a CPU a lack of memory has no class of its own
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        if len(batch) == 1:
            raise torch.OutOfMemoryError(str(error)) from error
        return None


def free_memory() -> int:
    """Return the bytes of memory that are free on this machine."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


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
