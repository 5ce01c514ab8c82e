"""Models that read texts for metrics, on Ray's workers: the chunks, and so the numbers, of one machine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from guard_eval.engines.lazy import Item, LazyModel, Made, OnDone
from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.ray.cluster import Pool, actors, use_threads
from guard_eval.engines.ray.results import REFUSED, count_attempt, start_counter, tables
from guard_eval.errors import StudyError


@dataclass(frozen=True, kw_only=True)
class RemoteModel(LazyModel):
    """A model that every worker loads for itself; this process has its name and revision alone.

    Attributes:
        ray: Ray, connected.
        pool: The workers.
    """

    ray: Any
    pool: Pool

    def map(
        self,
        work: Callable[[LoadedModel, Sequence[Item], OnDone], Made],
        chunks: Sequence[Sequence[Item]],
        on_done: OnDone = lambda _: None,
    ) -> Iterator[tuple[int, Made]]:
        """Yield what `work` makes of each chunk on some worker, and the chunk's place, as they are done.

        Raises:
            StudyError: A worker refused the model, workers died of the same chunk again and again, or the
                cluster lost machines; what was yielded stays good.
        """
        if not chunks:
            return
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

        blocks = [
            self.ray.put(pa.table({"place": [place], "data": [pickle.dumps(list(chunk))]}))
            for place, chunk in enumerate(chunks)
        ]
        plain = LazyModel(self.load, self.location, self.name, self.dtype, self.device, self.wanted)
        data = self.ray.data.from_arrow_refs(blocks).map_batches(
            _Reader,
            fn_constructor_args=[plain, work, self.pool.cpus, start_counter(self.ray)],
            batch_size=1,
            batch_format="pyarrow",
            **actors(self.ray, self.pool, blocks=len(blocks)),
        )
        left = set(range(len(chunks)))
        for table in tables(self.ray, self.pool, data):
            for row in table.to_pylist():
                if row[REFUSED] is not None:
                    raise StudyError(row[REFUSED])
                if row["place"] in left:  # else it came twice
                    left.remove(row["place"])
                    on_done(len(chunks[row["place"]]))
                    yield row["place"], pickle.loads(row["data"])  # noqa: S301 (our own worker's)
        if left:
            raise StudyError(f"{len(left)} chunks did not come back from the workers; run the command again")


class _Reader:
    """An actor: a model, loaded with the first chunk, that does its work on one chunk after the other."""

    def __init__(self, model: LazyModel, work: Callable[..., Any], cpus: int, attempts: Any) -> None:  # noqa: ANN401
        self._model, self._work, self._cpus, self._attempts = model, work, cpus, attempts

    def __call__(self, table: Any) -> Any:  # noqa: ANN401 (Arrow's tables)
        import pyarrow as pa  # noqa: PLC0415 (an extra)

        [row] = table.to_pylist()
        items = pickle.loads(row["data"])  # noqa: S301 (the driver's)
        made, refused = None, None
        try:
            count_attempt(self._attempts, row["place"], [str(item)[:60] for item in items])
            made = self._work(self._ready, items, lambda _: None)
        except StudyError as error:  # Ray would wrap it beyond recognition
            refused = str(error)
        reason = pa.array([refused], pa.string())
        return pa.table({"place": [row["place"]], "data": [pickle.dumps(made)], REFUSED: reason})

    @cached_property
    def _ready(self) -> LoadedModel:
        use_threads(self._cpus)
        return self._model.loaded
