"""Put rows of token ids into batches for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import BatchSizes, process_in_batches

BATCH_ROWS = 64

Item = TypeVar("Item")
Value = TypeVar("Value")


def compute_values_in_batches(
    rows: Sequence[Item | None], compute: Callable[[Sequence[Item]], Iterable[Value]], *, max_rows: int
) -> list[Value | None]:
    """Return a value for each row, in the order of the rows. If memory runs out, batches are halved.

    Args:
        rows: The rows for the model, sorted by length. A row that is None has the value None.
        compute: A function that returns a value for each row of a batch.
        max_rows: The largest number of rows in a batch.
    """
    present = [row for row in rows if row is not None]
    batches = process_in_batches(present, compute, BatchSizes(max_rows))
    values = chain.from_iterable(batch_values for _, batch_values in batches)
    return [None if row is None else next(values) for row in rows]


def pad_rows(rows: Sequence[Sequence[int]], model: Model, padding: int = 0) -> tuple[Tensor, Tensor]:
    """Pad rows on the right. Return the ids and a mask that is true for tokens, `[rows, longest]` each.

    Args:
        rows: The token ids of each row.
        model: The model that reads the rows. The tensors are on the model's device.
        padding: The id that pads a row.
    """
    device = next(model.parameters()).device
    tensors = [torch.tensor(row, device=device) for row in rows]
    ids = pad_sequence(tensors, batch_first=True, padding_value=padding)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(ids.shape[1], device=device) < lengths[:, None]
