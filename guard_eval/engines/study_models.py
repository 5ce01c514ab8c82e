"""A study's models, loaded as its settings have them, and what they make of prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from guard_eval.engines.batching import BatchSizes
from guard_eval.engines.generation import generate
from guard_eval.engines.loading import LoadedModel, check_amateur, load
from guard_eval.records import Continuation, Prompt, Trace
from guard_eval.strategies import parse
from guard_eval.study.folder import Study


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
        self._study, self._neighbours, self._device = study, neighbours, device or model.device
        self._sizes: dict[str, BatchSizes] = {}
        self.loaded = load(
            study.locate_model(model.name),
            name=model.name,
            revision=model.revision,
            dtype=model.dtype,
            device=self._device,
            device_map=None if device else model.device_map,
        )

    @cached_property
    def amateur(self) -> LoadedModel:
        """The second model of contrastive decoding, loaded when it is first asked for."""
        model = self._study.settings.model
        assert model.amateur is not None
        amateur = load(
            self._study.locate_model(model.amateur),
            name=model.amateur,
            revision=model.amateur_revision,
            dtype=model.dtype,
            device=self._device,
        )
        check_amateur(self.loaded, amateur)
        return amateur

    def _new_sizes(self, strategy: str) -> BatchSizes:
        generation = self._study.settings.generation
        if generation.batch_size != "auto":
            return BatchSizes(first=generation.batch_size, most=generation.batch_size)
        copies = getattr(parse(strategy), "beams", 1) * self._neighbours
        tokens = generation.max_prompt_tokens + generation.max_new_tokens
        return BatchSizes.auto(self.loaded.model, tokens=tokens, copies=copies)

    def generate(
        self,
        texts: Sequence[tuple[Prompt, int]],
        strategy: str,
        *,
        on_trace: Callable[[list[Trace]], None] | None = None,
    ) -> Iterator[list[Continuation]]:
        """Return an iterator over batches of continuations of prompts and runs; see `generation.generate`."""
        settings = self._study.settings
        if strategy not in self._sizes:
            self._sizes[strategy] = self._new_sizes(strategy)
        return generate(
            self.loaded,
            [prompt for prompt, _ in texts],
            parse(strategy),
            runs=[run for _, run in texts],
            batch_size=self._sizes[strategy],
            amateur=self.amateur if settings.amateur_of(strategy) else None,
            static=settings.generation.compile,
            on_trace=on_trace,
            **recipe_settings(self._study),
        )


def recipe_settings(study: Study) -> dict[str, Any]:
    """Return what a study says of its recipes beside model and strategy."""
    names = ("max_new_tokens", "max_prompt_tokens", "chat", "stop")
    return {"seed": study.settings.seed} | {name: getattr(study.settings.generation, name) for name in names}
