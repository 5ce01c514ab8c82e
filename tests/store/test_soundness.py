"""study.db refuses odd values. Damage by a disk is explained with a reason and a remedy."""

import json
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from rating import exclude_rater, include_rater, invite_people, rate_all_pairs
from refusals import expect_refusal

from analysis.monitor.ratings import read_ratings
from guard_eval.errors import StudyError
from guard_eval.store import Store, handout, notes, pairs, raters, unblind

ODD = [
    ("verdict.choice", "C"),
    ("verdict.choice", None),
    ("verdict.at", "yesterday"),
    ("verdict.at", 7),
    ("verdict.at", "0000-01-01 00:00:00"),
    ("verdict.revision", "x"),
    ("verdict.seconds", 1e300),
    ("verdict.active_seconds", -1),
    ("presentation.handed_out", b"\xff"),
    ("presentation.handed_out", "yesterday"),
    ("presentation.first", "c"),
    ("presentation.role", "golden"),
    ("presentation.pair_id", b"\xff\xfe"),
    ("rater.kind", "cat"),
    ("rater.created_at", ""),
    ("rater.name", b"\xff\xfe"),
    ("note.detail", "{"),
    ("note.detail", "[1]"),
    ("pair.position", "first"),
    ("pair.expected", "{"),
    ("pair.expected", "[1]"),
    ("pair.for_people", 2),
    ("slot.first", 1),
    ("slot.leased_until", "2026-99-99 25:00:00"),
]


@pytest.fixture
def rated(store, tmp_path, add_new_pairs, plan):
    """The file of a study that two people have rated, with a note of every form."""
    if store.engine.dialect.name != "sqlite":
        pytest.skip("a file of SQLite is changed")
    add_new_pairs(3, plan)
    for who in invite_people(store, "Ann", "Ben"):
        notes.write_note(store, who, "consent", '{"agreed": true}')
        rate_all_pairs(store, who, plan)
    exclude_rater(store, "Ann")
    include_rater(store, "Ann")
    with store.engine.connect() as db:
        db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(shutil.copy(tmp_path / "study.db", tmp_path / "changed.db"))


def list_actions(store, plan):
    """Yield actions that commands perform on a database."""
    yield lambda: read_ratings(store, raters.read_rater_progress(store), slots=2)
    yield lambda: unblind.read_tidy_rows(store, include_surplus=True)
    yield lambda: unblind.read_verdict_history(store)
    yield lambda: notes.read_notes(store)
    yield lambda: pairs.read_pairs(store)
    yield lambda: raters.count_free_rater_places(store, plan)
    yield lambda: exclude_rater(store, "Ben")
    yield lambda: handout.claim_pairs(store, raters.get_or_add_rater(store, "Ann", "person"), plan)


def collect_errors(file, plan):
    """Run each action on a newly opened store, and return the messages of all errors."""
    raised = []
    for number in range(8):
        try:
            with Store.open(f"sqlite:///{file}") as store:
                list(list_actions(store, plan))[number]()
        except StudyError as error:
            raised.append(str(error))
    return raised


def overwrite_value(file, target, value, *, ignore_checks=False):
    """Write a value into a column. The triggers allow the change, as while a person is erased."""
    table, column = target.split(".")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"PRAGMA ignore_check_constraints = {ignore_checks}")
        db.execute("INSERT INTO setting VALUES ('erasing', '')")
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))


@pytest.mark.parametrize(("target", "value"), ODD)
def test_a_database_refuses_odd_values(rated, target, value):
    with pytest.raises(sqlite3.IntegrityError, match=r"constraint failed|cannot store"):
        overwrite_value(rated, target, value)


@pytest.mark.parametrize(
    "row", ["setting VALUES ('declared 1', '{')", "instruction VALUES ('i', 's', 'chat', 'm', 'p', 'd', 't')"]
)
def test_a_database_refuses_unreadable_settings(rated, row):
    with closing(sqlite3.connect(rated)) as db, pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        db.execute(f"INSERT INTO {row}")


@pytest.mark.parametrize(("target", "value"), ODD)
def test_odd_values_in_a_database_are_explained(rated, plan, target, value):
    with suppress(sqlite3.IntegrityError):  # the types of columns cannot be ignored
        overwrite_value(rated, target, value, ignore_checks=True)
    raised = collect_errors(rated, plan)
    assert all("restore" in text or "'Ann' is a cat, not a person" in text for text in raised), raised


PLAN = '{"plan": {"design": "rounds", "criterion": "fluency", "alpha": "0.05", "showings": 2}}'


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE note SET detail = '{}' WHERE kind = 'consent'",
        """UPDATE note SET detail = '{"agreed": "no"}' WHERE kind = 'consent'""",
        """UPDATE note SET kind = 'check', detail = '{"passed": true}'""",
        """UPDATE note SET kind = 'practice', detail = '{"pair": ["storm"]}'""",
        """UPDATE note SET kind = 'background', detail = '{"language": ["English"]}'""",
        """UPDATE note SET detail = '{"reason": "slept"}' WHERE kind = 'exclude'""",
        """UPDATE note SET detail = '{"results_seen": 1}' WHERE kind = 'include'""",
        """UPDATE pair SET expected = '{"fluency": "A"}'""",
        """UPDATE pair SET expected = '{"fluency": null}'""",
        *(
            f"UPDATE setting SET value = '{n}' WHERE key = 'slots people'"
            for n in ("", "{", "-5", "1e3", "99999")
        ),
        "UPDATE verdict SET choice = 'C'",
        "INSERT INTO setting VALUES ('declared 1', '[1]')",
        f"INSERT INTO closed_round VALUES ('people', 1, '{PLAN}', '2026-01-01 00:00:00')",
    ],
)
def test_database_with_values_of_unknown_form_is_refused(rated, sql):
    with closing(sqlite3.connect(rated)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = TRUE")
        db.execute("INSERT INTO setting VALUES ('erasing', '')")
        db.execute(sql)
    with expect_refusal("restore the original file"):
        Store.open(f"sqlite:///{rated}")


def test_damage_in_a_database_is_named_with_a_remedy(rated):
    content = rated.read_bytes()
    rated.write_bytes(content.replace(b"astudy", b"xstudy"))
    assert rated.read_bytes() != content
    says = "is damaged: CHECK constraint failed in presentation; restore it from a copy"
    with expect_refusal(says), Store.open(f"sqlite:///{rated}"):
        raise ZeroDivisionError


def test_a_programming_error_is_not_reported_as_damage(rated):
    with pytest.raises(ZeroDivisionError), Store.open(f"sqlite:///{rated}"):
        raise ZeroDivisionError


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_database_page_is_explained(rated, plan, tmp_path, seed):
    """40 bytes of one page are changed, for each page in turn."""
    content, drawn = rated.read_bytes(), random.Random(seed)
    for start in range(0, len(content), 4096):
        changed = bytearray(content)
        for _ in range(40):
            changed[start + drawn.randrange(4096)] = drawn.randrange(256)
        for path in tmp_path.glob("changed.db*"):
            path.unlink()
        rated.write_bytes(changed)
        collect_errors(rated, plan)


@pytest.mark.parametrize("sql", ["x", "", "CREATE TABLE rater (id)", json.dumps({})])
def test_a_damaged_database_schema_is_explained(rated, plan, sql):
    with sqlite3.connect(rated) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'rater'", (sql,))
    db.close()
    assert collect_errors(rated, plan)
