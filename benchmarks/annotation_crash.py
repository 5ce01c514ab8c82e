"""What is left when the server, or its database, is killed again and again while people rate."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import annotation_check
import annotation_postgres
from annotation_check import Comparison
from annotation_load import serving
from annotation_raters import Log, Rater, gather, leave
from annotation_server import Server
from annotation_study import Made

_BEFORE = (2.0, 4.0)
"""Seconds of rating before each blow, drawn anew each time."""

_DOWN = 1.5
"""Seconds that the database stays away."""

_RECOVERY = 60.0
_THINK = 1.0


@dataclass(frozen=True, kw_only=True)
class Crashes:
    """What became of the ratings.

    Attributes:
        what: What was killed, and how.
        rounds: How often.
        raters: How many were at it.
        compared: The clients' log against the database.
        lost_lines: Websockets that broke.
        calm: Pages that said calmly that something does not work.
        exceptions: Exceptions that raters saw.
        tracebacks: Exceptions in the server's log.
        stuck: Presses without effect and without a word.
        back_median: Seconds from the restart until every rater had an acknowledged rating again, over rounds.
        back_longest: Likewise, the longest.
        missing: Raters who had none within a minute, summed over rounds.
    """

    what: str
    rounds: int
    raters: int
    compared: Comparison
    lost_lines: int
    calm: int
    exceptions: int
    tracebacks: int
    stuck: int
    back_median: float
    back_longest: float
    missing: int


def server_killed(folder: Path, *, rounds: int, raters: int, database: str | None = None) -> Crashes:
    """Kill the app's server with SIGKILL and start it again, `rounds` times."""
    with serving(folder, raters=raters, overlap=raters, database=database) as (study, server):

        def blow(_number: int) -> None:
            server.kill()
            server.start()

        what = "server, `kill -9`" + (" (on PostgreSQL)" if database else "")
        return asyncio.run(_rounds(study, server, blow, what=what, rounds=rounds, raters=raters))


def database_killed(folder: Path, *, rounds: int, raters: int) -> Crashes | None:
    """Kill PostgreSQL, by SIGKILL and by an immediate shutdown in turn; None where it is not installed."""
    programs = annotation_postgres.binaries()
    if programs is None:
        return None
    with annotation_postgres.running(programs) as postgres:

        def blow(number: int) -> None:
            (postgres.stop if number % 2 else postgres.kill)()
            time.sleep(_DOWN)
            postgres.start()

        with serving(folder, raters=raters, overlap=raters, database=postgres.url) as (study, server):
            what = "PostgreSQL, `kill -9` and `immediate` in turn"
            return asyncio.run(_rounds(study, server, blow, what=what, rounds=rounds, raters=raters))


async def _rounds(
    study: Made, server: Server, blow: Callable[[int], None], *, what: str, rounds: int, raters: int
) -> Crashes:
    dice, log = random.Random(1), Log()
    people = await gather(study, server.url, log, raters)
    stop = asyncio.Event()
    working = [asyncio.create_task(_work(person, stop)) for person in people]
    waits, missing = [], 0
    for number in range(rounds):
        await asyncio.sleep(dice.uniform(*_BEFORE))
        await asyncio.to_thread(blow, number)
        seconds, absent = await _everybody_again(log, people)
        waits.append(seconds)
        missing += absent
    stop.set()
    await asyncio.gather(*working)
    await leave(people)
    return Crashes(
        what=what,
        rounds=rounds,
        raters=raters,
        compared=annotation_check.compare(study, log),
        lost_lines=log.counts["lost"],
        calm=log.counts["calm"],
        exceptions=log.counts["exception"],
        tracebacks=server.tracebacks(),
        stuck=log.counts["stuck"],
        back_median=statistics.median(waits),
        back_longest=max(waits),
        missing=missing,
    )


async def _work(rater: Rater, stop: asyncio.Event) -> None:
    """Rate until told to stop, in short shifts."""
    while not stop.is_set() and not rater.view.ended:
        await rater.work(time.perf_counter() + 2 * _THINK, think=_THINK)


async def _everybody_again(log: Log, people: list[Rater]) -> tuple[float, int]:
    """Wait until each rater has another rating acknowledged; return the seconds, and who has none."""
    start, before = time.perf_counter(), _counts(log)
    waiting = {person.name for person in people if not person.view.ended}
    while waiting and time.perf_counter() - start < _RECOVERY:
        await asyncio.sleep(0.1)
        now = _counts(log)
        waiting = {name for name in waiting if now.get(name, 0) <= before.get(name, 0)}
    return time.perf_counter() - start, len(waiting)


def _counts(log: Log) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, _, _ in log.acknowledged:
        found[name] = found.get(name, 0) + 1
    return found
