"""A study's models, loaded as its settings have them, and what they make of prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from guard_eval.engines.loading import LoadedModel, check_amateur, load
from guard_eval.engines.local.batching import BatchSizes
from guard_eval.engines.local.generation import generate
from guard_eval.records import Continuation, Prompt, Trace
from guard_eval.strategies import parse
from guard_eval.study.folder import Study


@dataclass(frozen=True, kw_only=True)
class StudyModels:
    """The models of one process.

    Attributes:
        study: The study.
        locate: Where a model is to be loaded from, by its name.
        device: Where they lie.
        neighbours: How many processes share the machine's memory.
        loaded: The study's model.
        amateur: Contrastive decoding's second model, where a strategy at work needs it.
        sizes: How many rows to make at once; it learns.
    """

    study: Study
    locate: Callable[[str], str]
    device: str
    neighbours: int
    loaded: LoadedModel
    amateur: LoadedModel | None
    sizes: BatchSizes

    @classmethod
    def load(
        cls,
        study: Study,
        strategies: Sequence[str],
        *,
        locate: Callable[[str], str] | None = None,
        device: str | None = None,
        neighbours: int = 1,
    ) -> StudyModels:
        """Load what the study's `strategies` need; where they lie is the study's to say, if left out.

        Raises:
            StudyError: See `loading.load` and `loading.check_amateur`.
        """
        model, locate = study.settings.model, locate or study.locate_model
        loaded = load(
            locate(model.name),
            name=model.name,
            revision=model.revision,
            dtype=model.dtype,
            device=device or model.device,
            device_map=None if device else model.device_map,
        )
        return cls(
            study=study,
            locate=locate,
            device=device or model.device,
            neighbours=neighbours,
            loaded=loaded,
            amateur=None,
            sizes=BatchSizes(),
        ).prepared(strategies)

    def prepared(self, strategies: Sequence[str]) -> StudyModels:
        """Return the same models, ready for `strategies`: the amateur is loaded if one of them needs it."""
        settings, amateur = self.study.settings, self.amateur
        name = next(filter(None, map(settings.amateur_of, strategies)), None)
        if amateur is None and name is not None:
            amateur = load(
                self.locate(name),
                name=name,
                revision=settings.model.amateur_revision,
                dtype=settings.model.dtype,
                device=self.device,
            )
            check_amateur(self.loaded, amateur)
        return replace(self, amateur=amateur, sizes=self._sizes(strategies))

    def _sizes(self, strategies: Sequence[str]) -> BatchSizes:
        generation = self.study.settings.generation
        if generation.batch_size != "auto":
            return BatchSizes.capped(generation.batch_size)
        copies = max((int(getattr(parse(name), "beams", 1)) for name in strategies), default=1)
        tokens = generation.max_prompt_tokens + generation.max_new_tokens
        return BatchSizes.auto(self.loaded.model, tokens=tokens, copies=copies * self.neighbours)

    def generate(
        self,
        prompts: Sequence[Prompt],
        strategy: str,
        *,
        on_trace: Callable[[list[Trace]], None] | None = None,
    ) -> Iterator[list[Continuation]]:
        """Return an iterator over batches of continuations; see `generation.generate`."""
        settings = self.study.settings
        return generate(
            self.loaded,
            prompts,
            parse(strategy),
            seed=settings.seed,
            max_new_tokens=settings.generation.max_new_tokens,
            max_prompt_tokens=settings.generation.max_prompt_tokens,
            batch_size=self.sizes,
            amateur=self.amateur,
            chat=settings.generation.chat,
            compiled=settings.generation.compile,
            on_trace=on_trace,
        )
