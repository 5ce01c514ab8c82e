"""How long handing out a pair takes in a study of a million pairs, and whether the overlap stays exact.

The store's own `hand_out` and `save` run, one after the other, for raters who come, rate some pairs, go,
leave pairs unrated and come back. The study is looked at when it is new, half full, and all but full, from
where it is rated to the end. What lies between these is filled in bulk. README.md says what is measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import assignment_study as made
import durable_postgres
import numpy as np
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine.default import DefaultDialect

from guard_eval.records import BlindPair, Plan, Rater
from guard_eval.store import Store

LEASE_SECONDS = 1800
GO = 0.05
"""How often a rater goes after a pair, which it may find open when it comes back."""


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    option = command.add_argument
    option("--pairs", type=int, default=1_000_000)
    option("--raters", type=int, default=10_000)
    option("--overlap", type=int, default=2, help="how many raters each pair is to have")
    option(
        "--states", type=float, nargs="+", default=[0.0, 0.5, 0.999], help="shares of the slots rated before"
    )
    option("--each", type=int, default=20_000, help="hand-outs in each state; the last goes on to the end")
    option(
        "--complete", action="store_true", help="the last state goes on to the end though it was a new study"
    )
    option("--present", type=int, default=300, help="raters at work at once")
    option("--leave", type=float, default=0.02, help="share of pairs that are left unrated")
    option("--postgres", action="store_true", help="on a private PostgreSQL, durability on, not on SQLite")
    option("--folder", type=Path, help="where the database is made; default: a temporary folder")
    return command


@dataclass
class Times:
    """Milliseconds of one kind of call: on the clock, of this process's processor, and within commits."""

    whole: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)

    def row(self, what: str) -> str:
        """Return a row of the table: the call less its commit, then its processor, then the commit."""
        own = np.array(self.whole) - np.array(self.commit)
        cells = [
            *(f"{np.percentile(own, share):.2f}" for share in (50, 95, 99, 100)),
            f"{np.mean(own > GOAL_MS):.2%}",
            *(f"{np.percentile(self.processor, share):.2f}" for share in (50, 99, 100)),
            *(f"{np.percentile(self.commit, share):.2f}" for share in (50, 99)),
        ]
        return f"| {what} | {len(own)} | {' | '.join(cells)} |"


