"""What the annotation benchmark found, as Markdown: the goals first, then every round."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version

from annotation_browser import Clicks
from annotation_crash import Crashes
from annotation_load import Load, Memory

_PEER = {
    ("thinking", "median"): "82",
    ("thinking", "p95"): "321",
    ("rush", "per_second"): "21",
    ("rush", "cpu_ms"): "48",
    ("clicks", "median"): "277",
}
"""Potato 2.12 (the strongest peer for this task) with 50 raters on a like machine of two shared cores."""


@dataclass(frozen=True)
class Goal:
    """One figure and what it should be."""

    what: str
    unit: str
    found: float
    goal: float
    most: bool
    floor: float | None = None
    peer: str = ""

    @property
    def met(self) -> bool:
        """Return whether it is as it should be."""
        return self.found <= self.goal if self.most else self.found >= self.goal

    def row(self) -> tuple[str, ...]:
        """Return it as a table's row."""
        sign = "≤" if self.most else "≥"
        floor = "" if self.floor is None else _number(self.floor)
        return (
            f"{self.what}, {self.unit}" if self.unit else self.what,
            f"**{_number(self.found)}**",
            f"{sign} {_number(self.goal)}",
            "yes" if self.met else "**no**",
            floor,
            self.peer,
        )


@dataclass
class Tables:
    """Everything a run found."""

    loads: list[tuple[str, int, float, str, Load]] = field(default_factory=list)
    memory: Memory | None = None
    clicks: list[Clicks] = field(default_factory=list)
    crashes: list[Crashes] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    took: float | None = None

    def skip(self, what: str, why: str) -> None:
        """Note what was not measured."""
        self.skipped.append(f"{what}: not measured, {why}")

    def goals(self) -> list[Goal]:
        """Return the goals; of several rounds the one with the least other work on the machine counts."""
        goals: list[Goal] = []
        for name in ("thinking", "rush"):
            for database in ("SQLite", "PostgreSQL"):
                rounds = [load for kind, _, _, on, load in self.loads if (kind, on) == (name, database)]
                if rounds:
                    quietest = min(rounds, key=lambda load: load.others)
                    errors = sum(load.errors for load in rounds)
                    goals += _load_goals(name, database, quietest, errors)
        if self.memory:
            goals.append(Goal("a session adds", "MB", self.memory.per_session, 0.2, most=True))
        if self.clicks:
            quietest_clicks = min(self.clicks, key=lambda found: found.others)
            peer = _PEER["clicks", "median"]
            found = quietest_clicks.median
            goals.append(Goal("Chromium, click → next pair, median", "ms", found, 60, most=True, peer=peer))
        for crash in self.crashes:
            there = crash.compared
            what = f"{crash.what}, {crash.rounds} times"
            unseen = crash.exceptions + crash.stuck + crash.missing
            goals += [
                Goal(f"{what}: of {there.acknowledged} acknowledged, lost", "", there.lost, 0, most=True),
                Goal(f"{what}: doubled or unasked", "", there.doubled + there.unasked, 0, most=True),
                Goal(f"{what}: raters who saw an exception or did not go on", "", unseen, 0, most=True),
            ]
        return goals

    def met(self) -> bool:
        """Return whether every goal measured was met."""
        return all(goal.met for goal in self.goals())

    def newest(self) -> str:
        """Return the goals as far as they are known, for somebody who watches."""
        return "\n".join(" | ".join(goal.row()) for goal in self.goals())

    def markdown(self) -> str:
        """Return everything."""
        parts = [_about(self.took)]
        columns = ("measure", "found", "goal", "met", "transport alone", "Potato 2.12")
        parts.append(_table(columns, (goal.row() for goal in self.goals())))
        if self.loads:
            parts += ["### Every round", _table(_LOAD, (_load_row(*load) for load in self.loads))]
        if self.memory:
            m = self.memory
            parts.append(
                f"Memory of the serving process: {m.empty:.0f} MB with nobody, {m.few:.1f} MB with "
                f"{m.sessions} sessions, {m.many:.1f} MB with {m.sessions + m.more}; {m.errors} errors."
            )
        parts += [
            f"Chromium {c.version}: {c.clicks} clicks, median {c.median:.0f} ms, p95 {c.p95:.0f} ms, other "
            f"programs on {c.others:.2f} cores."
            for c in self.clicks
        ]
        if self.crashes:
            parts += ["### Killed", _table(_CRASH, (_crash_row(crash) for crash in self.crashes))]
        return "\n\n".join(parts + self.skipped) + "\n"


