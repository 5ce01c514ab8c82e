"""The requests of a vLLM worker, each at a step of its own, and the state of their strategies.

What is chosen is written as logits of which one is left, so that whatever vLLM does next takes that token.

A request keeps its state before each of its last steps, because vLLM may repeat a step. vLLM takes a request
out of the batch when it has ended, but also when memory runs out (preemption), and does not say which. So as
many requests as may run at once are remembered after they left, and one that comes back finds its state by
its strategy, its key and its prompt: these decide what is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from guard_eval.generation.decoding.noise import advance_keys
from guard_eval.generation.decoding.steps import Context, choose, first_state, needs_breakers
from guard_eval.generation.engines.vllm.request import StrategyRequest
from guard_eval.generation.strategies import Guard, LogitStrategy, is_own, steps_of

KEPT_STEPS = 16
"""Steps whose states are kept: vLLM discards the last few tokens when it sets a request back."""


@dataclass(eq=False)
class Request:
    """A request in the batch.

    Attributes:
        wanted: Its strategy and key.
        prompt: The prompt's tokens, `[P]`.
        states: The state before each of the last steps, `[S]`, float64, by step.
        outputs: The tokens written so far, where the runner keeps them as a list.
        line: The row of the logits that is the request's at this step.
        step: How many tokens it has written.
    """

    wanted: StrategyRequest
    prompt: Tensor
    states: dict[int, Tensor]
    outputs: Sequence[int] = ()
    line: int = 0
    step: int = 0


TextReader = Callable[[Sequence[Request]], Tensor]
"""Returns the tokens of requests, prompt and text, `[B, T]`: the last one at the end, −1 before the first."""


class Requests:
    """The requests of a worker, by whichever interface they come.

    Attributes:
        at: Those in the batch, by their slot or row.

    Args:
        device: Where the logits are.
        running: How many requests run at once; as many are remembered after they left.
        find_breakers: Returns the model's tokens at which DRY's sequences end, if a strategy needs them.
    """

    def __init__(
        self, device: torch.device, *, running: int, find_breakers: Callable[[], Sequence[int]] = tuple
    ) -> None:
        self._device, self._find_breakers = device, find_breakers
        self.at: dict[int, Request] = {}
        self._left: deque[Request] = deque(maxlen=2 * running)

    def begin(self, index: int, wanted: StrategyRequest, prompt: Tensor, written: int) -> Request:
        """Take a request with a prompt `[P]` in; one that comes back has `written` tokens already.

        Raises:
            RuntimeError: It comes back, and its state is no longer in this worker.
        """
        self.at[index] = Request(wanted, prompt, self._find_states(wanted, prompt, written))
        return self.at[index]

    def release(self, request: Request | None) -> None:
        """Keep the states of a request that is out of the batch; it may come back."""
        if request is not None:
            self._left.append(request)

    def _find_states(self, wanted: StrategyRequest, prompt: Tensor, written: int) -> dict[int, Tensor]:
        first = torch.tensor(first_state(wanted.strategy), dtype=torch.float64, device=self._device)
        if written == 0 or not len(first):
            return {written: first}
        for earlier in [*self.at.values(), *reversed(self._left)]:
            same = earlier.wanted == wanted and written in earlier.states
            if same and torch.equal(earlier.prompt, prompt):
                return dict(earlier.states)
        raise RuntimeError(
            f"guard-eval: a request for {wanted.strategy} came back after {written} tokens (vLLM sets "
            "requests back where memory is short), and its state is not in this worker; "
            "give vLLM more memory for its cache, or run fewer requests at once (--max-num-seqs)"
        )

    def choose(self, logits: Tensor, requests: Sequence[Request], read_texts: TextReader) -> Tensor:
        """Leave the chosen token alone in the lines of requests of `logits` `[B, V]`, and return `logits`."""
        groups: dict[tuple[LogitStrategy, int], list[Request]] = {}
        for request in requests:
            strategy = request.wanted.strategy
            groups.setdefault((strategy, _phase(strategy, request.step)), []).append(request)
        for (strategy, phase), group in groups.items():
            numbers = [[request.line, request.wanted.key, request.step] for request in group]
            lines, keys, steps = to_device(numbers, self._device).T
            texts, longest = read_texts(group), max(request.step for request in group)
            age = torch.arange(longest, 0, -1, device=self._device)
            written = texts[:, texts.shape[1] - longest :].masked_fill(age > steps[:, None], -1)
            states = torch.stack([request.states[request.step] for request in group])
            breakers = self._breakers if needs_breakers(strategy) else None
            context = Context(advance_keys(keys, steps - phase), phase, texts, written, states, breakers)
            tokens = choose(strategy, logits[lines].float(), context)
            for request, state in zip(group, context.state, strict=True):
                request.states[request.step + 1] = state
                request.states.pop(request.step + 1 - KEPT_STEPS, None)
            logits[lines] = -torch.inf
            logits[lines, tokens] = 0
        return logits

    @cached_property
    def _breakers(self) -> Tensor:
        return to_device(list(self._find_breakers()), self._device)


def _phase(strategy: LogitStrategy, step: int) -> int:
    """Return the step number that the strategy is given; requests with the same one take a step together.

    GUARD's first steps have windows of different lengths; from then on all steps are alike. A user's own
    strategy may read the number itself.
    """
    if isinstance(strategy, Guard):
        return min(step, strategy.window)
    return step if any(map(is_own, steps_of(strategy))) else 0


def to_device(values: Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return whole numbers on a device, int64, without waiting for what is under way there."""
    here = torch.tensor(values, pin_memory=device.type == "cuda")
    return here.to(device, non_blocking=True)
