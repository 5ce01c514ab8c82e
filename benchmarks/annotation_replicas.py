"""Several servers of one study behind nginx, and many raters, while a server and the database are killed.

From the repository's root, on a machine that does nothing else:

    python benchmarks/annotation_replicas.py --output replicas.md     # 200 raters, some minutes
    python benchmarks/annotation_replicas.py --quick                  # does it run?

Every rater rates a whole quota through nginx, TLS and a websocket. What was called saved is then looked for
in the database. It needs Linux, PostgreSQL's server, nginx (Debian's nginx-light) and openssl, and ends with
code 1 where a goal was missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import annotation_postgres
import annotation_replicas_nginx
from annotation_load import percentile
from annotation_replicas_run import BLOWS, Felt, Outcome, run


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = made.add_argument
    option("--raters", type=int, default=200, help="at once (200)")
    option("--quota", type=int, default=12, help="pairs of each (12)")
    option("--spare", type=int, default=4, help="pairs more that each may rate, for the last ones (4)")
    option("--overlap", type=int, default=8, help="raters of each pair (8)")
    option("--servers", type=int, default=2, help="behind nginx (2)")
    option("--think", type=float, default=5.0, help="seconds a rater thinks, on average (5)")
    option("--down", type=float, default=4.0, help="seconds that what was killed stays away (4)")
    option(
        "--quick",
        action="store_true",
        help="a smoke run: few raters; its times, and so its exit code, mean nothing",
    )
    option("--output", type=Path, help="write the Markdown here, too")
    return made


def read(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used or is missing is named, and the process left with code 2."""
    command = parser()
    options = command.parse_args(arguments)
    if options.quick:
        options.raters, options.quota, options.overlap, options.think, options.down = 8, 16, 4, 1.5, 0.5
        options.spare = 16
    if min(options.raters, options.quota, options.overlap, options.servers) < 1:
        command.error("raters, quota, overlap and servers must be at least 1")
    if options.raters * options.quota % options.overlap:
        command.error("raters × quota must be a multiple of overlap, so that every pair can be full")
    if options.raters < options.overlap:
        command.error("there must be at least as many raters as each pair has (overlap)")
    missing = annotation_replicas_nginx.missing() or (
        "" if annotation_postgres.binaries() else "PostgreSQL's server"
    )
    if missing:
        command.error(f"{missing} is not installed; run: apt-get install nginx-light openssl postgresql")
    return options


def markdown(outcome: Outcome) -> str:
    """Return the tables of a run."""
    found, log = outcome.found, outcome.log
    left_out = BLOWS - len(outcome.felt)
    errors = ", ".join(f"{log.counts[name]} {word}" for name, word in _ERRORS.items())
    rows = [
        ("raters × pairs of each", f"{outcome.raters} × {outcome.quota} in {outcome.seconds:.0f} s", ""),
        ("raters of each server, by its connections", " + ".join(map(str, outcome.share)), ""),
        ("CPU of the servers until a rater's first pair", f"{1000 * outcome.loading:.0f} ms", ""),
        ("raters saw", errors, "0 exceptions"),
        ("from press to the next page: median, 95 %, longest", _milliseconds(log.seconds), ""),
        ("called saved", str(found.acknowledged), ""),
        ("lost", str(found.lost), "0"),
        ("doubled", str(found.doubled), "0"),
        ("there though nobody sent them", str(found.unasked), "0"),
        ("there on one criterion only", str(found.half), "0"),
        ("there though their answer never came", str(found.in_doubt), ""),
        ("raters of a pair: pairs", _histogram(found.overlap), "one row"),
        ("pairs of a rater: raters", _histogram(found.quotas), ""),
        ("first text as A less second, of a pair: pairs", _histogram(found.pair_sides), "0 or 1"),
        ("the same, of a rater: raters", _histogram(found.rater_sides), ""),
        ("kills; those left out because all was rated", f"{len(outcome.felt)}; {left_out}", "4; 0"),
        ("tracebacks in the servers' logs", str(outcome.tracebacks), "0"),
        ("invites in nginx's logs", str(outcome.told), "0"),
    ]
    lines = ["| | found | goal |", "|---|---|---|", *(f"| {a} | {b} | {c} |" for a, b, c in rows), ""]
    lines += [_BLOWS, "|---|---|---|---|---|---|", *map(_felt, outcome.felt), ""]
    verdict = "All goals met." if outcome.met() else "**A goal was missed.**"
    return "\n".join(
        [*lines, f"{verdict} {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.", ""]
    )


_BLOWS = (
    "| killed | away, s | connections that broke | pair back: median, 95 %, longest s | calm pages "
    "| next rating saved after, s |"
)
_ERRORS = {
    "lost": "broken connections",
    "calm": "calm pages",
    "stuck": "presses without effect",
    "exception": "exceptions",
}


def _felt(felt: Felt) -> str:
    away = _seconds(felt.away) if felt.away else ""
    return f"| {felt.what} | {felt.down:.1f} | {len(felt.away)} | {away} | {felt.calm} | {felt.flowing:.1f} |"


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}, {percentile(values, 0.95):.1f}, {max(values):.1f}"


def _milliseconds(values: list[float]) -> str:
    three = statistics.median(values), percentile(values, 0.95), max(values)
    return ", ".join(f"{1000 * value:.0f}" for value in three) + " ms"


def _histogram(counts: Mapping[int, int]) -> str:
    return ", ".join(f"{value}: {times}" for value, times in counts.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return the exit code: 1 where a goal was missed."""
    options = read(arguments)
    with tempfile.TemporaryDirectory(prefix="replicas") as folder:
        outcome = run(
            Path(folder),
            raters=options.raters,
            quota=options.quota,
            spare=options.spare,
            overlap=options.overlap,
            servers=options.servers,
            think=options.think,
            down=options.down,
        )
    told = markdown(outcome)
    print(told, flush=True)
    if options.output:
        options.output.write_text(told, encoding="utf-8")
    return 0 if outcome.met() else 1


if __name__ == "__main__":
    sys.exit(main())
