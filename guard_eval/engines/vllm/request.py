"""What a request to vLLM asks of this toolkit, in its `extra_args` (over HTTP: `vllm_xargs`).

| name | value |
|---|---|
| `guard_eval` | a strategy's signature, such as `guard(window=7)` or `top_p(p=0.9)` |
| `guard_eval_seed` | a whole number; a strategy that draws needs it |
| `guard_eval_prompt_id` | the prompt's id, so that each prompt meets numbers of its own; may be left out |
| `guard_eval_run` | which of the prompt's texts it is: 1 where it is left out |

A request without any of them is none of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from guard_eval.decoding.noise import row_key
from guard_eval.decoding.steps import LogitStrategy
from guard_eval.errors import StudyError
from guard_eval.strategies import BeamSearch, Strategy, draws, parse, signature

STRATEGY, SEED, PROMPT_ID = "guard_eval", "guard_eval_seed", "guard_eval_prompt_id"
RUN = "guard_eval_run"

_NEUTRAL: dict[str, float] = {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1}
"""Parameters that would change the probabilities a strategy sees, and the values at which they do not."""


class Parameters(Protocol):
    """vLLM's `SamplingParams`, as far as it is read here."""

    extra_args: dict[str, Any] | None


@dataclass(frozen=True)
class StrategyRequest:
    """A strategy, and its `noise.row_key`; 0 where nothing is drawn."""

    strategy: LogitStrategy
    key: int


def extra_args(strategy: Strategy, *, seed: int, prompt_id: str, run: int = 1) -> dict[str, str | int]:
    """Return the `extra_args` with which vLLM writes by `strategy` what the other engines write."""
    further: dict[str, str | int] = {} if run == 1 else {RUN: run}
    return {STRATEGY: signature(strategy), SEED: seed, PROMPT_ID: prompt_id, **further}


def read_request(parameters: Parameters) -> StrategyRequest | None:
    """Return what a request asks; None if nothing.

    Raises:
        StudyError: An argument is unknown, missing or wrong, the strategy does not run on vLLM, or another
            parameter of the request contradicts it. vLLM gives it back as the answer to the request.
    """
    arguments = {name: value for name, value in (parameters.extra_args or {}).items() if _is_ours(name)}
    if not arguments:
        return None
    unknown = sorted(arguments.keys() - {STRATEGY, SEED, PROMPT_ID, RUN})
    if unknown:
        raise StudyError(
            f"extra_args: {unknown[0]!r} is unknown; guard-eval takes {STRATEGY}, {SEED}, {PROMPT_ID} "
            f"and {RUN}"
        )
    strategy = _strategy(arguments.get(STRATEGY))
    _check_neutral(parameters, strategy)
    return StrategyRequest(
        strategy, _key(strategy, arguments.get(SEED), arguments.get(PROMPT_ID, ""), arguments.get(RUN, 1))
    )


def unsupported(strategy: Strategy) -> str | None:
    """Return why a strategy does not run on vLLM; None where it does."""
    if isinstance(strategy, LogitStrategy):
        return None
    if isinstance(strategy, BeamSearch):
        return "vLLM's beam search ends its beams by other rules, and would write other texts"
    return "it needs more of the model than the logits of each step"


def _is_ours(name: object) -> bool:
    return isinstance(name, str) and (name == STRATEGY or name.startswith(f"{STRATEGY}_"))


def _strategy(value: object) -> LogitStrategy:
    if not isinstance(value, str):
        raise StudyError(
            f"extra_args: {STRATEGY} = {value!r} names no strategy; write its signature, such as 'guard'"
        )
    strategy = parse(value)
    if not isinstance(strategy, LogitStrategy):
        raise StudyError(
            f"{strategy} does not run on vLLM: {unsupported(strategy)}; "
            "generate with: guard-eval generate STUDY --engine local"
        )
    return strategy


def _check_neutral(parameters: Parameters, strategy: Strategy) -> None:
    for name, neutral in _NEUTRAL.items():
        value = getattr(parameters, name, neutral)
        if value != neutral:
            raise StudyError(
                f"{name} = {value!r} would change the probabilities that {strategy} sees; "
                f"set {name} = {neutral} (a model's generation_config.json may have set it)"
            )
    if getattr(parameters, "thinking_token_budget", None) is not None:
        raise StudyError(f"thinking_token_budget puts its own token in {strategy}'s place; leave it out")


def _key(strategy: LogitStrategy, seed: object, prompt_id: object, run: object) -> int:
    if not isinstance(prompt_id, str):
        raise StudyError(f"extra_args: {PROMPT_ID} = {prompt_id!r} must be a text")
    if isinstance(seed, bool) or not isinstance(seed, int | None):
        raise StudyError(f"extra_args: {SEED} = {seed!r} must be a whole number")
    if isinstance(run, bool) or not isinstance(run, int) or run < 1:
        raise StudyError(f"extra_args: {RUN} = {run!r} must be a whole number of at least 1")
    if not draws(strategy):
        return 0
    if seed is None:
        raise StudyError(f"extra_args: {strategy} draws its tokens and needs {SEED}, a whole number")
    return row_key(seed, prompt_id, signature(strategy), run)
