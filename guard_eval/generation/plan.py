"""Plan the texts of a study's local models: find existing and missing texts. Torch is not imported."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from guard_eval.errors import StudyError
from guard_eval.generation import FinishedBatch, PlannedText
from guard_eval.generation.strategies import LogitStrategy, parse
from guard_eval.records import Prompt, record
from guard_eval.results import Result
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import WHOLE, Shard
from guard_eval.texts.current import Known, Texts, describe_mismatched_runs, find_generated_texts
from guard_eval.texts.models import HubModels, find_local_and_hub_models

Problems = dict[str, list[str]]
"""For each reason, the names of the systems that could not write all their texts."""


@record
class GenerationResult(Result):
    """The numbers of existing, newly written and missing texts.

    Attributes:
        existing: The number of texts that exist now, by system. With `--shard`, only the shard's texts count.
        written: The number of texts that this run wrote, by system.
        missing: The number of texts that are still missing.
    """

    existing: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0


class Engine(NamedTuple):
    """An engine that has loaded a model and can write texts.

    Attributes:
        facts: The `revision` and `dtype` of the model.
        generate_batches: A function that yields finished batches of a strategy's planned texts. The
            function raises a `StudyError` if the strategy cannot write more texts. Other strategies may still
            work.
    """

    facts: Known
    generate_batches: Callable[[str, Sequence[PlannedText]], Iterator[FinishedBatch]]


def list_missing_texts(
    study: Study, system: str, prompts: Sequence[Prompt], existing_texts: Container[tuple[str, int]]
) -> list[PlannedText]:
    """List the missing texts of a system or strategy, in the order of the prompts."""
    runs = range(1, study.settings.count_texts_per_prompt(system) + 1)
    return [(prompt, run) for prompt in prompts for run in runs if (prompt.id, run) not in existing_texts]


@dataclass(frozen=True, kw_only=True)
class GenerationPlan:
    """The plan of the texts that one model writes for a study.

    Attributes:
        study: The study.
        systems: The name of each system, by the signature of its strategy.
        prompts: The prompts to continue.
        shard: The number of this part of the study's prompts, and the number of parts.
        facts: The `revision` and `dtype` of the model. An unknown fact is None.
        engine: The engine's name in the recipe of new texts.
        trace: Whether to save the values that strategies adapt.
    """

    study: Study
    systems: Mapping[str, str]
    prompts: Sequence[Prompt]
    shard: Shard = WHOLE
    facts: Known = field(default_factory=dict)
    engine: str | None = None
    trace: bool = False

    @cached_property
    def existing_texts(self) -> Mapping[str, Texts]:
        """The texts that are already written, by strategy."""
        return find_generated_texts(
            self.study, [*self.systems], self.prompts, model_facts=self.facts, engine=self.engine
        )

    @cached_property
    def missing_texts(self) -> dict[str, list[PlannedText]]:
        """The texts that are not written yet and that the engine can write, by strategy."""
        refused = self.refused_strategies
        return {name: texts for name, texts in self._unwritten_texts.items() if name not in refused}

    @cached_property
    def _unwritten_texts(self) -> dict[str, list[PlannedText]]:
        texts = {
            name: list_missing_texts(self.study, name, self.prompts, existing)
            for name, existing in self.existing_texts.items()
        }
        return {name: planned for name, planned in texts.items() if planned}

    @property
    def missing_count(self) -> int:
        """The number of missing texts."""
        return sum(map(len, self.missing_texts.values()))

    @property
    def refused_strategies(self) -> list[str]:
        """The strategies with missing texts that vLLM cannot run. Transformers can run every strategy."""
        on_vllm = self.engine is not None
        return [
            name for name in self._unwritten_texts if on_vllm and not isinstance(parse(name), LogitStrategy)
        ]

    def describe_refused_strategies(self) -> str:
        """Explain which strategies vLLM cannot run, and the remedy. Return "" if vLLM can run all."""
        if not self.refused_strategies:
            return ""
        options = [text for name in self.refused_strategies for text in ("--strategy", name)]
        return (
            f"vLLM cannot run {'; '.join(self.refused_strategies)}, because it gives plug-ins only logits. "
            f"Write these texts with: {self.study.format_command('generate', *options)}"
        )

    def check_models_available(self) -> HubModels:
        """Check that all models of the study are on this machine or on the Hub. Load no model.

        Raises:
            StudyError: Models are missing and cannot be downloaded. The message names all missing models.
        """
        study = self.study
        model = study.settings.model
        models = {model.name: (study.locate_model(model.name), model.revision)}
        for amateur in filter(None, map(study.settings.find_amateur, self.systems)):
            models[amateur] = (study.locate_model(amateur), model.amateur_revision)
        matches = find_local_and_hub_models(models)
        if matches.problem:
            raise StudyError(matches.problem)
        return matches

    def make_result(self, written: Counter[str], lines: Sequence[str] = ()) -> GenerationResult:
        """Return the counts of texts. `written` counts new texts by strategy. `lines` are printed, too."""
        existing = {name: len(texts) + written[name] for name, texts in self.existing_texts.items()}
        return GenerationResult(
            existing={self.systems[name]: count for name, count in existing.items()},
            written={self.systems[name]: count for name, count in written.items()},
            missing=self.missing_count - written.total(),
            lines=(*self._describe_existing_texts(existing), *lines),
        )

    def _describe_existing_texts(self, existing: Mapping[str, int]) -> Iterator[str]:
        """Yield a line about each system's existing texts, and a line about each run with other settings."""
        settings = self.study.settings
        of_shard = "" if self.shard.count == 1 else f" of shard {self.shard.number}/{self.shard.count}"
        for name, count in existing.items():
            runs = settings.count_texts_per_prompt(name)
            yield f"{self.systems[name]}: {count} of {runs * len(self.prompts)} continuations{of_shard} exist"
            if runs < settings.generation.runs:
                yield "  one text per prompt: the strategy draws nothing, so another text would be the same"
            if self.facts["revision"] is None and self.existing_texts[name]:
                yield f"  not compared with {settings.model.name}, which is not on this machine"
        others = describe_mismatched_runs(self.study, self.facts) if self.missing_texts else []
        yield from (f"another run's texts are kept but not used: {other}" for other in others)
