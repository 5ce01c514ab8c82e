"""The database itself refuses to change or remove verdicts, notes and the answers of judges."""

from datetime import timedelta

import pytest
from rating import claim_pair, save_choice
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from guard_eval.store import raters
from guard_eval.store.judging.requests import Instruction, store_instruction
from guard_eval.store.schema import add_rows

pytestmark = pytest.mark.both_databases
INSTRUCTION = ("id", "settings", "form", "manner", "prompt", "description", "text")


@pytest.fixture
def ann(store, make_pairs, add_new_pairs, plan):
    """A rater with a verdict and a note. A judge has an answered and an open request."""
    add_new_pairs(2)
    who, _ = raters.invite_rater(store, "Ann")
    save_choice(store, who, claim_pair(store, who, plan), comment="a hard one")
    judge = raters.get_or_add_rater(store, "judge", "model")
    same = {
        "rater_id": judge.id,
        "purpose": "study",
        "pair_id": make_pairs(1)[0].id,
        "number": 0,
        "instruction": "i",
    }
    same |= {"max_output_tokens": 9, "sent": b"a question", "cost": 5, "run": "r"}
    with store.begin_write() as (db, now):
        store_instruction(db, Instruction(**dict.fromkeys(INSTRUCTION, "i") | {"form": "chat/text/"}))
        when = {"sent_at": now, "leased_until": now + timedelta(hours=1)}
        for key, state, response in (("k0", "answered", b"an answer"), ("k1", "open", None)):
            add_rows(db, "request", [{"key": key, "state": state, "response": response, **same, **when}])
    return who


def count_changed_rows(store, statement):
    with store.begin_write() as (db, _):
        return db.execute(text(statement)).rowcount


def read_protected_tables(store):
    with store.begin_read() as db:
        return {
            table: db.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2, 3")).all()
            for table in ("verdict", "note", "request")
        }


@pytest.mark.usefixtures("ann")
def test_append_only_tables_refuse_changes(store):
    before = read_protected_tables(store)
    assert all(before.values())
    for statement in (
        "UPDATE verdict SET choice = choice",
        "UPDATE verdict SET revision = 7",
        "DELETE FROM verdict",
        "UPDATE note SET detail = ''",
        "DELETE FROM note",
        "UPDATE request SET response = NULL WHERE key = 'k0'",
        "UPDATE request SET response = sent",
        "DELETE FROM request WHERE key = 'k0'",
    ):
        with pytest.raises(DBAPIError, match="append-only"):
            count_changed_rows(store, statement)
        assert read_protected_tables(store) == before


@pytest.mark.usefixtures("ann")
def test_an_answered_request_cannot_be_changed(store):
    assert (
        count_changed_rows(store, "UPDATE request SET response = sent, state = 'answered' WHERE key = 'k1'")
        == 1
    )
    assert count_changed_rows(store, "UPDATE request SET cost = 3") == 2
    with pytest.raises(DBAPIError, match="is append-only"):
        count_changed_rows(store, "UPDATE request SET response = NULL WHERE key = 'k1'")


@pytest.mark.usefixtures("ann")
def test_erasure_deletes_only_rows_of_that_person(store, ben, plan):
    presented = claim_pair(store, ben, plan)
    save_choice(store, ben, presented)
    raters.erase_rater(store, "Ann", "the owner", verdicts=True)
    rows = read_protected_tables(store)
    assert [row.presentation_id for row in rows["verdict"]] == [presented.presentation]
    assert len(rows["request"]) == 2
    for statement in ("UPDATE verdict SET choice = 'B'", "DELETE FROM note"):
        with pytest.raises(DBAPIError, match="append-only"):
            count_changed_rows(store, statement)
