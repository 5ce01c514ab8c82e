"""The store: handing out pairs in a study of a million, and moving a study between databases.

    python benchmarks/store.py handout   # the store's own `hand_out` and `save`; is the overlap exact?
    python benchmarks/store.py count     # finding a free slot without the table `occupancy`
    python benchmarks/store.py copy      # from SQLite to PostgreSQL and back

README.md says what is measured.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import random
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from common import heading, line, load, make_pair, parser, postgres_server
from sqlalchemy import Engine, bindparam, create_engine, select, text
from sqlalchemy.engine.default import DefaultDialect

from guard_eval.records import BlindPair, Pair, Plan, Rater
from guard_eval.store import Store
from guard_eval.store.copying import checksum, copy
from guard_eval.store.handout import occupancy
from guard_eval.store.schema import Moment
from guard_eval.store.schema import rater as rater_table

LEASE_SECONDS = 1800
GO = 0.05
"""How often a rater leaves after a pair, which it may find open when it comes back."""
GOAL_MS = 5
METHODS = ("contrastive(k=10)", "guard", "top_k(k=50)", "top_p(p=0.95)")
COMPARISONS = list(itertools.combinations(METHODS, 2))
DATASETS = ("book", "wikinews", "wikitext")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = "2026-01-02 03:04:05.678901"
_PART = 100_000


# Handing out: raters come, rate some pairs, leave pairs unrated, go and come back. The study is measured when
# it is new, half full, and all but full, from where it is rated to the end. Between these it is filled in
# bulk.


class Clock:
    """A clock that the simulation moves."""

    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


@dataclass
class Times:
    """Milliseconds of one kind of call: on the clock, and within commits."""

    whole: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)

    def row(self, what: str) -> str:
        """Return a row of the table: the call less its commit, then the commit."""
        own = np.array(self.whole) - np.array(self.commit)
        places = ((own, (50, 95, 99, 100)), (self.commit, (50, 99)))
        cells = [f"{np.percentile(times, share):.2f}" for times, shares in places for share in shares]
        return line([what, len(own), *cells[:4], f"{np.mean(own > GOAL_MS):.2%}", *cells[4:]])


HEADING = heading(
    *("", "calls", "without commit: median, ms", "p95", "p99", "longest", f"over {GOAL_MS} ms"),
    *("commit: median", "p99"),
)

_waited = 0.0
"""Seconds of commits since a call began."""


def _time_commits() -> None:
    commit = DefaultDialect.do_commit

    def timed(dialect: DefaultDialect, connection: object) -> None:
        global _waited  # noqa: PLW0603
        start = time.perf_counter()
        commit(dialect, connection)  # type: ignore[arg-type]
        _waited += time.perf_counter() - start

    DefaultDialect.do_commit = timed  # type: ignore[method-assign]


@contextmanager
def timed(times: Times) -> Iterator[None]:
    """Time one call."""
    global _waited  # noqa: PLW0603
    _waited = 0.0
    start = time.perf_counter()
    yield
    times.whole.append(1e3 * (time.perf_counter() - start))
    times.commit.append(1e3 * _waited)


class Simulation:
    """Raters at work on a store, one call after the other, at times of a clock of their own."""

    def __init__(self, store: Store, clock: Clock, raters: list[Rater], plan: Plan) -> None:
        self.store, self.clock, self.raters, self.plan = store, clock, raters, plan
        self._rng = random.Random(1)
        self._present: list[Rater] = []
        self._open: dict[Rater, BlindPair] = {}
        self._finished: set[Rater] = set()
        self.acknowledged: Counter[str] = Counter()

    def run(self, calls: int, options: argparse.Namespace, *, to_the_end: bool) -> tuple[Times, Times]:
        """Hand out so many pairs, or until no slot is left; return the times of hand-outs and saves."""
        given, saved = Times(), Times()
        while len(given.whole) < calls or to_the_end:
            self.clock.advance(1.0)
            rater = self._choose(options.present)
            if rater is None:
                if not self._wait():
                    break
                continue
            pair = self._open.pop(rater, None)
            if pair is not None and self._rng.random() < options.leave:  # it may come back
                self._present.remove(rater)
                self.acknowledged["left"] += 1
                continue
            if pair is not None:
                with timed(saved):
                    result = self.store.save(pair.presentation, {"fluency": "A"}, rater=rater)
                self.acknowledged["surplus" if result.surplus else "rated"] += 1
            with timed(given):
                found = self.store.hand_out(rater, self.plan)
            if found:
                self._open[rater] = found[0]
            else:
                self._finished.add(rater)
            if not found or self._rng.random() < GO:
                self._present.remove(rater)
        return given, saved

    def progress(self) -> Times:
        """Return the times of `progress` for raters."""
        times = Times()
        for rater in self.raters[:200]:
            with timed(times):
                self.store.progress(rater, self.plan)
        return times

    def _choose(self, present: int) -> Rater | None:
        """Return a rater at work; others come where there are too few."""
        for _ in range(3):
            comer = self._rng.choice(self.raters)
            if len(self._present) < present and comer not in self._finished and comer not in self._present:
                self._present.append(comer)
        if not self._present:
            self._present = [rater for rater in self.raters if rater not in self._finished][:present]
        return self._rng.choice(self._present) if self._present else None

    def _wait(self) -> bool:
        """Let all leases run out, then ask everybody again; return whether anything is left to be rated."""
        self.clock.advance(2 * LEASE_SECONDS)
        self._finished.clear()
        self._open.clear()
        return any(self.store.progress(rater, self.plan)[1] for rater in self.raters)


def handout(options: argparse.Namespace) -> int:
    """Make the study, look at each state, and check the end; return 1 where something was not exact."""
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        postgres_server() if options.postgres else nullcontext() as server,
    ):
        return _handout(server.url() if server else f"sqlite:///{Path(folder) / 'study.db'}", options)


def _handout(url: str, options: argparse.Namespace) -> int:
    plan = Plan(seed=1, slots=options.overlap, lease=timedelta(seconds=LEASE_SECONDS))
    clock = Clock()
    print(
        f"{options.pairs} pairs, {options.raters} raters, overlap {options.overlap}, "
        f"{url.partition(':')[0]}; {platform.machine()}, Python {platform.python_version()}, {load()}",
        flush=True,
    )
    with _clocked("make the database and add the pairs"), Store.open(url, create=True, clock=clock) as store:
        for start in range(0, options.pairs, _PART):
            numbers = range(start, min(options.pairs, start + _PART))
            store.add_pairs([_pair(number) for number in numbers])
    with _clocked("open it again"):
        store = Store.open(url, clock=clock)
    engine = create_engine(url)
    raters = _add_raters(engine, options.raters)
    with _clocked("first hand-out of the study"):
        store.hand_out(raters[0], plan)
    simulation = Simulation(store, clock, raters, plan)
    _time_commits()
    rated = 0
    with store:
        for share in options.states:
            if share:
                rated += _fill(engine, raters, plan, share=share, now=clock.now)
            to_the_end = share == options.states[-1] and (share > 0 or options.complete)
            given, saved = simulation.run(options.each, options, to_the_end=to_the_end)
            print(f"\n{share:.1%} of the slots rated before; {load()}\n\n{HEADING}")
            for what, times in (("hand-out", given), ("save", saved), ("progress", simulation.progress())):
                print(times.row(what))
            print(f"\nmost memory {_peak():.2f} GB", flush=True)
        return _end(engine, simulation, options, rated)


def _pair(number: int) -> Pair:
    """Return a pair with tiny texts: six comparisons of four methods, three datasets."""
    texts = f"prompt {number}", f"a {number}", f"b {number}"
    return make_pair(number, COMPARISONS[number % 6], texts, dataset=DATASETS[number // 6 % 3])


def _end(engine: Engine, simulation: Simulation, options: argparse.Namespace, rated: int) -> int:
    """Count in SQL of its own what is wrong in the database; none of it uses the store."""
    counts, found = simulation.acknowledged, {}
    with engine.connect() as connection:
        for what, statement in CHECKS.items():
            query = text(statement.format(counted=_COUNTED, slots=options.overlap))
            found[what] = int(connection.execute(query).scalar_one())
        stored = connection.execute(text("SELECT count(*) FROM verdict")).scalar_one()
        size = connection.execute(text(_SIZE[connection.dialect.name])).scalar_one()
    if not options.states[-1] and not options.complete:
        del found["pairs rated less often"]
    found["acknowledged and not stored, or the other way round"] = abs(
        counts["rated"] + counts["surplus"] + rated - stored
    )
    print(
        f"\nby the store: {dict(counts)}; in bulk: {rated}; {size / stored:.0f} bytes of database a verdict"
    )
    for what, number in found.items():
        print(f"- {what}: {number}")
    return int(any(found.values()))


@contextmanager
def _clocked(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.2f} s; most memory so far {_peak():.2f} GB", flush=True)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


def _add_raters(engine: Engine, count: int) -> list[Rater]:
    """Add people in one transaction, as inviting them waits for the disk each time."""
    names = [f"rater {number:05d}" for number in range(count)]
    rows = [{"name": name, "kind": "person", "created_at": BEGAN} for name in names]
    with engine.begin() as connection:
        connection.execute(rater_table.insert(), rows)
        found = dict(connection.execute(select(rater_table.c.name, rater_table.c.id)).all())
    return [Rater(id=found[name], name=name, kind="person") for name in names]


def _fill(engine: Engine, raters: list[Rater], plan: Plan, *, share: float, now: datetime) -> int:
    """Rate in bulk what is missing to about a share of all slots; return how many ratings that was.

    Which slots is decided by the pairs' places on the ring. No rater gets a pair twice; a slot for which only
    such a one would be left stays free, and so do leases that are under way.
    """
    values = {"now": now, "raters": len(raters), "who": raters[0].id, "share": round(share * 1000)}
    slots = " UNION ALL ".join(f"SELECT {slot} AS slot" for slot in range(plan.slots))
    with engine.begin() as connection:
        before = connection.execute(text("SELECT coalesce(max(id), 0) FROM presentation")).scalar_one()
        fill = text(_FILL.format(slots=slots)).bindparams(bindparam("now", type_=Moment))
        count = connection.execute(fill, values).rowcount
        connection.execute(text(_RATE), {"before": before})
        occupancy.recount(connection, occupancy.PEOPLE)
    if engine.dialect.name == "postgresql":  # as its autovacuum does in time
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    return count


# The two slots of a couple show one side each: the other one's is known where it was shown.
_FILL = """
INSERT INTO presentation (pair_id, rater_id, pool, slot, attempt, first, handed_out, leased_until, rated_at,
    superseded, withdrawn, role)
