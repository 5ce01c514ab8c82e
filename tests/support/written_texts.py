"""Texts of prompts as the engine of transformers writes them, batch by batch."""

from collections.abc import Iterator, Sequence
from typing import Any

from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.generation.engines.local import write_batches
from guard_eval.generation.strategies import Strategy
from guard_eval.records import Continuation, Prompt


def write(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    strategy: Strategy,
    *,
    batch_size: int = 8,
    **settings: Any,
) -> Iterator[list[Continuation]]:
    """Yield the first text of each prompt in batches."""
    if "stop" in settings:
        settings["stop"] = tuple(settings["stop"])
    texts = [(prompt, 1) for prompt in prompts]
    for batch in write_batches(loaded, texts, strategy, batch_size=batch_size, **settings):
        yield batch.texts
