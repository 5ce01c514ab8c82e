"""A study's models, loaded as its settings have them, and what they make of prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from guard_eval.engines.batching import BatchSizes
from guard_eval.engines.generation import generate
from guard_eval.engines.loading import LoadedModel, check_amateur, load
from guard_eval.records import Continuation, Prompt, Trace
from guard_eval.strategies import parse
from guard_eval.study.folder import Study


class StudyModels:
    """The models of one process, and how many rows they make at once, which they learn."""

    def __init__(
        self,
        study: Study,
        strategies: Sequence[str],
        *,
        device: str | None = None,
        neighbours: int = 1,
    ) -> None:
        """Load what the study's `strategies` need.

        Args:
            study: The study.
            strategies: Those at work, by signature.
            device: Where they lie, if not where the study says.
            neighbours: How many processes share the machine's memory.

        Raises:
            StudyError: See `loading.load` and `loading.check_amateur`.
        """
        model = study.settings.model
        self._study, self._neighbours = study, neighbours
        self._device = device or model.device
        self.amateur: LoadedModel | None = None
        self.loaded = load(
            study.locate_model(model.name),
            name=model.name,
            revision=model.revision,
            dtype=model.dtype,
            device=self._device,
            device_map=None if device else model.device_map,
        )
        self.prepare(strategies)

    def prepare(self, strategies: Sequence[str]) -> None:
        """Get ready for `strategies`: the amateur is loaded if one of them needs it."""
        settings = self._study.settings
        name = next(filter(None, map(settings.amateur_of, strategies)), None)
        if self.amateur is None and name is not None:
            self.amateur = load(
                self._study.locate_model(name),
                name=name,
                revision=settings.model.amateur_revision,
                dtype=settings.model.dtype,
                device=self._device,
            )
            check_amateur(self.loaded, self.amateur)
        self._batch_sizes = self._sizes(strategies)

    def _sizes(self, strategies: Sequence[str]) -> BatchSizes:
        generation = self._study.settings.generation
        if generation.batch_size != "auto":
            return BatchSizes.capped(generation.batch_size)
        copies = max((int(getattr(parse(name), "beams", 1)) for name in strategies), default=1)
        tokens = generation.max_prompt_tokens + generation.max_new_tokens
        return BatchSizes.auto(self.loaded.model, tokens=tokens, copies=copies * self._neighbours)

    def generate(
        self,
        texts: Sequence[tuple[Prompt, int]],
        strategy: str,
        *,
        on_trace: Callable[[list[Trace]], None] | None = None,
    ) -> Iterator[list[Continuation]]:
        """Return an iterator over batches of continuations of prompts and runs; see `generation.generate`."""
        settings = self._study.settings
        return generate(
            self.loaded,
            [prompt for prompt, _ in texts],
            parse(strategy),
            runs=[run for _, run in texts],
            stop=settings.generation.stop,
            seed=settings.seed,
            max_new_tokens=settings.generation.max_new_tokens,
            max_prompt_tokens=settings.generation.max_prompt_tokens,
            batch_size=self._batch_sizes,
            amateur=self.amateur,
            chat=settings.generation.chat,
            static=settings.generation.compile,
            on_trace=on_trace,
        )
