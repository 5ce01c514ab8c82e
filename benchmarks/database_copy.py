"""How fast a study moves between SQLite and PostgreSQL, and how fast it is summed: `guard-eval db … copy`.

`python benchmarks/database_copy.py [--verdicts N]` makes a study of that many verdicts (4 a presentation, 2.5
presentations a pair of 2 kB of text), copies it to a PostgreSQL server of its own with fsync on and back, and
prints a table. The digests must be the same all the way.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import durable_postgres

from guard_eval.store import Store
from guard_eval.store.copying import Digest, checksum, copy

MOMENT = "2026-01-02 03:04:05.678901"


def fill(file: Path, verdicts: int) -> None:
    """Make a study's database with so many verdicts."""
    Store.open(f"sqlite:///{file}", create=True).close()
    pairs, shown = max(1, verdicts // 10), verdicts // 4
    database = sqlite3.connect(file)
    database.execute("INSERT INTO rater (id, name, kind, created_at) VALUES (1, 'a', 'model', ?)", (MOMENT,))
    database.executemany(
        "INSERT INTO pair VALUES (?, 'd', ?, ?, 'guard', 'top_k', ?, ?, ?, ?, ?)",
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
        "INSERT INTO verdict VALUES (?, ?, 0, 'A', ?, ?, ?)",
        ((n + 1, f"criterion {k}", MOMENT, n / 7, n / 11) for n in range(shown) for k in range(4)),
    )
    database.commit()
    database.close()


def main() -> None:
    """Copy there and back, and print how long each step took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verdicts", type=int, default=200_000)
    asked = parser.parse_args()
    programs = durable_postgres.binaries()
    if programs is None:
        parser.exit(2, "PostgreSQL's server is not installed; run: apt-get install postgresql\n")
    with tempfile.TemporaryDirectory() as made, durable_postgres.running(programs) as server:
        folder = Path(made)
        fill(folder / "study.db", asked.verdicts)
        here, back = (f"sqlite:///{folder / name}" for name in ("study.db", "back.db"))
        steps: dict[str, Callable[[], Digest]] = {
            "SQLite to PostgreSQL": lambda: copy(here, server.url),
            "PostgreSQL to SQLite": lambda: copy(server.url, back),
            "checksum of SQLite": lambda: checksum(here),
            "checksum of PostgreSQL": lambda: checksum(server.url),
        }
        size = (folder / "study.db").stat().st_size
        print(f"{asked.verdicts} verdicts, {size / 2**20:.0f} MiB as SQLite, {os.cpu_count()} cores\n")
        print("| step | seconds | rows a second | digest |\n|---|---|---|---|")
        for name, step in steps.items():
            began = time.perf_counter()
            found = step()
            took = time.perf_counter() - began
            print(f"| {name} | {took:.1f} | {found.rows / took:,.0f} | {found.sha256[:12]} |")


if __name__ == "__main__":
    main()
