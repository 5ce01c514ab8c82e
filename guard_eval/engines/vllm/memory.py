"""What GUARD remembers of the requests of a worker, each at a step of its own.

A request has a slot, and within it a place for every step: doing a step again writes the same values again.
vLLM takes a request out of the batch when it has ended, but also when it runs out of memory and sets the
request back (preemption); it does not say which, and may bring the request back later, in another place. So
a slot that is left keeps what it holds until as many others were left as may run at once, and a request that
comes back with a text finds it by that text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from guard_eval.decoding.entropy import discount_sums
from guard_eval.decoding.guard import StepHistory, guard_step
from guard_eval.decoding.noise import advanced, gumbel
from guard_eval.engines.vllm.request import StrategyRequest
from guard_eval.strategies import Guard

_ROOM = 256
"""Steps and prompt tokens to make room for at first; doubled where they are more."""


@dataclass(eq=False)
class Slot:
    """A request's place in the memory.

    Attributes:
        number: Which.
        wanted: What the request asks; its strategy is GUARD.
        prompt: The prompt's length, in tokens.
        done: How many steps are written, and their tokens count.
    """

    number: int
    wanted: StrategyRequest
    prompt: int
    done: int = 0


class GuardMemory:
    """The entropies and tokens of up to `running` requests at once, and of as many that were left."""

    def __init__(self, device: torch.device, *, running: int) -> None:
        self._device = device
        self._capacity = 2 * running
        # Column t of the sums and entropies holds step t − 1, so that the one before the first is there.
        self._entropies = torch.zeros(0, _ROOM, dtype=torch.float64, device=device)
        self._totals = torch.zeros(0, _ROOM, dtype=torch.float64, device=device)
        self._outputs = torch.full((0, _ROOM), -1, dtype=torch.int32, device=device)
        self._prompts = torch.full((0, _ROOM), -1, dtype=torch.int32, device=device)
        self._slots: dict[int, Slot] = {}
        self._left: deque[Slot] = deque()
        self._weights: dict[float, Tensor] = {}

    def begin(self, wanted: StrategyRequest, prompt: Tensor, outputs: Tensor) -> Slot:
        """Return a slot for a request.

        Args:
            wanted: What it asks.
            prompt: Its tokens, `[P]`.
            outputs: What was written of it before, `[t]`: of a request that comes back it is not empty.

        Raises:
            RuntimeError: It comes back, and its entropies are not here.
        """
        earlier = self._find_earlier(wanted, prompt, outputs) if len(outputs) else None
        slot = Slot(self._free(), wanted, len(prompt), done=len(outputs))
        self._reserve(slot.number, steps=len(outputs), prompt=len(prompt))
        if earlier is not None:
            for kept in (self._entropies, self._totals, self._outputs):
                kept[slot.number] = kept[earlier.number]
        self._prompts[slot.number] = -1
        self._prompts[slot.number, : len(prompt)] = prompt
        self._slots[slot.number] = slot
        return slot

    def leave(self, slot: Slot) -> None:
        """Say that the request is out of the batch; it may come back."""
        self._left.append(slot)

    def choose(self, logits: Tensor, slots: Sequence[Slot], steps: Sequence[int], strategy: Guard) -> Tensor:
        """Return the next token of each request, `[B]`, and remember the step.

        Args:
            logits: `[B, V]`.
            slots: Whose they are.
            steps: How many tokens each has written: equally many, or at least the strategy's window.
            strategy: What all of them ask.
        """
        self._reserve(0, steps=max(steps) + 1, prompt=0)
        where, at = sent([[slot.number for slot in slots], list(steps)], self._device)
        window = torch.arange(min(*steps, strategy.window), device=self._device)
        past = StepHistory(
            self._entropies[where, at - window.flip(0)[:, None]],
            self._totals[where, at],
            self._discounts(strategy.decay)[at],
        )
        made = guard_step(logits, past, self._counted(slots, where, at, max(steps), strategy), strategy)
        best = made.best
        if strategy.select == "sample":
            keys = sent([slot.wanted.key for slot in slots], self._device)
            best = (made.scores + gumbel(advanced(keys, at), 0, made.ids)).argmax(-1)
        tokens = made.ids.gather(1, best[:, None])[:, 0]
        self._entropies[where, at + 1], self._totals[where, at + 1] = made.notes[:2]
        self._outputs[where, at] = tokens.int()
        for slot, step in zip(slots, steps, strict=True):
            slot.done = step + 1
        return tokens

    def _counted(
        self, slots: Sequence[Slot], where: Tensor, at: Tensor, longest: int, strategy: Guard
    ) -> Tensor:
        """Return the tokens that counts are taken of, `[B, t]`, with −1 where there is none."""
        places = torch.arange(longest, device=self._device)
        written = self._outputs[where, :longest].masked_fill(places >= at[:, None], -1)
        if strategy.formulation != "released":
            return written
        return torch.cat([self._prompts[where, : max(slot.prompt for slot in slots)], written], 1)

    def _discounts(self, decay: float) -> Tensor:
        """Return Σ_i λ^(t−i) of every step there is room for."""
        room = self._totals.shape[1]
        if decay not in self._weights or len(self._weights[decay]) < room:
            sums = torch.tensor(discount_sums(room, decay), dtype=torch.float64)
            self._weights[decay] = sums.to(self._device)
        return self._weights[decay]

    def _find_earlier(self, wanted: StrategyRequest, prompt: Tensor, outputs: Tensor) -> Slot:
        """Return a slot that holds the entropies of this text, whichever request it was."""
        read = outputs >= 0  # scheduled asynchronously, the last tokens may not have been read back yet
        for slot in self._slots.values():
            if (slot.wanted, slot.prompt) == (wanted, len(prompt)) and slot.done >= len(outputs):
                written = self._outputs[slot.number, : len(outputs)]
                same = torch.equal(self._prompts[slot.number, : len(prompt)], prompt.int())
                if same and torch.equal(written[read], outputs[read].int()):
                    return slot
        raise RuntimeError(
            f"guard-eval: a request for {wanted.strategy} came back after {len(outputs)} tokens (vLLM sets "
            "requests back where memory is short), and the entropies of these are not in this worker; give "
            "vLLM more memory for its cache, or run fewer requests at once (--max-num-seqs)"
        )

    def _free(self) -> int:
        """Return the number of a slot that was never used, or of the one that was left first."""
        if len(self._slots) < self._capacity or not self._left:
            return len(self._slots)
        return self._left.popleft().number

    def _reserve(self, number: int, *, steps: int, prompt: int) -> None:
        """Make room for a slot, for columns up to that of step `steps`, and for a prompt."""
        slots, room = self._totals.shape
        slots, room = _doubled(slots, number + 1), _doubled(room, steps + 1)
        width = _doubled(self._prompts.shape[1], prompt)
        self._entropies, self._totals = (
            _grown(kept, slots, room, 0) for kept in (self._entropies, self._totals)
        )
        self._outputs = _grown(self._outputs, slots, room, -1)
        self._prompts = _grown(self._prompts, slots, width, -1)


def sent(values: Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return whole numbers on a device, int64, without waiting for what is under way there."""
    here = torch.tensor(values, pin_memory=device.type == "cuda")
    return here.to(device, non_blocking=True)


def _doubled(size: int, wanted: int) -> int:
    """Return `size`, doubled until it is enough."""
    size = max(size, 16)
    while size < wanted:
        size *= 2
    return size


def _grown(kept: Tensor, rows: int, columns: int, fill: int) -> Tensor:
    if kept.shape == (rows, columns):
        return kept
    with torch.inference_mode(mode=False):  # a tensor made in that mode could not be written to outside it
        more = torch.full((rows, columns), fill, dtype=kept.dtype, device=kept.device)
    more[: kept.shape[0], : kept.shape[1]] = kept
    return more
