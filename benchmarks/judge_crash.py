"""What faults, `kill -9`, a second command and a budget do to a judge's run, by the server's own log."""

from __future__ import annotations

import random
import re
import sys
import time
from pathlib import Path

from judge_server import FAULTS, Log, serving
from judge_study import Outcome, make

Row = tuple[str, str, str, bool]
"""What was measured, what was found, the goal, and whether it is met."""

LANES = 64
_SHARED = 10
"""Runs with a budget that share a study: each goes on from the one before."""

WORST = re.compile(r"online\s+\$[\d.,]+\s+\$([\d.,]+)")


def faults(folder: Path, *, pairs: int) -> list[Row]:
    """Judge with a server that fails often, then run again."""
    with serving(faults=FAULTS) as server:
        study = make(folder / "study", pairs=pairs, url=server.url)
        code, said, seconds = study.judge("--budget", "1000")
        log, found = server.log(), study.outcome()
        study.judge()
        warm = server.log().asked - log.asked
    did = ", ".join(f"{times} {name}" for name, times in sorted(log.did.items()))
    ended = f"{found.verdicts} verdicts, failures {found.failures or 0}, {found.left} with neither"
    return [
        ("the server answered", f"{log.asked} requests in {seconds:.1f} s: {did}", "", True),
        (f"pairs × orders of {2 * pairs}", f"{ended} (code {code})", "0 with neither", _whole(found, said)),
        ("complete 200 responses beyond the first to a request", str(log.twice), "0", log.twice == 0),
        _booked(log, found),
        ("requests of a second run", str(warm), "0", warm == 0),
    ]


def kill(folder: Path, *, pairs: int) -> list[Row]:
    """Kill the command at 20, 50 and 85 %, start it again each time, and let it finish."""
    rows: list[Row] = []
    with serving() as server:
        study = make(folder / "study", pairs=pairs, url=server.url)
        kept: dict[str, int] = {}
        before = 0
        for share in (0.20, 0.50, 0.85):
            process = study.start()
            while len(server.log().paid) < share * 2 * pairs and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            process.communicate()
            time.sleep(0.3)
            log = server.log()
            journalled = study.journalled()
            flight = len(set(log.paid) - journalled)
            again = log.twice - before
            before = log.twice
            what = (
                f"{len(log.paid)} answered, {flight} not journalled; paid again since the last kill: {again}"
            )
            rows.append((f"kill -9 at {share:.0%}", what, f"≤ {LANES} in flight", flight <= LANES))
            kept = {key: log.paid[key] for key in journalled & set(log.paid)} | kept
        code, said, _ = study.judge()
        log, found = server.log(), study.outcome()
        study.judge()
        warm = server.log().asked - log.asked
    more = sum(log.paid[key] > times for key, times in kept.items())
    ended = f"{found.verdicts} verdicts, {found.left} with neither (code {code})"
    return [
        *rows,
        (f"afterwards, of {2 * pairs}", ended, "0 with neither", _whole(found, said)),
        (
            f"paid for again, of {len(kept)} journalled before a kill",
            str(more),
            "0",
            bool(kept) and more == 0,
        ),
        ("paid for again in all", str(log.twice), f"≤ 3 × {LANES}", log.twice <= 3 * LANES),
        ("requests of a second run", str(warm), "0", warm == 0),
    ]


def two(folder: Path, *, pairs: int, database: str | None = None) -> list[Row]:
    """Run two commands on one study at once."""
    with serving() as server:
        study = make(folder / "study", pairs=pairs, url=server.url, database=database)
        processes = [study.start(), study.start()]
        said = [process.communicate(timeout=600)[0] for process in processes]
        log, found = server.log(), study.outcome()
    share = [int(number) for text in said for number in re.findall(r"(\d+) requests sent", text)]
    more = log.asked - len(log.paid)
    where = "PostgreSQL" if database else "SQLite"
    return [
        (f"{where}: requests of each", " and ".join(map(str, share)), "", len(share) == 2),
        (f"{where}: sent by both", str(more), "0", more == 0 and _whole(found, *said)),
    ]


def budget(folder: Path, *, runs: int) -> list[Row]:
    """Let budgets end runs in the middle; the server charges by chance, up to what a request allows."""
    chance = random.Random(1)
    ended = exceeded = 0
    most = 0.0
    with serving(dice=True, faults={"rate": 0.02, "error": 0.02, "reset": 0.02}, latency=0.1) as server:
        for number in range(runs):
            if number % _SHARED == 0:
                before = server.log().usd
                pairs = 130 * min(_SHARED, runs - number)
                study = make(folder / f"study-{number}", pairs=pairs, url=server.url)
            # 64 requests could cost $1.5 at worst: some budgets hold all of them in flight, some do not.
            allowed = study.outcome().usd + chance.uniform(0.1, 2.5)
            _, said, _ = study.judge("--budget", f"{allowed:.6f}")
            log, found = server.log(), study.outcome()
            charged = log.usd - before
            exceeded += max(charged, found.usd) > allowed + 1e-6
            ended += "is used up" in said
            most = max(most, charged / allowed)
            print(f"budget {number + 1} of {runs}: ${charged:.3f} of ${allowed:.3f}", file=sys.stderr)
    return [
        (f"runs of {runs} that their budget ended", str(ended), "", ended > 0),
        ("runs that cost more, by the server's own count", str(exceeded), "0", exceeded == 0),
        ("the most that was charged, of what was allowed", f"{most:.1%}", "≤ 100 %", most <= 1),
        ("most requests in flight", str(log.most), "", True),
    ]


def _whole(found: Outcome, *said: str) -> bool:
    return found.left == 0 and not any("Traceback" in text for text in said)


def _booked(log: Log, found: Outcome) -> Row:
    what = f"${log.usd:.2f} charged, ${found.usd:.2f} booked"
    return ("money", what, "booked ≥ charged", found.usd >= log.usd - 1e-6)