SELECT pair_id, rater_id, 'people', slot, 0, first, :now, :now, :now, false, false, 'study' FROM (
    SELECT pair_id, slot, COALESCE(
            (SELECT CASE other.first WHEN 'a' THEN 'b' ELSE 'a' END FROM presentation AS other
             WHERE other.pair_id = occupancy.pair_id AND other.pool = 'people'
             AND other.slot = slots.slot + 1 - 2 * (slots.slot % 2) ORDER BY other.id LIMIT 1),
            CASE WHEN (slot + position) % 2 = 0 THEN 'a' ELSE 'b' END) AS first,
        :who + (position + slot * (1 + position / :raters)) % :raters AS rater_id
    FROM occupancy CROSS JOIN ({slots}) AS slots
    WHERE pool = 'people' AND (ring / 7 + slot * 7919) % 1000 < :share
) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM presentation AS p WHERE p.pair_id = wanted.pair_id AND p.pool = 'people'
    AND (p.slot = wanted.slot OR p.rater_id = wanted.rater_id))
"""
_RATE = """
INSERT INTO verdict (presentation_id, criterion, revision, choice, at)
SELECT id, 'fluency', 0, 'A', rated_at FROM presentation WHERE id > :before AND rated_at IS NOT NULL
"""
_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    "postgresql": "SELECT pg_database_size(current_database())",
}
_COUNTED = (
    "presentation WHERE role = 'study' AND rated_at IS NOT NULL AND NOT superseded AND NOT withdrawn "
    "AND pool = 'people'"
)
CHECKS = {
    "pairs rated more often than planned": """
        SELECT count(*) FROM
        (SELECT pair_id FROM {counted} GROUP BY pair_id HAVING count(*) > {slots}) AS x""",
    "pairs rated less often": """
        SELECT (SELECT count(*) FROM pair) - (SELECT count(*) FROM
        (SELECT pair_id FROM {counted} GROUP BY pair_id HAVING count(*) >= {slots}) AS x)""",
    "raters shown a pair twice": """
        SELECT count(*) FROM (SELECT pair_id FROM presentation WHERE role = 'study' AND pool = 'people'
        GROUP BY pair_id, rater_id HAVING count(*) > 1) AS x""",
    "full pairs with uneven sides": """
        SELECT count(*) FROM (SELECT pair_id FROM {counted} GROUP BY pair_id HAVING count(*) = {slots}
        AND abs(sum(CASE first WHEN 'a' THEN 1 ELSE -1 END)) > {slots} % 2) AS x""",
    "ratings without a verdict": """
        SELECT count(*) FROM presentation WHERE rated_at IS NOT NULL
        AND id NOT IN (SELECT presentation_id FROM verdict)""",
    "verdicts without a rating": """
        SELECT count(*) FROM verdict WHERE presentation_id NOT IN
        (SELECT id FROM presentation WHERE rated_at IS NOT NULL)""",
    "pairs whose held slots are miscounted": """
        SELECT count(*) FROM occupancy LEFT JOIN (SELECT pair_id, count(*) AS times FROM presentation
        WHERE pool = 'people' AND NOT superseded AND NOT withdrawn GROUP BY pair_id) AS x
        ON x.pair_id = occupancy.pair_id WHERE occupancy.pool = 'people'
        AND (held <> coalesce(times, 0) OR vacant <> (coalesce(times, 0) < {slots}))""",
}


# Is `occupancy` needed? The next 16 pairs with a free slot by the hash alone, each pair's holders counted.

FILLED = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
_FIND = """
SELECT pair_id FROM occupancy WHERE pool = 'people' AND vacant = 1 AND ring >= :start
AND (SELECT count(*) FROM presentation WHERE presentation.pool = 'people'
     AND presentation.pair_id = occupancy.pair_id AND superseded = 0 AND withdrawn = 0) < :slots
