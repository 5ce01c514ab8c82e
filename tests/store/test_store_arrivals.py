"""New links for people, and people who come by themselves."""

import pytest
from sqlalchemy import select

from guard_eval.errors import StudyError
from guard_eval.store import schema


def test_a_new_link_ends_the_old_one(store):
    ann, old = store.invite("Ann")
    new = store.link("Ann")
    assert store.sign_in(new) == ann
    assert store.sign_in(old) is None
    assert store.sign_in(store.link("Ann")) == ann
    assert store.sign_in(new) is None


def test_a_link_is_for_people_who_may_come(store):
    store.rater("judge", "model")
    store.invite("Ann")
    store.revoke("Ann")
    for name, message in (
        ("Eve", "no rater named 'Eve'"),
        ("judge", "'judge' is a model, and only people come by a link"),
        ("Ann", "'Ann' is revoked"),
    ):
        with pytest.raises(StudyError, match=message):
            store.link(name)


def test_the_same_external_id_is_the_same_rater(store, make_pairs, plan):
    store.add_pairs(make_pairs(2))
    first, token = store.enrol("5f3a-\x00é", "prolific")
    again, other = store.enrol("5f3a-\x00é", "prolific")
    elsewhere, _ = store.enrol("5f3a-\x00é", "oidc")
    assert first == again != elsewhere
    assert (first.name, elsewhere.name, first.kind) == ("P-1", "P-2", "person")
    assert token != other
    assert store.sign_in(token) == store.sign_in(other) == first  # two tabs
    assert len(store.hand_out(first, plan)) == 1
    found = {row.name: (row.source, row.external_id) for row in store.raters()}
    assert found == {"P-1": ("prolific", "5f3a-\x00é"), "P-2": ("oidc", "5f3a-\x00é")}


def test_the_external_id_stays_with_the_owner(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    who, token = store.enrol("SECRET-ID", "prolific")
    blind = store.hand_out(who, plan)[0]
    store.save(blind.presentation, {"fluency": "A"}, rater=who)
    shown = [who, blind, store.sign_in(token), store.tidy(), store.history(), store.notes(), store.balance()]
    assert "SECRET-ID" not in repr(shown)
    with store._database.read() as connection:
        hashes = connection.execute(select(schema.visit.c.token_hash)).scalars().all()
    assert len(hashes) == 1
    assert token not in hashes


def test_a_pseudonym_that_is_taken_is_passed_over(store):
    store.invite("P-1")
    store.invite("p-2")  # looks like P-2, and must lock nobody out
    assert store.enrol("a", "prolific")[0].name == "P-3"
    assert store.enrol("b", "prolific")[0].name == "P-4"


def test_a_revoked_rater_does_not_come_back_by_enrolling(store):
    who, token = store.enrol("a", "prolific")
    store.revoke(who.name)
    again, other = store.enrol("a", "prolific")
    assert again == who
    assert store.sign_in(token) is store.sign_in(other) is None


def test_a_link_ends_the_tokens_of_an_enrolled_rater(store):
    who, token = store.enrol("a", "prolific")
    link = store.link(who.name)
    assert store.sign_in(token) is None
    assert store.sign_in(link) == who


def test_an_empty_id_is_nobody(store):
    for external_id, source in (("", "prolific"), ("a", " "), ("x" * 201, "prolific")):
        with pytest.raises(StudyError, match=r"external id|source"):
            store.enrol(external_id, source)
    assert store.raters() == []


def test_many_enrolments_at_once_make_one_rater(store):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda number: store.enrol(str(number % 2), "prolific")[0], range(8)))
    assert len(set(found)) == len(store.raters()) == 2
