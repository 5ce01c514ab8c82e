"""What all benchmarks share: timing two things in turns, tables of goals, and processes on Linux."""

from __future__ import annotations

import itertools
import math
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

Row = tuple[str, str, str, bool]
"""What was measured, what was found, the goal, and whether it is met."""


@dataclass(frozen=True, kw_only=True)
class Turns:
    """What A and B took in the same minutes.

    Attributes:
        base: Seconds of each run of A; one more than of B.
        way: Seconds of each run of B.
    """

    base: list[float]
    way: list[float]

    @property
    def ratios(self) -> list[float]:
        """Return each run of B over the mean of the runs of A before and after it."""
        around = [(before + after) / 2 for before, after in itertools.pairwise(self.base)]
        return [b / a for a, b in zip(around, self.way, strict=True)]

    @property
    def ratio(self) -> float:
        """Return the median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def medians(self) -> tuple[float, float]:
        """Return the median seconds of A and of B."""
        return statistics.median(self.base), statistics.median(self.way)

    def shown(self, *, inverse: bool = False) -> str:
        """Return the median ratio, or of A over B, with the least and the greatest in brackets."""
        found = [1 / ratio for ratio in self.ratios] if inverse else self.ratios
        return f"{statistics.median(found):.2f} ({min(found):.2f}–{max(found):.2f})"


def in_turns(
    base: Callable[[], float], way: Callable[[], float], *, rounds: int, seconds: float = math.inf
) -> Turns:
    """Time A and B in turns, A B A … A: a machine that is slow for a while is slow for both.

    Args:
        base: Runs A once and returns how long it took.
        way: The same of B.
        rounds: At most so many runs of B.
        seconds: No round starts after so many seconds, but two are made in any case.
    """
    started = time.perf_counter()
    turns = Turns(base=[base()], way=[])
    while len(turns.way) < rounds:
        if len(turns.way) >= 2 and time.perf_counter() - started > seconds:
            break
        turns.way.append(way())
        turns.base.append(base())
    return turns


def compare(
    base: Callable[[], object], way: Callable[[], object], *, rounds: int, seconds: float = 60
) -> Turns:
    """Run A and B in turns after a run of each that does not count."""
    base()
    way()
    return in_turns(timed(base), timed(way), rounds=rounds, seconds=seconds)


def timed(run: Callable[[], object]) -> Callable[[], float]:
    """Return what runs once and returns the seconds."""

    def once() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return once


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.95)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    heading = list(columns)
    lines: list[Iterable[object]] = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def goals(title: str, rows: Iterable[Row]) -> str:
    """Return a table of what was found beside the goals."""
    cells = [(what, found, goal, "" if met else "**missed**") for what, found, goal, met in rows]
    return f"### {title}\n\n{table(('', 'found', 'goal', ''), cells)}\n{load()}.\n"


def load() -> str:
    """Return how busy the machine is."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def wait_until(done: Callable[[], bool], *, seconds: float = 600, what: str = "it") -> None:
    """Wait for a condition.

    Raises:
        RuntimeError: It is not met within `seconds`.
    """
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.01)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that imports this checkout."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, **more}


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(root: int) -> list[int]:
    """Return a process and all that it started, parents first (Linux)."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found
