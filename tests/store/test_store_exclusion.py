"""Excluding a rater is a recorded decision: nothing is deleted, and the slots are filled again."""

import json
from collections import Counter

import pytest
from rating import people, rate_all

from guard_eval.errors import StudyError
from guard_eval.store import handout, pairs, raters, unblind, verdicts
from guard_eval.store import notes as store_notes


@pytest.fixture
def rated(store, make_pairs, one):
    """Ann has rated two of three pairs, one slot each, and holds the third."""
    pairs.add(store, make_pairs(3))
    ann, _ = raters.invite(store, "Ann")
    given = handout.claim(store, ann, one, limit=3)
    for blind in given[:2]:
        verdicts.save(store, blind.presentation, {"fluency": "A"}, rater=ann)
    return ann, one, given


def test_an_excluded_raters_verdicts_are_left_out_and_its_slots_filled_again(store, rated):
    ann, one, _ = rated
    ben, _ = raters.invite(store, "Ben")
    assert handout.claim(store, ben, one) == []
    raters.exclude(store, "Ann", "all in two seconds", "the owner")
    assert unblind.tidy(store) == []
    assert handout.progress(store, ben, one) == (0, 3)
    assert len(rate_all(store, ben, one)) == 3
    assert Counter(row.rater for row in unblind.tidy(store)) == {"Ben": 3}
    everything = unblind.tidy(store, include_excluded=True)
    assert Counter((row.rater, row.excluded, row.surplus) for row in everything) == {
        ("Ann", True, False): 2,
        ("Ben", False, False): 3,
    }
    assert {row.name: row.excluded for row in raters.read(store)} == {"Ann": True, "Ben": False}
    assert handout.claim(store, ann, one) == []


def test_an_excluded_rater_signs_in_and_saves_but_is_given_nothing(store, make_pairs, plan):
    pairs.add(store, make_pairs(2))
    ann, token = raters.invite(store, "Ann")
    number = handout.claim(store, ann, plan)[0].presentation
    raters.exclude(store, "Ann", "why", "who")
    assert raters.sign_in(store, token) == ann
    assert handout.claim(store, ann, plan) == []
    assert handout.progress(store, ann, plan) == (0, 0)
    assert not verdicts.save(
        store, number, {"fluency": "A"}, rater=ann
    ).surplus  # open in the browser: not lost
    assert handout.progress(store, ann, plan) == (1, 0)
    assert unblind.tidy(store) == []
    assert len(unblind.tidy(store, include_excluded=True)) == 1


def test_a_rater_taken_in_again_has_back_what_nobody_took(store, rated):
    ann, one, given = rated
    ben, _ = raters.invite(store, "Ben")
    raters.exclude(store, "Ann", "why", "who")
    taken = handout.claim(store, ben, one)[0]
    verdicts.save(store, taken.presentation, {"fluency": "B"}, rater=ben)
    raters.include(store, "Ann", "a mistake", "who")
    texts = {frozenset((blind.text_a, blind.text_b)): blind for blind in given}
    lost = texts[frozenset((taken.text_a, taken.text_b))]
    kept = [blind.presentation for blind in given if blind is not lost]
    rows = unblind.tidy(store)
    assert {row.presentation for row in rows if row.rater == "Ann"} == set(kept) & set(
        verdicts.trail(store, ann)
    )
    assert Counter(row.pair_id for row in rows).most_common(1)[0][1] == 1
    if lost.presentation in verdicts.trail(store, ann):
        surplus = [row for row in unblind.tidy(store, include_surplus=True) if row.surplus]
        assert [row.presentation for row in surplus] == [lost.presentation]
    # what she held unrated is hers again, unless it was the one taken
    assert [blind.presentation for blind in handout.claim(store, ann, one)] == [
        number for number in kept if number not in verdicts.trail(store, ann)
    ]
    assert rate_all(store, ben, one) == []


def test_the_decisions_are_notes_with_reason_and_name(store, rated, clock):
    raters.exclude(store, "Ann", "too fast — 2 s", "Ève")
    clock.advance(days=1)
    raters.include(store, "Ann", "she explained", "Ève")
    notes = store_notes.read(store, rater="Ann")
    assert [(note.kind, json.loads(note.detail)) for note in notes] == [
        ("exclude", {"by": "Ève", "reason": "too fast — 2 s"}),
        ("include", {"by": "Ève", "reason": "she explained"}),
    ]
    assert notes[1].at - notes[0].at == clock.now - notes[0].at


def test_a_decision_that_cannot_be_is_refused(store, rated):
    raters.invite(store, "Out")
    raters.exclude(store, "Out", "why", "who")
    for decide, arguments, message in (
        (raters.exclude, ("Eve", "why", "who"), "no rater named 'Eve'"),
        (raters.exclude, ("Ann", " ", "who"), "reason to exclude 'Ann' is empty"),
        (raters.exclude, ("Ann", "why", ""), "who decides '' is empty"),
        (raters.exclude, ("Out", "why", "who"), "'Out' is excluded already"),
        (raters.include, ("Ann", "why", "who"), "'Ann' is not excluded"),
    ):
        with pytest.raises(StudyError, match=message):
            decide(store, *arguments)
    assert len(unblind.tidy(store)) == 2
    assert len(store_notes.read(store)) == 1


def test_exclusion_and_surplus_are_distinguished(store, make_pairs, one, clock):
    """Ann's rating came late, after Ben took her slot; then she is excluded, and Ben is too."""
    pairs.add(store, make_pairs(1))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    late = handout.claim(store, ann, one)[0].presentation
    clock.advance(hours=1)
    assert len(rate_all(store, ben, one)) == 1
    assert verdicts.save(store, late, {"fluency": "A"}, rater=ann).surplus
    clock.advance(seconds=1)
    for name in ("Ann", "Ben"):
        raters.exclude(store, name, "why", "who")
    assert [row.rater for row in unblind.tidy(store, include_excluded=True)] == ["Ben"]
    both = unblind.tidy(store, include_excluded=True, include_surplus=True)
    assert [(row.rater, row.surplus) for row in both] == [("Ann", True), ("Ben", False)]
    assert len(rate_all(store, eve, one)) == 1  # a third attempt at the slot
    raters.include(store, "Ben", "why", "who")
    assert [row.rater for row in unblind.tidy(store)] == ["Eve"]
    assert [row.rater for row in unblind.tidy(store, include_surplus=True)] == ["Ben", "Eve"]
