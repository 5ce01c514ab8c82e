"""Invitations, links, sign-in, revocation; models and simulations by name."""

import pytest

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import RaterProgress, handout, pairs, raters, unblind, verdicts


def test_a_guess_does_not_sign_in(store):
    raters.invite(store, "Ann")
    raters.get_or_add(store, "judge", "model")
    for guess in ("", "Ann", "x" * 10_000, "\x00", "\ud800", "' OR 1=1 --", "é"):
        assert raters.sign_in(store, guess) is None


def test_the_database_file_holds_no_token(tmp_path):
    from guard_eval.store import Store

    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        _, token = raters.invite(store, "Ann")
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Ann" in everything
    assert token.encode() not in everything


def test_a_revoked_person_is_let_in_no_more(store, make_pairs, plan):
    pairs.add(store, make_pairs(2))
    ann, token = raters.invite(store, "Ann")
    given = handout.claim(store, ann, plan)[0].presentation
    verdicts.save(store, given, {"fluency": "A"}, rater=ann)
    raters.revoke(store, "Ann")
    raters.revoke(store, "Ann")
    assert raters.sign_in(store, token) is None
    assert handout.claim(store, ann, plan) == []
    assert handout.progress(store, ann, plan) == (1, 0)
    with pytest.raises(StudyError, match="'Ann' is revoked"):
        verdicts.save(store, given, {"fluency": "B"}, rater=ann)
    assert [row.rater for row in unblind.tidy(store)] == ["Ann"]
    assert raters.read(store) == [
        RaterProgress(name="Ann", kind="person", revoked=True, handed_out=1, rated=1)
    ]


def test_other_names_are_kept_as_they_are(store):
    names = ["نور", "x" * 200, "=cmd()"]
    for name in names:
        rater, token = raters.invite(store, name)
        assert raters.sign_in(store, token) == rater
    assert [rater.name for rater in raters.read(store)] == names


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: raters.invite(store, "Ann"), "'Ann' exists"),
        *(
            (lambda store, name=name: raters.invite(store, name), "rater's name")
            for name in ("", "  ", "x" * 201)
        ),
        *(
            (
                lambda store, name=name: raters.invite(store, name),
                "a rater named 'Ann' exists, which looks like",
            )
            for name in ("ann", "\uff21nn")
        ),
        *(
            (
                lambda store, name=name: raters.invite(store, name),
                "characters that cannot be seen, or begins or ends",
            )
            for name in ("Ann ", "A\u200bnn", "\x00", "lone \ud800", "Bo\u202eb")
        ),
        (lambda store: raters.get_or_add(store, "Ann", "model"), "'Ann' is a person, not a model"),
        (lambda store: raters.get_or_add(store, "R2", "robot"), "'robot' is no kind of rater"),
        (lambda store: raters.revoke(store, "Eve"), "no rater named 'Eve'"),
        (lambda store: raters.renew_link(store, "Eve"), "no rater named 'Eve'"),
        (
            lambda store: raters.renew_link(store, "judge"),
            "'judge' is a model, and only people come by a link",
        ),
        (lambda store: raters.renew_link(store, "out"), "'out' is revoked"),
    ],
)
def test_what_cannot_be_is_refused_and_adds_nobody(store, call, message):
    _, token = raters.invite(store, "Ann")
    raters.get_or_add(store, "judge", "model")
    raters.invite(store, "out")
    raters.revoke(store, "out")
    with pytest.raises(StudyError, match=message):
        call(store)
    assert [rater.name for rater in raters.read(store)] == ["Ann", "judge", "out"]
    assert raters.sign_in(store, token) is not None


def test_a_rater_of_another_study_is_refused(store, make_pairs, plan):
    pairs.add(store, make_pairs(1))
    with pytest.raises(StudyError, match="'Eve' is not of this study"):
        handout.claim(store, Rater(id=99, name="Eve", kind="person"), plan)


def test_a_new_link_ends_the_old_one(store):
    ann, old = raters.invite(store, "Ann")
    new = raters.renew_link(store, "Ann")
    assert raters.sign_in(store, new) == ann
    assert raters.sign_in(store, old) is None
    assert raters.sign_in(store, raters.renew_link(store, "Ann")) == ann
    assert raters.sign_in(store, new) is None