AND NOT EXISTS (SELECT 1 FROM presentation AS seen WHERE seen.rater_id = :rater
                AND seen.pair_id = occupancy.pair_id AND seen.pool IN ('people', 'simulated'))
ORDER BY ring LIMIT 16
"""
_PAIR = (
    "INSERT INTO pair (id, dataset, prompt_id, prompt, method_a, method_b, continuation_a, continuation_b, "
    "text_a, text_b, position, for_people)"
)
_PRESENT = """
INSERT OR IGNORE INTO presentation (pair_id, slot, rater_id, pool, attempt, first, handed_out, leased_until,
    rated_at, superseded) VALUES (?, ?, ?, 'people', 0, 'a', ?, ?, ?, 0)
"""


def count(options: argparse.Namespace) -> int:
    """Fill a study in a random order; print milliseconds of processor time of a look-up for each share."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "study.db"
        Store.open(f"sqlite:///{file}", create=True).close()
        database = sqlite3.connect(file)
        ids = [f"{draw.getrandbits(256):064x}" for _ in range(options.pairs)]
        database.executemany(
            "INSERT INTO rater (id, name, kind, created_at) VALUES (?, ?, 'person', ?)",
            ((number + 1, f"rater {number}", MOMENT) for number in range(options.raters)),
        )
        database.executemany(
            f"{_PAIR} VALUES (?, 'd', 'p', '', 'guard', 'top_k', 'c', 'd', '', '', ?, 1)",
            ((pair_id, position) for position, pair_id in enumerate(ids)),
        )
        database.executemany(
            "INSERT INTO occupancy (pool, pair_id, ring, held, vacant, position, dataset, method_a, "
            "method_b) VALUES ('people', ?, ?, 0, 1, ?, 'd', 'guard', 'top_k')",
            ((pair_id, draw.getrandbits(31), position) for position, pair_id in enumerate(ids)),
        )
        seats = [(pair_id, slot) for pair_id in ids for slot in range(options.overlap)]
        draw.shuffle(seats)
        done = 0
        print(heading("slots rated", "median ms", "longest ms"))
        for share in FILLED:
            until = round(share * len(seats))
            chosen = range(done, until)
            database.executemany(
                _PRESENT, ((*seats[number], number % options.raters + 1, *[MOMENT] * 3) for number in chosen)
            )
            done = until
            database.commit()
            database.execute("ANALYZE")
            took = [
                _find(database, draw.getrandbits(31), draw.randint(1, options.raters), options.overlap)
                for _ in range(options.each)
            ]
            print(line([f"{share:.2%}", f"{statistics.median(took):.2f}", f"{max(took):.2f}"]), flush=True)
        database.close()
    return 0


