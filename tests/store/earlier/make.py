"""Makes this folder's files: a study as a version of the package made it, its tables and rows as SQL.

Run once, with that version's package, when a new version of the schema is about to take its place:
`PYTHONPATH=VERSION:tests/support python tests/store/earlier/make.py 0003`. The files are never made again.
"""

import sqlite3
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
ODD = "nul \x00, half \ud83d, substitute \x1a0000, 🦔 'quoted' \\ back\n"
START = datetime(2025, 3, 4, 5, 6, 7, 890123, tzinfo=UTC)


class Clock:
    """Says the time; the seventh of a second passes at each question."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1 / 7)
        return self.now


def fill(url: str, version: str) -> None:
    """Let raters and a judge do what this version of the package knows."""
    from guard_eval.records import Pair
    from guard_eval.store import Plan, Store

    clock = Clock()
    plan = Plan(seed=7, slots=2, lease=timedelta(minutes=30))
    with Store.open(url, create=True, study_hash="as it was", clock=clock) as store:
        store.add_pairs([_pair(Pair, number) for number in range(4)])
        ann, _ = store.invite("Ann")
        ben, _ = store.invite(f"Ben {ODD}"[:60])
        late, _ = store.invite("Late")
        store.invite("Revoked")
        first = [store.hand_out(ann, plan)[0].presentation for _ in range(1)]
        store.save(
            first[0], {"fluency": "A", "coherence": "tie"}, rater=ann, seconds=1 / 3, active_seconds=0.1
        )
        store.save(first[0], {"fluency": "B", "coherence": "tie"}, rater=ann)
        overdue = store.hand_out(late, plan)[0].presentation
        clock.now += timedelta(hours=1)
        while given := store.hand_out(ben, plan):
            store.save(given[0].presentation, {"fluency": "A", "coherence": "B"}, rater=ben, seconds=1e-9)
        store.save(overdue, {"fluency": "tie", "coherence": "tie"}, rater=late, seconds=3600.25)
        store.hand_out(ann, plan)
        store.revoke("Revoked")
        _judge(store, plan, clock, version)
        if version > "0001":
            _check(store, plan, ann)


def _pair(kind: type, number: int) -> object:
    ids = f"ca{number}", f"cb{number}"
    return kind(
        id=kind.make_id("guard", "top_k(k=50)", *ids),
        dataset="wikinews",
        prompt_id=f"p{number}",
        prompt=f"Once {number} {ODD}",
        method_a="guard",
        method_b="top_k(k=50)",
        continuation_a=ids[0],
        continuation_b=ids[1],
        text_a=f"first {number} " + "long " * 50 * number,
        text_b=f"{ODD} {number}",
        position=number,
    )


def _judge(store: object, plan: object, clock: Clock, version: str) -> None:
    from dataclasses import replace

    from guard_eval.store import Answer

    judge = store.rater("judge", "model")
    if version < "0003":
        shown = [blind.presentation for blind in store.hand_out(judge, plan, limit=3)]
    else:
        from guard_eval.store import Wanted

        run = store.begin(judge, timedelta(minutes=5))
        shown = [each.blind.presentation for each in store.claim(run, plan, 3)]
        wanted = [
            Wanted(key=f"k{number}", presentation=number, usd=0.001 / 3) for number in (*shown[:2], shown[2])
        ]
        store.record(run, wanted=wanted, limit_usd=1.0)
    answer = Answer(
        key=f"k{shown[0]}",
        presentation=shown[0],
        status=200,
        body=bytes(range(256)),
        request_id=f"req {ODD}",
        model="snapshot-1",
        input_tokens=7,
        output_tokens=None,
        seconds=0.1 + 0.2,
        at=clock(),
    )
    store.journal(answer)
    store.journal(
        replace(answer, key=f"k{shown[1]}", presentation=shown[1], status=500, body=b"", seconds=2.5)
    )
    store.save(shown[0], {"fluency": "B", "coherence": "A"}, rater=judge)
    store.fail(shown[1], "server_error", ODD)


def _check(store: object, plan: object, ann: object) -> None:
    from guard_eval.records import Gold, Pair

    store.add_gold([Gold(pair=_pair(Pair, 9), expected={"fluency": "a"})])
    store.note(ann, "comment", ODD)
    store.enrol("5f3e", "prolific")
    store.invite("Planned")
    store.exclude("Late", ODD, "owner")
    store.add_pairs([_pair(Pair, number) for number in (10, 11)])
    store.assign(["Planned"], plan)


def main(version: str) -> None:
    """Write the two files of a version."""
    import postgres

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.db"
        fill(f"sqlite:///{file}", version)
        database = sqlite3.connect(file)
        lines = "\n".join(database.iterdump()) + "\n"
        database.close()
        (HERE / f"{version}.sqlite.sql").write_text(lines, encoding="utf-8")
    with postgres.running_server(postgres.binaries()) as server:
        url = server.new_database()
        fill(url, version)
        address = url.replace("+psycopg", "")
        command = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", f"--dbname={address}"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = [
        line
        for line in said.split("\n")
        if line and not line.startswith(("--", "\\restrict", "\\unrestrict"))
    ]
    (HERE / f"{version}.postgres.sql").write_text("\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
