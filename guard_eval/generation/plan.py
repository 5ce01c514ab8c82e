"""The texts that a study asks for, those that are missing, and what an engine hands back. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import Trace
from guard_eval.texts.current import Known, Texts, find_generated, other_runs
from guard_eval.texts.models import HubModels, find_models
from guard_eval.texts.shards import WHOLE, Shard

PlannedText = tuple[Prompt, int]
"""A prompt, and which of its texts is to be written: 1, 2, …."""


class FinishedBatch(NamedTuple):
    """Texts that were written together by one recipe.

    Attributes:
        texts: The texts, at least one.
        traces: How the strategy adapted to each of them, if that was asked for and it adapts.
    """

    texts: list[Continuation]
    traces: list[Trace]


class Engine(NamedTuple):
    """What writes texts.

    Attributes:
        known: `revision` and `dtype` of its model.
        write: Yields finished batches of the planned texts of a strategy. It raises a `StudyError` when the
            strategy cannot write the rest; another strategy may still be able to.
    """

    known: Known
    write: Callable[[str, Sequence[PlannedText]], Iterator[FinishedBatch]]


@dataclass(frozen=True, kw_only=True)
class GenerationPlan:
    """The texts that a study asks for.

    Attributes:
        study: The study.
        prompts: The prompts to continue, by the strategy's signature.
        shard: The part of the study that `prompts` are.
        known: `revision` and `dtype` of the model; None where they are not known.
        engine: The `Recipe.engine` of new texts.
        workers: The number of models at work at once with Ray, if the user sets it.
        trace: Whether traces are asked for.
    """

    study: Study
    prompts: Mapping[str, Sequence[Prompt]]
    shard: Shard = WHOLE
    known: Known = field(default_factory=dict)
    engine: str | None = None
    workers: int | None = None
    trace: bool = False

    @cached_property
    def existing(self) -> Mapping[str, Texts]:
        """The texts that exist, by strategy."""
        return find_generated(self.study, self.prompts, known=self.known, engine=self.engine)

    @cached_property
    def missing(self) -> dict[str, list[PlannedText]]:
        """The texts that are missing, by strategy, without strategies that have all of theirs."""
        texts = {}
        for name, existing in self.existing.items():
            runs = range(1, self.study.settings.runs_of(name) + 1)
            planned = [(p, run) for p in self.prompts[name] for run in runs if (p.id, run) not in existing]
            if planned:
                texts[name] = planned
        return texts

    @property
    def total(self) -> int:
        """The number of missing texts."""
        return sum(map(len, self.missing.values()))

    def describe(self, written: Mapping[str, int]) -> list[str]:
        """Say how many texts of each strategy exist, `written` ones included, and which runs do not count."""
        settings = self.study.settings
        part = "" if self.shard.count == 1 else f" of shard {self.shard.number}/{self.shard.count}"
        lines = []
        for name, texts in self.existing.items():
            count = len(texts) + written.get(name, 0)
            wanted = len(self.prompts[name]) * settings.runs_of(name)
            lines.append(f"{name}: {count} of {wanted} continuations{part} exist")
            if settings.runs_of(name) < settings.generation.runs:
                lines.append("  one text a prompt: it draws nothing, so another run would write the same")
            if self.known["revision"] is None and texts:
                lines.append(f"  not compared with {settings.model.name}, which is not on this machine")
        others = other_runs(self.study, self.known) if self.missing else []
        return lines + [f"another run is kept and not used: {other}" for other in others]

    def find_models(self) -> HubModels:
        """Find the models on this machine or the Hub, before one is loaded.

        Raises:
            StudyError: One is missing and cannot be downloaded; all of them are named.
        """
        study, model = self.study, self.study.settings.model
        models = {model.name: (study.locate_model(model.name), model.revision)}
        for amateur in filter(None, map(study.settings.amateur_of, self.prompts)):
            models[amateur] = (study.locate_model(amateur), model.amateur_revision)
        matches = find_models(models)
        if matches.problem:
            raise StudyError(matches.problem)
        return matches


def recipe_settings(study: Study) -> dict[str, Any]:
    """Return what a study says of its recipes beside model and strategy."""
    generation = study.settings.generation
    return {
        "seed": study.settings.seed,
        "max_new_tokens": generation.max_new_tokens,
        "max_prompt_tokens": generation.max_prompt_tokens,
        "chat": generation.chat,
        "chat_template": generation.template_settings,
        "stop": tuple(generation.stop),
    }
