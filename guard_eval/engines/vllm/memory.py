"""The requests of a vLLM worker, each at a step of its own, and what strategies remember of them.

What is chosen is written as logits of which one is left, so that whatever vLLM does next takes that token.

A request by GUARD, or by any other strategy that looks back, has a slot: its tokens, and its state at each of
the last steps. Doing a step again writes the same values again. vLLM takes a request out of the batch when it
has ended, but also when it runs out of memory and sets the request back (preemption). It does not say which,
and may bring the request back later, in another place. So a slot keeps what it holds until as many others
were left as may run at once, and a request that comes back with a text finds it by that text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from guard_eval.decoding.noise import advanced
from guard_eval.decoding.steps import Context, LogitStrategy, choose, first_state, looks_back, needs_breakers
from guard_eval.engines.vllm.request import StrategyRequest
from guard_eval.strategies import Guard
from guard_eval.strategies.values import is_own, steps_of

KEPT_STEPS = 16
"""Steps of which a request's state is kept: vLLM discards the last few when it sets a request back."""


@dataclass(eq=False)
class Request:
    """A request in the batch.

    Attributes:
        wanted: What it asks.
        prompt: The prompt's length, in tokens.
        done: How many steps were made; vLLM discards those after half a prompt.
        slot: Its number in the memory, if its strategy looks back at earlier steps.
    """

    wanted: StrategyRequest
    prompt: int
    done: int
    slot: int = -1


@dataclass(frozen=True)
class Row:
    """Which row of the logits is a request's, and how many tokens it has written."""

    index: int
    request: Request
    step: int


class Requests:
    """The requests of a worker, by whichever interface they come.

    Args:
        device: Where the logits are.
        running: How many requests run at once; as many that were left are remembered.
        length: The most tokens of a request, prompt and continuation together.
        breakers: Finds the model's tokens at which DRY's sequences end, if a strategy asks for them.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        running: int,
        length: int,
        breakers: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self._device, self._capacity, self._find_breakers = device, 2 * running, breakers
        self._tokens = torch.full((self._capacity, length), -1, dtype=torch.int32, device=device)
        self._states: dict[LogitStrategy, Tensor] = {}
        self._slots: dict[int, Request] = {}
        self._left: deque[Request] = deque()

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
        if not looks_back(wanted.strategy):
            return request
        earlier = self._find_earlier(wanted, prompt, outputs) if len(outputs) else None
        request.slot = slot = self._free()
        states = self._states_of(wanted.strategy)
        if earlier is None:
            self._tokens[slot, : len(prompt)] = prompt
            states[slot, 0] = torch.tensor(first_state(wanted.strategy), dtype=torch.float64)
        else:
            self._tokens[slot], states[slot] = self._tokens[earlier], states[earlier]
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
            groups.setdefault((strategy, _phase(strategy, row.step)), []).append(row)
        for (strategy, phase), group in groups.items():
            places = to_device([row.index for row in group], logits.device)
            whole = len(group) == len(logits) and [row.index for row in group] == list(range(len(logits)))
            chosen = logits if whole else logits[places]
            tokens = self._tokens_of(chosen.float(), group, strategy, phase)
            logits[places] = -torch.inf
            logits[places, tokens] = 0
        return logits

    def _tokens_of(self, logits: Tensor, group: Sequence[Row], strategy: LogitStrategy, phase: int) -> Tensor:
        """Return the next token of each request, `[B]`, and remember the step."""
        requests = [row.request for row in group]
        numbers = [[row.request.wanted.key, row.request.slot, row.step, row.request.prompt] for row in group]
        keys, slots, at, prompts = to_device(numbers, self._device).T
        keys = advanced(keys, at - phase)
        breakers = self._breakers if needs_breakers(strategy) else None
        if not looks_back(strategy):
            nothing = keys[:, None][:, :0]
            return choose(
                strategy, logits, Context(keys, phase, nothing, nothing, nothing.double(), breakers)
            )
        longest = max(row.step for row in group)
        tokens, source = self._texts(slots, prompts + at, longest + max(row.prompt for row in requests))
        written = tokens.masked_fill(source < prompts[:, None], -1)[:, tokens.shape[1] - longest :]
        states = self._states_of(strategy)
        context = Context(keys, phase, tokens, written, states[slots, at % KEPT_STEPS], breakers)
        chosen = choose(strategy, logits, context)
        states[slots, (at + 1) % KEPT_STEPS] = context.state
        self._tokens[slots, prompts + at] = chosen.int()
        for row in group:
            row.request.done = row.step + 1
        return chosen

    def _texts(self, slots: Tensor, lengths: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Return the tokens of each request, the last at the end, and their places: `[B, longest]` each."""
        source = lengths[:, None] - torch.arange(longest, 0, -1, device=self._device)
        tokens = self._tokens[slots[:, None], source.clamp(min=0)].long()
        return tokens.masked_fill(source < 0, -1), source

    @cached_property
    def _breakers(self) -> Tensor:
        return to_device(list(self._find_breakers()), self._device)

    def _states_of(self, strategy: LogitStrategy) -> Tensor:
        """Return the states of a strategy's requests, `[slots, KEPT_STEPS, S]`."""
        if strategy not in self._states:
            shape = self._capacity, KEPT_STEPS, len(first_state(strategy))
            with torch.inference_mode(mode=False):  # a tensor made in that mode cannot be written outside it
                self._states[strategy] = torch.zeros(shape, dtype=torch.float64, device=self._device)
        return self._states[strategy]

    def _find_earlier(self, wanted: StrategyRequest, prompt: Tensor, outputs: Tensor) -> int:
        """Return a slot that holds the state of this text, whichever request it was."""
        text = torch.cat([prompt.int(), outputs.int()])
        read = text >= 0  # scheduled asynchronously, the last tokens may not have been read back yet
        for slot, earlier in self._slots.items():
            behind = earlier.done - len(outputs)
            alike = (earlier.wanted, earlier.prompt) == (wanted, len(prompt)) and 0 <= behind < KEPT_STEPS
            if alike and torch.equal(self._tokens[slot, : len(text)][read], text[read]):
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


def _phase(strategy: LogitStrategy, step: int) -> int:
    """Return the step number that the strategy is given; requests with the same one take a step together.

    GUARD's first steps have windows of different lengths; from then on all steps are alike. A user's own
    strategy may ask for the number itself.
    """
    if isinstance(strategy, Guard):
        return min(step, strategy.window)
    return step if any(map(is_own, steps_of(strategy))) else 0


def to_device(values: Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return whole numbers on a device, int64, without waiting for what is under way there."""
    here = torch.tensor(values, pin_memory=device.type == "cuda")
    return here.to(device, non_blocking=True)
