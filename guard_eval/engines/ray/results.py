"""What workers send back, table by table, and what is done when they die or cannot go on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from queue import Empty, Full, Queue
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

from guard_eval.engines.ray.cluster import Pool, has_room
from guard_eval.errors import StudyError

PATIENCE = 60.0
"""Seconds without a result for which a lost machine is waited for before the others go on without it."""
REFUSED = "refused"
"""The column of errors that a user can fix."""
MOST = 4
"""How often a block is begun: three workers may die of it."""
_TICK = 1.0
_LEAVE = 10.0
_END = object()


class ShrunkError(StudyError):
    """The cluster has no room for all workers any more, and what some of them were given waits."""

    def __init__(self) -> None:
        super().__init__(
            "the Ray cluster lost machines; run the command again to go on with those that are left"
        )


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
    """Put what comes into `queue`, until it ends or nobody wants it any more."""
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
    """An actor beside the driver that counts how often workers have begun each block.

    What kills every worker must not be tried for ever.
    """

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, block: int) -> int:
        """Count a block's beginning, and return which it is: 1, 2, …."""
        self._begun[block] += 1
        return self._begun[block]


def start_counter(ray: Any) -> Any:  # noqa: ANN401 (Ray's handles)
    """Start the counter on this machine, which outlives every other one of the run."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(Attempts).options(num_cpus=0, scheduling_strategy=here).remote()


def count_attempt(attempts: Any, block: int, prompts: Sequence[str]) -> None:  # noqa: ANN401
    """Count a block's beginning, in a worker.

    Raises:
        StudyError: It has been begun too often; the first and the last of its prompts are named.
    """
    import ray  # noqa: PLC0415 (an extra)

    if ray.get(attempts.begin.remote(block)) > MOST:
        raise StudyError(
            f"{MOST} workers died one after the other of the same {len(prompts)} texts (from {prompts[0]!r} "
            f"to {prompts[-1]!r}), as a rule because memory ran out: lower generation.batch_size or "
            "--workers, and run the command again; what others made is kept"
        )
