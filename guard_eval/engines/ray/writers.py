"""Continuations by Ray's workers: prompts out in chunks of about equal length, texts back as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from guard_eval.engines.ray.cluster import Pool, use_threads
from guard_eval.engines.ray.workers import spread
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import own
from guard_eval.study.folder import BUNDLED, Study

Pending = tuple[Prompt, Sequence[tuple[str, int]]]
"""A prompt, and the strategies and runs that are missing of it."""

_WINDOW = 64
"""Chunks among which prompts are sorted by length, so that those of a chunk are about equally long."""


class Job:
    """What every worker is given. A model's folder must lie at the same place on every machine."""

    def __init__(
        self,
        study: Study,
        strategies: Sequence[str],
        pool: Pool,
        made_by: Mapping[str, str | None] | None = None,
    ) -> None:
        """Say what is to be made.

        Args:
            study: For its settings; a worker need not see its folder.
            strategies: Those at work, by signature.
            pool: The workers.
            made_by: What texts must be made with: of `revision`, `dtype` and `amateur_revision` the known.
        """
        self.study, self.strategies, self.pool = study, tuple(strategies), pool
        self.made_by = dict(made_by or {})
        self._own = own.texts()  # a worker's machine need not have these files
        names = {study.settings.model.name, *filter(None, map(study.settings.amateur_of, strategies))}
        # Each machine has the bundled model in its own copy of the package.
        self._places = {name: BUNDLED if name == BUNDLED else study.locate_model(name) for name in names}

    @property
    def rows(self) -> int:
        """Return how many prompts a worker is given at once: what is lost and made again when it dies."""
        least = 256 if self.pool.gpu else 32
        size = self.study.settings.generation.batch_size
        return least if size == "auto" else size * -(-least // size)

    def chunks(self, pending: Iterable[Pending]) -> Iterator[list[Pending]]:
        """Yield what a worker is given at once."""
        rest = iter(pending)
        while window := list(islice(rest, self.rows * _WINDOW)):
            window.sort(key=lambda one: -len(one[0].text))
            for start in range(0, len(window), self.rows):
                yield [
                    (replace(prompt, reference=None), missing)
                    for prompt, missing in window[start : start + self.rows]
                ]

    def load(self) -> Any:  # noqa: ANN401 (StudyModels, of torch's side: the driver needs none)
        """Return the models, in a worker."""
        from guard_eval.engines.study_models import StudyModels  # noqa: PLC0415

        for path, text in self._own.items():
            own.use_text(path, text)
        use_threads(self.pool.cpus)
        return StudyModels(
            self.study,
            self.strategies,
            locate=self._location,
            # A worker sees its own GPU alone, whatever the study calls it.
            device="cuda" if self.pool.gpu else "cpu",
            neighbours=self.pool.neighbours,
        )

    def _location(self, name: str) -> str:
        place = self._places[name]
        return self.study.locate_model(BUNDLED) if place == BUNDLED else place

    def texts(self, models: Any, chunk: Sequence[Pending]) -> Iterator[list[Continuation]]:  # noqa: ANN401
        """Yield the missing continuations of a chunk, in a worker."""
        for strategy in self.strategies:
            texts = [(prompt, run) for prompt, missing in chunk for name, run in missing if name == strategy]
            if texts:
                yield from models.generate(texts, strategy)


def write(ray: Any, job: Job, pending: Iterable[Pending]) -> Iterator[list[Continuation]]:  # noqa: ANN401
    """Yield the texts of `pending` as they come, each once.

    Raises:
        ShrunkError: The cluster lost machines, and what was given to their workers waits for new ones.
        StudyError: A worker refused a prompt or a model, the models are not the same on all machines, or as
            `workers.spread`. What was yielded stays good.
    """
    expected = {name: value for name, value in job.made_by.items() if value is not None}
    for _, batches in spread(ray, job.pool, job.load, job.texts, job.chunks(pending), name=_prompt_id):
        texts = [one for batch in batches for one in batch]
        differing = [_differences(one.recipe, expected) for one in texts]
        yield [one for one, wrong in zip(texts, differing, strict=True) if not wrong]
        if any(differing):
            raise StudyError(
                f"the model {job.study.settings.model.name!r} is not the same on all machines, but of "
                f"{'; '.join(max(differing))}; put the same files on all of them, or name a Hub commit as "
                "model.revision, and the arithmetic as model.dtype"
            )


def _prompt_id(pending: Pending) -> str:
    return pending[0].id


def _differences(recipe: Recipe, expected: dict[str, str]) -> list[str]:
    """Return how a text's models differ from those `expected`; the first text sets what is open."""
    names = ["revision", "dtype", *(["amateur_revision"] if recipe.amateur else [])]
    found = {name: getattr(recipe, name) for name in names}
    return [
        f"{name} {expected[name]} and {value}"
        for name, value in found.items()
        if expected.setdefault(name, value) != value
    ]
