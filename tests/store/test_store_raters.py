"""Invitations, links, sign-in, revocation; models and simulations by name."""

import hashlib

import pytest
from rating import people

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


def test_revoking_frees_the_slots_at_once(store, make_pairs, one):
    store.add_pairs(make_pairs(1))
    ann, ben = people(store, "Ann", "Ben")
    assert len(store.hand_out(ann, one)) == 1
    assert store.hand_out(ben, one) == []
    store.revoke("Ann")
    assert len(store.hand_out(ben, one)) == 1


def test_a_model_is_the_same_rater_each_time(store):
    first = store.rater("some/model", "model")
    assert store.rater("some/model", "model") == first
    assert store.rater("simulated-1", "simulated").id != first.id
    assert [rater.kind for rater in store.raters()] == ["model", "simulated"]


def test_other_names_are_kept_as_they_are(store):
    names = ["نور", "x" * 200, "=cmd()"]
    for name in names:
        rater, token = store.invite(name)
        assert store.sign_in(token) == rater
    assert [rater.name for rater in store.raters()] == names


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.invite("Ann"), "'Ann' exists"),
        *((lambda store, name=name: store.invite(name), "rater's name") for name in ("", "  ", "x" * 201)),
        *(
            (lambda store, name=name: store.invite(name), "a rater named 'Ann' exists, which looks like")
            for name in ("ann", "\uff21nn")
        ),
        *(
            (lambda store, name=name: store.invite(name), "characters that cannot be seen, or begins or ends")
            for name in ("Ann ", "A\u200bnn", "\x00", "lone \ud800", "Bo\u202eb")
        ),
        (lambda store: store.rater("Ann", "model"), "'Ann' is a person, not a model"),
        (lambda store: store.rater("R2", "robot"), "'robot' is no kind of rater"),
        (lambda store: store.revoke("Eve"), "no rater named 'Eve'"),
        (lambda store: store.link("Eve"), "no rater named 'Eve'"),
        (lambda store: store.link("judge"), "'judge' is a model, and only people come by a link"),
        (lambda store: store.link("out"), "'out' is revoked"),
    ],
)
def test_what_cannot_be_is_refused_and_adds_nobody(store, call, message):
    _, token = store.invite("Ann")
    store.rater("judge", "model")
    store.invite("out")
    store.revoke("out")
    with pytest.raises(StudyError, match=message):
        call(store)
    assert [rater.name for rater in store.raters()] == ["Ann", "judge", "out"]
    assert store.sign_in(token) is not None


def test_a_rater_of_another_study_is_refused(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    with pytest.raises(StudyError, match="'Eve' is not of this study"):
        store.hand_out(Rater(id=99, name="Eve", kind="person"), plan)


def test_a_new_link_ends_the_old_one(store):
    ann, old = store.invite("Ann")
    new = store.link("Ann")
    assert store.sign_in(new) == ann
    assert store.sign_in(old) is None
    assert store.sign_in(store.link("Ann")) == ann
    assert store.sign_in(new) is None
