"""Run one step of a strategy (`choose_tokens`), or all steps as a processor of transformers' `generate`.

Every engine calls `choose_tokens`. Engines differ only in where they keep tokens and state.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from transformers import LogitsProcessor

from guard_eval.errors import StudyError
from guard_eval.generation.decoding import penalties, sampling  # noqa: F401 (they register their functions)
from guard_eval.generation.decoding.candidates import set_logits_and_mask_others
from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.guard import step as guard_step  # noqa: F401
from guard_eval.generation.decoding.noise import draw_tokens, make_row_key
from guard_eval.generation.strategies import (
    LogitStrategy,
    Step,
    Strategy,
    Truncation,
    apply_step,
    convert_numpy_number,
    convert_to_strategy,
    initial_state,
    is_stochastic,
    is_user_defined,
    list_strategy_steps,
    list_trace_values,
    signature,
    update_state,
)
from guard_eval.generation.strategies.own import find_defining_file

_Result = TypeVar("_Result")
_NEW_PROCESSOR = (
    "a StrategyProcessor works for only one call of generate, with one text in each row; make a new "
    "StrategyProcessor for each call, give it the call's attention_mask, and use num_beams=1"
)


def choose_tokens(strategy: LogitStrategy, logits: Tensor, context: Context) -> Tensor:
    """Choose the next tokens `[B]` from logits `[B, V]`, float32, and update `context.state` in place.

    Of equal logits, the smallest token id wins.
    """
    steps = _pair_steps_with_states(strategy, context.state)
    inputs = []
    for step, state in steps:
        if isinstance(step, Truncation):
            logits = sampling.divide_by_temperature(logits, step.temperature)
        inputs.append(logits)
        step_context = replace(context, state=state)
        logits = (
            _apply_user_strategy(step, logits, step_context)
            if is_user_defined(step)
            else apply_step(step, logits, step_context)
        )
    tokens = draw_tokens(logits, context.keys, context.step) if is_stochastic(strategy) else logits.argmax(-1)
    for (step, state), before in zip(steps, inputs, strict=True):
        if state.shape[1]:
            _call_registered_function(update_state, step, state, before, tokens)
    return tokens


def make_first_state(strategy: Strategy) -> list[float]:
    """Return the numbers that a strategy remembers, as they are at the beginning of a text, in one list."""
    return [number for numbers in _list_first_states_of_steps(strategy) for number in numbers]


@cache
def _list_first_states_of_steps(strategy: Strategy) -> list[list[float]]:
    """Return a list of numbers for each step of a strategy: the step's state at the beginning of a text."""

    def convert_initial_state(step: Step) -> list[float]:
        return list(map(float, initial_state(step)))

    return [_call_registered_function(convert_initial_state, step) for step in list_strategy_steps(strategy)]


def _pair_steps_with_states(strategy: Strategy, state: Tensor) -> list[tuple[Step, Tensor]]:
    """Return pairs of a step of the strategy and the columns of `state` `[B, S]` that belong to the step."""
    sizes = [len(numbers) for numbers in _list_first_states_of_steps(strategy)]
    return list(zip(list_strategy_steps(strategy), torch.split(state, sizes, 1), strict=True))


def collect_adapted_values(strategy: Strategy, before: Tensor, after: Tensor) -> dict[str, Tensor]:
    """Return the values that a strategy adapted at a step, by name, with the shape `[B]`."""
    pairs = zip(
        _pair_steps_with_states(strategy, before), _pair_steps_with_states(strategy, after), strict=True
    )
    values: dict[str, Tensor] = {}
    for (step, state_before), (_, state_after) in pairs:
        values |= list_trace_values(step, state_before, state_after)
    return values


def _apply_user_strategy(step: Step, logits: Tensor, context: Context) -> Tensor:
    """Apply a user's own strategy. Check the type, shape and values of the result."""
    # The function may change the logits in place.
    result = _call_registered_function(apply_step, step, logits.clone(), context)
    where = f"{find_defining_file(type(step))}: the function of {type(step).__name__}"
    if not (isinstance(result, Tensor) and result.shape == logits.shape and result.is_floating_point()):
        raise StudyError(
            f"{where} returned {_describe_type_and_shape(result)}; it must return logits, "
            f"{_describe_type_and_shape(logits)}"
        )
    if not bool(result.amax(-1).isfinite().all()):
        raise StudyError(
            f"{where} masked every token, or returned NaN or +inf; keep at least one token of each row, and "
            "return −inf for masked tokens"
        )
    return result.float()


def _call_registered_function(function: Callable[..., _Result], step: object, *arguments: object) -> _Result:
    """Call a function of a strategy. If the function of a user's strategy fails, the error names the file."""
    try:
        return function(step, *arguments)
    except (Exception, SystemExit) as error:
        if not is_user_defined(step) or isinstance(error, StudyError | torch.OutOfMemoryError):
            raise
        raise StudyError(
            f"{find_defining_file(type(step))}: the function of {type(step).__name__} failed: "
            f"{type(error).__name__}: {error}; correct the function, and run the command again"
        ) from error


def _describe_type_and_shape(value: object) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"


class DecodedStep(NamedTuple):
    """The result of one step of a batch.

    Attributes:
        logits: The model's logits, `[B, V]`.
        tokens: The chosen tokens, `[B]`.
        adapted: The values that the strategy adapted, by name, `[B]` each.
    """

    logits: Tensor
    tokens: Tensor
    adapted: dict[str, Tensor]


