"""How many rows go through the model at once: as many as memory holds, found out while generating.

What fits on a GPU is not known beforehand, so batches start small, double while it goes well, and halve when
memory runs out; the rows that did not fit are tried again, so none is lost. The longest rows come first, so
what fitted once fits again. On a CPU memory does not run out with an error but with the process's end, so
batches stay small.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import torch

from guard_eval.generation.engines.loading import SMALL
from guard_eval.generation.strategies import Strategy

Row = TypeVar("Row")
Decoded = TypeVar("Decoded")

FIRST_ROWS = 8
SMALL_MODEL_ROWS = 32
"""Rows of a small model on a CPU; more gain nothing, since its arithmetic is busy by then."""


class BatchSizes:
    """How many rows to try next.

    Args:
        rows: Never more than these; without, 8 that double while it goes well.
    """

    def __init__(self, rows: int | None = None) -> None:
        self.rows, self._most = rows or FIRST_ROWS, rows

    @classmethod
    def choose(cls, batch_size: int | Literal["auto"], model: Any, strategy: Strategy) -> BatchSizes:  # noqa: ANN401
        """Choose the first batch size for a model, and a strategy that may have beams."""
        if batch_size != "auto":
            return cls(batch_size)
        if model.device.type != "cpu":
            return cls()
        rows = SMALL_MODEL_ROWS if model.num_parameters() < SMALL else FIRST_ROWS
        return cls(max(1, rows // getattr(strategy, "beams", 1)))

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