def _find(database: sqlite3.Connection, start: int, rater: int, slots: int) -> float:
    """Look for pairs from `start` on, then from the beginning; return the milliseconds that it took."""
    began = time.process_time()
    values = {"start": start, "rater": rater, "slots": slots}
    if len(database.execute(_FIND, values).fetchall()) < 16:
        database.execute(_FIND, {**values, "start": 0}).fetchall()
    return (time.process_time() - began) * 1000


# Copying: 4 verdicts a presentation, 2.5 presentations a pair of 2 kB of text.


def copying(options: argparse.Namespace) -> int:
    """Copy a study to PostgreSQL and back, and print how long each step took; return 1 where it differs."""
    with tempfile.TemporaryDirectory(dir=options.folder) as made, postgres_server() as server:
        folder = Path(made)
        _write_study(folder / "study.db", options.verdicts)
        here, back = (f"sqlite:///{folder / name}" for name in ("study.db", "back.db"))
        there = server.url()
        steps = {
            "SQLite to PostgreSQL": lambda: copy(here, there),
            "PostgreSQL to SQLite": lambda: copy(there, back),
            "checksum of SQLite": lambda: checksum(here),
            "checksum of PostgreSQL": lambda: checksum(there),
        }
        size = (folder / "study.db").stat().st_size
        print(f"{options.verdicts} verdicts, {size / 2**20:.0f} MiB as SQLite, {load()}\n")
        print(heading("step", "seconds", "rows a second", "digest"))
        digests = set()
        for name, step in steps.items():
            began = time.perf_counter()
            found = step()
            took = time.perf_counter() - began
            digests.add(found.sha256)
            print(line([name, f"{took:.1f}", f"{found.rows / took:,.0f}", found.sha256[:12]]), flush=True)
    return int(len(digests) > 1)


