"""Every pair gets the planned number of verdicts on even sides, in any order of visits and absences."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest
from rating import (
    count_side_leads,
    exclude_rater,
    find_largest_lead,
    include_rater,
    invite_people,
    rate_all_pairs,
    save_choice,
)
from sqlalchemy import text

from guard_eval.records import HandOutPlan
from guard_eval.store import pairs, raters
from guard_eval.store.handout import claim_pairs, count_rated_and_remaining_pairs, skip_presentation
from guard_eval.store.showings import slots
from guard_eval.store.unblind import read_tidy_rows, read_verdict_history

METHODS = ("guard", "top_k(k=50)", "acs", "greedy")


class RandomVisits:
    """Random visits: people rate, leave, return late, skip, and are excluded and included again."""

    def __init__(self, store, clock, plan):
        self.store, self.clock, self.plan, self.random = store, clock, plan, random.Random(plan.seed)
        self.people = invite_people(store, *(f"R{number}" for number in range(12)))
        self.excluded = []
        self.open = []

    def take_random_action(self):
        self.clock.advance(seconds=self.random.choice([1, 30, 400]))
        actions = {
            self.rate_pair: 10,
            self.leave_pair: 2,
            self.rate_late: 2,
            self.skip_pair: 0.5,
            self.exclude: 0.1,
        }
        action = self.random.choices([*actions, self.include], [*actions.values(), 0.1])[0]
        action(self.random.choice(self.people))

    def claim_pair(self, who):
        return next(iter(claim_pairs(self.store, who, self.plan)), None)

    def rate_pair(self, who):
        presented = self.claim_pair(who)
        if presented is not None:
            save_choice(self.store, who, presented, self.random.choice("AB"))

    def leave_pair(self, who):
        presented = self.claim_pair(who)
        if presented is not None:
            self.open.append((who, presented))

    def rate_late(self, _):
        if self.open:
            save_choice(self.store, *self.open.pop(self.random.randrange(len(self.open))), "tie")

    def skip_pair(self, who):
        presented = self.claim_pair(who)
        if presented is not None:
            skip_presentation(self.store, presented.presentation, ["unreadable"], rater=who)

    def exclude(self, who):
        if who not in self.excluded and len(self.excluded) < 2:
            exclude_rater(self.store, who.name)
            self.excluded.append(who)

    def include(self, _):
        if self.excluded:
            include_rater(self.store, self.excluded.pop(0).name)

    def rate_remaining_pairs(self):
        """Let all people rate all remaining pairs, after all leases have ended."""
        while self.excluded:
            self.include(None)
        for _ in range(2):
            self.clock.advance(hours=2)
            for who in self.people:
                rate_all_pairs(self.store, who, self.plan)


def count_closed_pairs(store):
    with store.begin_read() as db:
        return db.execute(
            text("SELECT count(DISTINCT pair_id) FROM slot WHERE NOT open AND held_by IS NULL")
        ).scalar_one()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slots", "comparisons"), [(1, 1), (2, 3), (3, 6), pytest.param(4, 3, marks=pytest.mark.both_databases)]
)
def test_every_pair_is_completed_whatever_raters_do(store, clock, make_pairs, slots, comparisons):
    couples = list(combinations(METHODS, 2))[:comparisons]
    for method_a, method_b in couples:
        pairs.add_pairs(store, make_pairs(36 // comparisons, method_a=method_a, method_b=method_b))
    visits = RandomVisits(store, clock, HandOutPlan(seed=slots, slots=slots, lease=timedelta(minutes=30)))
    for _ in range(600):
        visits.take_random_action()
    visits.rate_remaining_pairs()
    rows = read_tidy_rows(store)
    by_pair = Counter(row.pair_id for row in rows)
    assert Counter(by_pair.values())[slots] + count_closed_pairs(store) == 36
    assert max(by_pair.values()) == slots
    full = [lead for (pair_id, _), lead in count_side_leads(store)[1].items() if by_pair[pair_id] == slots]
    assert {abs(lead) for lead in full} == {slots % 2}
    presented = Counter((row.rater, row.pair_id) for row in read_verdict_history(store) if row.revision == 0)
    assert max(presented.values()) == 1
    assert len(read_tidy_rows(store, include_surplus=True)) > len(rows)


@pytest.mark.parametrize("later", [1, 3, 4])
def test_raters_per_pair_can_be_raised_and_lowered(store, add_new_pairs, plan, later):
    """The numbers include odd ones, with which the last slot of a pair has no partner."""
    add_new_pairs(6, plan)
    everybody = invite_people(store, *(f"R{number}" for number in range(8)))
    for who, number in ((everybody[0], 2), (everybody[1], later), (everybody[2], 3)):
        slots.apply_hand_out_plan(store, replace(plan, slots=number))
        (presented,) = claim_pairs(store, who, replace(plan, slots=number))
        save_choice(store, who, presented)
    slots.apply_hand_out_plan(store, replace(plan, slots=later))
    for who in everybody:
        rate_all_pairs(store, who, replace(plan, slots=later))
    by_pair = Counter(row.pair_id for row in read_tidy_rows(store))
    assert set(by_pair.values()) <= {later, later + 1}
    assert {abs(lead) for lead in count_side_leads(store)[1].values()} <= {0, 1}


@pytest.mark.parametrize("slots", [2, 4])
def test_slots_keep_their_sides_when_raters_leave_and_return(store, add_new_pairs, plan, slots):
    """Two raters are excluded, other raters take some of their slots, and the two are included again."""
    add_new_pairs(12)
    everybody = invite_people(store, *(f"person {number}" for number in range(2 * slots)))
    many = replace(plan, slots=slots)
    for rater in everybody[:slots]:
        rate_all_pairs(store, rater, many)
    before = {(row.pair_id, row.shown_first) for row in read_tidy_rows(store)}
    for rater in everybody[:2]:
        exclude_rater(store, rater.name)
    for rater in everybody[slots : slots + 2]:
        for presented in claim_pairs(store, rater, many, limit=4):
            save_choice(store, rater, presented)
    for rater in everybody[:2]:
        include_rater(store, rater.name)
    for rater in everybody:
        rate_all_pairs(store, rater, many)
    assert len(read_tidy_rows(store)) == 12 * slots
    assert find_largest_lead(count_side_leads(store)[1]) == 0
    assert {(row.pair_id, row.shown_first) for row in read_tidy_rows(store)} == before


@pytest.mark.both_databases
def test_a_late_verdict_on_a_complete_pair_is_surplus(*, store, ann, ben, cem, clock, add_new_pairs, plan):
    """If the plan is reduced to one rater per pair, Ben's rated slot stays, although Ann's slot is first."""
    add_new_pairs(1, plan)
    (late,) = claim_pairs(store, ann, plan)
    save_choice(store, ben, claim_pairs(store, ben, plan)[0])
    clock.advance(hours=1)
    slots.apply_hand_out_plan(store, replace(plan, slots=1))
    assert claim_pairs(store, cem, replace(plan, slots=1)) == []
    save_choice(store, ann, late)
    rows = read_tidy_rows(store, include_surplus=True)
    assert [(row.rater, row.surplus) for row in rows] == [("Ann", True), ("Ben", False)]


@pytest.mark.parametrize(("first", "later"), [(1, 3), (3, 1)])
def test_a_running_app_follows_the_owners_changed_plan(store, add_new_pairs, plan, first, later):
    """The app started with an older study.toml. Its claims and counts must not restore the older plan."""
    served = replace(plan, slots=first)
    add_new_pairs(2, served)
    ann, ben, cem, dan = invite_people(store, "Ann", "Ben", "Cem", "Dan")
    rate_all_pairs(store, ann, served)
    slots.apply_hand_out_plan(store, replace(plan, slots=later))
    for who in (ben, cem, dan):
        raters.count_free_rater_places(store, served)
        assert count_rated_and_remaining_pairs(store, who, served)[0] == 0
        rate_all_pairs(store, who, served)
    assert set(Counter(row.pair_id for row in read_tidy_rows(store)).values()) == {later}
