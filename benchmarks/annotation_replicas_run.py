"""A run with several servers behind nginx: raters with whole quotas, blows, and what became of it."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import annotation_page
import annotation_postgres
import annotation_replicas_check
import annotation_replicas_nginx
import annotation_socket
import annotation_study
from annotation_postgres import Postgres
from annotation_raters import Log, Rater, leave
from annotation_replicas_check import Found
from annotation_replicas_nginx import Proxy
from annotation_server import Server
from annotation_study import Made

BLOWS = 4
SETTINGS = annotation_page.SETTINGS + "pairs_per_rater = {quota}\n"
_PATIENCE = 300.0
"""Seconds without a single rating after which a run is given up."""


@dataclass(frozen=True)
class Blow:
    """What is killed when so large a share of all ratings is acknowledged, and for how many seconds."""

    what: str
    share: float
    down: float
    kill: Callable[[], None]
    start: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Felt:
    """What raters noticed of a blow.

    Attributes:
        what: The blow.
        start: When it fell, by the counter.
        down: Seconds for which the victim was away.
        calm: Pages that said that something does not work just now, until shortly after.
        flowing: Seconds from the blow until the next rating was acknowledged.
        away: Of each rater whose connection was found broken, the seconds until a pair was there again.
    """

    what: str
    start: float
    down: float
    calm: int
    flowing: float
    away: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A whole run.

    Attributes:
        raters: How many.
        quota: Pairs of each.
        seconds: From the first pair to the last rater's thanks.
        log: The raters' own log.
        felt: Blow by blow.
        found: What the database says.
        share: Raters of each server at the beginning.
        loading: Seconds of a server's CPU for bringing a rater to the first pair.
        tracebacks: Defects in the servers' logs.
        told: Invites in nginx's logs.
    """

    raters: int
    quota: int
    seconds: float
    log: Log
    felt: list[Felt]
    found: Found
    share: list[int]
    loading: float
    tracebacks: int
    told: int

    def met(self) -> bool:
        """Return whether nothing was lost, doubled or left out, and sides are even."""
        found, whole = self.found, self.raters * self.quota
        wrong = found.lost + found.doubled + found.unasked + found.half + self.tracebacks + self.told
        even = max(found.pair_sides) <= 1 and len(found.overlap) == 1
        there = sum(raters * pairs for raters, pairs in found.overlap.items())
        shown = self.log.counts["exception"]
        return wrong == 0 and even and there == whole and shown == 0 and len(self.felt) == BLOWS


class Visitor(Rater):
    """A rater whose browser keeps nginx's cookie, and who waits as long as it takes."""

    patience = _PATIENCE

    def __init__(self, study: Made, name: str, proxy: Proxy, log: Log) -> None:
        super().__init__(study, name, proxy.url, log)
        self._proxy = proxy
        self.away: list[tuple[float, float]] = []
        """When the connection broke, and for how many seconds there was no pair."""

    async def enter(self) -> None:
        """Load the page, and leave every page before the first pair."""
        cookie = await asyncio.to_thread(self._proxy.cookie)
        self.session.options = {"ssl": self._proxy.tls, "additional_headers": {"Cookie": cookie}}
        await super().enter()

    async def come_back(self) -> None:
        """Connect again, and note how long it took."""
        start = time.perf_counter()
        await super().come_back()
        self.away.append((start, time.perf_counter() - start))

    async def rate_all(self, *, think: float) -> None:
        """Rate until the page says thanks."""
        while not self.view.ended:
            await self.work(time.perf_counter() + 60 * max(think, 1.0), think=think)


@contextmanager
def replicas(folder: Path, study: Made, count: int) -> Iterator[list[Server]]:
    """Serve the study from so many folders of its own, which share the database alone."""
    os.environ.setdefault("STREAMLIT_SERVER_COOKIE_SECRET", secrets.token_hex(32))
    servers = []
    with ExitStack() as stack:
        for number in range(count):
            own = folder / f"server-{number + 1}"
            shutil.copytree(study.folder, own)
            command = [sys.executable, "-P", "-m", "guard_eval", "annotate", str(own)]
            command += ["--proxy", "127.0.0.1", "--port"]
            server = Server(own, folder / f"server-{number + 1}.log", command=command)
            server.start()
            stack.callback(server.stop)
            servers.append(server)
        yield servers


def run(
    folder: Path,
    *,
    raters: int,
    quota: int,
    spare: int,
    overlap: int,
    servers: int,
    think: float,
    down: float,
) -> Outcome:
    """Let all raters rate their whole quota, with a blow at every fifth of the ratings."""
    programs = annotation_postgres.binaries()
    assert programs is not None
    with ExitStack() as stack:
        postgres = stack.enter_context(annotation_postgres.running(programs))
        study = annotation_study.make(
            folder / "study",
            raters=raters,
            overlap=overlap,
            pairs=raters * quota // overlap,
            database=postgres.url,
            settings=SETTINGS.format(quota=quota + spare),
        )
        own = stack.enter_context(replicas(folder, study, servers))
        proxy = stack.enter_context(annotation_replicas_nginx.proxied([server.port for server in own]))
        return asyncio.run(_run(study, postgres, own, proxy, quota=quota, think=think, down=down))


