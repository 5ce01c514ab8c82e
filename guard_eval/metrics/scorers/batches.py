"""Put rows of token ids into batches for a model."""

from collections.abc import Callable, Iterable, Sequence
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
    rows: Sequence[Item | None],
    count_tokens: Callable[[Item], int],
    compute_batch: Callable[[Sequence[Item]], Iterable[Value]],
    *,
    max_rows: int = BATCH_ROWS,
) -> list[Value | None]:
    """Return a value for each row, in the order of the rows. If memory runs out, batches are halved.

    Rows of about the same length are read together.

    Args:
        rows: The rows for the model. A row that is None has the value None.
        count_tokens: A function that counts the tokens of a row.
        compute_batch: A function that returns a value for each row of a batch.
        max_rows: The largest number of rows in a batch.
    """
    present = {index: row for index, row in enumerate(rows) if row is not None}
    longest_first = sorted(present, key=lambda index: count_tokens(present[index]), reverse=True)
    values: list[Value | None] = [None] * len(rows)

    def compute_batch_values(batch: Sequence[int]) -> Iterable[Value]:
        return compute_batch([present[index] for index in batch])

    for batch, results in process_in_batches(longest_first, compute_batch_values, BatchSizes(max_rows)):
        for index, value in zip(batch, results, strict=True):
            values[index] = value
    return values


def pad_rows(
    rows: Sequence[Sequence[int]],
    model: Model,
    padding: int = 0,
) -> tuple[Tensor, Tensor]:
    """Pad rows on the right. Return the ids and a mask that is true for tokens, `[rows, longest]` each.

    Args:
        rows: The token ids of each row.
        model: The model that reads the rows. The tensors are on the model's device.
        padding: The id that pads a row.
    """
    device = model.device
    tensors = [torch.tensor(row, device=device) for row in rows]
    ids = pad_sequence(tensors, batch_first=True, padding_value=padding)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(ids.shape[1], device=device) < lengths[:, None]
