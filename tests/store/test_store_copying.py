"""A database copied into another one, from either system to either: every row to the last bit, or none."""

import hashlib
import math
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from databases import every_row
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import DBAPIError

from guard_eval.errors import StudyError
from guard_eval.store import Store, schema
from guard_eval.store import copying as checksums
from guard_eval.store.connection import Database
from guard_eval.store.copying import check, checksum, copy
from guard_eval.store.judging import schema as judge_schema

pytestmark = pytest.mark.slow

ODD = "nul \x00, half \ud83d and \udfff, substitute \x1a0041, \u202e🦔\r\n\t'\"\\ e\u0301"
FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
FLOATS = (0.1 + 0.2, 1 / 3, 5e-324, -0.0, math.nextafter(math.inf, 0), 2.0**53 + 2, None)


ROWS = 23


@pytest.fixture
def source(store_url, monkeypatch):
    """A database with at least a row in every table, hard ones among them; it is read in small chunks."""
    monkeypatch.setattr(checksums, "CHUNK", 5)
    database = Database(store_url)
    ann = {"id": 7, "name": ODD, "kind": "person", "created_at": FIRST_MOMENT, "revoked_at": LAST_MOMENT}
    pair = dict.fromkeys(("dataset", "prompt_id", "method_a", "method_b", "text_b"), ODD)
    pair |= {"prompt": "", "continuation_a": "\x1a", "continuation_b": "", "text_a": "é" * 3000}
    huge = {"continuation_b": "c" * 3_000_000}
    shown = {"rater_id": 7, "pool": "simulated", "slot": 0, "first": "a", "superseded": False}
    shown |= {"handed_out": LAST_MOMENT, "leased_until": LAST_MOMENT - timedelta(microseconds=1)}
    number = range(40, 40 + ROWS)
    request = {"key": ODD, "rater_id": 7, "state": "lost", "style": "replay", "sent_at": FIRST_MOMENT}
    answer = {"key": ODD, "status": 200, "backend": "chat", "at": LAST_MOMENT, "model": ODD}
    rows = {
        schema.meta: [{"key": "k", "value": ODD}],
        schema.rater: [ann],
        schema.visit: [{"token_hash": "t", "rater_id": 7, "created_at": LAST_MOMENT}],
        schema.pair: [{**pair, **huge, "id": f"p{n:04}", "position": n} for n in number[:2]]
        + [{**pair, "id": f"P{n}é", "position": -n} for n in number[2:]],
        schema.gold: [{"pair_id": "p0040", "criterion": ODD, "expected": "a"}],
        schema.run: [
            {
                "id": 3,
                "rater_id": 7,
                "host": "h",
                "process": "p",
                "started_at": LAST_MOMENT,
                "leased_until": LAST_MOMENT,
            }
        ],
        schema.presentation: [
            {
                **shown,
                "id": n,
                "pair_id": "p0040" if n < 42 else f"P{n}é",
                "attempt": n % 2,
                "superseded": n == 40,
            }
            for n in (number[0], *number[2:])
        ],
        schema.assignment: [{"pair_id": "p0041", "slot": 1, "rater_id": 7, "first": "b"}],
        schema.verdict: [
            {
                "presentation_id": 42,
                "criterion": f"{n}{ODD}",
                "revision": n,
                "choice": "tie",
                "at": FIRST_MOMENT,
            }
            | {"seconds": value, "active_seconds": value}
            for n, value in enumerate(FLOATS)
        ],
        schema.note: [{"id": 9, "rater_id": 7, "kind": "comment", "detail": ODD, "at": LAST_MOMENT}],
        judge_schema.batch: [
            {"id": 2, "rater_id": 7, "run_id": 3, "status": "", "provider_id": ODD, "made_at": FIRST_MOMENT}
        ],
        judge_schema.request: [
            {**request, "attempt": 0, "reserved": 2**63 - 1, "booked": -(2**63), "batch_id": 2},
            {**request, "attempt": 1, "reserved": None, "booked": None, "batch_id": None},
        ],
        judge_schema.sent_form: [{"id": 6, "rater_id": 7, "shape": ODD, "body": b"\x00\xff"}],
        judge_schema.sent: [{"key": ODD, "attempt": 0, "form_id": 6, "body": bytes(range(256)) * 9}],
        judge_schema.answer: [
            {**answer, "attempt": 0, "body": bytes(range(256)) * 900, "seconds": 1e300, "usd": 1e-9},
            {**answer, "attempt": 1, "body": b"", "seconds": -0.0, "usd": None},
        ],
        judge_schema.failure: [
            {
                "id": 5,
                "presentation_id": 42,
                "kind": ODD,
                "detail": "",
                "at": datetime(2026, 1, 2, tzinfo=UTC),
            }
        ],
    }
    with database.write() as connection:
        for table, values in rows.items():
            connection.execute(insert(table), values)
            if not database.is_sqlite and table.autoincrement_column is not None:
                connection.execute(text(f"SELECT setval('{table.name}_id_seq', 100)"))
    database.close()
    return store_url


