"""Excluding a rater is a recorded decision: nothing is deleted, and the slots are filled again."""

import json
from collections import Counter

import pytest
from rating import people, rate_all

from guard_eval.errors import StudyError


@pytest.fixture
def rated(store, make_pairs, one):
    """Ann has rated two of three pairs, one slot each, and holds the third."""
    store.add_pairs(make_pairs(3))
    ann, _ = store.invite("Ann")
    given = store.hand_out(ann, one, limit=3)
    for blind in given[:2]:
        store.save(blind.presentation, {"fluency": "A"}, rater=ann)
    return ann, one, given


def test_an_excluded_raters_verdicts_are_left_out_and_its_slots_filled_again(store, rated):
    ann, one, _ = rated
    ben, _ = store.invite("Ben")
    assert store.hand_out(ben, one) == []
    store.exclude("Ann", "all in two seconds", "the owner")
    assert store.tidy() == []
    assert store.progress(ben, one) == (0, 3)
    assert len(rate_all(store, ben, one)) == 3
    assert Counter(row.rater for row in store.tidy()) == {"Ben": 3}
    everything = store.tidy(include_excluded=True)
    assert Counter((row.rater, row.excluded, row.surplus) for row in everything) == {
        ("Ann", True, False): 2,
        ("Ben", False, False): 3,
    }
    assert {row.name: row.excluded for row in store.raters()} == {"Ann": True, "Ben": False}
    assert store.hand_out(ann, one) == []


def test_an_excluded_rater_signs_in_and_saves_but_is_given_nothing(store, make_pairs, plan):
    store.add_pairs(make_pairs(2))
    ann, token = store.invite("Ann")
    number = store.hand_out(ann, plan)[0].presentation
    store.exclude("Ann", "why", "who")
    assert store.sign_in(token) == ann
    assert store.hand_out(ann, plan) == []
    assert store.progress(ann, plan) == (0, 0)
    assert not store.save(number, {"fluency": "A"}, rater=ann).surplus  # open in the browser: not lost
    assert store.progress(ann, plan) == (1, 0)
    assert store.tidy() == []
    assert len(store.tidy(include_excluded=True)) == 1


def test_a_rater_taken_in_again_has_back_what_nobody_took(store, rated):
    ann, one, given = rated
    ben, _ = store.invite("Ben")
    store.exclude("Ann", "why", "who")
    taken = store.hand_out(ben, one)[0]
    store.save(taken.presentation, {"fluency": "B"}, rater=ben)
    store.include("Ann", "a mistake", "who")
    texts = {frozenset((blind.text_a, blind.text_b)): blind for blind in given}
    lost = texts[frozenset((taken.text_a, taken.text_b))]
    kept = [blind.presentation for blind in given if blind is not lost]
    rows = store.tidy()
    assert {row.presentation for row in rows if row.rater == "Ann"} == set(kept) & set(store.trail(ann))
    assert Counter(row.pair_id for row in rows).most_common(1)[0][1] == 1
    if lost.presentation in store.trail(ann):
        surplus = [row for row in store.tidy(include_surplus=True) if row.surplus]
        assert [row.presentation for row in surplus] == [lost.presentation]
    # what she held unrated is hers again, unless it was the one taken
    assert [blind.presentation for blind in store.hand_out(ann, one)] == [
        number for number in kept if number not in store.trail(ann)
    ]
    assert rate_all(store, ben, one) == []


def test_the_decisions_are_notes_with_reason_and_name(store, rated, clock):
    store.exclude("Ann", "too fast — 2 s", "Ève")
    clock.advance(days=1)
    store.include("Ann", "she explained", "Ève")
    notes = store.notes(rater="Ann")
    assert [(note.kind, json.loads(note.detail)) for note in notes] == [
        ("exclude", {"by": "Ève", "reason": "too fast — 2 s"}),
        ("include", {"by": "Ève", "reason": "she explained"}),
    ]
    assert notes[1].at - notes[0].at == clock.now - notes[0].at


def test_a_decision_that_cannot_be_is_refused(store, rated):
    store.invite("Out")
    store.exclude("Out", "why", "who")
    for decide, arguments, message in (
        (store.exclude, ("Eve", "why", "who"), "no rater named 'Eve'"),
        (store.exclude, ("Ann", " ", "who"), "reason to exclude 'Ann' is empty"),
        (store.exclude, ("Ann", "why", ""), "who decides '' is empty"),
        (store.exclude, ("Out", "why", "who"), "'Out' is excluded already"),
        (store.include, ("Ann", "why", "who"), "'Ann' is not excluded"),
    ):
        with pytest.raises(StudyError, match=message):
            decide(*arguments)
    assert len(store.tidy()) == 2
    assert len(store.notes()) == 1


def test_exclusion_and_surplus_are_distinguished(store, make_pairs, one, clock):
    """Ann's rating came late, after Ben took her slot; then she is excluded, and Ben is too."""
    store.add_pairs(make_pairs(1))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    late = store.hand_out(ann, one)[0].presentation
    clock.advance(hours=1)
    assert len(rate_all(store, ben, one)) == 1
    assert store.save(late, {"fluency": "A"}, rater=ann).surplus
    for name in ("Ann", "Ben"):
        store.exclude(name, "why", "who")
    assert [row.rater for row in store.tidy(include_excluded=True)] == ["Ben"]
    both = store.tidy(include_excluded=True, include_surplus=True)
    assert [(row.rater, row.surplus) for row in both] == [("Ann", True), ("Ben", False)]
    assert len(rate_all(store, eve, one)) == 1  # a third attempt at the slot
    store.include("Ben", "why", "who")
    assert [row.rater for row in store.tidy()] == ["Eve"]
    assert [row.rater for row in store.tidy(include_surplus=True)] == ["Ben", "Eve"]


def test_a_judge_can_be_excluded_too(store, make_pairs, plan, claim):
    store.add_pairs(make_pairs(1))
    judge = store.rater("judge", "model")
    for blind in claim(store, judge, plan, 2):
        store.save(blind.presentation, {"fluency": "A"}, rater=judge)
    assert len(store.tidy()) == 2
    store.exclude("judge", "it answers A always", "who")
    assert store.tidy() == claim(store, judge, plan) == []
    store.include("judge", "it was the prompt", "who")
    assert len(store.tidy()) == 2
