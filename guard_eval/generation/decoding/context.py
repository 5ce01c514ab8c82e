"""The input of a strategy besides the logits: the texts so far, random keys and the state."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor


@dataclass
class Context:
    """The history of B texts at a step. −1 marks a position without a token.

    Attributes:
        keys: `noise.make_row_key` of each text, `[B]`, int64.
        step: The number of tokens written before: 0, 1, …. Draws depend on it and on the key.
        tokens: The prompt and the new tokens, `[B, P + t]`, with the last token at the end.
        written: Only the new tokens, `[B, t]`.
        state: The numbers that the strategy remembers, after the step before, `[B, S]`, float64.
        breakers: The tokens at which DRY's sequences end, `[n]`.
        compiled: Whether PyTorch may compile the step.
    """

    keys: Tensor
    step: int
    tokens: Tensor
    written: Tensor
    state: Tensor
    breakers: Tensor = field(default_factory=partial(torch.empty, 0))
    compiled: bool = False