@pytest.fixture
def target(database_kind, databases, tmp_path):
    """The URL of an empty database of the other system."""
    (tmp_path / "target").mkdir()
    url = databases.new("sqlite" if database_kind == "postgres" else "postgres", tmp_path / "target")
    yield url
    databases.drop(url)


def execute(url, *statements):
    database = Database(url)
    with database.write() as connection:
        for statement in statements:
            connection.execute(text(statement))
    database.close()


def sorted_rows(url):
    # SQLite does not keep the sign of a zero
    return sorted(repr(row).replace("-0.0", "0.0") for row in every_row(url))


def test_every_row_is_there_to_the_last_bit(source, target, tmp_path):
    before = sorted_rows(source)
    assert check(source, target) == len(before)
    copied = copy(source, target)
    assert copied.rows == len(before)
    assert sorted_rows(target) == before == sorted_rows(source)
    back = f"sqlite:///{tmp_path / 'back.db'}"
    assert copy(target, back) == copied
    assert sorted_rows(back) == before
    assert checksum(source) == checksum(target) == checksum(back) == copied


def test_the_copy_is_a_study_that_goes_on(source, target, plan, clock):
    copy(source, target)
    with Store.open(target, clock=clock) as store:
        assert store.invite("Eve")[0].id == 8  # the highest number was 7
        for statement in ("UPDATE verdict SET choice = 'A'", "DELETE FROM answer", "DELETE FROM pair"):
            with pytest.raises(DBAPIError, match="append-only"), store._database.write() as connection:
                connection.execute(text(statement))
        run = store.begin(store.rater("judge", "model"), plan.lease)
        assert run.id == 4
        judge = store.rater("judge", "model")
        assert store.claim(run, plan, 1)[0].blind.presentation > 39 + ROWS
        assert judge.id == 9


def test_the_digest_is_what_its_description_says(store_url):
    execute(store_url, "DELETE FROM meta", "INSERT INTO meta (key, value) VALUES ('seen', 'né')")
    (found,) = (each for each in checksum(store_url).tables if each.table == "meta")
    written = b'["seen", "n\\u00e9"]\n'
    assert (found.rows, found.sha256) == (1, hashlib.sha256(written).hexdigest())


def test_the_smallest_change_shows(source):
    late = insert(schema.verdict).values(
        presentation_id=43, criterion="x", revision=0, choice="A", at=LAST_MOMENT, seconds=0.3
    )
    request, shown = judge_schema.request, schema.presentation
    database = Database(source)
    before = checksum(source)
    for table, statement in (
        ("rater", update(schema.rater).values(created_at=FIRST_MOMENT + timedelta(microseconds=1))),
        ("rater", update(schema.rater).values(name=ODD + " ")),
        ("request", update(request).where(request.c.attempt == 1).values(booked=0)),
        ("presentation", update(shown).where(shown.c.id == 40).values(slot=1)),
        ("batch", update(judge_schema.batch).values(input_file="")),
        ("verdict", late),
    ):
        with database.write() as connection:
            connection.execute(statement)
        after = checksum(source)
        assert after.sha256 != before.sha256
        pairs = zip(before.tables, after.tables, strict=True)
        assert [old.table for old, new in pairs if old != new] == [table]
        before = after
    database.close()


def test_a_copy_overwrites_nothing(source, target, databases):
    execute(target, "INSERT INTO meta (key, value) VALUES ('k', 'v')")
    for attempt in (copy, check):
        with pytest.raises(StudyError, match="holds 1 rows already, and a copy overwrites nothing"):
            attempt(source, target)
        with pytest.raises(StudyError, match="overwrites nothing"):
            attempt(source, source)
    assert len(every_row(target)) == 1


