"""How fast the annotation app is, and whether anything is lost: real sessions against the real server.

Raters are websocket clients that speak Streamlit's protocol, and one real Chromium; the server is
`guard-eval annotate` on a made study of 150 pairs. Linux only. README.md says what is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import annotation_browser
import annotation_crash
import annotation_load
import annotation_postgres
import annotation_tables
from annotation_server import wait_for_quiet

MEASURES = ("thinking", "rush", "memory", "browser", "server-kill", "database-kill")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    option = command.add_argument
    option("--only", nargs="+", choices=MEASURES, default=list(MEASURES), help="which measures")
    option("--raters", type=int, default=50, help="at once")
    option("--overlap", type=int, default=24, help="raters of a pair, in the measures of speed")
    option("--think", type=float, default=5.0, help="seconds a rater thinks, on average")
    option("--seconds", type=float, default=60.0, help="of raters who think; without pause it is a third")
    option("--rounds", type=int, default=3, help="of the measures of speed; all of them are shown")
    option("--kills", type=int, default=10, help="of the server, and of the database")
    option(
        "--sessions",
        type=int,
        default=50,
        help="sessions that memory is weighed at; then thrice as many more",
    )
    option("--clicks", type=int, default=40, help="in Chromium")
    option("--postgres", action="store_true", help="measure speed on PostgreSQL, too, durability on")
    option("--quiet-within", type=float, default=0, help="wait so many seconds for a quiet machine each time")
    option(
        "--quick",
        action="store_true",
        help="a smoke run: few raters, seconds and kills; its times mean nothing",
    )
    option("--output", type=Path, help="write the Markdown here, too, anew after each measure")
    return command


def read(arguments: list[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser()
    options = command.parse_args(arguments)
    if options.quick:
        options.raters, options.think, options.seconds, options.rounds = 4, 0.5, 3.0, 1
        options.kills, options.sessions, options.clicks = 1, 2, 3
    if (
        min(options.raters, options.overlap, options.rounds, options.kills, options.sessions, options.clicks)
        < 1
    ):
        command.error("raters, overlap, rounds, kills, sessions and clicks must be at least 1")
    if min(options.seconds, options.think) <= 0:
        command.error("seconds and think must be more than 0")
    if not Path("/proc/stat").exists():
        command.error("processes are weighed by /proc, which this system does not have; run it on Linux")
    return options


@dataclass
class Run:
    """The measures of one call."""

    options: argparse.Namespace
    tables: annotation_tables.Tables = field(default_factory=annotation_tables.Tables)

    def load(self, name: str, *, think: float, seconds: float) -> None:
        """Measure speed in rounds, on each database."""
        for database in ("SQLite", *(("PostgreSQL",) if self.options.postgres else ())):
            measure = partial(self._load, name=name, database=database, think=think, seconds=seconds)
            self.once(measure, rounds=self.options.rounds)

    def _load(self, folder: Path, *, name: str, database: str, think: float, seconds: float) -> None:
        raters, overlap = self.options.raters, self.options.overlap
        programs = annotation_postgres.binaries()
        if database == "SQLite":
            found = annotation_load.load(folder, raters=raters, overlap=overlap, think=think, seconds=seconds)
        elif programs is None:
            self.tables.skip(f"{name} on PostgreSQL", "its server programs are not installed")
            return
        else:
            with annotation_postgres.running(programs) as postgres:
                found = annotation_load.load(
                    folder,
                    raters=raters,
                    overlap=overlap,
                    think=think,
                    seconds=seconds,
                    database=postgres.url,
                )
        self.tables.loads.append((name, raters, think, database, found))

    def memory(self, folder: Path) -> None:
        """Weigh sessions."""
        sessions = self.options.sessions
        self.tables.memory = annotation_load.memory(folder, sessions=sessions, more=3 * sessions)

    def browser(self, folder: Path) -> None:
        """Click in Chromium."""
        found = annotation_browser.clicks(folder, count=self.options.clicks)
        if found is None:
            self.tables.skip("browser", f"Playwright or {annotation_browser.CHROMIUM} is missing")
        else:
            self.tables.clicks.append(found)

    def server_kill(self, folder: Path) -> None:
        """Kill the server."""
        rounds, raters = self.options.kills, self.options.raters
        self.tables.crashes.append(annotation_crash.server_killed(folder, rounds=rounds, raters=raters))

    def database_kill(self, folder: Path) -> None:
        """Kill PostgreSQL."""
        rounds, raters = self.options.kills, self.options.raters
        found = annotation_crash.database_killed(folder, rounds=rounds, raters=raters)
        if found is None:
            self.tables.skip("database-kill", "PostgreSQL's server programs are not installed")
        else:
            self.tables.crashes.append(found)

    def once(self, measure: Callable[[Path], None], *, rounds: int = 1) -> None:
        """Measure in a folder of its own, when the machine is quiet or patience ends; `rounds` times."""
        for _ in range(rounds):
            if self.options.quiet_within:
                others = wait_for_quiet(within=self.options.quiet_within)
                print(
                    f"other programs keep {others:.2f} cores busy; load {os.getloadavg()[0]:.1f}", flush=True
                )
            with tempfile.TemporaryDirectory(prefix="annotation") as folder:
                measure(Path(folder))
            print(self.tables.newest(), flush=True)
            if self.options.output:
                self.options.output.write_text(self.tables.markdown(), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the measures; return the exit code: 1 where a goal was missed."""
    options = read(arguments)
    run, start = Run(options), time.perf_counter()
    measures: dict[str, Callable[[], None]] = {
        "thinking": partial(run.load, "thinking", think=options.think, seconds=options.seconds),
        "rush": partial(run.load, "rush", think=0, seconds=options.seconds / 3),
        "memory": partial(run.once, run.memory),
        "browser": partial(run.once, run.browser, rounds=options.rounds),
        "server-kill": partial(run.once, run.server_kill),
        "database-kill": partial(run.once, run.database_kill),
    }
    for name in MEASURES:
        if name in options.only:
            measures[name]()
    run.tables.took = time.perf_counter() - start
    markdown = run.tables.markdown()
    print("\n" + markdown, flush=True)
    if options.output:
        options.output.write_text(markdown, encoding="utf-8")
    return 0 if run.tables.met() else 1


if __name__ == "__main__":
    sys.exit(main())
