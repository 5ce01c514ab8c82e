"""Workers that write continuations: prompts as a data set, models as actors, texts back as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from guard_eval.engines.ray.cluster import Pool, actors, use_threads
from guard_eval.engines.ray.results import REFUSED, count_attempt, start_counter, tables
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import BUNDLED, Study
from guard_eval.texts.continuation_parquet import table_of
from guard_eval.texts.continuation_rows import continuation_of

Pending = tuple[Prompt, Sequence[str]]
"""A prompt, and the strategies that have not continued it."""

_WINDOW = 64
"""Blocks among which prompts are sorted by length, so that those of a block are about equally long."""
_PLACE = "place"
_WANTED, _MADE = 1, 2
"""Marks of a text; 0 is one that is not asked for."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every worker is given.

    Attributes:
        study: The study, for its settings.
        strategies: Those at work, by signature.
        locations: Where each model is to be loaded from, by its name.
        pool: The workers.
        made_by: What they must make texts with: of `revision`, `dtype` and `amateur_revision` the known ones.
    """

    study: Study
    strategies: Sequence[str]
    locations: dict[str, str]
    pool: Pool
    made_by: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        study: Study,
        strategies: Sequence[str],
        pool: Pool,
        made_by: Mapping[str, str | None] | None = None,
    ) -> Job:
        """Return the job; a folder's place must be the same on every machine."""
        names = {study.settings.model.name, *filter(None, map(study.settings.amateur_of, strategies))}
        # The bundled model lies where each machine has the package.
        places = {name: BUNDLED if name == BUNDLED else study.locate_model(name) for name in names}
        return cls(
            study=study, strategies=tuple(strategies), locations=places, pool=pool, made_by=made_by or {}
        )

    @property
    def rows(self) -> int:
        """Return how many prompts a worker is given at once: what is lost and made again when it dies."""
        least = 256 if self.pool.gpu else 32
        size = self.study.settings.generation.batch_size
        return least if size == "auto" else size * -(-least // size)


class Writer:
    """An actor: a model, loaded with the first prompts, that continues what it is given."""

    def __init__(self, job: Job, attempts: Any) -> None:  # noqa: ANN401 (Ray's handles)
        self._job = job
        self._attempts = attempts

    def __call__(self, table: Any) -> Any:  # noqa: ANN401 (Arrow's tables)
        """Return the missing continuations of a table of prompts, with the prompts' places.

        What is refused comes back as a row of its own: Ray would wrap an exception beyond recognition.
        """
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

        rows = table.to_pylist()
        places = {row["id"]: row[_PLACE] for row in rows}
        made: list[Continuation] = []
        refused = None
        try:
            count_attempt(self._attempts, rows[0][_PLACE], list(places))
            for batch in self._batches(rows):
                made += batch
        except StudyError as error:
            refused = str(error)
        marks = pa.array([places[one.prompt_id] for one in made], pa.int64())
        result = table_of(made, rare=True).append_column(_PLACE, marks)
        result = result.append_column(REFUSED, pa.nulls(len(made), pa.string()))
        if refused is None:
            return result
        return pa.concat_tables([result, pa.Table.from_pylist([{REFUSED: refused}], schema=result.schema)])

    def _batches(self, rows: Sequence[dict[str, Any]]) -> Iterator[list[Continuation]]:
        for number, strategy in enumerate(self._job.strategies):
            prompts = [
                Prompt(id=row["id"], dataset=row["dataset"], text=row["text"])
                for row in rows
                if number in row["strategies"]
            ]
            if prompts:
                yield from self._models.generate(prompts, strategy)

    @cached_property
    def _models(self) -> Any:  # noqa: ANN401 (StudyModels, of torch's side: the driver needs none)
        """Load the models; an error here is the first batch's, and comes back as it is."""
        from guard_eval.engines.study_models import StudyModels  # noqa: PLC0415

        use_threads(self._job.pool.cpus)
        return StudyModels.load(
            self._job.study,
            self._job.strategies,
            locate=self._location,
            # A worker sees its own GPU alone, whatever the study calls it.
            device="cuda" if self._job.pool.gpu else "cpu",
            neighbours=self._job.pool.neighbours,
        )

    def _location(self, name: str) -> str:
        place = self._job.locations[name]
        return self._job.study.locate_model(BUNDLED) if place == BUNDLED else place


@dataclass(frozen=True)
class Order:
    """Prompts on their way to the workers: `blocks` are in Ray's store, `wanted` says what must come back.

    `wanted` has a byte for each prompt and strategy, `[prompts · strategies]`.
    """

    blocks: list[Any]
    wanted: bytearray

    @property
    def texts(self) -> int:
        """Return how many texts are to be made."""
        return self.wanted.count(_WANTED)


def order_of(ray: Any, job: Job, pending: Iterable[Pending]) -> Order:  # noqa: ANN401
    """Put prompts into Ray's store, block by block; their texts are not held in this process.

    Raises:
        StudyError: A prompt is no valid Unicode.
    """
    import pyarrow as pa  # noqa: PLC0415 (an extra)

    number = {strategy: place for place, strategy in enumerate(job.strategies)}
    blocks, wanted, place = [], bytearray(), 0
    rest = iter(pending)
    while window := list(islice(rest, job.rows * _WINDOW)):
        window.sort(key=lambda one: -len(one[0].text))
        for start in range(0, len(window), job.rows):
            rows = []
            for prompt, strategies in window[start : start + job.rows]:
                mine = [number[strategy] for strategy in strategies]
                marks = bytearray(len(job.strategies))
                for one in mine:
                    marks[one] = _WANTED
                wanted += marks
                rows.append(
                    {
                        _PLACE: place,
                        "id": prompt.id,
                        "dataset": prompt.dataset,
                        "text": prompt.text,
                        "strategies": mine,
                    }
                )
                place += 1
            try:
                blocks.append(ray.put(pa.Table.from_pylist(rows)))
            except UnicodeEncodeError as error:
                raise StudyError(
                    f"the prompt that holds {error.object[:60]!r} is no valid Unicode (a lone surrogate); "
                    "fix or remove it"
                ) from error
    return Order(blocks, wanted)


def write(ray: Any, job: Job, order: Order) -> Iterator[list[Continuation]]:  # noqa: ANN401
    """Yield the texts of an order as they come, each once; Ray tries again what a worker's death cost.

    Raises:
        ShrunkError: The cluster lost machines, and what was given to their workers waits for new ones.
        StudyError: A worker refused a prompt or a model, workers died of the same prompts again and again,
            or texts did not come back. What was yielded stays good.
    """
    data = ray.data.from_arrow_refs(order.blocks).map_batches(
        Writer,
        fn_constructor_args=[job, start_counter(ray)],
        batch_size=job.rows,
        batch_format="pyarrow",
        **actors(ray, job.pool, blocks=len(order.blocks)),
    )
    number = {strategy: place for place, strategy in enumerate(job.strategies)}
    expected = {name: value for name, value in job.made_by.items() if value is not None}
    for table in tables(ray, job.pool, data):
        fresh, refused = [], None
        for row in table.to_pylist():
            if row[REFUSED] is not None:
                refused = row[REFUSED]
                continue
            mark = row.pop(_PLACE) * len(job.strategies) + number[row["strategy"]]
            if order.wanted[mark] == _WANTED:  # else it came twice
                order.wanted[mark] = _MADE
                fresh.append(continuation_of(row, "a worker's answer"))
        differing = [_differences(one.recipe, expected) for one in fresh]
        yield [one for one, wrong in zip(fresh, differing, strict=True) if not wrong]
        if refused is not None:
            raise StudyError(refused)
        if any(differing):
            raise StudyError(
                f"the model {job.study.settings.model.name!r} is not the same on all machines, but of "
                f"{'; '.join(max(differing))}; put the same files on all of them, or name a Hub commit as "
                "model.revision, and the arithmetic as model.dtype"
            )
    if order.texts:
        raise StudyError(f"{order.texts} texts did not come back from the workers; run the command again")


def _differences(recipe: Recipe, expected: dict[str, str]) -> list[str]:
    """Return how a text's models differ from those `expected`; the first text sets what is open."""
    names = ["revision", "dtype", *(["amateur_revision"] if recipe.amateur else [])]
    found = {name: getattr(recipe, name) for name in names}
    return [
        f"{name} {expected[name]} and {value}"
        for name, value in found.items()
        if expected.setdefault(name, value) != value
    ]
