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
from guard_eval.engines.vllm.request import StrategyRequest
from guard_eval.strategies import Guard


@dataclass(eq=False)
class Request:
    """A request of ours that is in the batch; GUARD's has a slot."""

    wanted: StrategyRequest
    slot: Slot | None

    def set_length(self, tokens: int) -> None:
        """Set how many of the tokens chosen for it count; vLLM discards those after half a prompt."""
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

    def begin(self, wanted: StrategyRequest, prompt: Tensor, outputs: Tensor) -> Request:
        """Return a request; arguments and errors as in `GuardMemory.begin`."""
        guards = isinstance(wanted.strategy, Guard)
        return Request(wanted, self._memory.begin(wanted, prompt, outputs) if guards else None)

    def leave(self, request: Request | None) -> None:
        """Say that a request is out of the batch; it may come back."""
        if request is not None and request.slot is not None:
            self._memory.leave(request.slot)

    def choose(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Leave in each of `rows` of `logits` `[B, V]` what its strategy chooses alone; return `logits`."""
        groups: dict[tuple[LogitStrategy, int], list[Row]] = {}
        for row in rows:
            strategy = row.request.wanted.strategy
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
        keys, at = sent([[row.request.wanted.key for row in group], steps], logits.device)
        return chooser(strategy, advanced(keys, at), 1)(logits, 0, keys[:, None])
