"""Excluding a rater is recorded. It deletes nothing, and other raters can take the slots."""

from collections import Counter

import pytest
from rating import claim_pair, exclude_rater, include_rater, invite_people, rate_all_pairs, save_choice
from refusals import expect_refusal

from guard_eval.store import notes, verdicts
from guard_eval.store.handout import claim_pairs, count_rated_and_remaining_pairs
from guard_eval.store.raters import (
    decide_about_rater,
    find_rater_by_token,
    invite_rater,
    read_rater_progress,
)
from guard_eval.store.unblind import read_tidy_rows


@pytest.fixture
def ann(store, add_new_pairs, single_plan):
    """A rater who has rated two of three pairs and holds the third one."""
    add_new_pairs(3)
    who, _ = invite_rater(store, "Ann")
    for blind in claim_pairs(store, who, single_plan, limit=3)[:2]:
        save_choice(store, who, blind)
    return who


def test_excluding_a_rater_drops_verdicts_and_frees_slots(store, ben, ann, single_plan):
    assert claim_pairs(store, ben, single_plan) == []
    exclude_rater(store, "Ann")
    assert read_tidy_rows(store) == []
    assert count_rated_and_remaining_pairs(store, ben, single_plan) == (0, 3)
    assert len(rate_all_pairs(store, ben, single_plan)) == 3
    everything = read_tidy_rows(store, include_excluded=True)
    assert Counter((row.rater, row.excluded) for row in everything) == {("Ann", True): 2, ("Ben", False): 3}
    assert [row for row in everything if not row.excluded] == read_tidy_rows(store)
    assert {row.name: row.state for row in read_rater_progress(store)} == {"Ann": "excluded", "Ben": ""}
    assert claim_pairs(store, ann, single_plan) == []


def test_an_excluded_rater_can_save_but_gets_no_pairs(store, add_new_pairs, plan):
    add_new_pairs(2)
    ann, token = invite_rater(store, "Ann")
    presented = claim_pair(store, ann, plan)
    exclude_rater(store, "Ann")
    assert find_rater_by_token(store, token) == ann
    assert claim_pairs(store, ann, plan) == []
    assert count_rated_and_remaining_pairs(store, ann, plan) == (0, 0)
    save_choice(store, ann, presented)  # open in the browser: not lost
    assert count_rated_and_remaining_pairs(store, ann, plan) == (1, 0)
    assert read_tidy_rows(store) == []
    assert [row.surplus for row in read_tidy_rows(store, include_excluded=True)] == [False]


def test_an_included_rater_regains_free_slots(store, ben, ann, single_plan):
    before = {row.pair_id for row in read_tidy_rows(store)}
    exclude_rater(store, "Ann")
    save_choice(store, ben, claim_pair(store, ben, single_plan))
    (taken,) = (row.pair_id for row in read_tidy_rows(store))
    include_rater(store, "Ann")
    rows = read_tidy_rows(store, include_surplus=True)
    assert {row.pair_id for row in rows if row.rater == "Ann" and not row.surplus} == before - {taken}
    assert {row.pair_id for row in rows if row.surplus} == before & {taken}
    # what she held unrated is hers again, unless it was taken
    assert len(claim_pairs(store, ann, single_plan)) == (taken in before)
    assert rate_all_pairs(store, ben, single_plan) == []


@pytest.mark.usefixtures("ann")
def test_impossible_exclusions_and_inclusions_are_refused(store):
    invite_rater(store, "Out")
    exclude_rater(store, "Out")
    for name, decision, reason, person, message in (
        ("Eve", "exclude", "why", "who", "no rater named 'Eve'"),
        ("Ann", "exclude", " ", "who", "reason to exclude 'Ann' is empty"),
        ("Ann", "exclude", "why", "", "who decides '' is empty"),
        ("Out", "exclude", "why", "who", "'Out' is already excluded"),
        ("Ann", "include", "why", "who", "'Ann' may already rate"),
    ):
        with expect_refusal(message):
            decide_about_rater(store, name, decision, by=person, reason=reason)
    assert len(read_tidy_rows(store)) == 2
    assert len(notes.read_notes(store)) == 1


def test_a_slot_rated_by_three_raters_counts_once(store, add_new_pairs, single_plan, clock):
    """Ann rates late, after Ben took her slot. Both are excluded, and Eve rates the pair."""
    add_new_pairs(1)
    ann, ben, eve = invite_people(store, "Ann", "Ben", "Eve")
    late = claim_pair(store, ann, single_plan)
    clock.advance(hours=1)
    rate_all_pairs(store, ben, single_plan)
    save_choice(store, ann, late)
    assert [row.rater for row in read_tidy_rows(store)] == ["Ben"]
    for name in ("Ann", "Ben"):
        exclude_rater(store, name)
    assert len(rate_all_pairs(store, eve, single_plan)) == 1
    include_rater(store, "Ben")
    rows = read_tidy_rows(store, include_surplus=True, include_excluded=True)
    assert [(row.rater, row.excluded, row.surplus) for row in rows] == [
        ("Ann", True, False),
        ("Ben", False, True),
        ("Eve", False, False),
    ]


def test_a_revoked_rater_cannot_sign_in(store, add_new_pairs, plan):
    add_new_pairs(2)
    ann, token = invite_rater(store, "Ann")
    presented = claim_pair(store, ann, plan)
    save_choice(store, ann, presented)
    decide_about_rater(store, "Ann", "revoke", by="owner")
    with expect_refusal("'Ann' is already revoked"):
        decide_about_rater(store, "Ann", "revoke", by="owner")
    assert len(notes.read_notes(store, kind="revoke")) == 1
    assert find_rater_by_token(store, token) is None
    assert claim_pairs(store, ann, plan) == []
    assert count_rated_and_remaining_pairs(store, ann, plan) == (1, 0)
    with expect_refusal("'Ann' is revoked"):
        save_choice(store, ann, presented, "B")
    assert verdicts.read_current_choices(store, presented.presentation, rater=ann) == {"fluency": "A"}
    assert [row.rater for row in read_tidy_rows(store)] == ["Ann"]
    assert [(row.state, row.rated) for row in read_rater_progress(store)] == [("revoked", 1)]