GOAL_MS = 5
HEADING = (
    "| | calls | without commit: median, ms | p95 | p99 | longest | over 5 ms "
    "| processor: median | p99 | longest | commit: median | p99 |\n" + "| --- " * 12 + "|"
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
    start, processor = time.perf_counter(), time.thread_time()
    yield
    times.processor.append(1e3 * (time.thread_time() - processor))
    times.whole.append(1e3 * (time.perf_counter() - start))
    times.commit.append(1e3 * _waited)


class Simulation:
    """Raters at work on a store, one call after the other, at times of a clock of their own."""

    def __init__(self, store: Store, clock: made.Clock, raters: list[Rater], plan: Plan) -> None:
        self.store, self.clock, self.raters, self.plan = store, clock, raters, plan
        self._rng = random.Random(1)
        self._here: list[Rater] = []
        self._open: dict[Rater, BlindPair] = {}
        self._through: set[Rater] = set()
        self.acknowledged: Counter[str] = Counter()

    def run(self, calls: int, options: argparse.Namespace, *, to_the_end: bool) -> tuple[Times, Times]:
        """Hand out so many pairs, or until no slot is left; return the times of hand-outs and saves."""
        given, saved = Times(), Times()
        while len(given.whole) < calls or to_the_end:
            self.clock.advance(1.0)
            rater = self._somebody(options.present)
            if rater is None:
                if not self._wait():
                    break
                continue
            pair = self._open.pop(rater, None)
            if pair is not None and self._rng.random() < options.leave:  # it goes; perhaps it comes back
                self._here.remove(rater)
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
                self._through.add(rater)
            if not found or self._rng.random() < GO:
                self._here.remove(rater)
        return given, saved

    def _somebody(self, present: int) -> Rater | None:
        """Return a rater at work; others come where there are too few."""
        for _ in range(3):
            comer = self._rng.choice(self.raters)
            if len(self._here) < present and comer not in self._through and comer not in self._here:
                self._here.append(comer)
        if not self._here:
            self._here = [rater for rater in self.raters if rater not in self._through][:present]
        return self._rng.choice(self._here) if self._here else None

    def _wait(self) -> bool:
        """Let all leases run out, then ask everybody again; return whether anything is left to be rated."""
        self.clock.advance(2 * LEASE_SECONDS)
        self._through.clear()
        self._open.clear()
        return any(self.store.progress(rater, self.plan)[1] for rater in self.raters)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 where the overlap was not exact or something was lost."""
    options = parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if not options.postgres:
            return measure(f"sqlite:///{Path(folder) / 'study.db'}", options)
        programs = durable_postgres.binaries()
        if programs is None:
            sys.exit("PostgreSQL's server is not installed")
        with durable_postgres.running(programs) as server:
            return measure(server.url, options)


def measure(url: str, options: argparse.Namespace) -> int:
    """Make the study, look at each state, and check the end."""
    plan = Plan(seed=1, slots=options.overlap, lease=timedelta(seconds=LEASE_SECONDS))
    clock = made.Clock()
    print(
        f"{options.pairs} pairs, {options.raters} raters, overlap {options.overlap}, "
        f"{'PostgreSQL' if options.postgres else 'SQLite'}; {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    with _clocked("make the database and add the pairs"), Store.open(url, create=True, clock=clock) as store:
        made.fill_with_pairs(store, options.pairs)
    with _clocked("open it again"):
        store = Store.open(url, clock=clock)
    engine = create_engine(url)
    raters = made.add_raters(engine, options.raters)
    with _clocked("first hand-out of the study"):
        store.hand_out(raters[0], plan)
    simulation = Simulation(store, clock, raters, plan)
    _time_commits()
    rated = 0
    with store:
        for share in options.states:
            if share:
                rated += made.fill_with_ratings(engine, raters, plan, share=share, now=clock.now)
            to_the_end = share == options.states[-1] and (share > 0 or options.complete)
            given, saved = simulation.run(options.each, options, to_the_end=to_the_end)
            print(f"\n{share:.1%} of the slots rated before; load {os.getloadavg()[0]:.1f}\n\n{HEADING}")
            for what, times in (("hand-out", given), ("save", saved), ("progress", _progress(simulation))):
                print(times.row(what))
            found = dict(made.checked(engine, options.overlap))
            uneven = "" if rated else f"{made.UNEVEN}: {found[made.UNEVEN]}; "  # nobody evens out the bulk
            print(f"\n{uneven}most memory {_peak():.2f} GB", flush=True)
        return _end(engine, simulation, options, rated)


def _end(engine: Engine, simulation: Simulation, options: argparse.Namespace, rated: int) -> int:
    said = simulation.acknowledged
    found = dict(made.checked(engine, options.overlap))
    del found[made.UNEVEN]
    if not options.states[-1] and not options.complete:
        del found["pairs rated less often"]
    with engine.connect() as connection:
        kept = connection.execute(text("SELECT count(*) FROM verdict")).scalar_one()
        size = made.size(connection)
    found["acknowledged and not there, or there and not acknowledged"] = abs(
        said["rated"] + said["surplus"] + rated - kept
    )
    print(f"\nby the store: {dict(said)}; in bulk: {rated}; {size / kept:.0f} bytes of database per verdict")
    for what, number in found.items():
        print(f"- {what}: {number}")
    return int(any(found.values()))


def _progress(simulation: Simulation) -> Times:
    times = Times()
    for rater in simulation.raters[:200]:
        with timed(times):
            simulation.store.progress(rater, simulation.plan)
    return times


@contextmanager
def _clocked(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.2f} s; most memory so far {_peak():.2f} GB", flush=True)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


if __name__ == "__main__":
    sys.exit(main())
