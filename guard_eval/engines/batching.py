"""How many rows go through the model at once: as many as memory holds, found out while generating.

What fits on a GPU is not known beforehand, so batches start modest, double while it goes well, and halve
when memory runs out; the rows that did not fit are tried again, so none is lost. What has worked is
remembered for texts that long and for each strategy, since a beam of five needs five times the cache.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

Row = TypeVar("Row")
Made = TypeVar("Made")

FIRST = 8
"""Rows of the first batch."""

MOST_ON_CPU = 32
"""Where more rows gain a CPU nothing: its arithmetic is busy by then."""

_SHARE_OF_FREE = 0.5


class BatchSizes:
    """How many rows to try next, and what has been learnt.

    Args:
        first: Rows to begin with.
        most: Never more than these; no limit but memory if left out.

    >>> sizes = BatchSizes(first=8)
    >>> sizes.worked("sampling", 100, 8), sizes.rows("sampling", 100)
    (None, 16)
    >>> sizes.failed("sampling", 100, 16), sizes.rows("sampling", 100)
    (None, 8)
    """

    def __init__(self, *, first: int = FIRST, most: int | None = None) -> None:
        self._first = first if most is None else min(first, most)
        self._most = most
        self._worked: dict[tuple[str, int], int] = {}
        self._failed: dict[tuple[str, int], int] = {}

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

    def rows(self, kind: str, length: int) -> int:
        """Return how many rows of up to `length` tokens to try next with a `kind` of decoding."""
        place = _bucket(length)
        worked = self._largest_worked(kind, place)
        failed = min((n for (k, b), n in self._failed.items() if k == kind and b <= place), default=None)
        rows = max(self._first, 2 * worked)
        if self._most is not None:
            rows = min(rows, self._most)
        if failed is not None and rows >= failed:
            rows = worked or max(1, failed // 2)
        return rows

    def worked(self, kind: str, length: int, rows: int) -> None:
        """Remember that `rows` rows fitted."""
        key = kind, _bucket(length)
        self._worked[key] = max(rows, self._worked.get(key, 0))

    def failed(self, kind: str, length: int, rows: int) -> None:
        """Remember that `rows` rows did not fit; what worked once and would contradict this is forgotten."""
        key = kind, _bucket(length)
        self._failed[key] = min(rows, self._failed.get(key, rows))
        for (k, b), n in list(self._worked.items()):
            if k == kind and b >= key[1] and n >= rows:
                self._worked[k, b] = rows // 2

    def _largest_worked(self, kind: str, place: int) -> int:
        return max((n for (k, b), n in self._worked.items() if k == kind and b >= place), default=0)


def in_batches(
    rows: Sequence[Row],
    decode: Callable[[Sequence[Row]], Made],
    sizes: BatchSizes,
    *,
    kind: str,
    length: Callable[[Row], int],
) -> Iterator[tuple[Sequence[Row], Made]]:
    """Yield batches of `rows`, longest first, with what `decode` makes of each.

    Args:
        rows: In descending order of `length`.
        decode: What may run out of memory; it is then called again with fewer of the same rows.
        sizes: What fits into memory; it learns.
        kind: The decoding strategy, as far as memory is concerned.
        length: Tokens of a row, those to come included.

    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """
    start = 0
    while start < len(rows):
        longest = length(rows[start])
        batch = rows[start : start + sizes.rows(kind, longest)]
        made = _try(decode, batch)
        if made is None:
            # Only now, when the error and the tensors that its frames held are released.
            _release()
            sizes.failed(kind, longest, len(batch))
            continue
        sizes.worked(kind, longest, len(batch))
        yield batch, made[0]
        start += len(batch)


def _try(decode: Callable[[Sequence[Row]], Made], batch: Sequence[Row]) -> tuple[Made] | None:
    try:
        return (decode(batch),)
    except RuntimeError as error:
        if not ran_out(error):
            raise
        if len(batch) == 1:
            raise torch.OutOfMemoryError(str(error)) from error
        return None


def ran_out(error: RuntimeError) -> bool:
    """Return whether an error says that there is no memory; on a CPU it has no class of its own."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def _release() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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


def _bucket(length: int) -> int:
    """Return the power of two up to which a length goes; lengths of one bucket are taken for equal."""
    return max(0, length - 1).bit_length()
