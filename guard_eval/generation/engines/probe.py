"""Find out the abilities of a model by trials on a few tokens, not by names in its settings.

A trial compares logits with those of the same text alone or in one pass. It runs when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, ref

import torch
import transformers
from pydantic import BaseModel
from torch import Tensor
from torch.nn.functional import pad

from guard_eval import progress
from guard_eval.errors import StudyError, first_line
from guard_eval.files.opening import read_bytes
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import run_generate
from guard_eval.generation.engines.passes import PlainPasses, RepeatedPasses, TreePasses, forward
from guard_eval.generation.strategies import (
    AdaptiveContrastiveSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Strategy,
)
from guard_eval.reporting.writing import write_whole

TOKENS = 8
"""The length of a trial's texts, in tokens."""
_PADDING = 3
_STEPS = 2
_FIRST = 1
_SECOND = 2
_UNLIKELY = -1e4
_LARGEST_FILE = 1 << 16
_NO_LIMIT = 1 << 62
_PASSES: dict[type[TreePasses], str] = {
    TreePasses: "one cache for all candidates of a text",
    RepeatedPasses: "a cache for each candidate",
    PlainPasses: "no cache",
}
Pairs = Iterator[tuple[Tensor, Tensor]]
"""Pairs of a trial's numbers and the right numbers."""


class TrialResults(BaseModel):
    """The results of trials with one model.

    Attributes:
        made_with: The model's class, and the versions of the libraries.
        reasons: The reason of failure of each trial, or "" if it succeeded.
        lengths: For each kind of passes, the longest length that succeeded and the shortest that failed.
    """

    made_with: tuple[str, str]
    reasons: dict[str, str] = {}
    lengths: dict[str, tuple[int, int]] = {}


