"""Write texts for prompts with the transformers engine, and tokens with the engine's decoding loop."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from guard_eval import progress
from guard_eval.generation import FinishedBatch
from guard_eval.generation.engines.batch import Batch, DecodedBatch, find_padding_token
from guard_eval.generation.engines.decode import Watch, Writer, decode_batch
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.generation.strategies import parse
from guard_eval.records import Continuation, Prompt
from guard_eval.study.system_settings import GenerationSettings


def write_planned(
    loaded: LoadedModel,
    texts: Sequence[tuple[Prompt, int]],
    strategy: str,
    *,
    batch_size: int = 8,
    seed: int = 0,
    amateur: LoadedModel | None = None,
    trace: bool = False,
    on_step: Watch | None = None,
    **settings: Any,
) -> Iterator[FinishedBatch]:
    """Write texts with settings of `[generation]`, and yield the finished batches."""
    writer = Writer(
        loaded=loaded,
        strategy=parse(strategy),
        settings=GenerationSettings(batch_size=batch_size, **settings),
        seed=seed,
        amateur=amateur,
        trace=trace,
        on_step=on_step,
    )
    yield from writer.generate_batches(texts)


def write(
    loaded: LoadedModel, prompts: Sequence[Prompt], strategy: str, **settings: Any
) -> Iterator[list[Continuation]]:
    """Yield the first text of each prompt in batches."""
    for batch in write_planned(loaded, [(prompt, 1) for prompt in prompts], strategy, **settings):
        yield batch.texts


def continue_rows(
    model: Any,
    prompts: Sequence[Sequence[int]],
    strategy: str,
    *,
    ends: Sequence[int] = (0,),
    limit: int = 20,
    keys: torch.Tensor | None = None,
    **options: Any,
) -> DecodedBatch:
    """Continue prompts of token ids. The default key of a prompt is its number."""
    keys = torch.arange(len(prompts), device=model.device) if keys is None else keys
    batch = Batch(prompts=prompts, keys=keys, ends=ends, limit=limit, padding=find_padding_token(model))
    return decode_batch(model, batch, parse(strategy), **options)


@contextmanager
def collect_notices() -> Iterator[list[str]]:
    """Collect the notices to the user within the block."""
    reporter = progress.Reporter()
    notices: list[str] = []
    reporter.show_notice = notices.append
    with progress.use_reporter(reporter):
        yield notices