def blows(postgres: Postgres, servers: Sequence[Server], *, down: float) -> list[Blow]:
    """Return what happens: one server, the database, another server, the database in another way."""
    first, last = servers[0], servers[-1]
    return [
        Blow("a server, `kill -9`", 0.2, down, first.kill, first.start),
        Blow("PostgreSQL, `kill -9`", 0.4, down, postgres.kill, postgres.start),
        Blow("another server, `kill -9`", 0.6, down, last.kill, last.start),
        Blow("PostgreSQL, stopped `immediate`", 0.8, down, postgres.stop, postgres.start),
    ]


async def _run(
    study: Made,
    postgres: Postgres,
    servers: list[Server],
    proxy: Proxy,
    *,
    quota: int,
    think: float,
    down: float,
) -> Outcome:
    # a page that waits for an answer waits; a crowd that comes back at once would else be sent away
    annotation_socket.ANSWER_SECONDS = _PATIENCE
    log = Log()
    before = sum(server.cpu() for server in servers)
    people = await _gather(study, proxy, log)
    loading = (sum(server.cpu() for server in servers) - before) / len(people)
    share = [_connections(server) for server in servers]
    begun = time.perf_counter()
    working = asyncio.gather(*(person.rate_all(think=think) for person in people))
    striking = asyncio.create_task(
        _strike(blows(postgres, servers, down=down), log, working, whole=len(people) * quota)
    )
    try:
        await asyncio.wait([working, striking], return_when=asyncio.FIRST_EXCEPTION)
        felt = await striking
        await working
    finally:
        working.cancel()
        striking.cancel()
    seconds = time.perf_counter() - begun
    await leave(list(people))
    _count(felt, people)
    said = proxy.said()
    return Outcome(
        raters=len(people),
        quota=quota,
        seconds=seconds,
        log=log,
        felt=felt,
        found=annotation_replicas_check.ask(postgres.url, study, log),
        share=share,
        loading=loading,
        tracebacks=sum(server.tracebacks() for server in servers),
        told=sum(token in said for token in study.tokens.values()),
    )


async def _gather(study: Made, proxy: Proxy, log: Log) -> list[Visitor]:
    people = [Visitor(study, name, proxy, log) for name in study.tokens]
    door = asyncio.Semaphore(8)

    async def enter(person: Visitor) -> None:
        async with door:
            await person.enter()

    await asyncio.gather(*(enter(person) for person in people))
    return people


async def _strike(
    planned: Sequence[Blow], log: Log, working: asyncio.Future[Any], *, whole: int
) -> list[Felt]:
    """Strike each blow when its time has come; one that comes too late is left out."""
    felt = []
    for blow in planned:
        await _until(log, round(blow.share * whole), working)
        if not working.done():
            felt.append(await _blow(blow, log, working))
    return felt


async def _blow(blow: Blow, log: Log, working: asyncio.Future[Any]) -> Felt:
    start, calm = time.perf_counter(), log.counts["calm"]
    await asyncio.to_thread(blow.kill)
    flowing = asyncio.create_task(_until(log, log.ratings + 1, working))
    await asyncio.sleep(blow.down)
    await asyncio.to_thread(blow.start)
    down = time.perf_counter() - start
    flowed = await flowing - start
    await asyncio.sleep(blow.down)
    return Felt(what=blow.what, start=start, down=down, calm=log.counts["calm"] - calm, flowing=flowed)


def _count(felt: Sequence[Felt], people: Sequence[Visitor]) -> None:
    """Count each broken connection to the blow before it; raters find out when they press."""
    for person in people:
        for at, seconds in person.away:
            before = [each for each in felt if each.start <= at]
            if before:
                before[-1].away.append(seconds)


async def _until(log: Log, ratings: int, working: asyncio.Future[Any]) -> float:
    """Wait until so many ratings are acknowledged, or all raters are through; return when that was.

    Raises:
        RuntimeError: For a long time none was.
    """
    seen, since = log.ratings, time.perf_counter()
    while log.ratings < ratings and not working.done():
        await asyncio.sleep(0.02)
        if log.ratings > seen:
            seen, since = log.ratings, time.perf_counter()
        elif time.perf_counter() - since > _PATIENCE:
            raise RuntimeError(f"{log.ratings} of {ratings} ratings came, and then no more")
    return time.perf_counter()


def _connections(server: Server) -> int:
    """Return how many connections a server holds (Linux)."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    states = [(line.split()[1].rpartition(":")[2], line.split()[3]) for line in lines]
    return states.count((f"{server.port:04X}", "01"))
