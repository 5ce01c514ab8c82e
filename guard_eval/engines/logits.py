"""The loop for strategies that look at logits alone: one token per row through the model at every step."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from guard_eval.decoding.choosers import LogitStrategy, chooser

_STEPS_BETWEEN_LOOKS = 16


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Prompts to be continued together.

    Attributes:
        ids: Token ids `[B, P]`, padded on the left.
        mask: True where there is a token, `[B, P]`.
        keys: `noise.row_key` of each row, `[B]`.
        ends: Tokens that end a text, `[E]`.
        limit: How many new tokens at most.
    """

    ids: Tensor
    mask: Tensor
    keys: Tensor
    ends: Tensor
    limit: int

    def positions(self) -> Tensor:
        """Return each token's place in its text, `[B, P]`; padding counts for nothing."""
        return (self.mask.cumsum(-1) - 1).clamp(min=0)

    def whole_mask(self) -> Tensor:
        """Return the mask with room for the new tokens, `[B, P + limit]`."""
        return torch.nn.functional.pad(self.mask, (0, self.limit), value=True)

    def history(self) -> Tensor:
        """Return room for the new tokens, `[B, limit]`."""
        return torch.zeros(len(self.ids), self.limit, dtype=torch.long, device=self.ids.device)


@dataclass(frozen=True)
class Generated:
    """What a loop made.

    Attributes:
        tokens: `[B, n]`; what follows a row's end-of-text token means nothing.
        failed_at: The first step 0, 1, … whose logits were no distribution, `[B]`; the limit where all were.
    """

    tokens: Tensor
    failed_at: Tensor


class Progress:
    """Which rows have ended, and which have failed: written on the device at each step, read now and then.

    Reading it makes a GPU wait for the host, so there it is read every few steps; the surplus is cut off
    later.
    """

    def __init__(self, batch: Batch) -> None:
        rows, device = len(batch.ids), batch.ids.device
        self._ends = batch.ends
        self._done = torch.zeros(rows, dtype=torch.bool, device=device)
        self._stride = 1 if device.type == "cpu" else _STEPS_BETWEEN_LOOKS
        self.failed_at = torch.full((rows,), batch.limit, device=device)

    def check(self, logits: Tensor, step: int) -> None:
        """Note the running rows whose logits `[B, V]` hold a NaN or have no finite greatest."""
        bad = ~logits.amax(-1).isfinite() & ~self._done
        self.failed_at = torch.where(bad, self.failed_at.clamp(max=step), self.failed_at)
        self._done = self._done | bad

    def note(self, tokens: Tensor) -> None:
        """Note the rows that the tokens `[B]` end."""
        self._done = self._done | torch.isin(tokens, self._ends)

    def finished(self, step: int) -> bool:
        """Return whether every row is known to have ended after a step 0, 1, …."""
        return (step + 1) % self._stride == 0 and bool(self._done.all())


@torch.inference_mode()
def decode_logits(model: Any, batch: Batch, strategy: LogitStrategy) -> Generated:  # noqa: ANN401
    """Continue a batch with any of transformers' causal language models."""
    choose = chooser(strategy, batch.keys, batch.limit)
    progress, history = Progress(batch), batch.history()
    # Without a padded row no mask is given: transformers would read it back to find that out at every step.
    mask = None if bool(batch.mask.all()) else batch.whole_mask().long()
    ids, positions = batch.ids, batch.positions()
    length = ids.shape[1]
    cache = DynamicCache(config=model.config)
    accepted = inspect.signature(model.forward).parameters
    for step in range(batch.limit):
        optional = {
            "attention_mask": None if mask is None else mask[:, : length + step],
            "position_ids": positions,
            "logits_to_keep": 1,
        }
        given = {name: value for name, value in optional.items() if name in accepted}
        output = model(input_ids=ids, past_key_values=cache, use_cache=True, **given)
        logits = output.logits[:, -1].float()
        progress.check(logits, step)
        history[:, step] = tokens = choose(logits, step, history)
        progress.note(tokens)
        if progress.finished(step):
            return Generated(history[:, : step + 1], progress.failed_at)
        ids, positions = tokens[:, None], positions[:, -1:] + 1
    return Generated(history, progress.failed_at)
