"""From the rows of a batch to their tokens: rows that can take a step together do.

What is chosen is written as logits of which one is left, so that whatever vLLM does next takes that token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from guard_eval.decoding.choosers import LogitStrategy, chooser
from guard_eval.decoding.noise import advanced
from guard_eval.engines.vllm.memory import GuardMemory, Slot, sent
from guard_eval.engines.vllm.request import Asked
from guard_eval.strategies import Guard


@dataclass(eq=False)
class Request:
    """A request of ours that is in the batch; GUARD's has a slot."""

    asked: Asked
    slot: Slot | None

    def stands(self, tokens: int) -> None:
        """Say how many of the tokens chosen for it stand; vLLM throws away those after half a prompt."""
        if self.slot is not None:
            self.slot.done = tokens


@dataclass(frozen=True)
class Row:
    """Which row of the logits is a request's, and how many tokens it has written."""

    place: int
    request: Request
    step: int


class Requests:
    """The requests of a worker, by whichever interface they come."""

    def __init__(self, device: torch.device, *, running: int) -> None:
        """Begin without any; at most `running` are in a batch."""
        self._memory = GuardMemory(device, running=running)

    def begin(self, asked: Asked, prompt: Tensor, outputs: Tensor) -> Request:
        """Return a request; arguments and errors as in `GuardMemory.begin`."""
        guards = isinstance(asked.strategy, Guard)
        return Request(asked, self._memory.begin(asked, prompt, outputs) if guards else None)

    def leave(self, request: Request | None) -> None:
        """Say that a request is out of the batch; it may come back."""
        if request is not None and request.slot is not None:
            self._memory.leave(request.slot)

    def choose(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Leave in each of `rows` of `logits` `[B, V]` what its strategy chooses alone; return `logits`."""
        groups: dict[tuple[LogitStrategy, int], list[Row]] = {}
        for row in rows:
            strategy = row.request.asked.strategy
            # GUARD's first steps have windows of different lengths; from then on all steps are alike.
            kind = min(row.step, strategy.window) if isinstance(strategy, Guard) else 0
            groups.setdefault((strategy, kind), []).append(row)
        for (strategy, _), group in groups.items():
            self._choose(logits, group, strategy)
        return logits

    def _choose(self, logits: Tensor, group: Sequence[Row], strategy: LogitStrategy) -> None:
        places = [row.place for row in group]
        if places == list(range(len(logits))):
            tokens = self._tokens(logits, group, strategy)
            logits.fill_(-torch.inf).scatter_(1, tokens[:, None], 0)
            return
        which = sent(places, logits.device)
        tokens = self._tokens(logits[which], group, strategy)
        logits[which] = -torch.inf
        logits[which, tokens] = 0

    def _tokens(self, logits: Tensor, group: Sequence[Row], strategy: LogitStrategy) -> Tensor:
        steps = [row.step for row in group]
        if isinstance(strategy, Guard):
            slots = [row.request.slot for row in group if row.request.slot is not None]
            return self._memory.choose(logits, slots, steps, strategy)
        keys, at = sent([[row.request.asked.key for row in group], steps], logits.device)
        return chooser(strategy, advanced(keys, at), 1)(logits, 0, keys[:, None])
