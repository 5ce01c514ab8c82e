"""An erased name is in no byte of the study's files. The verdicts stay, or are deleted on request."""

import json
import sqlite3
from dataclasses import replace

import pytest
from factories import prolific_id
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rating import claim_pair, include_rater, invite_people, rate_all_pairs, save_choice
from refusals import expect_refusal

from guard_eval.store import (
    Store,
    handout,
)
from guard_eval.store.notes import read_notes, write_note
from guard_eval.store.pairs import add_pairs
from guard_eval.store.raters import (
    Enrolment,
    decide_about_rater,
    enrol_rater,
    erase_rater,
    invite_rater,
    read_rater_progress,
)
from guard_eval.store.schema import query
from guard_eval.store.showings import slots
from guard_eval.store.unblind import read_tidy_rows, read_verdict_history

ADA = prolific_id("ada")


def leave_traces(store, plan, name="Ada Lovelace", external=ADA, source="prolific"):
    """Enrol a person who rates and leaves the name in every kind of note."""
    invite_rater(store, "Grace")
    ada = enrol_rater(store, external, source, plan, browser_secrets=["b"]).rater
    with store.begin_write() as (db, _):
        query("UPDATE rater SET name = :name WHERE id = :id")(db, name=name, id=ada.id)
    ada = replace(ada, name=name)
    write_note(store, ada, "arrival", f'{{"session": "{external}"}}')
    write_note(store, ada, "background", f'{{"languages": "{name}"}}')
    write_note(store, ada, "consent", '{"agreed": true}')
    for presented in rate_all_pairs(store, ada, plan):
        save_choice(store, ada, presented, "B", comment=f"{name} was here", problem="offensive")
    decide_about_rater(store, name, "exclude", by="owner", reason=f"{name} ({external}) was fast")
    include_rater(store, name)
    return ada


@pytest.mark.both_databases
def test_erase_deletes_identity_and_keeps_verdicts(store, add_new_pairs, plan):
    add_new_pairs(4)
    ada = leave_traces(store, plan)
    before = [(row.pair_id, row.verdict, row.slot) for row in read_tidy_rows(store)]
    new, external = erase_rater(store, "Ada Lovelace", "owner")
    assert (new, external) == (f"erased-{ada.id}", ADA)
    assert [(row.pair_id, row.verdict, row.slot) for row in read_tidy_rows(store)] == before
    assert {row.rater for row in read_tidy_rows(store)} == {new}
    everything = repr([read_rater_progress(store), read_notes(store), read_verdict_history(store)])
    assert "Ada" not in everything
    assert ADA not in everything
    kinds = {note.kind for note in read_notes(store, rater=new)}
    assert kinds == {"consent", "problem", "exclude", "include", "erase"}
    assert [note.detail for note in read_notes(store, kind="erase")] == [
        '{"by": "owner", "verdicts": "kept"}'
    ]
    # who comes with the id again is known and let in no more, as a revoked rater is
    for browser in ("b", "another"):
        assert enrol_rater(store, ADA, "prolific", plan, browser_secrets=[browser]) == Enrolment()
    with expect_refusal("was erased, which cannot be undone"):
        include_rater(store, new)
    with expect_refusal("no rater named 'Ada Lovelace'"):
        erase_rater(store, "Ada Lovelace", "owner")


@pytest.mark.both_databases
def test_erase_can_delete_verdicts_and_free_pairs(store, ben, add_new_pairs, plan):
    add_new_pairs(4)
    single_plan = replace(plan, slots=1)
    leave_traces(store, single_plan)
    assert handout.claim_pairs(store, ben, single_plan) == []
    erase_rater(store, "Ada Lovelace", "owner", verdicts=True)
    assert read_tidy_rows(store, include_excluded=True) == read_verdict_history(store) == []
    assert {note.kind for note in read_notes(store)} == {"exclude", "include", "erase"}
    assert len(rate_all_pairs(store, ben, single_plan)) == 4


def test_erasing_a_rater_opens_no_slots_beyond_the_plan(*, store, ann, ben, cem, add_new_pairs, plan):
    add_new_pairs(1)
    for who in (ann, ben):
        rate_all_pairs(store, who, plan)
    single_plan = replace(plan, slots=1)
    slots.apply_hand_out_plan(store, single_plan)
    assert handout.claim_pairs(store, cem, single_plan) == []
    erase_rater(store, "Ann", "owner", verdicts=True)
    assert handout.claim_pairs(store, cem, single_plan) == []


