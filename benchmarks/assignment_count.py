"""What finding a free slot costs if nothing is kept beside the presentations: is `occupancy` needed?

`python benchmarks/assignment_count.py` fills a study to several shares of its slots, in bulk and in a random
order, and looks for the next 16 pairs behind a random place of the hash, counting each pair's holders. No
rater sees a pair twice. Milliseconds of processor time, so that other programs change little.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from guard_eval.store import Store

MOMENT = "2026-01-02 03:04:05.678901"
FILLED = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)

_FIND = """
SELECT pair_id FROM occupancy WHERE pool = 'people' AND vacant = 1 AND ring >= :start
AND (SELECT count(*) FROM presentation WHERE presentation.pool = 'people'
     AND presentation.pair_id = occupancy.pair_id AND superseded = 0 AND withdrawn = 0) < :slots
AND NOT EXISTS (SELECT 1 FROM presentation AS seen WHERE seen.rater_id = :rater
                AND seen.pair_id = occupancy.pair_id AND seen.pool IN ('people', 'simulated'))
ORDER BY ring LIMIT 16
"""


def fill(database: sqlite3.Connection, pairs: int, raters: int, draw: random.Random) -> list[str]:
    """Add raters, and pairs at random places, all of them marked as vacant; return the pairs' ids."""
    ids = [f"{draw.getrandbits(256):064x}" for _ in range(pairs)]
    database.executemany(
        "INSERT INTO rater (id, name, kind, created_at) VALUES (?, ?, 'person', ?)",
        ((number + 1, f"rater {number}", MOMENT) for number in range(raters)),
    )
    database.executemany(
        "INSERT INTO pair VALUES (?, 'd', 'p', '', 'guard', 'top_k', 'c', 'd', '', '', ?)",
        ((pair_id, position) for position, pair_id in enumerate(ids)),
    )
    database.executemany(
        "INSERT INTO occupancy VALUES ('people', ?, ?, 0, 1, ?, 'd', 'guard', 'top_k')",
        ((pair_id, draw.getrandbits(31), position) for position, pair_id in enumerate(ids)),
    )
    return ids


def find(database: sqlite3.Connection, start: int, rater: int, slots: int) -> float:
    """Look for pairs from `start` on, then from the beginning; return the milliseconds that it took."""
    began = time.process_time()
    asked = {"start": start, "rater": rater, "slots": slots}
    if len(database.execute(_FIND, asked).fetchall()) < 16:
        database.execute(_FIND, {**asked, "start": 0}).fetchall()
    return (time.process_time() - began) * 1000


def main() -> None:
    """Print the median and the longest time for each share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--raters", type=int, default=10_000)
    parser.add_argument("--overlap", type=int, default=2)
    parser.add_argument("--each", type=int, default=50)
    options = parser.parse_args()
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.db"
        Store.open(f"sqlite:///{file}", create=True).close()
        database = sqlite3.connect(file)
        ids = fill(database, options.pairs, options.raters, draw)
        seats = [(pair_id, slot) for pair_id in ids for slot in range(options.overlap)]
        draw.shuffle(seats)
        done = 0
        print("| slots rated | median ms | longest ms |\n|---|---|---|")
        for share in FILLED:
            until = round(share * len(seats))
            database.executemany(
                "INSERT OR IGNORE INTO presentation (pair_id, slot, rater_id, pool, attempt, first, "
                "handed_out, leased_until, rated_at, superseded) "
                "VALUES (?, ?, ?, 'people', 0, 'a', ?, ?, ?, 0)",
                (
                    (*seats[number], number % options.raters + 1, *[MOMENT] * 3)
                    for number in range(done, until)
                ),
            )
            done = until
            database.commit()
            database.execute("ANALYZE")
            took = [
                find(database, draw.getrandbits(31), draw.randint(1, options.raters), options.overlap)
                for _ in range(options.each)
            ]
            print(f"| {share:.2%} | {statistics.median(took):.2f} | {max(took):.2f} |", flush=True)
        database.close()


if __name__ == "__main__":
    main()
