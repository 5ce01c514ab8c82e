"""Find out a model's abilities by trials on a few tokens. The names in the model's settings do not matter.

A trial compares logits with the correct logits: those of the same text alone, in one forward pass. A trial
runs when its result is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar
from weakref import WeakKeyDictionary, ref

import torch
import transformers
from torch import Tensor

from guard_eval import progress
from guard_eval.errors import StudyError, get_first_line
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import find_padding_token, generate_with_transformers
from guard_eval.generation.engines.passes import (
    PlainPasses,
    RepeatedPasses,
    TreePasses,
    run_model,
    run_with_hidden_states,
)
from guard_eval.generation.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, Strategy

TOKENS = 8
"""The length of a trial's texts, in tokens."""
_PADDING = 3
_STEPS = 6
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

    def can_use_cache(self, text_length: int) -> bool:
        """Return whether logits with a cache are correct for texts of up to `text_length` tokens."""
        compare = partial(self._compare_logits_of_steps, text_length)
        return self._does_trial_succeed(text_length, "a cache", compare, "no cache")

    def can_use_static_cache(self, text_length: int) -> bool:
        """Return whether logits with a cache of fixed shapes are correct for texts of up to this length."""
        compare = partial(
            self._compare_logits_of_steps,
            text_length,
            cache_implementation="static",
            disable_compile=True,
        )
        return self._does_trial_succeed(text_length, "a static cache", compare, "another cache")

    def can_pad_prompts(self, text_length: int) -> bool:
        """Return whether logits of a short text are correct if the text is padded to `text_length` tokens."""
        use_cache = self.can_use_cache(TOKENS)
        compare = partial(self._compare_logits_of_steps, text_length, is_padded=True, use_cache=use_cache)
        return self._does_trial_succeed(text_length, "padded rows", compare, "single rows")

    def can_reorder_cache(self, text_length: int) -> bool:
        """Return whether rows of a cache can be exchanged for texts of up to `text_length` tokens."""
        return self._can_run_passes(RepeatedPasses, text_length)

    def find_fastest_pass_class(self, text_length: int) -> type[TreePasses]:
        """Return the fastest kind of passes whose results are correct for texts up to this length in tokens.

        Raises:
            ValueError: No kind of passes gives correct results. The message names the failed trials.
        """
        for kind in _PASSES:
            if self._can_run_passes(kind, text_length):
                return kind
        raise ValueError(self.failed_trials)

    @property
    def failed_trials(self) -> str:
        """The names of the failed trials, each with the reason, as text for a message."""
        return "; ".join(f"{trial} ({reason})" for trial, reason in self._reasons.items())

    def _can_run_passes(self, kind: type[TreePasses], text_length: int) -> bool:
        compare = partial(self._compare_candidate_passes, kind, text_length)
        return self._does_trial_succeed(text_length, _PASSES[kind], compare, "a slower way")

    def _does_trial_succeed(
        self, text_length: int, trial: str, compare: Callable[[], Pairs], fallback: str = ""
    ) -> bool:
        """Return whether a trial succeeds for texts up to this length in tokens. Run the trial if necessary.

        If the trial fails, show one notice to the user: what failed, and what is used instead.
        """
        right, wrong = self._lengths.get(trial, (0, _NO_LIMIT))
        if right < text_length < wrong:
            if problem := self._run_trial(compare):
                if fallback and trial not in self._reasons:
                    name = type(self._model).__name__
                    progress.show_notice(f"{name}: {trial} failed a trial ({problem}); instead: {fallback}")
                self._reasons[trial] = problem
                wrong = text_length
            else:
                right = text_length
            self._lengths[trial] = right, wrong
        return text_length <= right

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
        yield self._run_one_pass(ids)[0], self._model(input_ids=ids).logits[0, -1]

    def _compare_logits_after_another_text(self) -> Pairs:
        """Compare the logits of one token before and after another text was read."""
        ids = self._draw_fixed_ids(TOKENS)
        first, _, second = (self._generate_two_tokens(text)[0] for text in (ids[:, :1], ids, ids[:, :1]))
        yield second, first

    def _compare_logits_of_steps(self, tokens: int, *, is_padded: bool = False, **options: object) -> Pairs:
        """Compare the logits of single steps of `generate` to the logits of one pass over the text.

        A padded text is compared in a batch with a longer text. The batch is also read in one pass.
        """
        texts = self._draw_fixed_ids(max(tokens, 2 * TOKENS))
        length = texts.shape[1]
        mask = torch.ones_like(texts)
        padding = 0
        if is_padded:
            padding = length - _STEPS - _PADDING
            token = find_padding_token(self._model)
            texts = texts.repeat(2, 1)
            texts[1, :padding] = token
            # Some models take this token for padding, although the mask says otherwise.
            texts[1, padding + 1] = token
            mask = mask.repeat(2, 1)
            mask[1, :padding] = 0
            yield (
                run_model(self._model, texts, mask).logits[1, -1],
                self._run_one_pass(texts[1:, padding:])[0],
            )

        def force_text_tokens(input_ids: Tensor, scores: Tensor) -> Tensor:
            following = texts[:, input_ids.shape[1] % length, None]
            return torch.full_like(scores, -torch.inf).scatter(1, following, 0)

        output = generate_with_transformers(
            self._model,
            texts[:, :-_STEPS],
            mask[:, :-_STEPS],
            force_text_tokens,
            stop_criteria=(),
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
            max_new_tokens=_STEPS + 1,
            **options,
        )
        expected = self._run_one_pass(texts[-1:, padding:], _STEPS + 1)
        yield from zip([logits[-1] for logits in output.logits], expected, strict=True)

    def _compare_candidate_passes(self, kind: type[TreePasses], tokens: int) -> Pairs:
        """Compare the results for one of two candidates at each step to the results of one pass."""
        ids = self._draw_fixed_ids(max(tokens, 2 * TOKENS) - _STEPS)
        candidates = self._draw_fixed_ids(2 * _STEPS).view(_STEPS, 1, 2)
        # The chosen candidates alternate, so that rows of a cache must change their places.
        choices = torch.arange(1, _STEPS + 1, device=ids.device).view(_STEPS, 1) % 2
        mask = torch.ones_like(ids)
        padding = _PADDING if self.can_pad_prompts(TOKENS) else 0
        mask[:, :padding] = 0
        ids[:, :padding] = find_padding_token(self._model)
        chosen = candidates.gather(2, choices[:, :, None])
        text = torch.cat([ids[:, padding:], chosen.view(1, _STEPS)], 1)
        every_logits, states = run_with_hidden_states(
            self._model, text, torch.ones_like(text), logits_to_keep=_STEPS + 1
        )
        logits = every_logits[0]
        hidden = states[0, -_STEPS:]
        passes = kind(self._model, ids, mask, _STEPS)
        yield passes.prefill()[0], logits[0]
        for step, choice in enumerate(choices):
            passes.compute_candidate_penalties(candidates[step])
            yield passes.hidden[0, choice[0]], hidden[step]
            yield passes.append_chosen_candidates(choice)[0], logits[step + 1]

    @property
    def _model(self) -> Model:
        return self._reference()

    def _draw_fixed_ids(self, count: int) -> Tensor:
        """Return token ids that are the same at every call, `[1, tokens]`."""
        vocabulary = self._model.config.get_text_config().vocab_size
        ids = torch.randint(vocabulary, (1, count), generator=torch.Generator().manual_seed(1))
        return ids.to(self._model.device)

    def _generate_two_tokens(self, ids: Tensor) -> tuple[Tensor, ...]:
        """Continue a text `[1, n]` with likely tokens, and return the logits of both steps, `[1, V]`."""
        output = generate_with_transformers(
            self._model,
            ids,
            torch.ones_like(ids),
            lambda _ids, scores: scores,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
            max_new_tokens=2,
        )
        return output.logits  # type: ignore[no-any-return]

    def _run_one_pass(self, ids: Tensor, keep: int = 1) -> Tensor:
        """Run a text `[1, n]` in one pass without a cache, and return the last logits, `[keep, V]`."""
        output = run_model(self._model, ids, torch.ones_like(ids), logits_to_keep=keep)
        return output.logits[0, -keep:]  # type: ignore[no-any-return]


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
