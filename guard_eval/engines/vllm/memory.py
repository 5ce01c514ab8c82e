"""The requests of a worker, each at a step of its own, and what strategies remember of them.

Rows that can take a step together do. What is chosen is written as logits of which one is left, so that
whatever vLLM does next takes that token.

A request by GUARD, or by any other strategy that looks back, has a slot, and within it a place for every
step: doing a step again writes the same values again. vLLM takes a request out of the batch when it has
ended, but also when it runs out of memory and sets the request back (preemption); it does not say which, and
may bring the request back later, in another place. So a slot that is left keeps what it holds until as many
others were left as may run at once, and a request that comes back with a text finds it by that text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from guard_eval.decoding.chains import Seen, Stepwise, choose, initial_state, needs_breakers, remembers
from guard_eval.decoding.choosers import LogitStrategy
from guard_eval.decoding.entropy import discount_sums
from guard_eval.decoding.guard.step import StepHistory, guard_step
from guard_eval.decoding.noise import advanced, gumbel
from guard_eval.engines.vllm.request import StrategyRequest
from guard_eval.strategies import Greedy, Guard

_ROOM = 256
"""Steps and prompt tokens to make room for at first; doubled where they are more."""


@dataclass(eq=False)
class Request:
    """A request of ours that is in the batch.

    Attributes:
        wanted: What it asks.
        prompt: The prompt's length, in tokens.
        done: How many steps are written, and their tokens count; vLLM discards those after half a prompt.
        slot: Its number in the memory, if its strategy looks back at earlier steps.
    """

    wanted: StrategyRequest
    prompt: int
    done: int
    slot: int = -1


@dataclass(frozen=True)
class Row:
    """Which row of the logits is a request's, and how many tokens it has written."""

    place: int
    request: Request
    step: int