def _write_study(file: Path, verdicts: int) -> None:
    Store.open(f"sqlite:///{file}", create=True).close()
    pairs, shown = max(1, verdicts // 10), verdicts // 4
    database = sqlite3.connect(file)
    database.execute("INSERT INTO rater (id, name, kind, created_at) VALUES (1, 'a', 'model', ?)", (MOMENT,))
    database.executemany(
        f"{_PAIR} VALUES (?, 'd', ?, ?, 'guard', 'top_k', ?, ?, ?, ?, ?, 1)",
        (
            (f"p{n:09}", f"n{n}", "x" * 200, f"c{n}", f"d{n}", "word " * 180, "text " * 180, n)
            for n in range(pairs)
        ),
    )
    database.executemany(
        "INSERT INTO presentation (id, pair_id, rater_id, pool, slot, attempt, first, handed_out, "
        "leased_until, superseded) VALUES (?, ?, 1, 'model:a', ?, 0, 'a', ?, ?, 0)",
        ((n + 1, f"p{n % pairs:09}", n // pairs, MOMENT, MOMENT) for n in range(shown)),
    )
    database.executemany(
        "INSERT INTO verdict (presentation_id, criterion, revision, choice, at, seconds, active_seconds) "
        "VALUES (?, ?, 0, 'A', ?, ?, ?)",
        ((n + 1, f"criterion {k}", MOMENT, n / 7, n / 11) for n in range(shown) for k in range(4)),
    )
    database.commit()
    database.close()


MEASURES = {"handout": handout, "count": count, "copy": copying}
_DEFAULTS = {"handout": (1_000_000, 20_000), "count": (100_000, 50), "copy": (0, 0)}


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 where the overlap was not exact or something was lost."""
    command = parser(__doc__)
    option = command.add_argument
    option("measure", choices=MEASURES)
    option("--pairs", type=int, help="default: a million to hand out, 100 000 to count")
    option("--raters", type=int, default=10_000)
    option("--overlap", type=int, default=2, help="how many raters each pair is to have")
    option("--states", type=float, nargs="+", default=[0.0, 0.5, 0.999], help="shares of slots rated before")
    option("--each", type=int, help="calls in each state, 20 000 or 50; the last state goes on to the end")
    option("--complete", action="store_true", help="go on to the end though the study was new")
    option("--present", type=int, default=300, help="raters at work at once")
    option("--leave", type=float, default=0.02, help="share of pairs that are left unrated")
    option("--postgres", action="store_true", help="on a private PostgreSQL, durability on, not on SQLite")
    option("--verdicts", type=int, default=200_000, help="of the study that is copied")
    option("--folder", type=Path, help="where the database is made; default: a temporary folder")
    options = command.parse_args(arguments)
    if options.quick:
        options.pairs, options.raters, options.each, options.verdicts = 300, 30, 60, 2000
    pairs, each = _DEFAULTS[options.measure]
    options.pairs, options.each = options.pairs or pairs, options.each or each
    return MEASURES[options.measure](options)


if __name__ == "__main__":
    sys.exit(main())
