"""Machines that judge one study at once, the kills, and what server and database say afterwards."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judge_server import CRITERIA, Log, Server, serving
from judge_study import Made, make
from judge_workers_crew import Worker, machines
from sqlalchemy import Executable, create_engine, select, text

from guard_eval.store.schema import presentation, run
from guard_eval.study import Study

Row = tuple[str, str, str, bool]
"""What was looked at, what was found, the goal, and whether it is met."""

Outcome = list[Row]

LANES = 16
"""Requests at once of each machine."""

FAULTS = {"rate": 0.05, "error": 0.05, "reset": 0.02}
LATENCY = 0.3
LEASE = 60.0
"""Seconds that a silent machine's claims stay its own; the judge's, repeated here to be compared with."""

_PATIENCE = 600.0

_SLOTS = """
SELECT count(*), count(DISTINCT pair_id || '/' || slot)
FROM presentation WHERE rated_at IS NOT NULL
"""
_VERDICTS = """
SELECT count(*), sum(CASE WHEN verdicts = :criteria THEN 0 ELSE 1 END) FROM (
    SELECT presentation_id, count(*) AS verdicts FROM verdict GROUP BY presentation_id
) AS each_one
"""


def _study(folder: Path, *, pairs: int, server: Server, database: str | None) -> Made:
    made = make(folder, pairs=pairs, url=server.url, database=database)
    settings = folder / "study.toml"
    told = settings.read_text(encoding="utf-8").replace("concurrency = 64", f"concurrency = {LANES}")
    settings.write_text(told, encoding="utf-8")
    return made


@dataclass(frozen=True)
class Moment:
    """What the journal held at a kill, and what had been sent by then."""

    journalled: set[str]
    sent: dict[str, int]

    def sent_again(self, log: Log) -> int:
        """Return how many requests were sent later though their answer was in the journal."""
        return sum(log.sent.get(key, 0) - self.sent.get(key, 0) for key in self.journalled)


def killed(folder: Path, *, database: str | None, pairs: int, workers: int, kills: int) -> Outcome:
    """Kill workers at random and start them again, one of them never; then see what was done twice."""
    chance, moments = random.Random(1), list[Moment]()
    with serving(faults=FAULTS, latency=LATENCY) as server:
        study = _study(folder, pairs=pairs, server=server, database=database)
        with machines(study, workers, apart=database is not None) as everybody:
            crew, gone = everybody[:-1], everybody[-1]

            def strike() -> None:
                _wait(server, crew, more=chance.randint(pairs // 50, pairs // 15))
                victim = chance.choice(crew)
                victim.kill()
                moments.append(Moment(study.journalled(), server.log().sent))
                victim.start()

            for _ in range(kills // 2):
                strike()
            left = _Left.behind(study, gone)
            for _ in range(kills - kills // 2):
                strike()
            _finish(study, crew)
            starts = sum(worker.starts for worker in crew) + 1
            wrong = any("Traceback" in worker.said() for worker in everybody)
        log = server.log()
        study.judge()
        warm = server.log().asked - log.asked
    after = sum(moment.sent_again(log) for moment in moments)
    did = ", ".join(f"{times} {name}" for name, times in sorted(log.did.items()))
    return [
        (
            "workers; `kill -9` and started again; and never",
            f"{workers}; {kills}; 1 ({starts} starts)",
            "",
            True,
        ),
        ("the server answered", f"{log.asked} requests: {did}", "", not wrong),
        *_judged(study, pairs),
        (
            "sent after a kill, of what was in the journal then",
            f"{after} (of {len(moments[-1].journalled)} at the last)",
            "0",
            after == 0,
        ),
        _twice(log, kills + 1),
        left.row(study, expires=database is not None),
        ("requests of one more run", str(warm), "0", warm == 0),
    ]


def budget(folder: Path, *, database: str | None, pairs: int, workers: int, kills: int) -> Outcome:
    """Let the workers share a budget that ends in the middle, kills and all; the server charges by chance."""
    chance, allowed = random.Random(2), pairs * 0.004
    with serving(dice=True, faults=FAULTS, latency=LATENCY) as server:
        study = _study(folder, pairs=pairs, server=server, database=database)
        options = ("--budget", f"{allowed:.6f}")
        with machines(study, workers, *options, apart=database is not None) as crew:
            for _ in range(kills):
                _wait(server, crew, more=chance.randint(pairs // 100, pairs // 30))
                victim = chance.choice(crew)
                victim.kill()
                victim.start()
            for worker in crew:
                worker.process.wait(_PATIENCE)
            ended = sum("is used up" in worker.said() for worker in crew)
        log, found = server.log(), study.outcome()
    return [
        ("workers that the budget ended", f"{ended} of {workers}, {kills} kills", "all", ended == workers),
        ("verdicts, of those wanted", f"{found.verdicts} of {2 * pairs}", "some left", found.left > 0),
        _within("charged, by the server's count", log.usd, allowed),
        _within("spent and set aside, by the database", found.usd, allowed),
        _twice(log, kills),
    ]


@dataclass(frozen=True)
class _Left:
    """What a worker that never came back had claimed."""

    numbers: tuple[int, ...]
    at: datetime

    @classmethod
    def behind(cls, study: Made, worker: Worker) -> _Left:
        """Kill a worker for good, and see what it held."""
        process = worker.kill()
        at = datetime.now(UTC)
        held = (
            select(presentation.c.id)
            .join(run, run.c.id == presentation.c.run_id)
            .where(run.c.process.like(f"{process}:%"), presentation.c.rated_at.is_(None))
        )
        return cls(tuple(row.id for row in _ask(study, held)), at)

    def row(self, study: Made, *, expires: bool) -> Row:
        """Return when that was judged by others: on another machine not before the lease ended."""
        rated = select(presentation.c.rated_at).where(presentation.c.id.in_(self.numbers))
        moments = [row.rated_at for row in _ask(study, rated)]
        seconds = [(moment - self.at).total_seconds() for moment in moments if moment is not None]
        least, most = (min(seconds), max(seconds)) if seconds else (0.0, 0.0)
        # the last time it said that it lives may have been a third of a lease ago
        met = len(seconds) == len(self.numbers) > 0 and (not expires or least > LEASE * 2 / 3 - 1)
        found = f"{len(seconds)} of {len(self.numbers)}, {least:.0f} to {most:.0f} s later"
        goal = (
            f"all; not before its lease ({LEASE:.0f} s, renewed every {LEASE / 3:.0f})" if expires else "all"
        )
        return ("judged by others, of what the lost one held", found, goal, met)


def _wait(server: Server, crew: list[Worker], *, more: int) -> None:
    """Wait until the server has answered so many more, or nobody asks."""
    until, end = sum(server.log().paid.values()) + more, time.monotonic() + _PATIENCE
    while sum(server.log().paid.values()) < until and any(worker.going for worker in crew):
        time.sleep(0.05)
        if time.monotonic() > end:
            raise RuntimeError(f"no {more} requests were answered within {_PATIENCE:.0f} s")


def _finish(study: Made, crew: list[Worker]) -> None:
    """Start again whoever has ended, until everything is judged and all have ended by themselves."""
    end = time.monotonic() + _PATIENCE
    while study.outcome().verdicts < 2 * study.pairs:
        for worker in crew:
            if not worker.going:
                worker.start()
        time.sleep(0.5)
        if time.monotonic() > end:
            raise RuntimeError(f"{study.outcome()} after {_PATIENCE:.0f} s more; {crew[0].said()[-2000:]}")
    for worker in crew:
        worker.process.wait(_PATIENCE)


def _judged(study: Made, pairs: int) -> list[Row]:
    ((showings, places),) = _ask(study, text(_SLOTS))
    ((rated, odd),) = _ask(study, text(_VERDICTS).bindparams(criteria=len(CRITERIA)))
    once = showings == places == rated == 2 * pairs
    return [
        ("pairs × orders judged, by presentation and by slot", f"{showings}, {places}", f"{2 * pairs}", once),
        (f"of these without exactly {len(CRITERIA)} verdicts", str(odd), "0", not odd),
    ]


def _twice(log: Log, kills: int) -> Row:
    most = max(log.paid.values(), default=0)
    found = f"{log.twice} (at most {most} for one request)"
    goal = f"≤ {kills} × {LANES} in flight"
    return ("complete answers beyond the first to a request", found, goal, log.twice <= kills * LANES)


def _within(what: str, usd: float, allowed: float) -> Row:
    return (what, f"${usd:.3f}", f"≤ ${allowed:.3f}", usd <= allowed + 1e-6)


def _ask(study: Made, statement: Executable) -> Sequence[Any]:
    engine = create_engine(Study.open(study.folder).database)
    try:
        with engine.connect() as connection:
            return connection.execute(statement).all()
    finally:
        engine.dispose()
