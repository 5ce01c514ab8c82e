"""Functions that all benchmarks share: options, timing in turns, tables, processes, PostgreSQL."""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guard_eval.records import Pair

ROOT = Path(__file__).resolve().parents[1]

Row = tuple[str, str, str, bool]
"""A measure's name, the result, the goal, and whether the goal is met."""

Measure = Callable[[Path, argparse.Namespace], list[Row]]
"""A function that makes one measure in an empty folder."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows defaults and that has an option for a quick test run."""
    result = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    result.add_argument("--quick", action="store_true", help="a smoke run: its figures mean nothing")
    return result


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The times of A and B, measured in turns.

    Attributes:
        base: Seconds of each run of A. There is one run more than of B.
        way: Seconds of each run of B.
    """

    base: list[float]
    way: list[float]

    @property
    def ratios(self) -> list[float]:
        """Divide the time of each run of B by the mean of the runs of A before and after this run."""
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

    def format_ratio(self, *, inverse: bool = False) -> str:
        """Return the median ratio of B to A, or of A to B, with the smallest and the largest in brackets."""
        result = [1 / ratio for ratio in self.ratios] if inverse else self.ratios
        return f"{statistics.median(result):.2f} ({min(result):.2f}–{max(result):.2f})"


def in_turns(
    base: Callable[[], float], way: Callable[[], float], *, rounds: int, seconds: float = math.inf
) -> Turns:
    """Time A and B in turns, A B A … A, so that a slow period of the machine affects both.

    Args:
        base: Runs A once, and returns the time in seconds.
        way: Runs B once, and returns the time in seconds.
        rounds: The largest number of runs of B.
        seconds: No round starts after this time, but there are always at least two rounds.
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
    """Time A and B in turns, after one run of each that is not counted."""
    base()
    way()
    return in_turns(timed(base), timed(way), rounds=rounds, seconds=seconds)


def timed(run: Callable[[], object], wait: Callable[[], None] = lambda: None) -> Callable[[], float]:
    """Return a function that times one call of `run` in seconds. `wait` waits until the device is idle."""

    def once() -> float:
        wait()
        start = time.perf_counter()
        run()
        wait()
        return time.perf_counter() - start

    return once


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.95)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def line(cells: Iterable[object]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def heading(*columns: str) -> str:
    """Return the first two lines of a Markdown table."""
    return f"{line(columns)}\n{line(['---'] * len(columns))}"


def table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    return "\n".join((heading(*columns), *map(line, rows)))


def load() -> str:
    """Return the load of the machine."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def run_measures(titles: Mapping[str, str], measures: Mapping[str, Measure], options: Any) -> int:
    """Run the measures in `options.only`, print a table for each, and return 1 if a goal was missed.

    Args:
        titles: The heading of each measure.
        measures: The measures by name. In a name, a comma separates the measure from its case.
        options: `only` has names of measures; `output` is a file for all tables, written after each measure.
    """
    parts, met = [], True
    for name, measure in measures.items():
        kind, comma, where = name.partition(",")
        if kind not in options.only:
            continue
        before = load()
        with tempfile.TemporaryDirectory(prefix=kind) as folder:
            rows = measure(Path(folder), options)
        cells = [(what, result, goal, "" if good else "**missed**") for what, result, goal, good in rows]
        result = table(("", "found", "goal", ""), cells)
        parts.append(f"### {titles[kind]}{comma}{where}\n\n{result}\n\n{before} before it.\n")
        met = met and all(row[3] for row in rows)
        print(parts[-1], flush=True)
        if options.output:
            options.output.write_text("\n".join(parts), encoding="utf-8")
    return 0 if met else 1


def wait_until(done: Callable[[], bool], *, seconds: float = 600, what: str = "it") -> None:
    """Wait until a condition is met.

    Raises:
        RuntimeError: The condition is not met within `seconds`.
    """
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.01)


def environment(**more: str) -> dict[str, str]:
    """Return environment variables for a process that imports this checkout."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, **more}


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tests_module(name: str) -> Any:
    """Import a module of tests/support, which is not a package."""
    folder = str(ROOT / "tests" / "support")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def make_pair(number: int, methods: Sequence[str], texts: Sequence[str]) -> Pair:
    """Return a pair of two methods; `texts` are the prompt and the two continuations."""
    fields = dict(zip(("prompt", "text_a", "text_b"), texts, strict=True))
    names = {"method_a": methods[0], "method_b": methods[1]}
    pair: Pair = tests_module("factories").make_pair(number, **names, **fields)
    return pair
