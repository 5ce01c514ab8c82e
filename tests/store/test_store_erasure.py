"""A person is taken out: the name is in no byte of the study's files, and the verdicts stay, or go too."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rating import people, rate_all
from sqlalchemy import text

from guard_eval.errors import StudyError
from guard_eval.store import Store


def known_by(store, plan, name="Ada Lovelace", external="5f0c0ffee-ada"):
    """Let a person leave traces everywhere, and another one rate too."""
    store.invite("Grace")
    if external:
        ada = store.enrol(external, "prolific", plan, browsers=["b"]).rater
        with store._database.write() as connection:
            connection.execute(
                text("UPDATE rater SET name = :name WHERE id = :id"), {"name": name, "id": ada.id}
            )
        ada = replace(ada, name=name)
    else:
        ada, _ = store.invite(name)
    store.note(ada, "arrival", f'{{"session": "{external}"}}')
    store.note(ada, "background", f'{{"languages": "{name}"}}')
    store.note(ada, "consent", '{"agreed": true}')
    shown = rate_all(store, ada, plan)
    for each in shown:
        store.save(
            each.presentation, {"fluency": "B"}, rater=ada, comment=f"{name} was here", problem="offensive"
        )
    store.exclude(name, f"{name} ({external}) was fast", "owner")
    store.include(name, "a mistake", "owner")
    return ada, shown


def test_identity_and_words_go_and_anonymous_verdicts_stay(store, make_pairs, plan):
    store.add_pairs(make_pairs(4))
    ada, _ = known_by(store, plan)
    before = [(row.pair_id, row.verdict, row.slot) for row in store.tidy()]
    new, external = store.erase("Ada Lovelace", "owner")
    assert (new, external) == (f"erased-{ada.id}", "5f0c0ffee-ada")
    assert [(row.pair_id, row.verdict, row.slot) for row in store.tidy()] == before
    assert {row.rater for row in store.tidy()} == {new}
    everything = repr([store.raters(), store.notes(), store.history(), store.skips()])
    assert "Ada" not in everything
    assert "5f0c" not in everything
    assert {note.kind for note in store.notes(rater=new)} == {
        "consent",
        "problem",
        "exclude",
        "include",
        "erase",
    }
    assert [note.detail for note in store.notes(kind="erase")] == ['{"by": "owner", "verdicts": "kept"}']
    # the id is free: who comes with it is somebody new
    assert store.enrol("5f0c0ffee-ada", "prolific", plan, browsers=["b"]).rater.id != ada.id
    with pytest.raises(StudyError, match="no rater named 'Ada Lovelace'"):
        store.erase("Ada Lovelace", "owner")


def test_the_verdicts_go_too_where_asked_and_the_pairs_are_free(store, make_pairs, plan):
    store.add_pairs(make_pairs(4))
    (ben,) = people(store, "Ben")
    one = replace(plan, slots=1)
    known_by(store, one)
    assert store.hand_out(ben, one) == []
    store.erase("Ada Lovelace", "owner", verdicts=True)
    assert store.tidy(include_excluded=True) == store.history() == []
    assert {note.kind for note in store.notes()} == {"exclude", "include", "erase"}
    assert len(rate_all(store, ben, one)) == 4


def test_whoever_is_erased_comes_in_no_more_and_others_rate_on(store, make_pairs, plan):
    store.add_pairs(make_pairs(3))
    (ben,) = people(store, "Ben")
    ann, token = store.invite("Ann")
    (open_pair,) = store.hand_out(ann, plan)
    store.erase("Ann", "owner")
    assert store.sign_in(token) is None
    with pytest.raises(StudyError):
        store.save(open_pair.presentation, {"fluency": "A"}, rater=ann)
    assert len(rate_all(store, ben, plan)) == 3


def test_verdicts_and_notes_are_append_only_again(store, make_pairs, plan):
    store.add_pairs(make_pairs(2))
    known_by(store, plan)
    (ben,) = people(store, "Ben")
    rate_all(store, ben, plan)
    store.note(ben, "break", "3 s")
    store.erase("Ada Lovelace", "owner", verdicts=True)
    for statement in ("DELETE FROM verdict", "DELETE FROM note", "UPDATE note SET detail = 'x'"):
        with pytest.raises(Exception, match="append-only"), store._database.write() as connection:
            connection.execute(text(statement))


def test_only_people_are_erased(store):
    store.rater("judge", "model")
    with pytest.raises(StudyError, match="'judge' is a model; only people are erased"):
        store.erase("judge", "owner")


@given(
    name=st.text(st.characters(categories=("L", "N"), max_codepoint=0x2FFF), min_size=6, max_size=60),
    verdicts=st.booleans(),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_names_bytes_are_nowhere_in_the_folder(tmp_path_factory, make_pairs, plan, name, verdicts):
    folder = tmp_path_factory.mktemp("erased")
    name = f"zq{name}"
    with Store.open(f"sqlite:///{folder / 'study.db'}", create=True) as store:
        store.add_pairs(make_pairs(6))
        known_by(store, plan, name=name, external=f"id-of-{name}")
        held = b"".join(path.read_bytes() for path in folder.iterdir())
        assert name.encode() in held
        store.erase(name, "owner", verdicts=verdicts)
        for path in folder.iterdir():
            assert name.encode() not in path.read_bytes(), path
        store.invite("somebody else")
    for path in folder.iterdir():
        assert name.encode() not in path.read_bytes(), path


def test_a_reader_that_holds_an_old_state_is_named(tmp_path, make_pairs, plan):
    import sqlite3

    file = tmp_path / "study.db"
    with Store.open(f"sqlite:///{file}", create=True) as store:
        store.add_pairs(make_pairs(2))
        known_by(store, plan)
        reader = sqlite3.connect(file, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM rater").fetchone()
        store._database.engine.dispose()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("guard_eval.store.connection.BUSY_SECONDS", 0.1)
            with (
                pytest.raises(StudyError, match=r"still in its files|locked"),
                Store.open(f"sqlite:///{file}") as other,
            ):
                other.erase("Ada Lovelace", "owner")
        reader.close()
        (erased,) = [row.name for row in store.raters() if row.name.startswith("erased-")]
        store.erase(erased, "owner")
        assert b"Ada" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_name_of_one_letter_changes_no_other_word(store, make_pairs, plan):
    store.add_pairs(make_pairs(2))
    ada, _ = store.invite("A")
    store.invite(f"erased-{ada.id}")
    store.note(ada, "practice", '{"choices": {"fluency": "A"}}')
    store.exclude("A", "A was fast. And careless", "owner")
    new, _ = store.erase("A", "owner")
    assert new == f"erased-{ada.id}-"
    details = {note.kind: note.detail for note in store.notes()}
    assert details["practice"] == '{"choices": {"fluency": "A"}}'
    assert f'"{new} was fast. And careless"' in details["exclude"]
