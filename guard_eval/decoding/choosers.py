"""From a strategy to the function that applies it to a batch, where logits are all it looks at."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from guard_eval.decoding import sampling
from guard_eval.decoding.guard import GuardState, guard_step
from guard_eval.strategies import Greedy, Guard, Temperature, TopK, TopP

LogitStrategy = Greedy | Temperature | TopK | TopP | Guard

Chooser = Callable[[Tensor, int, Tensor], Tensor]
"""Chooses tokens `[B]` from logits `[B, V]`, the step 0, 1, … and the tokens generated so far `[B, T]`."""


def chooser(strategy: LogitStrategy, keys: Tensor, steps: int) -> Chooser:
    """Return a function that chooses for one batch, with a memory of its own.

    Args:
        strategy: What to apply.
        keys: `noise.row_key` of each row, `[B]`, on the device of the logits to come.
        steps: At most so many steps will be asked for.
    """
    if isinstance(strategy, Greedy):
        return _greedy
    if isinstance(strategy, Guard):
        return _guard(strategy, GuardState.new(len(keys), steps, keys.device))
    return _sampler(strategy, keys)


def _greedy(logits: Tensor, step: int, history: Tensor) -> Tensor:  # noqa: ARG001 (a Chooser)
    return logits.argmax(-1)  # documented to return the first of equals


def _guard(strategy: Guard, state: GuardState) -> Chooser:
    def choose(logits: Tensor, step: int, history: Tensor) -> Tensor:
        return guard_step(logits, state, step, history, window=strategy.window, decay=strategy.decay)

    return choose


def _sampler(strategy: Temperature | TopK | TopP, keys: Tensor) -> Chooser:
    def choose(logits: Tensor, step: int, history: Tensor) -> Tensor:  # noqa: ARG001 (a Chooser)
        match strategy:
            case Temperature(tau=tau):
                kept = sampling.temperature(logits, tau)
            case TopK(k=k):
                kept = sampling.top_k(logits, k)
            case TopP(p=p):
                kept = sampling.top_p(logits, p)
        return sampling.draw(*kept, keys, step)

    return choose