def test_a_target_that_changes_what_it_is_given_is_emptied_again(source, target):
    if target.startswith("sqlite"):
        changes = ("CREATE TRIGGER meddle AFTER INSERT ON note BEGIN UPDATE rater SET name = 'x'; END",)
    else:
        deed = "$$ BEGIN UPDATE rater SET name = 'x'; RETURN NEW; END $$"
        changes = (
            f"CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS {deed}",
            "CREATE TRIGGER meddle AFTER INSERT ON note FOR EACH ROW EXECUTE FUNCTION meddle()",
        )
    execute(target, *changes)
    with pytest.raises(StudyError, match=r"does not give back .* in: rater \(1 rows, then 1\)"):
        copy(source, target)
    assert every_row(target) == []


def test_what_the_other_system_cannot_hold_is_named_without_its_text(tmp_path, databases):
    source = databases.new("sqlite", tmp_path)
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.execute("INSERT INTO meta VALUES (?, 'v')", ("secret" * 20,))
        database.commit()
    target = databases.new("postgres", tmp_path)
    with pytest.raises(
        StudyError, match=r"a row of the table 'meta' cannot be held by .* too long"
    ) as caught:
        copy(source, target)
    assert "secret" not in str(caught.value)
    assert every_row(target) == []
    databases.drop(target)


def test_a_copy_that_fails_leaves_no_file(source, tmp_path):
    file = tmp_path / "new.db"

    class Stopped(BaseException):
        pass

    def stop(table, rows):
        raise Stopped

    with pytest.raises(Stopped):
        copy(source, f"sqlite:///{file}", on_copied=stop)
    assert list(tmp_path.glob("new.db*")) == []
    with pytest.raises(StudyError, match="no folder"):
        copy(source, f"sqlite:///{tmp_path / 'none' / 'new.db'}")


def test_a_copy_is_of_one_moment_while_raters_go_on(source, target, plan):
    before = checksum(source)
    with Store.open(source) as store:

        def rate(table, rows):
            # between any two chunks somebody comes and rates
            rater, _ = store.invite(f"rater {len(store.raters())}")
            for blind in store.hand_out(rater, plan):
                store.save(blind.presentation, {"fluency": "A"}, rater=rater)

        assert copy(source, target, on_copied=rate, on_checked=rate) == before
        assert len(store.raters()) > 20
    assert checksum(source) != before
    assert checksum(target) == before


PROGRAM = """
import sys, time
from guard_eval.store.copying import copy
turns = iter(range(1000))
def did(table, rows):
    if next(turns) == int(sys.argv[3]):
        print("half way", flush=True)
        time.sleep(600)
copy(sys.argv[1], sys.argv[2], on_copied=did, on_checked=did)
"""


@pytest.mark.parametrize("turn", [2, 20])  # while it is copied, while it is checked
def test_a_killed_copy_leaves_nothing_and_is_made_again(source, target, turn):
    command = [sys.executable, "-c", PROGRAM, source, target, str(turn)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half way\n"
        process.send_signal(signal.SIGKILL)
    assert every_row(target) == []
    assert copy(source, target) == checksum(source)


def test_nobody_else_may_have_it_open_when_it_is_moved(source, target):
    with Store.open(source) as store:
        store.raters()
        with pytest.raises(StudyError, match=r"stop guard-eval annotate and judge wherever they run"):
            copy(source, target, alone=True)
        assert every_row(target) == []
    called = []
    copy(source, target, alone=True, then=lambda: called.append(len(every_row(target))))
    assert called == [checksum(source).rows]


def test_who_comes_while_it_is_moved_stops_it(source, target, database_kind):
    if database_kind == "sqlite":
        # nobody can: the file is locked
        def read_meanwhile(table, rows):
            with (
                closing(sqlite3.connect(source.removeprefix("sqlite:///"), timeout=0)) as other,
                pytest.raises(sqlite3.OperationalError, match="locked"),
            ):
                other.execute("SELECT * FROM rater")

        copy(source, target, alone=True, on_copied=read_meanwhile)
        return
    come = []

    def enter(table, rows):
        if not come:
            come.append(Database(source))
            with come[0].read() as connection:
                connection.execute(select(schema.rater.c.id))

    with pytest.raises(StudyError, match="1 others are connected"):
        copy(source, target, alone=True, on_copied=enter)
    come[0].close()
    assert every_row(target) == []


def test_a_missing_server_is_named_without_a_password(source, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    for one, other in (
        (source, "postgresql://ann@127.0.0.1:1/x"),
        ("postgresql://ann@127.0.0.1:1/x", source),
    ):
        with pytest.raises(StudyError, match="cannot use the database") as caught:
            copy(one, other)
        assert "hunter2" not in str(caught.value)