class Requests:
    """The requests of a worker, by whichever interface they come.

    It holds what up to `running` requests at once left behind at each step, and as many that were left.
    `breakers` finds the model's tokens that end a sequence, once, if a strategy asks for them.
    """

    def __init__(
        self, device: torch.device, *, running: int, breakers: Callable[[], Sequence[int]] = tuple
    ) -> None:
        self._device = device
        self._find_breakers = breakers
        self._capacity = 2 * running
        # Column t of the sums and entropies holds step t − 1, so that the one before the first is there.
        self._entropies = torch.zeros(0, _ROOM, dtype=torch.float64, device=device)
        self._totals = torch.zeros(0, _ROOM, dtype=torch.float64, device=device)
        self._outputs = torch.full((0, _ROOM), -1, dtype=torch.int32, device=device)
        self._prompts = torch.full((0, _ROOM), -1, dtype=torch.int32, device=device)
        # One table for each number of a state; column t holds what step t finds.
        self._states: list[Tensor] = []
        self._slots: dict[int, Request] = {}
        self._left: deque[Request] = deque()
        self._weights: dict[float, Tensor] = {}

    def begin(self, wanted: StrategyRequest, prompt: Tensor, outputs: Tensor) -> Request:
        """Return a request.

        Args:
            wanted: What it asks.
            prompt: Its tokens, `[P]`.
            outputs: What was written of it before, `[t]`: of a request that comes back it is not empty.

        Raises:
            RuntimeError: It comes back, and what it remembers is not here.
        """
        request = Request(wanted, len(prompt), len(outputs))
        if not _looks_back(wanted.strategy):
            return request
        earlier = self._find_earlier(wanted, prompt, outputs) if len(outputs) else None
        request.slot = slot = self._free()
        first = initial_state(wanted.strategy) if isinstance(wanted.strategy, Stepwise) else []
        self._reserve(slot, steps=len(outputs), prompt=len(prompt), numbers=len(first))
        for kept, number in zip(self._states, first, strict=False):
            kept[slot, 0] = number
        if earlier is not None:
            for kept in (self._entropies, self._totals, self._outputs, *self._states):
                kept[slot] = kept[earlier]
        self._prompts[slot] = -1
        self._prompts[slot, : len(prompt)] = prompt
        self._slots[slot] = request
        return request

    def leave(self, request: Request | None) -> None:
        """Say that a request is out of the batch; it may come back."""
        if request is not None and request.slot >= 0:
            self._left.append(request)

    def choose(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Leave in each of `rows` of `logits` `[B, V]` what its strategy chooses alone; return `logits`."""
        groups: dict[tuple[LogitStrategy, int], list[Row]] = {}
        for row in rows:
            strategy = row.request.wanted.strategy
            # GUARD's first steps have windows of different lengths; from then on all steps are alike.
            kind = min(row.step, strategy.window) if isinstance(strategy, Guard) else 0
            groups.setdefault((strategy, kind), []).append(row)
        for (strategy, _), group in groups.items():
            places = [row.place for row in group]
            if places == list(range(len(logits))):
                tokens = self._tokens(logits, group, strategy)
                logits.fill_(-torch.inf).scatter_(1, tokens[:, None], 0)
                continue
            which = sent(places, logits.device)
            tokens = self._tokens(logits[which], group, strategy)
            logits[which] = -torch.inf
            logits[which, tokens] = 0
        return logits

    def _tokens(self, logits: Tensor, group: Sequence[Row], strategy: LogitStrategy) -> Tensor:
        """Return the next token of each request, `[B]`, of logits `[B, V]`, and remember the step of GUARD's.

        By GUARD, all have written equally many tokens, or at least as many as its window.
        """
        requests, steps = [row.request for row in group], [row.step for row in group]
        numbers = [[one.wanted.key for one in requests], [one.slot for one in requests], steps]
        keys, where, at = sent(numbers, self._device)
        if isinstance(strategy, Greedy):
            return logits.argmax(-1)
        if not isinstance(strategy, Guard):
            return self._stepwise(logits, strategy, requests, (keys, where, at), steps)
        self._reserve(0, steps=max(steps) + 1, prompt=0)
        window = torch.arange(min(*steps, strategy.window), device=self._device)
        past = StepHistory(
            self._entropies[where, at - window.flip(0)[:, None]],
            self._totals[where, at],
            self._discounts(strategy.decay)[at],
        )
        made = guard_step(logits, past, self._counted(requests, where, at, max(steps), strategy), strategy)
        best = made.best
        if strategy.select == "sample":
            best = (made.scores + gumbel(advanced(keys, at), 0, made.ids)).argmax(-1)
        tokens = made.ids.gather(1, best[:, None])[:, 0]
        self._entropies[where, at + 1], self._totals[where, at + 1] = made.notes[:2]
        self._outputs[where, at] = tokens.int()
        for request, step in zip(requests, steps, strict=True):
            request.done = step + 1
        return tokens

    def _stepwise(
        self,
        logits: Tensor,
        strategy: Stepwise,
        requests: Sequence[Request],
        numbers: tuple[Tensor, Tensor, Tensor],
        steps: Sequence[int],
    ) -> Tensor:
        """Return the next tokens, `[B]`; of a strategy that looks back, remember them and the state."""
        keys, where, at = numbers
        size = len(initial_state(strategy))
        if not remembers(strategy):
            nothing = keys[:, None][:, :0]
            return choose(
                strategy, logits, Seen(nothing, nothing, advanced(keys, at), 0, nothing.double())
            ).tokens
        self._reserve(0, steps=max(steps) + 1, prompt=0)
        found = [kept[where, at] for kept in self._states[:size]]
        state = torch.stack(found, 1) if found else keys[:, None][:, :0].double()
        tokens, written = self._texts(requests, where, at, steps)
        breakers = self._breakers if needs_breakers(strategy) else None
        made = choose(strategy, logits, Seen(tokens, written, advanced(keys, at), 0, state, breakers))
        for kept, number in zip(self._states, made.state.unbind(1), strict=False):
            kept[where, at + 1] = number
        self._outputs[where, at] = made.tokens.int()
        for request, step in zip(requests, steps, strict=True):
            request.done = step + 1
        return made.tokens

    @cached_property
    def _breakers(self) -> Tensor:
        return sent(list(self._find_breakers()), self._device)

    def _texts(
        self, requests: Sequence[Request], where: Tensor, at: Tensor, steps: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return prompt and text of each request, the last token at the end, and the text alone.

        `[B, P + t]` and `[B, t]`, int64, with −1 where there is none.
        """
        longest, prompt = max(steps), max(one.prompt for one in requests)
        places = torch.arange(longest, device=self._device)
        written = self._outputs[where, :longest].masked_fill(places >= at[:, None], -1).long()
        whole = torch.cat([self._prompts[where, :prompt].long(), written], 1)
        lengths = sent([one.prompt for one in requests], self._device)
        # Counted from the end, the text's tokens come first, and then the prompt's.
        back = torch.arange(prompt + longest, 0, -1, device=self._device)
        of_text = at[:, None] - back
        of_prompt = lengths[:, None] + of_text
        source = torch.where(of_text >= 0, prompt + of_text, of_prompt)
        return whole.gather(1, source.clamp(min=0)).masked_fill(of_prompt < 0, -1), written

    def _counted(
        self, requests: Sequence[Request], where: Tensor, at: Tensor, longest: int, strategy: Guard
    ) -> Tensor:
        """Return the tokens that counts are taken of, `[B, t]`, with −1 where there is none."""
        places = torch.arange(longest, device=self._device)
        written = self._outputs[where, :longest].masked_fill(places >= at[:, None], -1)
        if strategy.formulation != "released":
            return written
        return torch.cat([self._prompts[where, : max(one.prompt for one in requests)], written], 1)

    def _discounts(self, decay: float) -> Tensor:
        """Return Σ_i λ^(t−i) of every step there is room for."""
        room = self._totals.shape[1]
        if decay not in self._weights or len(self._weights[decay]) < room:
            sums = torch.tensor(discount_sums(room, decay), dtype=torch.float64)
            self._weights[decay] = sums.to(self._device)
        return self._weights[decay]

    def _find_earlier(self, wanted: StrategyRequest, prompt: Tensor, outputs: Tensor) -> int:
        """Return a slot that holds the entropies of this text, whichever request it was."""
        read = outputs >= 0  # scheduled asynchronously, the last tokens may not have been read back yet
        for slot, one in self._slots.items():
            if (one.wanted, one.prompt) == (wanted, len(prompt)) and one.done >= len(outputs):
                written = self._outputs[slot, : len(outputs)]
                same = torch.equal(self._prompts[slot, : len(prompt)], prompt.int())
                if same and torch.equal(written[read], outputs[read].int()):
                    return slot
        raise RuntimeError(
            f"guard-eval: a request for {wanted.strategy} came back after {len(outputs)} tokens (vLLM sets "
            "requests back where memory is short), and what it remembers of them is not in this worker; "
            "give vLLM more memory for its cache, or run fewer requests at once (--max-num-seqs)"
        )

    def _free(self) -> int:
        """Return the number of a slot that was never used, or of the one that was left first."""
        if len(self._slots) < self._capacity or not self._left:
            return len(self._slots)
        return self._left.popleft().slot

    def _reserve(self, slot: int, *, steps: int, prompt: int, numbers: int = 0) -> None:
        """Make room for a slot, for columns up to that of step `steps`, for a prompt and a state."""
        slots, room = self._totals.shape
        slots, room = _doubled(slots, slot + 1), _doubled(room, steps + 1)
        width = _doubled(self._prompts.shape[1], prompt)
        self._entropies, self._totals = (
            _grown(kept, slots, room, 0) for kept in (self._entropies, self._totals)
        )
        more = [self._totals[:0, :0]] * (numbers - len(self._states))
        self._states = [_grown(kept, slots, room, 0) for kept in (*self._states, *more)]
        self._outputs = _grown(self._outputs, slots, room, -1)
        self._prompts = _grown(self._prompts, slots, width, -1)


def _looks_back(strategy: LogitStrategy) -> bool:
    return isinstance(strategy, Guard) or (isinstance(strategy, Stepwise) and remembers(strategy))


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
