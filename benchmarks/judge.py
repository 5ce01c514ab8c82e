"""How fast a judge's run is, and whether it loses or pays twice: against a server that is late and fails.

From the repository's root, on a machine that does nothing else:

    python benchmarks/judge.py --output judge.md     # everything, some minutes
    python benchmarks/judge.py --quick               # does it run? (times mean nothing)

It ends with code 1 where a goal was missed. (This file has the name of a package. No file here may import
that package: `judge_turns.py`, which must, runs without this folder on its path.)
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import annotation_postgres
import judge_crash
from judge_crash import Row
from judge_server import serving

MEASURES = ("speed", "faults", "kill", "two", "budget")
TITLES = {
    "speed": "Raw loop and judge in turns, concurrency 64, 50 ms latency",
    "faults": "10 % 429, 5 % 500, 5 % prose, 2 % truncated, 2 % resets",
    "kill": "`kill -9` in the middle, and again",
    "two": "Two commands on one study at once",
    "budget": "Budgets in the middle",
}


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES), help="which measures")
    made.add_argument("--requests", type=int, default=1000, help="of each run; a pair takes two")
    made.add_argument("--rounds", type=int, default=5, help="of the measure of speed")
    made.add_argument("--budgets", type=int, default=100, help="runs with a budget")
    made.add_argument("--postgres", action="store_true", help="two commands on PostgreSQL, too")
    made.add_argument(
        "--quick", action="store_true", help="a smoke run: few requests; its times mean nothing"
    )
    made.add_argument("--output", type=Path, help="write the Markdown here, too")
    return made


def read(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser()
    options = command.parse_args(arguments)
    if options.quick:
        options.requests, options.rounds, options.budgets = 100, 1, 2
    if options.requests < 100 or min(options.rounds, options.budgets) < 1:
        command.error("requests must be at least 100, rounds and budgets at least 1")
    return options


def speed(folder: Path, *, requests: int, rounds: int) -> list[Row]:
    """Let both run in turns in one process, and compare each run of ours with the raw ones around it."""
    program = str(Path(__file__).with_name("judge_turns.py"))
    with serving() as server:
        command = [sys.executable, "-P", program, server.url, f"--requests={requests}", f"--rounds={rounds}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)  # noqa: S603 (ours)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    raw = [line["raw"] for line in lines if "raw" in line]
    ours = [line["ours"] for line in lines if "ours" in line]
    rows: list[Row] = []
    for what, part in (("requests a second", 0), ("processor time", 1)):
        around = [(before[part] + after[part]) / 2 for before, after in itertools.pairwise(raw)]
        cost = [own[part] / other for own, other in zip(ours, around, strict=True)]
        ratios = cost if part else [1 / ratio for ratio in cost]
        ratio = statistics.median(ratios)
        middle = [statistics.median(run[part] for run in runs) for runs in (raw, ours)]
        shown = [f"{value:.2f} s" if part else f"{requests / value:.0f}/s" for value in middle]
        found = (
            f"raw {shown[0]}, judge {shown[1]}; ratio **{ratio:.2f}** ({min(ratios):.2f}–{max(ratios):.2f})"
        )
        goal, met = ("≤ 1.5 ×", ratio <= 1.5) if part else ("≥ 0.7 ×", ratio >= 0.7)
        rows.append((f"{what}, {requests} requests, {len(ratios)} rounds", found, goal, met))
    return [*rows, ("requests of a second run", "0 after every round", "0", True)]


def two(folder: Path, *, pairs: int, postgres: bool) -> list[Row]:
    """Run two commands at once, on each database."""
    rows = judge_crash.two(folder, pairs=pairs)
    programs = annotation_postgres.binaries()
    if postgres and programs is None:
        rows.append(("PostgreSQL", "not measured: its server programs are not installed", "", True))
    elif postgres and programs is not None:
        with annotation_postgres.running(programs) as server:
            rows += judge_crash.two(folder / "postgres", pairs=pairs, database=server.url)
    return rows


def section(name: str, rows: Sequence[Row]) -> str:
    """Return a measure's table."""
    lines = [
        f"| {what} | {found} | {goal} | {'' if met else '**missed**'} |" for what, found, goal, met in rows
    ]
    return "\n".join([f"### {TITLES[name]}", "", "| | found | goal | |", "|---|---|---|---|", *lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measures; return the exit code: 1 where a goal was missed."""
    options = read(arguments)
    pairs = options.requests // 2
    measures: dict[str, Callable[[Path], list[Row]]] = {
        "speed": lambda folder: speed(folder, requests=options.requests, rounds=options.rounds),
        "faults": lambda folder: judge_crash.faults(folder, pairs=pairs),
        "kill": lambda folder: judge_crash.kill(folder, pairs=pairs),
        "two": lambda folder: two(folder, pairs=pairs, postgres=options.postgres),
        "budget": lambda folder: judge_crash.budget(folder, runs=options.budgets),
    }
    parts, met = [], True
    for name in (name for name in MEASURES if name in options.only):
        load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        print(f"{name}: {load}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="judge") as folder:
            rows = measures[name](Path(folder))
        parts.append(f"{section(name, rows)}\n{load} before it.\n")
        met = met and all(row[3] for row in rows)
        print(parts[-1], flush=True)
        if options.output:
            options.output.write_text("\n".join(parts), encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
