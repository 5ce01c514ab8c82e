"""Invitations, sign-in, revocation; models and simulations by name."""

import hashlib
from dataclasses import replace

import pytest

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import RaterProgress


def test_an_invited_person_signs_in_with_the_token_alone(store):
    ann, ann_token = store.invite("Ann")
    ben, ben_token = store.invite("Ben")
    assert (ann.name, ann.kind, ben.name) == ("Ann", "person", "Ben")
    assert ann.id != ben.id
    assert store.sign_in(ann_token) == ann
    assert store.sign_in(ben_token) == ben


def test_a_guess_does_not_sign_in(store):
    store.invite("Ann")
    store.rater("judge", "model")
    for guess in ("", "Ann", "x" * 10_000, "\x00", "\ud800", "' OR 1=1 --", "é"):
        assert store.sign_in(guess) is None


def test_a_token_is_long_and_its_hash_does_not_sign_in(store):
    _, token = store.invite("Ann")
    assert len(token) >= 43  # 32 random bytes in base 64
    assert store.sign_in(hashlib.sha256(token.encode()).hexdigest()) is None


def test_the_database_file_holds_no_token(tmp_path):
    from guard_eval.store import Store

    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        _, token = store.invite("Ann")
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Ann" in everything
    assert token.encode() not in everything


def test_a_name_is_invited_once(store):
    _, token = store.invite("Ann")
    with pytest.raises(StudyError, match="'Ann' exists"):
        store.invite("Ann")
    assert store.sign_in(token) is not None


def test_a_revoked_person_is_let_in_no_more(store, make_pairs, plan):
    store.add_pairs(make_pairs(2))
    ann, token = store.invite("Ann")
    given = store.hand_out(ann, plan)[0].presentation
    store.save(given, {"fluency": "A"}, rater=ann)
    store.revoke("Ann")
    store.revoke("Ann")
    assert store.sign_in(token) is None
    assert store.hand_out(ann, plan) == []
    assert store.progress(ann, plan) == (1, 0)
    with pytest.raises(StudyError, match="'Ann' is revoked"):
        store.save(given, {"fluency": "B"}, rater=ann)
    assert [row.rater for row in store.tidy()] == ["Ann"]
    assert store.raters() == [RaterProgress(name="Ann", kind="person", revoked=True, handed_out=1, rated=1)]


def test_revoking_frees_the_slots_at_once(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    one = replace(plan, slots=1)
    ann, ben = (store.invite(name)[0] for name in ("Ann", "Ben"))
    assert len(store.hand_out(ann, one)) == 1
    assert store.hand_out(ben, one) == []
    store.revoke("Ann")
    assert len(store.hand_out(ben, one)) == 1


def test_revoking_a_stranger_is_refused(store):
    with pytest.raises(StudyError, match="no rater named 'Eve'"):
        store.revoke("Eve")


def test_a_model_is_the_same_rater_each_time(store):
    first = store.rater("some/model", "model")
    assert store.rater("some/model", "model") == first
    assert store.rater("simulated-1", "simulated").id != first.id
    assert [rater.kind for rater in store.raters()] == ["model", "simulated"]


def test_a_name_belongs_to_one_kind(store):
    store.invite("Ann")
    with pytest.raises(StudyError, match="'Ann' is a person, not a model"):
        store.rater("Ann", "model")


def test_an_unknown_kind_is_refused(store):
    with pytest.raises(StudyError, match="'robot' is no kind of rater"):
        store.rater("R2", "robot")


def test_a_bad_name_is_refused(store):
    for name in ("", "  ", "x" * 201):
        with pytest.raises(StudyError, match="rater's name"):
            store.invite(name)
    assert store.raters() == []


def test_other_names_are_kept_as_they_are(store):
    names = ["\x00", "lone \ud800", "نور", "x" * 200, "=cmd()"]
    for name in names:
        rater, token = store.invite(name)
        assert store.sign_in(token) == rater
    assert [rater.name for rater in store.raters()] == names


def test_a_rater_of_another_study_is_refused(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    with pytest.raises(StudyError, match="'Eve' is not of this study"):
        store.hand_out(Rater(id=99, name="Eve", kind="person"), plan)
