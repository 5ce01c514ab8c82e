"""Texts of prompts as the engine of transformers writes them, batch by batch."""

from collections.abc import Iterator, Sequence
from typing import Any

from guard_eval.generation.engines.batch import BatchSizes
from guard_eval.generation.engines.decode import Watch
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.generation.engines.local import write_batches
from guard_eval.generation.plan import FinishedBatch
from guard_eval.generation.strategies import Strategy
from guard_eval.records import Continuation, Prompt
from guard_eval.study.settings import GenerationSettings


def write_planned(
    loaded: LoadedModel,
    texts: Sequence[tuple[Prompt, int]],
    strategy: Strategy,
    *,
    batch_size: int = 8,
    seed: int = 0,
    amateur: LoadedModel | None = None,
    static: bool = False,
    trace: bool = False,
    on_step: Watch | None = None,
    **settings: Any,
) -> Iterator[FinishedBatch]:
    """Yield the finished batches of texts by the settings of `[generation]`."""
    recipe = loaded.recipe(strategy, GenerationSettings(**settings), seed, amateur=amateur)
    sizes = BatchSizes(batch_size)
    options = {"amateur": amateur, "static": static, "trace": trace, "on_step": on_step}
    yield from write_batches(loaded, texts, strategy, recipe, sizes, **options)


def write(
    loaded: LoadedModel, prompts: Sequence[Prompt], strategy: Strategy, **settings: Any
) -> Iterator[list[Continuation]]:
    """Yield the first text of each prompt in batches."""
    for batch in write_planned(loaded, [(prompt, 1) for prompt in prompts], strategy, **settings):
        yield batch.texts