@pytest.mark.slow
@given(
    name=st.text(st.characters(categories=("L", "N"), max_codepoint=0x2FFF), min_size=6, max_size=60),
    verdicts=st.booleans(),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_erased_name_is_in_no_file_of_the_folder(tmp_path_factory, make_pairs, plan, name, verdicts):
    folder = tmp_path_factory.mktemp("erased")
    name = f"zq{name}"
    with Store.open(f"sqlite:///{folder / 'study.db'}", create=True) as store:
        add_pairs(store, make_pairs(6))
        leave_traces(store, plan, name=name, external=f"id-of-{name}", source="panel")
        held = b"".join(path.read_bytes() for path in folder.iterdir())
        assert name.encode() in held
        erase_rater(store, name, "owner", verdicts=verdicts)
        for path in folder.iterdir():
            assert name.encode() not in path.read_bytes(), path
        invite_rater(store, "somebody else")
    for path in folder.iterdir():
        assert name.encode() not in path.read_bytes(), path


def test_erase_is_refused_while_another_program_reads(tmp_path, make_pairs, plan):
    file = tmp_path / "study.db"
    with Store.open(f"sqlite:///{file}", create=True) as store:
        add_pairs(store, make_pairs(2))
        leave_traces(store, plan)
        reader = sqlite3.connect(file, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM rater").fetchone()
        store.engine.dispose()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("guard_eval.store.database.BUSY_SECONDS", 0.1)
            with (
                expect_refusal(r"database's files still contain deleted data|locked"),
                Store.open(f"sqlite:///{file}") as other,
            ):
                erase_rater(other, "Ada Lovelace", "owner")
        reader.close()
        (erased,) = [row.name for row in read_rater_progress(store) if row.name.startswith("erased-")]
        erase_rater(store, erased, "owner")
        assert b"Ada" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.postgres
@pytest.mark.parametrize("obstacle", ["an older transaction", "a reader of raters", "another owner"])
def test_erase_reports_data_that_postgresql_keeps(
    *, postgres_server, postgres_url, make_pairs, plan, monkeypatch, obstacle
):
    monkeypatch.setattr("guard_eval.store.database.BUSY_SECONDS", 0.1)  # else one minute
    with Store.open(postgres_url, create=True) as store:
        add_pairs(store, make_pairs(2))
        leave_traces(store, plan)
    url = postgres_url
    with Store.open(url) as reader, reader.begin_read() as db:
        if obstacle == "another owner":
            rights = "GRANT ALL ON ALL {} IN SCHEMA public TO {{role}}"
            url = postgres_server.make_role(url, *map(rights.format, ("TABLES", "SEQUENCES")))
        else:
            table = "rater" if obstacle == "a reader of raters" else "pair"
            db.exec_driver_sql(f"SELECT count(*) FROM {table}")
        with (
            Store.open(url) as store,
            expect_refusal(r"database's files still contain deleted data"),
        ):
            erase_rater(store, "Ada Lovelace", "owner")
    with Store.open(postgres_url) as store:
        (erased,) = [row.name for row in read_rater_progress(store) if row.name.startswith("erased-")]
        erase_rater(store, erased, "owner")


def test_erasing_a_one_letter_name_changes_no_other_word(store, add_new_pairs, plan):
    add_new_pairs(2)
    ada, _ = invite_rater(store, "A")
    invite_rater(store, f"erased-{ada.id}")
    write_note(store, ada, "practice", '{"choices": {"fluency": "A"}}')
    decide_about_rater(store, "A", "exclude", by="owner", reason="A was fast. And careless")
    new, _ = erase_rater(store, "A", "owner")
    assert new == f"erased-{ada.id}-"
    details = {note.kind: note.detail for note in read_notes(store)}
    assert details["practice"] == '{"choices": {"fluency": "A"}}'
    assert f'"{new} was fast. And careless"' in details["exclude"]


def test_an_erased_name_is_removed_from_notes_of_others(store, add_new_pairs, plan):
    """Case and Unicode form do not matter. A name of one letter stays in the notes of others."""
    add_new_pairs(2)
    _, ben, _ = invite_people(store, "Zo\u00eb B", "Ben", "A")
    save_choice(store, ben, claim_pair(store, ben, plan), comment="zo\u0065\u0308 b said that A is better")
    decide_about_rater(
        store, "Ben", "exclude", by="Zo\u00eb B", reason="copied from Zo\u00eb B, the Zo\u00eb Bs say"
    )
    new, _ = erase_rater(store, "Zo\u00eb B", "owner")
    erase_rater(store, "A", "owner")
    written = {note.kind: note.detail for note in read_notes(store, rater=ben.name)}
    assert written == {
        "comment": f"{new} said that A is better",
        "exclude": f'{{"by": "{new}", "reason": "copied from {new}, the Zo\u00eb Bs say", '
        '"results_seen": false}',
    }


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("Ann", 'The rater "Ann": copied', 'The rater "{new}": copied'),
        ("Ann", "fast.\nAnn left", "fast.\n{new} left"),
        ("N", "too fast\n\n3 s a pair", "too fast\n\n3 s a pair"),
        ("emp", r"see C:\temp", r"see C:\temp"),
        ("Ann", "Zoe\u0308 left", "Zoe\u0308 left"),
        ("Ann", "和Ann聊过, Anna", "和{new}聊过, Anna"),
        ("王芳", "我和王芳聊过", "我和{new}聊过"),
        ("田中", "田中さんと", "{new}さんと"),
        ("김민수", "김민수가 A왔다", "{new}가 A왔다"),
        ("สมศรี", "คุณสมศรีครับ", "คุณ{new}ครับ"),
        ("Ann Lee", "ANN\n Lee left", "{new} left"),
        ("Li Straße", "LI STRASSE left", "{new} left"),
    ],
    ids=[
        *("quoted", "after a line end", "line ends", "backslash", "other Unicode form", "in Chinese text"),
        *("Chinese", "Japanese", "Korean", "Thai", "line end in the name", "letter of two forms"),
    ],
)
def test_erasure_replaces_only_whole_words(*, store, add_new_pairs, plan, name, words, expected):
    add_new_pairs(1)
    _, ben = invite_people(store, name, "Ben")
    save_choice(store, ben, claim_pair(store, ben, plan), comment=words)
    decide_about_rater(store, name, "exclude", by="owner", reason=words)
    new, _ = erase_rater(store, name, "owner")
    details = {note.kind: note.detail for note in read_notes(store)}
    assert details["comment"] == expected.format(new=new)
    assert json.loads(details["exclude"])["reason"] == expected.format(new=new)
