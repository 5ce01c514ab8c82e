"""Many raters at once: how long the next pair takes, how many ratings a second, CPU and memory."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import annotation_check
import annotation_floor
import annotation_page
import annotation_study
from annotation_raters import Log, Rater, gather, leave
from annotation_server import Moment, Server
from annotation_study import Made


@dataclass(frozen=True, kw_only=True)
class Load:
    """What raters and server did while the clock ran.

    Attributes:
        ratings: How many were acknowledged.
        per_second: In a second.
        median: Milliseconds from press to the whole next page.
        p95: Likewise, of 95 in 100.
        longest: Likewise, of all.
        cpu_ms: Milliseconds of CPU of the server's processes for a rating.
        client_ms: Likewise of this program.
        others: How many cores other programs kept busy meanwhile.
        average: The machine's load average at the end.
        errors: Exceptions shown or logged, connections lost, calm pages, presses without effect, ratings lost
            or doubled.
        kilobytes: What the server sends for a rating.
        floor_median: The transport alone, as measured at once afterwards: median, in milliseconds.
        floor_p95: Likewise.
        floor_per_second: Exchanges in a second.
        heavy: Libraries found in the server's memory that a rater's process must not hold.
    """

    ratings: int
    per_second: float
    median: float
    p95: float
    longest: float
    cpu_ms: float
    client_ms: float
    others: float
    average: float
    errors: int
    kilobytes: float
    floor_median: float
    floor_p95: float
    floor_per_second: float
    heavy: tuple[str, ...]


@contextmanager
def serving(
    folder: Path, *, raters: int, overlap: int, pairs: int = 150, database: str | None = None
) -> Iterator[tuple[Made, Server]]:
    """Make a study and serve it."""
    study = annotation_study.make(
        folder / "study",
        raters=raters,
        overlap=overlap,
        pairs=pairs,
        database=database,
        settings=annotation_page.SETTINGS,
    )
    server = Server(study.folder, folder / "server.log")
    server.start()
    try:
        yield study, server
    finally:
        server.stop()


def load(
    folder: Path, *, raters: int, overlap: int, think: float, seconds: float, database: str | None = None
) -> Load:
    """Let raters rate for a while, `think` seconds a pair (0: without pause), and see that all is there."""
    with serving(folder, raters=raters, overlap=overlap, database=database) as (study, server):
        return asyncio.run(_load(folder, study, server, raters=raters, think=think, seconds=seconds))


async def _load(
    folder: Path, study: Made, server: Server, *, raters: int, think: float, seconds: float
) -> Load:
    log = Log()
    people = await gather(study, server.url, log, raters)
    # Everybody's first pair warms the server up; the clock starts after it.
    await asyncio.gather(*(person.rate() for person in people))
    before, log.seconds = log.ratings, []
    gc.collect()
    gc.freeze()
    start, cpu = Moment.now(), server.cpu()
    until = time.perf_counter() + seconds
    await asyncio.gather(*(person.work(until, think=think) for person in people))
    end, used = Moment.now(), server.cpu() - cpu
    heavy = tuple(sorted(server.loaded()))
    sizes = people[0].session.page.sizes
    await leave(people)
    compared = annotation_check.compare(study, log)
    ratings, elapsed = log.ratings - before, end.at - start.at
    floor, floor_per_second = await _floor(folder, sizes, raters, think, min(seconds, 10))
    return Load(
        ratings=ratings,
        per_second=ratings / elapsed,
        median=1000 * statistics.median(log.seconds),
        p95=1000 * percentile(log.seconds, 0.95),
        longest=1000 * max(log.seconds),
        cpu_ms=1000 * used / ratings,
        client_ms=1000 * (end.own - start.own) / ratings,
        others=(end.all - start.all - used - (end.own - start.own)) / elapsed,
        average=os.getloadavg()[0],
        errors=log.counts.total() + server.tracebacks() + compared.lost + compared.doubled + compared.unasked,
        kilobytes=sum(sizes) / 1000,
        floor_median=1000 * statistics.median(floor),
        floor_p95=1000 * percentile(floor, 0.95),
        floor_per_second=floor_per_second,
        heavy=heavy,
    )


async def _floor(
    folder: Path, sizes: list[int], clients: int, think: float, seconds: float
) -> tuple[list[float], float]:
    server = annotation_floor.server(folder, sizes)
    server.start()
    start = time.perf_counter()
    try:
        took = await annotation_floor.measure(
            server.url, clients=clients, messages=len(sizes), think=think, seconds=seconds
        )
    finally:
        server.stop()
    return took, len(took) / (time.perf_counter() - start)


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.95)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The serving process's resident memory, in MB, and what a further session adds."""

    empty: float
    few: float
    many: float
    sessions: int
    more: int
    errors: int

    @property
    def per_session(self) -> float:
        """Return the MB that a session adds, beside those that are there."""
        return (self.many - self.few) / self.more


def memory(folder: Path, *, sessions: int, more: int) -> Memory:
    """Weigh the server with nobody, with some sessions, and with more, each of which has rated twice."""
    with serving(folder, raters=sessions + more, overlap=4) as (study, server):
        return asyncio.run(_memory(study, server, sessions, more))


async def _memory(study: Made, server: Server, sessions: int, more: int) -> Memory:
    log, empty = Log(), server.memory()
    people = await gather(study, server.url, log, sessions)
    await _twice(people)
    few = server.memory()
    names = list(study.tokens)[sessions:]
    later = Made(folder=study.folder, pairs=study.pairs, tokens={name: study.tokens[name] for name in names})
    people += await gather(later, server.url, log, more)
    await _twice(people[sessions:])
    many = server.memory()
    await leave(people)
    errors = log.counts.total() + server.tracebacks()
    return Memory(empty=empty, few=few, many=many, sessions=sessions, more=more, errors=errors)


async def _twice(people: list[Rater]) -> None:
    for _ in range(2):
        for person in people:
            await person.rate()
    await asyncio.sleep(1)
