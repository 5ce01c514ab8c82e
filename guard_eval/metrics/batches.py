"""Batches of token ids, as models take them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pad_rows(
    rows: Sequence[Sequence[int]], model: torch.nn.Module, padding: int = 0
) -> tuple[Tensor, Tensor]:
    """Return rows padded on the right, and which tokens are real, `[rows, longest]` each.

    Args:
        rows: Token ids.
        model: The model that takes them; tensors are on its device.
        padding: The token that fills a row.
    """
    device = next(model.parameters()).device
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(longest, device=device) < lengths[:, None]
