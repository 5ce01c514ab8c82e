"""The engine that runs a study's models in this process, with transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

from guard_eval import progress
from guard_eval.generation import FinishedBatch, PlannedText
from guard_eval.generation.engines.decode import Writer
from guard_eval.generation.engines.loading import LoadedModel, check_shared_vocabulary, load_pretrained
from guard_eval.generation.engines.probe import check_model_can_run_strategy
from guard_eval.generation.plan import Engine, GenerationPlan
from guard_eval.generation.strategies import Greedy, parse
from guard_eval.study.folder import Study


@contextmanager
def open_local_engine(plan: GenerationPlan) -> Iterator[Engine]:
    """Load the study's model in this process."""
    progress.show_notice("loading the model")
    with plan.check_models_available().skip_unreachable_hub():
        models = StudyModels(plan.study, trace=plan.trace)
        # The first steps load code and allocate memory. Otherwise, the first batch would seem too slow.
        check_model_can_run_strategy(models.loaded.model, Greedy())
        progress.show_notice(str(models.loaded))
        yield Engine(models.loaded.revision_and_dtype, models.generate_batches)


class StudyModels:
    """A study's models in one process, with a writer for each strategy.

    Args:
        study: The study.
        device: The models' device. Default: the study's.
        trace: Whether batches also have the values that strategies adapt.
    """

    def __init__(self, study: Study, *, device: str | None = None, trace: bool = False) -> None:
        model = study.settings.model
        self._study = study
        self._trace = trace
        self._load = partial(load_pretrained, dtype=model.dtype, device=device or model.single_device)
        self._writers: dict[str, Writer] = {}
        self.loaded = self._load(
            study.locate_model(model.name),
            name=model.name,
            revision=model.revision,
            device_map=None if device else model.device_map,
        )

    @cached_property
    def amateur(self) -> LoadedModel:
        """The second model of contrastive decoding. It is loaded at the first use."""
        model = self._study.settings.model
        name = model.amateur or ""
        amateur = self._load(self._study.locate_model(name), name=name, revision=model.amateur_revision)
        check_shared_vocabulary(self.loaded, amateur)
        progress.show_notice(str(amateur))
        return amateur

    def generate_batches(self, strategy: str, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        """Yield finished batches of planned texts; see `Writer.generate_batches`."""
        settings = self._study.settings
        if strategy not in self._writers:
            self._writers[strategy] = Writer(
                loaded=self.loaded,
                strategy=parse(strategy),
                settings=settings.generation,
                seed=settings.seed,
                amateur=self.amateur if settings.find_amateur(strategy) else None,
                trace=self._trace,
            )
        yield from self._writers[strategy].generate_batches(texts)
