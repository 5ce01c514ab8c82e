"""Workers that load a model and do some work on chunks; what happens when they die or cannot go on."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from queue import Empty, Full, Queue
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any, TypeVar

from guard_eval.engines.ray.cluster import Pool, actors, has_room
from guard_eval.errors import StudyError

Item = TypeVar("Item")
Made = TypeVar("Made")
Loaded = TypeVar("Loaded")

PATIENCE = 60.0
"""Seconds without a result for which a lost machine is waited for before the others go on without it."""
MOST = 4
"""How often a chunk is begun: three workers may die of it."""
_TICK = 1.0
_LEAVE = 10.0
_END = object()


class ShrunkError(StudyError):
    """The cluster has no room for all workers any more, and what some of them were given waits."""

    def __init__(self) -> None:
        super().__init__(
            "the Ray cluster lost machines; run the command again to go on with those that are left"
        )


def spread(
    ray: Any,  # noqa: ANN401 (Ray's types)
    pool: Pool,
    load: Callable[[], Loaded],
    work: Callable[[Loaded, Sequence[Item]], Iterable[Made]],
    chunks: Iterable[Sequence[Item]],
    *,
    name: Callable[[Item], str],
) -> Iterator[tuple[int, list[Made]]]:
    """Yield what `work` makes of each chunk on some worker, with the chunk's place, as they are finished.

    Ray tries again what a worker's death cost; each chunk comes once. Chunks wait in Ray's store, not here.

    Args:
        ray: Connected.
        pool: The workers.
        load: Called by each worker before its first chunk. It and the other functions are sent to them.
        work: Called for each chunk with what `load` returned.
        chunks: What a worker is given at once, none empty.
        name: Names an item in errors.

    Raises:
        ShrunkError: The cluster has no room for all workers any more.
        StudyError: A worker refused a chunk (what it had made of it is yielded before), workers died of the
            same chunk again and again, or chunks did not come back. What was yielded stays good.
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    blocks = [
        ray.put(pa.table({"place": [place], "data": [pickle.dumps(list(chunk))]}))
        for place, chunk in enumerate(chunks)
    ]
    if not blocks:
        return
    data = ray.data.from_arrow_refs(blocks).map_batches(
        Worker,
        fn_constructor_args=[load, work, name, start_counter(ray)],
        batch_size=1,
        batch_format="pyarrow",
        **actors(ray, pool, blocks=len(blocks)),
    )
    left = set(range(len(blocks)))
    for table in tables(ray, pool, data):
        for row in table.to_pylist():
            made = pickle.loads(row["data"])  # noqa: S301 (our own worker's)
            if made and row["place"] in left:  # else it came twice
                yield row["place"], made
            left.discard(row["place"])
            if row["refused"] is not None:
                raise StudyError(row["refused"])
    if left:
        raise StudyError(
            f"{len(left)} of {len(blocks)} parts of the work did not come back from the workers; "
            "run the command again"
        )


class Worker:
    """An actor: loads with its first chunk, then works on one chunk after the other."""

    def __init__(
        self,
        load: Callable[[], Any],
        work: Callable[..., Iterable[object]],
        name: Callable[..., str],
        attempts: Any,  # noqa: ANN401 (Ray's handles)
    ) -> None:
        self._load, self._work, self._name, self._attempts = load, work, name, attempts

    def __call__(self, table: Any) -> Any:  # noqa: ANN401 (Arrow's tables)
        """Return what the work makes of a chunk, and the error that ended it, which Ray would disfigure."""
        import pyarrow as pa  # noqa: PLC0415 (an extra)

        [row] = table.to_pylist()
        items = pickle.loads(row["data"])  # noqa: S301 (the driver's)
        made: list[object] = []
        refused = None
        try:
            count_attempt(self._attempts, row["place"], list(map(self._name, items)))
            made.extend(self._work(self._loaded, items))
        except StudyError as error:
            refused = str(error)
        reason = pa.array([refused], pa.string())
        return pa.table({"place": [row["place"]], "data": [pickle.dumps(made)], "refused": reason})

    @cached_property
    def _loaded(self) -> Any:  # noqa: ANN401
        return self._load()


def tables(ray: Any, pool: Pool, data: Any) -> Iterator[Any]:  # noqa: ANN401 (Ray's and Arrow's types)
    """Yield the tables of a data set as workers finish them.

    A worker of a lost machine is started elsewhere by Ray, if there is room. If not, its share of the work
    would wait for ever once all other work is done; so one thread reads and this one checks the machines.

    Raises:
        ShrunkError: The cluster has no room for all workers any more.
        StudyError: Workers cannot go on; what was yielded stays good.
    """
    queue: Queue[Any] = Queue(maxsize=2)
    stop = Event()
    reader = Thread(target=_read, args=(data, queue, stop), daemon=True, name="ray results")
    reader.start()
    last = time.monotonic()
    try:
        while True:
            try:
                item = queue.get(timeout=_TICK)
            except Empty:
                if time.monotonic() - last > PATIENCE and not has_room(ray, pool):
                    raise ShrunkError from None
                continue
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise _worker_error(item) from item
            yield item
            last = time.monotonic()
    finally:
        stop.set()
        if reader.is_alive():
            _stop_executors()
            reader.join(_LEAVE)


def _read(data: Any, queue: Queue[Any], stop: Event) -> None:  # noqa: ANN401
    """Put what comes into `queue`, until it ends or its reader has stopped."""
    last: Any = _END
    try:
        for table in data.iter_batches(batch_size=None, batch_format="pyarrow"):
            if not _put(queue, table, stop):
                return
    except BaseException as error:  # noqa: BLE001 (raised again where the results are wanted)
        last = error
    _put(queue, last, stop)


def _stop_executors() -> None:
    """End Ray Data in order; its thread would fail on a closed connection."""
    for thread in enumerate_threads():
        shut_down = getattr(thread, "shutdown", None)
        if thread.name.startswith("StreamingExecutor") and callable(shut_down):
            shut_down(force=True)


def _put(queue: Queue[Any], item: Any, stop: Event) -> bool:  # noqa: ANN401
    while not stop.is_set():
        try:
            queue.put(item, timeout=_TICK)
        except Full:
            continue
        return True
    return False


def _worker_error(error: BaseException) -> StudyError:
    reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
    return StudyError(
        f"the workers could not go on: {reason.strip()}; what they made is kept: run the same command again"
    )


class Attempts:
    """An actor beside the driver that counts how often workers have begun each chunk.

    What kills every worker must not be tried for ever.
    """

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, chunk: int) -> int:
        """Count a chunk's beginning, and return which it is: 1, 2, …."""
        self._begun[chunk] += 1
        return self._begun[chunk]


def start_counter(ray: Any) -> Any:  # noqa: ANN401 (Ray's handles)
    """Start the counter on this machine, which outlives every other one of the run."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(Attempts).options(num_cpus=0, scheduling_strategy=here).remote()


def count_attempt(attempts: Any, chunk: int, names: Sequence[str]) -> None:  # noqa: ANN401
    """Count a chunk's beginning, in a worker.

    Raises:
        StudyError: It has been begun too often; the first and the last of its items are named.
    """
    import ray  # noqa: PLC0415 (an extra)

    if ray.get(attempts.begin.remote(chunk)) > MOST:
        raise StudyError(
            f"{MOST} workers died one after the other of the same {len(names)} texts (from {names[0]!r} "
            f"to {names[-1]!r}), as a rule because memory ran out: lower generation.batch_size or "
            "--workers, and run the command again; what others made is kept"
        )