class Abilities:
    """The abilities of one model, which are tried when they are first needed.

    Attributes:
        results: The results of the trials.
    """

    _of_models: ClassVar[WeakKeyDictionary[Model, Abilities]] = WeakKeyDictionary()

    def __init__(self, model: Model) -> None:
        self._reference = ref(model)
        self._name = type(model).__name__
        self._told: set[str] = set()
        self.results = TrialResults(made_with=(self._name, ""))

    @classmethod
    def of(cls, model: Model) -> Abilities:
        """Return the abilities of a model. Results of earlier trials are kept."""
        return cls._of_models.setdefault(model, cls(model))

    @property
    def writes(self) -> bool:
        """Whether the model can continue a text."""
        return self._passes_trial("one text", lambda: ((logits, logits) for logits in self._alone))

    @property
    def pads(self) -> bool:
        """Whether a padded row gives the same logits as its text alone."""
        return self._passes_trial("padded rows", self._compare_padding, "single rows")

    @property
    def reorders(self) -> bool:
        """Whether beam search gives the same logits with a cache."""
        return self._passes_trial("beams with a cache", self._compare_beams, "beams without a cache")

    def choose_passes(self, tokens: int) -> type[TreePasses]:
        """Return the fastest kind of passes that gives the right numbers for texts of up to `tokens` tokens.

        Raises:
            StudyError: No kind of passes does.
        """
        for kind, what in _PASSES.items():
            right, wrong = self.results.lengths.get(what, (0, _NO_LIMIT))
            if right < tokens < wrong:
                self.results.reasons.pop(what, None)
                if self._passes_trial(what, partial(self._compare_passes, kind, tokens), "another way"):
                    right = tokens
                else:
                    wrong = tokens
                self.results.lengths[what] = right, wrong
            if tokens <= right:
                return kind
        raise StudyError(
            f"this {self._name} does not give the hidden states of candidates; tried {self.failed_trials}. "
            "Leave the strategy out, or name another model"
        )

    def save(self, path: Path) -> None:
        """Store the results in a file."""
        write_whole(path, self.results.model_dump_json(indent=2).encode())

    def load(self, path: Path, versions: str) -> None:
        """Read the results from a file, if they are for this model class and these versions of libraries."""
        self.results.made_with = self._name, versions
        with suppress(OSError, ValueError):
            results = TrialResults.model_validate_json(read_bytes(path, limit=_LARGEST_FILE))
            if results.made_with == self.results.made_with:
                self.results = results

    @property
    def failed_trials(self) -> str:
        """The failed trials, with their reasons."""
        return "; ".join(f"{what} ({reason})" for what, reason in self.results.reasons.items() if reason)

    def _passes_trial(self, what: str, compare: Callable[[], Pairs], remedy: str = "") -> bool:
        """Return whether a trial succeeds. If it fails, tell the user once what is used instead."""
        reasons = self.results.reasons
        if what not in reasons:
            reasons[what] = self._run_trial(compare)
        if reasons[what] and remedy and what not in self._told:
            progress.notice(f"{self._name}: {what} fail ({reasons[what]}); {remedy} instead")
            self._told.add(what)
        return not reasons[what]

    def _run_trial(self, compare: Callable[[], Pairs]) -> str:
        """Compare a trial's numbers with the right ones, up to rounding. Return why it fails, or ""."""
        tolerance = torch.finfo(self._model.dtype).eps ** 0.5
        try:
            with torch.inference_mode():
                distance = max(_relative_distance(actual, expected) for actual, expected in compare())
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (another library's model may raise anything)
            return first_line(error)
        # NaN does not count as a failure, because it is reported later with its prompt.
        return f"logits differ by {distance:.2g}" if distance > tolerance else ""

    @cached_property
    def _alone(self) -> tuple[Tensor, ...]:
        """The logits of a short text in a batch by itself, at each step."""
        return self._generate(self._draw_ids(TOKENS)[:, _PADDING:], _force_one, _STEPS)

    def _compare_padding(self) -> Pairs:
        """Compare the shorter of two rows with the same text alone."""
        long = self._draw_ids(TOKENS)
        padded = torch.cat([long, pad(long[:, _PADDING:], (_PADDING, 0))])
        mask = torch.ones_like(padded)
        mask[1, :_PADDING] = 0
        together = self._generate(padded, _force_one, _STEPS, mask)
        for actual, expected in zip(together, self._alone, strict=True):
            yield actual[1], expected[0]

    def _compare_beams(self) -> Pairs:
        """Compare the logits of two beams after an exchange of their rows with those of their texts."""
        ids = self._draw_ids(TOKENS)
        beams = self._generate(ids, _force_exchange, 3, num_beams=2)
        ends = torch.tensor([[_SECOND, _FIRST], [_SECOND, _SECOND]], device=ids.device)
        texts = torch.cat([ids.repeat(2, 1), ends], 1)
        yield beams[2], self._generate(texts, _force_one, 1, use_cache=False)[0]

    def _compare_passes(self, kind: type[TreePasses], tokens: int) -> Pairs:
        """Compare the second of two candidates, at two steps, with one pass over the text."""
        length = max(tokens, TOKENS) - _STEPS
        # Tokens are repeated, because this shows best whether a layer sees only the last tokens.
        ids = self._draw_ids(TOKENS).repeat_interleave(-(-length // TOKENS), 1)[:, :length]
        candidates = self._draw_ids(2 * _STEPS).view(_STEPS, 1, 2)
        mask = torch.ones_like(ids)
        padding = _PADDING if self.pads else 0
        mask[:, :padding] = 0
        text = torch.cat([ids[:, padding:], candidates[:, :, 1].T], 1)
        output = forward(self._model, text, torch.ones_like(text), keep=_STEPS + 1, output_hidden_states=True)
        logits = output.logits[0, -_STEPS - 1 :]
        hidden = output.hidden_states[-1][0, -_STEPS:]
        passes = kind(self._model, ids, mask, _STEPS)
        yield passes.prefill()[0], logits[0]
        for step in range(_STEPS):
            passes.try_candidates(candidates[step])
            yield passes.hidden[0, 1], hidden[step]
            yield passes.take(torch.ones_like(ids[:, 0]))[0], logits[step + 1]

    @property
    def _model(self) -> Model:
        return self._reference()

    def _draw_ids(self, tokens: int) -> Tensor:
        """Return the same token ids at every call, `[1, tokens]`."""
        size = self._model.config.get_text_config().vocab_size
        ids = torch.randint(size, (1, tokens), generator=torch.Generator().manual_seed(1))
        return ids.to(self._model.device)

    def _generate(
        self,
        ids: Tensor,
        force: Callable[[Tensor, Tensor], Tensor],
        steps: int,
        mask: Tensor | None = None,
        **options: Any,  # noqa: ANN401
    ) -> tuple[Tensor, ...]:
        """Return the model's logits at each step, `[B, V]`, while the tokens are forced."""
        output = run_generate(
            self._model,
            ids,
            torch.ones_like(ids) if mask is None else mask,
            force,
            pad_token_id=0,
            output_logits=True,
            return_dict_in_generate=True,
            max_new_tokens=steps,
            **options,
        )
        return output.logits  # type: ignore[no-any-return]


def _force_one(_input_ids: Tensor, scores: Tensor) -> Tensor:
    """Return scores in which one token is likely in all rows."""
    forced = torch.full_like(scores, _UNLIKELY)
    forced[:, _FIRST] = 0
    return forced


def _force_exchange(input_ids: Tensor, scores: Tensor) -> Tensor:
    """Make two tokens likely, and more likely after the second one. Both beams then continue it."""
    forced = _force_one(input_ids, scores)
    forced[:, _FIRST] = torch.where(input_ids[:, -1] == _SECOND, 0, -10)
    forced[:, _SECOND] = forced[:, _FIRST] - 1
    return forced


def _relative_distance(actual: Tensor, expected: Tensor) -> float:
    """Return the distance between numbers and the expected ones, as a share of the spread of the latter."""
    expected = expected.float()
    spread = (expected - expected.mean(-1, keepdim=True)).norm()
    return float((actual.float() - expected).norm() / spread)


def check_abilities(model: Model, strategy: Strategy, amateur: Model = None) -> None:
    """Check that a model, and the amateur of contrastive decoding, can run a strategy.

    Raises:
        StudyError: They cannot. The message names the failed trials.
    """
    for tested in filter(None, (model, amateur)):
        abilities = Abilities.of(tested)
        if not abilities.writes:
            raise StudyError(
                f"this {type(tested).__name__} continues no text: {abilities.failed_trials}, with "
                f"transformers {transformers.__version__}; name another model"
            )
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        Abilities.of(model).choose_passes(TOKENS)
    if isinstance(strategy, ContrastiveDecoding) and amateur is not None:
        Abilities.of(amateur).choose_passes(TOKENS)
