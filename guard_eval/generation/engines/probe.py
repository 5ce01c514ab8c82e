"""Find out a model's abilities by trials on a few tokens. The names in the model's settings do not matter.

A trial compares logits with the correct logits: the same text alone, or in one forward pass. A trial runs
when its result is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

import torch
import transformers
from torch import Tensor
from torch.nn.functional import pad

from guard_eval import progress
from guard_eval.errors import StudyError, get_first_line
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import find_padding_token, generate_with_transformers
from guard_eval.generation.engines.passes import (
    PlainPasses,
    RepeatedPasses,
    RowPasses,
    TreePasses,
    run_model,
    run_with_hidden_states,
)
from guard_eval.generation.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, Strategy

TOKENS = 8
"""The length of a trial's texts, in tokens."""
_PADDING = 3
_STEPS = 6
_UNLIKELY = -1e4
_NO_LIMIT = 1 << 62
_PASSES: dict[type[TreePasses], str] = {
    TreePasses: "one cache for all candidates of a text",
    RepeatedPasses: "a cache for each candidate",
    PlainPasses: "no cache",
}
Pairs = Iterator[tuple[Tensor, Tensor]]
"""Pairs of the numbers that a trial gave and the correct numbers."""


class Abilities:
    """The abilities of one model, such as padding and a cache. Each ability is tried when it is first needed.

    `_reasons` has the reason of each failed trial. `_lengths` has the longest text with which a trial
    succeeded and the shortest text with which the trial failed, in tokens.
    """

    _of_models: ClassVar[WeakKeyDictionary[Model, Abilities]] = WeakKeyDictionary()

    def __init__(self, model: Model) -> None:
        self._reference = ref(model)
        self._name = type(model).__name__
        self._told: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._lengths: dict[str, tuple[int, int]] = {}

    @classmethod
    def for_model(cls, model: Model) -> Abilities:
        """Return the abilities of a model, with the results of earlier trials."""
        return cls._of_models.setdefault(model, cls(model))

    @property
    def can_continue_text(self) -> bool:
        """Whether the model gives correct logits if the positions of a text start at 0."""
        return self._does_trial_succeed(TOKENS, "one text", self._compare_logits_at_default_positions)

    @property
    def forgets_earlier_texts(self) -> bool:
        """Whether a prompt of one token has the same logits after the model has read another text."""
        return self._does_trial_succeed(
            TOKENS, "a prompt of one token", self._compare_logits_after_another_text
        )

    def can_use_cache(self, text_length: int, *, static_cache: bool = False) -> bool:
        """Return whether logits with a cache are correct for texts of up to `text_length` tokens.

        With `static_cache`, the cache has fixed shapes.
        """
        if static_cache:
            compare = partial(
                self._compare_logits_of_cached_steps,
                text_length,
                cache_implementation="static",
                disable_compile=True,
            )
            return self._does_trial_succeed(text_length, "a static cache", compare, "another cache")
        return self._does_trial_succeed(
            text_length, "a cache", partial(self._compare_logits_of_cached_steps, text_length), "no cache"
        )

    def can_use_cache_as_amateur(self, text_length: int) -> bool:
        """Return whether the model, as an amateur, can use a cache for texts up to this length in tokens."""
        return self._does_trial_succeed(
            text_length,
            "rows with a cache",
            partial(self._compare_logits_of_exchanged_rows, text_length),
            "no cache",
        )

    def can_pad_prompts(self, text_length: int) -> bool:
        """Return whether logits of a short text are correct if the text is padded to `text_length` tokens."""
        return self._does_trial_succeed(
            text_length,
            "padded rows",
            partial(self._compare_logits_of_padded_text, text_length),
            "single rows",
        )

    def can_use_cache_for_beams(self, text_length: int) -> bool:
        """Return whether beam search can use a cache for texts up to this length in tokens."""
        compare = partial(self._compare_logits_of_exchanged_beams, text_length)
        return self._does_trial_succeed(text_length, "beams with a cache", compare, "beams without a cache")

    def find_fastest_pass_class(self, text_length: int) -> type[TreePasses]:
        """Return the fastest kind of passes whose results are correct for texts up to this length in tokens.

        Raises:
            ValueError: No kind of passes gives correct results. The message names the failed trials.
        """
        for kind, trial in _PASSES.items():
            if self._does_trial_succeed(
                text_length, trial, partial(self._compare_candidate_passes, kind, text_length), "another way"
            ):
                return kind
        raise ValueError(self.failed_trials)

    @property
    def failed_trials(self) -> str:
        """The names of the failed trials, each with the reason, as text for a message."""
        return "; ".join(f"{trial} ({reason})" for trial, reason in self._reasons.items())

    def _does_trial_succeed(
        self, text_length: int, trial: str, compare: Callable[[], Pairs], fallback: str = ""
    ) -> bool:
        """Return whether a trial succeeds for texts up to this length in tokens. Run the trial if necessary.

        If the trial fails, show one notice to the user: what failed, and what is used instead.
        """
        right, wrong = self._lengths.get(trial, (0, _NO_LIMIT))
        if right < text_length < wrong:
            if problem := self._run_trial(compare):
                self._reasons[trial] = problem
                wrong = text_length
            else:
                right = text_length
            self._lengths[trial] = right, wrong
        succeeds = text_length <= right
        if fallback and not succeeds and trial not in self._told:
            reason = self._reasons[trial]
            progress.show_notice(f"{self._name}: {trial} failed a trial ({reason}); instead: {fallback}")
            self._told.add(trial)
        return succeeds

    def _run_trial(self, compare: Callable[[], Pairs]) -> str:
        """Run a trial. Return the reason why it failed, or "" if its numbers are correct up to rounding."""
        tolerance = torch.finfo(self._model.dtype).eps ** 0.5
        try:
            with torch.inference_mode():
                distance = max(_compute_relative_distance(actual, expected) for actual, expected in compare())
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (a model may raise any exception)
            return get_first_line(error)
        # NaN is not a failure here, because it is reported later together with the prompt.
        return f"logits differ by {distance:.2g}" if distance > tolerance else ""

    def _compare_logits_at_default_positions(self) -> Pairs:
        """Compare logits for positions that start at 0 to logits for the model's default positions."""
        ids = self._draw_fixed_ids(TOKENS)
        self._generate_forced_tokens(ids, _force_same_token, 1)
        yield self._run_one_pass(ids)[0], self._model(input_ids=ids).logits[0, -1]

    def _compare_logits_of_cached_steps(self, tokens: int, **options: object) -> Pairs:
        """Compare the logits of single steps that use a cache to the logits of one pass over the text."""
        # Tokens are not repeated, because repeated tokens could hide an error in a model's recurrent state.
        text = self._draw_fixed_ids(max(tokens, 2 * TOKENS))

        def force_text_tokens(input_ids: Tensor, scores: Tensor) -> Tensor:
            forced = torch.full_like(scores, _UNLIKELY)
            following = input_ids.shape[1] % text.shape[1]
            forced[:, text[0, following]] = 0
            return forced

        steps = self._generate_forced_tokens(
            text[:, :-_STEPS], force_text_tokens, _STEPS + 1, None, **options
        )
        yield from zip(torch.cat(steps), self._run_one_pass(text, _STEPS + 1), strict=True)

    def _compare_logits_of_exchanged_rows(self, tokens: int) -> Pairs:
        """Compare logits of two texts whose rows are exchanged at each step to logits of each text alone."""
        text = self._draw_trial_text(tokens)
        texts = torch.cat([text, text.flip(1)])
        ends = self._draw_fixed_ids(2 * _STEPS).view(_STEPS, 2, 1)
        exchange = torch.tensor([1, 0], device=texts.device)
        passes = RowPasses(self._model, texts, torch.ones_like(texts), cached=True)
        passes.process_prompts()
        for tokens_of_step in ends:
            logits, _ = passes.append_tokens(exchange, tokens_of_step)
            texts = torch.cat([texts[exchange], tokens_of_step], 1)
            yield logits[0], self._run_one_pass(texts[:1])[0]

    def _compare_logits_of_padded_text(self, tokens: int) -> Pairs:
        """Compare a short text's logits in a batch with a long text to the short text's logits alone."""
        long = self._draw_trial_text(tokens)
        short = long[:, -_PADDING:].clone()
        padding = long.shape[1] - _PADDING
        token = find_padding_token(self._model)
        short[:, 1] = token  # some models take this token for padding, although the mask says otherwise
        padded = torch.cat([long, pad(short, (padding, 0), value=token)])
        mask = torch.ones_like(padded)
        mask[1, :padding] = 0
        use_cache = self.can_use_cache(TOKENS)
        together = self._generate_forced_tokens(padded, _force_same_token, _STEPS, mask, use_cache=use_cache)
        alone = self._generate_forced_tokens(short, _force_same_token, _STEPS, use_cache=use_cache)
        for actual, expected in zip(together, alone, strict=True):
            yield actual[1], expected[0]
        yield run_model(self._model, padded, mask).logits[1, -1], self._run_one_pass(short)[0]

    def _compare_logits_after_another_text(self) -> Pairs:
        """Compare the logits of one token before and after another text was read."""
        ids = self._draw_fixed_ids(TOKENS)
        first = self._generate_forced_tokens(ids[:, :1], _force_same_token, 1)[0]
        self._generate_forced_tokens(ids, _force_same_token, _STEPS)
        yield self._generate_forced_tokens(ids[:, :1], _force_same_token, 1)[0], first

    def _compare_logits_of_exchanged_beams(self, tokens: int) -> Pairs:
        """Compare the logits of two beams whose rows were exchanged to the logits of the same texts alone."""
        ids = self._draw_trial_text(tokens)
        first, second = _choose_forced_tokens(self._vocabulary)
        beams = self._generate_forced_tokens(ids, _force_beam_exchange, 3, num_beams=2)
        ends = torch.tensor([[second, first], [second, second]], device=ids.device)
        texts = torch.cat([ids.repeat(2, 1), ends], 1)
        yield beams[2], self._generate_forced_tokens(texts, _force_same_token, 1, use_cache=False)[0]

    def _compare_candidate_passes(self, kind: type[TreePasses], tokens: int) -> Pairs:
        """Compare the results for the second of two candidates at each step to the results of one pass."""
        ids = self._draw_trial_text(tokens)
        candidates = self._draw_fixed_ids(2 * _STEPS).view(_STEPS, 1, 2)
        mask = torch.ones_like(ids)
        padding = _PADDING if self.can_pad_prompts(TOKENS) else 0
        mask[:, :padding] = 0
        ids[:, :padding] = find_padding_token(self._model)
        text = torch.cat([ids[:, padding:], candidates[:, :, 1].T], 1)
        every_logits, states = run_with_hidden_states(
            self._model, text, torch.ones_like(text), logits_to_keep=_STEPS + 1
        )
        logits = every_logits[0]
        hidden = states[0, -_STEPS:]
        passes = kind(self._model, ids, mask, _STEPS)
        yield passes.prefill()[0], logits[0]
        for step in range(_STEPS):
            passes.compute_candidate_penalties(candidates[step])
            yield passes.hidden[0, 1], hidden[step]
            yield passes.append_chosen_candidates(torch.ones_like(ids[:, 0]))[0], logits[step + 1]

    @property
    def _model(self) -> Model:
        return self._reference()

    @property
    def _vocabulary(self) -> int:
        return self._model.config.get_text_config().vocab_size  # type: ignore[no-any-return]

    def _draw_fixed_ids(self, count: int) -> Tensor:
        """Return token ids that are the same at every call, `[1, tokens]`."""
        ids = torch.randint(self._vocabulary, (1, count), generator=torch.Generator().manual_seed(1))
        return ids.to(self._model.device)

    def _draw_trial_text(self, tokens: int) -> Tensor:
        """Return a text `[1, n]` that has `tokens` tokens or more at the end of a trial.

        Tokens are repeated, because this shows best whether a layer sees only the last tokens.
        """
        length = max(tokens, 2 * TOKENS) - _STEPS
        return self._draw_fixed_ids(TOKENS).repeat_interleave(-(-length // TOKENS), 1)[:, :length]

    def _run_one_pass(self, ids: Tensor, keep: int = 1) -> Tensor:
        """Run a text `[1, n]` in one pass without a cache, and return the last logits, `[keep, V]`."""
        output = run_model(self._model, ids, torch.ones_like(ids), logits_to_keep=keep)
        return output.logits[0, -keep:]  # type: ignore[no-any-return]

    def _generate_forced_tokens(
        self,
        ids: Tensor,
        force: Callable[[Tensor, Tensor], Tensor],
        steps: int,
        mask: Tensor | None = None,
        **options: object,
    ) -> tuple[Tensor, ...]:
        """Generate with tokens that `force` chooses, and return the model's logits at each step, `[B, V]`."""
        output = generate_with_transformers(
            self._model,
            ids,
            torch.ones_like(ids) if mask is None else mask,
            force,
            stop_criteria=(),
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
            max_new_tokens=steps,
            **options,
        )
        return output.logits  # type: ignore[no-any-return]


def _choose_forced_tokens(vocabulary: int) -> tuple[int, int]:
    """Return two token ids for trials to write, which exist in any vocabulary."""
    return 1 % vocabulary, 2 % vocabulary


def _force_same_token(_input_ids: Tensor, scores: Tensor) -> Tensor:
    """Return scores that make the same token likely in all rows."""
    forced = torch.full_like(scores, _UNLIKELY)
    forced[:, _choose_forced_tokens(scores.shape[1])[0]] = 0
    return forced


def _force_beam_exchange(input_ids: Tensor, scores: Tensor) -> Tensor:
    """Return scores with which both beams of the next step continue the second beam."""
    first, second = _choose_forced_tokens(scores.shape[1])
    forced = torch.full_like(scores, _UNLIKELY)
    forced[:, first] = torch.where(input_ids[:, -1] == second, 0, -10)
    forced[:, second] = forced[:, first] - 1
    return forced


def _compute_relative_distance(actual: Tensor, expected: Tensor) -> float:
    """Return the distance between actual and expected numbers, divided by the spread of expected numbers."""
    expected = expected.float()
    # The second term is for a vocabulary of one token, whose logits have rounding but no spread.
    spread = (expected - expected.mean(-1, keepdim=True)).norm() + expected.norm() / 100
    return float((actual.float() - expected).norm() / spread)


def check_model_can_run_strategy(model: Model, strategy: Strategy, amateur: Model = None) -> None:
    """Raise an error if a model, or the amateur if there is one, cannot run a strategy.

    Raises:
        StudyError: A model cannot run the strategy. The message names the failed trials.
    """
    for tested in filter(None, (model, amateur)):
        abilities = Abilities.for_model(tested)
        if not abilities.can_continue_text:
            raise StudyError(
                f"this {type(tested).__name__} cannot continue a text with transformers "
                f"{transformers.__version__}: {abilities.failed_trials}; name another model"
            )
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        try:
            Abilities.for_model(model).find_fastest_pass_class(TOKENS)
        except ValueError as error:
            raise StudyError(
                f"this {type(model).__name__} cannot run contrastive search or ACS, because trials failed: "
                f"{error}. Leave the strategy out, or name another model"
            ) from error
