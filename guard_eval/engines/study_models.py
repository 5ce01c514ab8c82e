"""A study's models, loaded as its settings have them, and what they make of prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

from guard_eval import progress
from guard_eval.engines.batching import BatchSizes
from guard_eval.engines.generate import Batches, Work
from guard_eval.engines.generation import generate, warm_up
from guard_eval.engines.loading import LoadedModel, check_amateur, load
from guard_eval.records import Continuation, Prompt, Trace
from guard_eval.strategies import parse
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_traces


@contextmanager
def open_local(work: Work) -> Iterator[Batches]:
    """Load the study's models into this process."""
    progress.notice("loading the model")
    with work.find_models().offline():
        models = StudyModels(work.study)
        warm_up(models.loaded)
        amateur = models.amateur if work.amateur else None
    for model in filter(None, (models.loaded, amateur)):
        progress.notice(f"{model.name} ({model.revision}), {model.dtype} on {model.device}")
    work.find({"revision": models.loaded.revision, "dtype": models.loaded.dtype})

    def batches(name: str, texts: Sequence[tuple[Prompt, int]]) -> Iterator[list[Continuation]]:
        traces: list[Trace] = []
        for batch in models.generate(texts, name, on_trace=traces.extend if work.trace else None):
            if traces:  # on disk before their texts
                append_traces(work.study.continuations, batch[0].recipe, traces, work.shard)
                traces.clear()
            yield batch

    yield batches


class StudyModels:
    """The models of one process, and how many rows they make at once by each strategy, which they learn.

    Args:
        study: The study.
        device: Where the models lie, if not where the study says.
        neighbours: How many processes share the machine's memory.

    Raises:
        StudyError: See `loading.load` and, when contrastive decoding begins, `loading.check_amateur`.
    """

    def __init__(self, study: Study, *, device: str | None = None, neighbours: int = 1) -> None:
        model = study.settings.model
        self._study, self._neighbours = study, neighbours
        self._load = partial(load, dtype=model.dtype, device=device or model.device)
        self._sizes: dict[str, BatchSizes] = {}
        location, device_map = study.locate_model(model.name), None if device else model.device_map
        self.loaded = self._load(location, name=model.name, revision=model.revision, device_map=device_map)

    @cached_property
    def amateur(self) -> LoadedModel:
        """The second model of contrastive decoding, loaded when it is first asked for."""
        model = self._study.settings.model
        assert model.amateur is not None
        location = self._study.locate_model(model.amateur)
        amateur = self._load(location, name=model.amateur, revision=model.amateur_revision)
        check_amateur(self.loaded, amateur)
        return amateur

    def generate(
        self,
        texts: Sequence[tuple[Prompt, int]],
        strategy: str,
        *,
        on_trace: Callable[[list[Trace]], None] | None = None,
    ) -> Iterator[list[Continuation]]:
        """Return an iterator over batches of continuations of prompts and runs; see `generation.generate`."""
        generation, parsed = self._study.settings.generation, parse(strategy)
        sizes = BatchSizes.choose(
            generation.batch_size,
            self.loaded.model,
            tokens=generation.max_prompt_tokens + generation.max_new_tokens,
            copies=getattr(parsed, "beams", 1) * self._neighbours,
        )
        return generate(
            self.loaded,
            [prompt for prompt, _ in texts],
            parsed,
            runs=[run for _, run in texts],
            batch_size=self._sizes.setdefault(strategy, sizes),
            amateur=self.amateur if self._study.settings.amateur_of(strategy) else None,
            static=generation.compile,
            on_trace=on_trace,
            **recipe_settings(self._study),
        )


def recipe_settings(study: Study) -> dict[str, Any]:
    """Return what a study says of its recipes beside model and strategy."""
    names = ("max_new_tokens", "max_prompt_tokens", "chat", "stop")
    return {"seed": study.settings.seed} | {name: getattr(study.settings.generation, name) for name in names}
