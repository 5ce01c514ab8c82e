"""On which side methods stand: exact per pair, within five per rater, within one for a roster."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from rating import farthest, leads, people

from guard_eval.errors import StudyError
from guard_eval.store import handout, roster, unblind, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters


def rate_in_turns(store, raters, plan, *, seed=1, pairs=999):
    """Let raters come in a random order, each until nothing is left for it or `pairs` are rated."""
    rng = random.Random(seed)
    here = list(raters)
    for _ in range(pairs):
        while here:
            rater = rng.choice(here)
            if given := handout.claim(store, rater, plan):
                verdicts.save(store, given[0].presentation, {"fluency": "A", "coherence": "B"}, rater=rater)
                break
            here.remove(rater)


def test_a_roster_is_even_within_one_in_any_order(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(15))
    raters = people(store, *(f"person {number}" for number in range(5)))
    stranger, _ = store_raters.invite(store, "stranger")
    three = replace(plan, slots=3)
    assert roster.assign(store, [rater.name for rater in raters], three) == 45
    assert handout.claim(store, stranger, three) == []
    assert handout.progress(store, stranger, three) == (0, 0)
    assert [handout.progress(store, rater, three) for rater in raters] == [(0, 9)] * 5
    rate_in_turns(store, raters, three)
    by_rater, by_pair = leads(store)
    assert {abs(lead) for lead in (*by_rater.values(), *by_pair.values())} == {1}  # of nine, and of three
    assert set(Counter(row.rater for row in unblind.tidy(store)).values()) == {9 * 2}


@pytest.mark.parametrize("slots", [2, 4])
def test_a_couple_keeps_its_sides_when_its_raters_go_and_come_back(store, make_pairs, plan, slots):
    """Both raters of a couple are out, others take their slots, and all are taken in again."""
    store_pairs.add(store, make_pairs(12))
    raters = people(store, *(f"person {number}" for number in range(2 * slots)))
    many = replace(plan, slots=slots)
    rate_in_turns(store, raters[:slots], many)
    before = {(row.pair_id, row.shown_first) for row in unblind.tidy(store)}
    for rater in raters[:2]:
        store_raters.exclude(store, rater.name, "why", "who")
    rate_in_turns(store, raters[slots : slots + 2], many, pairs=7)
    for rater in raters[:2]:
        store_raters.include(store, rater.name, "why", "who")
    rate_in_turns(store, raters, many)
    assert len(unblind.tidy(store)) == 12 * slots * 2
    assert farthest(leads(store)[1]) == 0
    assert {(row.pair_id, row.shown_first) for row in unblind.tidy(store)} == before


def test_a_roster_that_cannot_be_is_refused(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(4))
    for name in ("Ann", "Ben", "out"):
        store_raters.invite(store, name)
    store_raters.get_or_add(store, "judge", "model")
    store_raters.revoke(store, "out")
    for names, message in (
        ([], "names no rater"),
        (["Ann", "Ann"], "or one twice"),
        (["Ann", "Nobody"], "no rater named 'Nobody'"),
        (["judge"], "'judge' is a model; a roster is of people"),
        (["out"], "'out' is revoked or excluded"),
    ):
        with pytest.raises(StudyError, match=message):
            roster.assign(store, names, plan)
    with pytest.raises(StudyError, match="up to 4 pairs each, and the quota is 3"):
        roster.assign(store, ["Ann", "Ben"], replace(plan, quota=3))
    roster.assign(store, ["Ann", "Ben"], plan)
    with pytest.raises(StudyError, match="no pair is left to plan a roster for"):
        roster.assign(store, ["Ann", "Ben"], plan)
