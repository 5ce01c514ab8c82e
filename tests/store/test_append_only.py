"""Verdicts, notes and a judge's answers are kept by the database itself, whatever a program tells it."""

from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from guard_eval.store import handout, notes, pairs, raters, verdicts

pytestmark = pytest.mark.both_databases


@pytest.fixture
def ann(store, make_pairs, plan):
    """A rater with a verdict, a note, and one judge's request that is answered and one that is open."""
    pairs.add(store, make_pairs(2))
    who, _ = raters.invite(store, "Ann")
    number = handout.claim(store, who, plan)[0].presentation
    verdicts.save(store, number, {"fluency": "A"}, rater=who)
    notes.write(store, who, "comment", "a hard one", presentation=number)
    judge = raters.get_or_add(store, "judge", "model")
    with store.write() as (db, now):
        for key, state, answer in (("k0", "answered", b"an answer"), ("k1", "open", None)):
            db.execute(
                text(
                    "INSERT INTO request (key, rater_id, purpose, pair_id, number, state, form, "
                    "max_output_tokens, sent, response, cost, sent_at, run, leased_until) VALUES "
                    "(:key, :judge, 'study', :pair, 0, :state, 'chat', 9, :sent, :answer, 5, :now, "
                    "'r', :until)"
                ),
                {
                    "key": key,
                    "judge": judge.id,
                    "pair": make_pairs(1)[0].id,
                    "state": state,
                    "sent": b"a question",
                    "answer": answer,
                    "now": now.isoformat(sep=" "),
                    "until": (now + timedelta(hours=1)).isoformat(sep=" "),
                },
            )
    return who


def execute(store, statement):
    with store.write() as (db, _):
        return db.execute(text(statement)).rowcount


def table_rows(store):
    with store.read() as db:
        return {
            table: db.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2, 3")).all()
            for table in ("verdict", "note", "request")
        }


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE verdict SET choice = 'B'",
        "UPDATE verdict SET choice = choice",
        "UPDATE verdict SET revision = 7",
        "DELETE FROM verdict",
        "UPDATE note SET detail = ''",
        "UPDATE note SET rater_id = rater_id",
        "DELETE FROM note",
        "UPDATE request SET response = NULL WHERE key = 'k0'",
        "UPDATE request SET response = sent",
        "DELETE FROM request WHERE key = 'k0'",
        "DELETE FROM request",
    ],
)
@pytest.mark.usefixtures("ann")
def test_a_change_is_refused_and_nothing_is_lost(store, statement):
    before = table_rows(store)
    with pytest.raises(DBAPIError, match=r"append-only|kept as it came"):
        execute(store, statement)
    assert table_rows(store) == before
    assert all(before.values())


def test_a_change_of_mind_and_a_second_note_are_added(store, ann):
    (number,) = verdicts.trail(store, ann)
    assert verdicts.save(store, number, {"fluency": "B"}, rater=ann).revision == 1
    notes.write(store, ann, "comment", "another")
    assert verdicts.current(store, number, rater=ann) == {"fluency": "B"}
    assert [note.detail for note in notes.read(store, rater=ann)] == ["a hard one", "another"]


@pytest.mark.usefixtures("ann")
def test_an_open_request_is_answered_once_and_its_cost_may_be_corrected(store):
    assert execute(store, "UPDATE request SET response = sent, state = 'answered' WHERE key = 'k1'") == 1
    assert execute(store, "UPDATE request SET cost = 3") == 2
    with pytest.raises(DBAPIError, match="is append-only"):
        execute(store, "UPDATE request SET response = NULL WHERE key = 'k1'")


@pytest.mark.usefixtures("ann")
def test_only_the_erased_persons_rows_go_and_the_rest_is_kept_afterwards(store, plan):
    ben, _ = raters.invite(store, "Ben")
    shown = handout.claim(store, ben, plan)[0].presentation
    verdicts.save(store, shown, {"fluency": "A"}, rater=ben)
    raters.erase(store, "Ann", "the owner", verdicts=True)
    left = table_rows(store)
    assert [row.presentation_id for row in left["verdict"]] == [shown]
    assert len(left["request"]) == 2
    for statement in ("UPDATE verdict SET choice = 'B'", "DELETE FROM note"):
        with pytest.raises(DBAPIError, match="append-only"):
            execute(store, statement)
