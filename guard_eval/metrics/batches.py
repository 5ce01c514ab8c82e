"""Batches of token ids, as models take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import BatchSizes, in_batches

BATCH_ROWS = 64

Item = TypeVar("Item")


def read_in_batches(
    rows: Sequence[Item | None],
    length: Callable[[Item], int],
    read: Callable[[Sequence[Item]], Iterable[Any]],
    *,
    most: int = BATCH_ROWS,
) -> list[Any]:
    """Return what `read` returns for each row, in their order. Where memory runs out, batches are halved.

    Args:
        rows: What a model reads, rows of about the same length together. None has no value.
        length: How many tokens a row has.
        read: Returns a value for each row of a batch.
        most: Rows of a batch.
    """
    present = [(index, row) for index, row in enumerate(rows) if row is not None]
    present.sort(key=lambda pair: length(pair[1]), reverse=True)
    values: list[Any] = [None] * len(rows)

    def read_batch(batch: Sequence[tuple[int, Item]]) -> Iterable[Any]:
        return read([row for _, row in batch])

    for batch, results in in_batches(present, read_batch, BatchSizes(most)):
        for (index, _), value in zip(batch, results, strict=True):
            values[index] = value
    return values


def pad_rows(rows: Sequence[Sequence[int]], model: Model, padding: int = 0) -> tuple[Tensor, Tensor]:
    """Return rows padded on the right, and which tokens are real, `[rows, longest]` each.

    Args:
        rows: Token ids.
        model: The model that takes them; tensors are on its device.
        padding: The token that fills a row.
    """
    device = next(model.parameters()).device
    tensors = [torch.tensor(row, device=device) for row in rows]
    ids = pad_sequence(tensors, batch_first=True, padding_value=padding)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(ids.shape[1], device=device) < lengths[:, None]
