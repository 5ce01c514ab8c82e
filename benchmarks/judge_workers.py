"""Several machines judge one study and are killed at random: what is sent, paid, judged and spent twice.

From the repository's root:

    python benchmarks/judge_workers.py --output workers.md     # SQLite and PostgreSQL, some minutes
    python benchmarks/judge_workers.py --quick                 # does it run?

Each machine is a process, `guard-eval judge`; on PostgreSQL every one has a name of its own for the machine
it runs on, so that none can see whether another is alive. The server answers late and fails often; what was
sent and paid is taken from its log, what was judged from the database, in SQL. It ends with code 1 where a
goal was missed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import annotation_postgres
import judge_workers_run
from judge_workers_run import Outcome

WHERE = {"sqlite": "SQLite, one machine", "postgres": "PostgreSQL, machines apart"}
MEASURES = {"killed": judge_workers_run.killed, "on a budget": judge_workers_run.budget}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = made.add_argument
    option("--only", nargs="+", choices=WHERE, default=list(WHERE), help="where")
    option("--pairs", type=int, default=1500, help="each judged in both orders (1500)")
    option("--workers", type=int, default=4, help="processes at once (4)")
    option("--kills", type=int, default=12, help="of a process that is started again (12)")
    option("--quick", action="store_true", help="a smoke run: few pairs and kills")
    option("--output", type=Path, help="write the Markdown here, too")
    return made


def read(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser()
    options = command.parse_args(arguments)
    if options.quick:
        options.pairs, options.kills = 200, 2
    if options.workers < 2 or options.kills < 2 or options.pairs < 50 * options.workers:
        command.error("at least 2 workers, 2 kills and 50 pairs for each worker are needed")
    if "postgres" in options.only and annotation_postgres.binaries() is None:
        command.error(
            "PostgreSQL's server is not installed; run: apt-get install postgresql, or --only sqlite"
        )
    return options


def section(where: str, outcome: Outcome) -> str:
    """Return the table of a run."""
    rows = [
        f"| {what} | {found} | {goal} | {'' if met else '**missed**'} |" for what, found, goal, met in outcome
    ]
    return "\n".join([f"### {where}", "", "| | found | goal | |", "|---|---|---|---|", *rows, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return the exit code: 1 where a goal was missed."""
    options = read(arguments)
    parts, met = [], True
    for where, name in itertools.product(options.only, MEASURES):
        print(f"{where}, {name}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        programs = annotation_postgres.binaries() if where == "postgres" else None
        server = annotation_postgres.running(programs) if programs else nullcontext()
        with server as postgres, tempfile.TemporaryDirectory(prefix="workers") as folder:
            outcome = MEASURES[name](
                Path(folder) / "study",
                database=postgres.url if postgres else None,
                pairs=options.pairs,
                workers=options.workers,
                kills=options.kills,
            )
        parts.append(section(f"{WHERE[where]}, {name}", outcome))
        print(parts[-1], flush=True)
        met = met and all(row[3] for row in outcome)
    parts.append(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.\n")
    if options.output:
        options.output.write_text("\n".join(parts), encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
