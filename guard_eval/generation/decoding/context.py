"""What a strategy knows of the texts when it chooses their next tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor


@dataclass
class Context:
    """The history of B texts at a step. −1 marks a position without a token.

    Attributes:
        keys: `noise.row_key` of each text, `[B]`, int64.
        step: 0, 1, …: the number of tokens written before; with the key it decides what is drawn.
        tokens: Prompt and new tokens, `[B, P + t]`, the last token at the end.
        written: The new tokens alone, `[B, t]`.
        state: The numbers of `initial_state` as the step before left them, `[B, S]`, float64.
        breakers: The model's tokens that end a sequence, `[n]`, for DRY.
        compiled: Whether PyTorch may compile the step.
    """

    keys: Tensor
    step: int
    tokens: Tensor
    written: Tensor
    state: Tensor
    breakers: Tensor = field(default_factory=partial(torch.empty, 0))
    compiled: bool = False