class StrategyProcessor(LogitsProcessor):
    """Make transformers' `generate` follow a strategy. Create a new processor for each call.

    >>> processor = StrategyProcessor("top_p(p=0.9)", seed=1)
    >>> # model.generate(**inputs, logits_processor=[processor], do_sample=False, max_new_tokens=64)

    All tokens of a row except the chosen token are masked, so `generate` must take the most likely token
    (`do_sample=False`, `num_beams=1`). Draws depend on the seed, the prompt, the strategy and the step, never
    on the position in the batch or on torch's random generator.

    Args:
        strategy: A strategy that needs only logits, or its signature.
        seed: A whole number.
        prompt_ids: A name for each row. Default: the prompt's tokens. Rows with the same name are several
            runs of the prompt, with different draws.
        attention_mask: The attention mask of the prompts, `[B, P]`. 0 marks padding.

    Raises:
        StudyError: The strategy needs more than logits. On a call: a row has no probabilities, or the texts
            do not continue the texts of the previous call.
    """

    def __init__(
        self,
        strategy: Strategy | str,
        *,
        seed: int = 0,
        prompt_ids: Sequence[str] | None = None,
        attention_mask: Tensor | None = None,
    ) -> None:
        strategy = convert_to_strategy(strategy)
        if not isinstance(strategy, LogitStrategy):
            raise StudyError(f"{strategy} needs more than the model's logits; use guard_eval.generate")
        whole_number = convert_numpy_number(seed)
        if type(whole_number) is not int:
            raise StudyError(f"seed = {seed!r:.60} must be a whole number")
        if isinstance(prompt_ids, str):
            raise StudyError(
                f"prompt_ids = {prompt_ids!r:.60} is a single id; give a list with one id for each row"
            )
        if attention_mask is not None and not isinstance(attention_mask, Tensor):
            raise StudyError(
                f"attention_mask is of type {type(attention_mask).__name__}; give the tensor of the "
                "tokenizer: inputs['attention_mask']"
            )
        self.strategy = strategy
        self.keys: Tensor | None = None
        self.compiled = False
        self.on_step: Callable[[DecodedStep], None] | None = None
        self.on_broken: Callable[[Tensor], None] = self._refuse_rows_without_probabilities
        self._seed = whole_number
        self._prompt_ids = prompt_ids
        self._mask = attention_mask
        self._context: Context | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores that are 0 for the chosen tokens and −inf for all others.

        Args:
            input_ids: The prompts with the new tokens so far, `[B, P + t]`.
            scores: The model's logits, `[B, V]`.
        """
        if self._context is None:
            self._context = self._make_first_context(input_ids)
        else:
            self._context = self._make_next_context(self._context, input_ids)
        broken = ~scores.amax(-1).isfinite()
        self.on_broken(broken)
        logits = scores.float().masked_fill(broken[:, None], 0)
        state = self._context.state
        before = state.clone() if self.on_step else state
        tokens = choose_tokens(self.strategy, logits, self._context)
        if self.on_step:
            self.on_step(DecodedStep(scores, tokens, collect_adapted_values(self.strategy, before, state)))
        return set_logits_and_mask_others(scores, tokens[:, None], torch.zeros_like(scores[:, :1]))

    def _refuse_rows_without_probabilities(self, is_broken: Tensor) -> None:
        """Raise a `StudyError` if `is_broken` `[B]` marks rows for which the model gave no probabilities."""
        if is_broken.any():
            rows = ", ".join(str(row + 1) for row in is_broken.nonzero()[:, 0].tolist())
            step = self._context.step + 1 if self._context else 1
            raise StudyError(
                f"row {rows} of the batch has no probabilities (NaN or infinite logits) at step {step}; "
                "load the model in float32, or leave out the prompt of this row"
            )

    def _make_first_context(self, input_ids: Tensor) -> Context:
        mask = torch.ones_like(input_ids) if self._mask is None else self._mask.to(input_ids.device)
        if mask.shape != input_ids.shape:
            raise StudyError(f"{_NEW_PROCESSOR}: {tuple(mask.shape)} is not {tuple(input_ids.shape)}")
        prompts = input_ids.masked_fill(mask == 0, -1)
        if self.keys is None:
            prompt_ids = self._prompt_ids or [
                " ".join(str(token) for token in row if token >= 0) for row in prompts.tolist()
            ]
            if len(prompt_ids) != len(prompts):
                raise StudyError(
                    f"prompt_ids has {len(prompt_ids)} ids for {len(prompts)} prompts; give one id per prompt"
                )
            earlier: Counter[str] = Counter()
            keys = []
            for prompt_id in prompt_ids:  # a repeated prompt is another run, with different draws
                earlier[prompt_id] += 1
                run = earlier[prompt_id]
                keys.append(make_row_key(self._seed, prompt_id, signature(self.strategy), run))
            self.keys = torch.tensor(keys, device=prompts.device)
        state = torch.tensor([make_first_state(self.strategy)] * len(prompts), dtype=torch.float64)
        return Context(
            keys=self.keys,
            step=0,
            tokens=prompts,
            written=prompts[:, :0],
            state=state.to(prompts.device),
            compiled=self.compiled,
        )

    def _make_next_context(self, last: Context, input_ids: Tensor) -> Context:
        follows = input_ids.shape == (last.tokens.shape[0], last.tokens.shape[1] + 1)
        # Tokens are compared only on a CPU, because on a GPU the host would wait.
        if follows and input_ids.device.type == "cpu":
            follows = torch.equal(input_ids[:, :-1].masked_fill(last.tokens < 0, -1), last.tokens)
        if not follows:
            raise StudyError(_NEW_PROCESSOR)
        new = input_ids[:, -1:]
        tokens = torch.cat([last.tokens, new], 1)
        written = torch.cat([last.written, new], 1)
        return replace(last, step=last.step + 1, tokens=tokens, written=written)
