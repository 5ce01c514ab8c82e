"""Models that read texts for metrics, on Ray's workers: the chunks, and so the numbers, of one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from guard_eval.engines.lazy import Item, LazyModel, Made
from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.ray.cluster import Pool, use_threads
from guard_eval.engines.ray.workers import spread


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
        work: Callable[[LoadedModel, Sequence[Item]], Made],
        chunks: Sequence[Sequence[Item]],
    ) -> Iterator[tuple[int, Made]]:
        """Yield what `work` makes of each chunk on some worker, and the chunk's place, as they are done.

        Raises:
            StudyError: See `workers.spread`.
        """
        plain = LazyModel(self.load, self.location, self.name, self.dtype, self.device, self.wanted)
        load = partial(_load, plain, self.pool.cpus)
        for place, [made] in spread(self.ray, self.pool, load, partial(_one, work), chunks, name=_shown):
            yield place, made


def _load(model: LazyModel, cpus: int) -> LoadedModel:
    use_threads(cpus)
    return model.loaded


def _one(
    work: Callable[[LoadedModel, Sequence[Item]], Made], loaded: LoadedModel, items: Sequence[Item]
) -> list[Made]:
    return [work(loaded, items)]


def _shown(item: object) -> str:
    return str(item)[:60]