def _load_goals(name: str, database: str, load: Load, errors: int) -> list[Goal]:
    where = "" if database == "SQLite" else f" ({database})"
    if name == "thinking":
        goals = [
            Goal(
                f"thinking{where}: submit → next pair, {key}", "ms", found, most_, most=True, floor=floor,
                peer=_PEER[name, key],
            )
            for key, found, most_, floor in (
                ("median", load.median, 25, load.floor_median),
                ("p95", load.p95, 80, load.floor_p95),
            )
        ]  # fmt: skip
    else:
        goals = [
            Goal(
                f"without pause{where}", "ratings/s", load.per_second, 110, most=False,
                floor=load.floor_per_second, peer=_PEER[name, "per_second"],
            )
        ]  # fmt: skip
    what = "thinking" if name == "thinking" else "without pause"
    peer = _PEER.get((name, "cpu_ms"), "")
    goals.append(Goal(f"{what}{where}: CPU of the server", "ms/rating", load.cpu_ms, 8, most=True, peer=peer))
    goals.append(Goal(f"{what}{where}: errors", "", errors, 0, most=True))
    return goals


_LOAD = (
    "measure", "raters", "thinking, s", "database", "ratings", "ratings/s", "median, ms", "p95, ms",
    "longest, ms", "server CPU, ms/rating", "client CPU, ms/rating", "kB/rating",
    "transport alone: median, p95 ms; 1/s", "errors", "other programs, cores",
    "load average", "heavy imports",
)  # fmt: skip


def _load_row(name: str, raters: int, think: float, database: str, load: Load) -> tuple[str, ...]:
    floor = f"{_number(load.floor_median)}, {_number(load.floor_p95)}; {_number(load.floor_per_second)}"
    return (
        name, str(raters), f"{think:g}", database, str(load.ratings), _number(load.per_second),
        _number(load.median), _number(load.p95), _number(load.longest), _number(load.cpu_ms),
        _number(load.client_ms), _number(load.kilobytes), floor, str(load.errors), f"{load.others:.2f}",
        f"{load.average:.1f}", ", ".join(load.heavy) or "none",
    )  # fmt: skip


_CRASH = (
    "killed", "times", "raters", "acknowledged", "lost", "doubled", "unasked", "in doubt and there",
    "connections lost", "calm pages", "exceptions shown", "tracebacks logged",
    "everybody again: median, longest s",
)  # fmt: skip


def _crash_row(crash: Crashes) -> tuple[str, ...]:
    there = crash.compared
    numbers = (
        crash.rounds, crash.raters, there.acknowledged, there.lost, there.doubled, there.unasked,
        there.unanswered, crash.lost_lines, crash.calm, crash.exceptions, crash.tracebacks,
    )  # fmt: skip
    return (crash.what, *map(str, numbers), f"{crash.back_median:.1f}, {crash.back_longest:.1f}")


def _about(took: float | None) -> str:
    cores = len(os.sched_getaffinity(0))
    return (
        f"{platform.machine()}, {cores} cores that client and server share, Python "
        f"{platform.python_version()}, Streamlit {version('streamlit')}; load average "
        f"{os.getloadavg()[0]:.1f} at the end"
        + ("; server and clients before other programs (`chrt --rr`)" if _is_first() else "")
        + (f"; {took:.0f} s in all." if took else ".")
    )


def _is_first() -> bool:
    return os.sched_getscheduler(0) in {os.SCHED_RR, os.SCHED_FIFO}


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = list(columns)
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"
