"""A strategy at one step: what it is given, and the choice among the tokens that it leaves.

Every engine runs these functions. They differ only in where they keep tokens and state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from guard_eval.errors import StudyError
from guard_eval.generation.decoding import penalties, sampling  # noqa: F401 (they register their functions)
from guard_eval.generation.decoding.guard import step as guard_step  # noqa: F401
from guard_eval.generation.decoding.noise import draw
from guard_eval.generation.strategies import (
    Dry,
    LogitStrategy,
    Step,
    Strategy,
    Truncation,
    draws,
    is_own,
    steps_of,
)
from guard_eval.generation.strategies.own import file_of
from guard_eval.generation.strategies.protocol import apply_step, initial_state, trace_values, update_state


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
    breakers: Tensor | None = None
    compiled: bool = False


def choose(strategy: LogitStrategy, logits: Tensor, context: Context) -> Tensor:
    """Return the next tokens, `[B]`, by logits `[B, V]`, float32, and update the state of `context` in place.

    Of equal logits the smallest token id wins.
    """
    steps = steps_of(strategy)
    states = _split_state(strategy, context.state)
    inputs = []
    for step, state in zip(steps, states, strict=True):
        if isinstance(step, Truncation):
            logits = sampling.tempered(logits, step.temperature)
        inputs.append(logits)
        part = replace(context, state=state)
        logits = _apply_own(step, logits, part) if is_own(step) else apply_step(step, logits, part)
    tokens = draw(logits, context.keys, context.step) if draws(strategy) else logits.argmax(-1)
    for step, state, before in zip(steps, states, inputs, strict=True):
        if state.shape[1]:
            _call(update_state, step, state, before, tokens)
    return tokens


def first_state(strategy: Strategy) -> list[float]:
    """Return the numbers that a text begins with: those of all steps of a chain side by side."""
    return [number for numbers in _first_states(strategy) for number in numbers]


@cache
def _first_states(strategy: Strategy) -> list[list[float]]:
    """Return the numbers that each step of a strategy remembers, as they are before the first step."""
    return [_call(lambda step: list(map(float, initial_state(step))), step) for step in steps_of(strategy)]


def _split_state(strategy: Strategy, state: Tensor) -> tuple[Tensor, ...]:
    """Return the part of each step of a strategy in a state `[B, S]`; changing it changes the state."""
    return torch.split(state, [len(numbers) for numbers in _first_states(strategy)], 1)


def needs_breakers(strategy: Strategy) -> bool:
    """Return whether a strategy asks which of the model's tokens end a sequence."""
    return any(isinstance(step, Dry) and step.breakers != "none" for step in steps_of(strategy))


def step_trace(strategy: Strategy, before: Tensor, after: Tensor) -> dict[str, Tensor]:
    """Return the values by which a strategy adapted at a step, by name, `[B]` each."""
    states = (_split_state(strategy, state) for state in (before, after))
    values: dict[str, Tensor] = {}
    for step, *around in zip(steps_of(strategy), *states, strict=True):
        values |= trace_values(step, *around)
    return values


def _apply_own(step: Step, logits: Tensor, context: Context) -> Tensor:
    """Apply a user's strategy, and check what it returns, its values at the first step only."""
    result = _call(apply_step, step, logits.clone(), context)  # it may work in place
    where = f"{file_of(type(step))}: the function of {type(step).__name__}"
    if not (isinstance(result, Tensor) and result.shape == logits.shape and result.is_floating_point()):
        raise StudyError(f"{where} returned {_describe(result)}; it must return logits, {_describe(logits)}")
    if context.step == 0 and not bool(result.amax(-1).isfinite().all()):
        raise StudyError(
            f"{where} left no token, or NaN; leave one token of each row at least, with −inf for the others"
        )
    return result.float()


def _call(function: Callable[..., Any], step: object, *arguments: object) -> Any:  # noqa: ANN401
    """Call a registered function. An error in a user's own one names its file."""
    try:
        return function(step, *arguments)
    except (Exception, SystemExit) as error:
        if not is_own(step) or isinstance(error, StudyError | torch.OutOfMemoryError):
            raise
        raise StudyError(
            f"{file_of(type(step))}: the function of {type(step).__name__} failed: {type(error).__name__}: "
            f"{error}; correct it, and run the command again"
        ) from error


def _describe(value: object) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
