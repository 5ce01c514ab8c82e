"""What a strategy does at a step: three functions that dispatch on its class. No torch.

`apply_step` is all that most strategies have. A strategy that remembers numbers from step to step also has an
`initial_state`; `update_state` changes them when the token is known. The built-in strategies register theirs
in `guard_eval.generation.decoding`, and users' own strategies in their own file (docs/own_strategy.md).
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from guard_eval.errors import StudyError


@singledispatch
def apply_step(strategy: object, logits: Any, context: Any) -> Any:  # noqa: ANN401, ARG001 (tensors)
    """Return the logits that a strategy leaves, `[B, V]`, float32; −inf marks a removed token.

    Args:
        strategy: Its class decides which registered function is called.
        logits: `[B, V]`, float32, with at least one finite number in each row.
        context: Tokens so far, random keys, step and state: `decoding.steps.Context`. The state may be
            changed in place.
    """
    name = type(strategy).__name__
    raise StudyError(
        f"no function is registered for the strategy {name}; write @apply_step.register above a function "
        f"(strategy: {name}, logits, context); docs/own_strategy.md shows one"
    )


@singledispatch
def initial_state(strategy: object) -> list[float]:  # noqa: ARG001 (the default)
    """Return the S numbers that a strategy remembers of each text, as they are before the first step."""
    return []


@singledispatch
def update_state(strategy: object, state: Any, logits: Any, tokens: Any) -> None:  # noqa: ANN401
    """Change the state `[B, S]` in place when the tokens `[B]` are chosen.

    `logits` `[B, V]` are those that the strategy was given at this step.
    """


@singledispatch
def trace_values(strategy: object, before: Any, after: Any) -> dict[str, Any]:  # noqa: ANN401, ARG001
    """Return what a trace records of a step by name, `[B]` each, from the states `[B, S]` around it."""
    name = type(strategy).__name__
    return {f"{name}.{number + 1}": before[:, number] for number in range(before.shape[1])}
