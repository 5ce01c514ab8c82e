"""Read the strategy of a request to vLLM from `extra_args` (over HTTP: `vllm_xargs`).

| name | value |
|---|---|
| `guard_eval` | a strategy's signature, such as `guard(window=7)` or `top_p(p=0.9)` |
| `guard_eval_seed` | a whole number; a strategy that draws needs it |
| `guard_eval_prompt_id` | the prompt's id, so that each prompt has other random numbers; optional |
| `guard_eval_run` | the number of the text among the prompt's texts; 1 if left out |

The plug-in ignores requests without these arguments.
"""

from dataclasses import dataclass

from guard_eval.errors import StudyError
from guard_eval.generation.decoding.noise import make_row_key
from guard_eval.generation.engines.vllm import VllmObject
from guard_eval.generation.strategies import LogitStrategy, Strategy, is_stochastic, parse, signature

STRATEGY = "guard_eval"
SEED = "guard_eval_seed"
PROMPT_ID = "guard_eval_prompt_id"
RUN = "guard_eval_run"
_KINDS: dict[str, tuple[type, str]] = {
    STRATEGY: (str, "a strategy's signature"),
    SEED: (int, "a whole number"),
    PROMPT_ID: (str, "a text"),
    RUN: (int, "a whole number of at least 1"),
}

_NEUTRAL: dict[str, float | None] = {
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "thinking_token_budget": None,
}
"""Parameters of vLLM that could change a strategy's choice, each with the value that has no effect."""


@dataclass(frozen=True)
class StrategyRequest:
    """The strategy and the random key of a request. The key is 0 if the strategy does not draw."""

    strategy: LogitStrategy
    key: int


def make_extra_args(strategy: Strategy, *, seed: int, prompt_id: str, run: int = 1) -> dict[str, str | int]:
    """Return a request's `extra_args`, which name the strategy and the random seed for vLLM."""
    further: dict[str, str | int] = {} if run == 1 else {RUN: run}
    return {STRATEGY: signature(strategy), SEED: seed, PROMPT_ID: prompt_id, **further}


def read_strategy_request(parameters: VllmObject) -> StrategyRequest | None:
    """Return the strategy that a request names, or None if the request names no strategy.

    Raises:
        StudyError: An argument is unknown, missing or wrong, vLLM cannot run the strategy, or another
            parameter of the request contradicts it. vLLM sends this error as the answer to the request.
    """
    arguments: dict[str, VllmObject] = {
        name: value
        for name, value in (parameters.extra_args or {}).items()
        if name == STRATEGY or str(name).startswith(f"{STRATEGY}_")
    }
    if not arguments:
        return None
    for name, value in {STRATEGY: None, **arguments}.items():
        if name not in _KINDS:
            raise StudyError(f"extra_args: {name!r} is unknown; choose from: {', '.join(_KINDS)}")
        kind, description = _KINDS[name]
        is_of_kind = isinstance(value, kind) and not isinstance(value, bool)
        if not is_of_kind or (name == RUN and value < 1):
            raise StudyError(f"extra_args: {name} = {value!r} must be {description}")
    strategy = parse(arguments[STRATEGY])
    if not isinstance(strategy, LogitStrategy):
        raise StudyError(
            f"{strategy} does not run on vLLM, which gives plug-ins only the logits of each step; "
            "generate with: guard-eval generate STUDY --engine local"
        )
    for name, neutral in _NEUTRAL.items():
        if (value := getattr(parameters, name, neutral)) != neutral:
            raise StudyError(
                f"{name} = {value!r} would change the probabilities from which {strategy} chooses; "
                f"set {name} = {neutral} (a model's generation_config.json may have set it)"
            )
    if not is_stochastic(strategy):
        return StrategyRequest(strategy, 0)
    if SEED not in arguments:
        raise StudyError(f"extra_args: {strategy} draws tokens at random; add {SEED}, a whole number")
    prompt_id = arguments.get(PROMPT_ID, "")
    run = arguments.get(RUN, 1)
    return StrategyRequest(strategy, make_row_key(arguments[SEED], prompt_id, signature(strategy), run))
