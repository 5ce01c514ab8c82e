"""The engine that runs a study's models in this process, with transformers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

from guard_eval import progress
from guard_eval.generation import FinishedBatch, PlannedText
from guard_eval.generation.engines.decode import Writer
from guard_eval.generation.engines.loading import LoadedModel, check_shared_vocabulary, load_pretrained
from guard_eval.generation.engines.probe import check_model_can_run_strategy
from guard_eval.generation.plan import Engine, GenerationPlan
from guard_eval.generation.strategies import Greedy, parse


@contextmanager
def open_local_engine(plan: GenerationPlan) -> Iterator[Engine]:
    """Load the study's model. The amateur of contrastive decoding is loaded when it is first needed."""
    study = plan.study
    settings = study.settings
    model = settings.model
    load = partial(load_pretrained, dtype=model.dtype, device=model.single_device)

    @cache
    def load_amateur(name: str) -> LoadedModel:
        amateur = load(study.locate_model(name), name=name, revision=model.amateur_revision)
        check_shared_vocabulary(loaded, amateur)
        progress.show_notice(str(amateur))
        return amateur

    def generate_batches(strategy: str, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        amateur = settings.find_amateur(strategy)
        writer = Writer(
            loaded=loaded,
            strategy=parse(strategy),
            settings=settings.generation,
            seed=settings.seed,
            amateur=load_amateur(amateur) if amateur else None,
            trace=plan.trace,
        )
        yield from writer.generate_batches(texts)

    progress.show_notice("loading the model")
    with plan.check_models_available().skip_unreachable_hub():
        loaded = load(
            study.locate_model(model.name),
            name=model.name,
            revision=model.revision,
            device_map=model.device_map,
        )
        # The first steps load code and allocate memory. Otherwise, the first batch would seem too slow.
        check_model_can_run_strategy(loaded.model, Greedy())
        progress.show_notice(str(loaded))
        yield Engine(loaded.revision_and_dtype, generate_batches)
