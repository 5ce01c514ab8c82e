"""Whatever raters do, every pair gets as many verdicts as planned, and its sides are even."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest
from rating import farthest, leads, people, rate, rate_all
from sqlalchemy import text

from guard_eval.records import HandOutPlan
from guard_eval.store import handout, pairs, raters, unblind
from guard_eval.store.showings import slots

METHODS = ("guard", "top_k(k=50)", "acs", "greedy")


class Walk:
    """People who rate, leave, come late, skip, are excluded and taken in again, in random order."""

    def __init__(self, store, clock, plan):
        self.store, self.clock, self.plan, self.random = store, clock, plan, random.Random(plan.seed)
        self.people = people(store, *(f"R{number}" for number in range(12)))
        self.excluded = []
        self.open = []

    def step(self):
        self.clock.advance(seconds=self.random.choice([1, 30, 400]))
        actions = {self.rate: 10, self.leave: 2, self.come_late: 2, self.skip: 0.5, self.exclude: 0.1}
        action = self.random.choices([*actions, self.include], [*actions.values(), 0.1])[0]
        action(self.random.choice(self.people))

    def claim(self, who):
        return next(iter(handout.claim_pairs(self.store, who, self.plan)), None)

    def rate(self, who):
        presented = self.claim(who)
        if presented is not None:
            rate(self.store, who, presented, self.random.choice("AB"))

    def leave(self, who):
        presented = self.claim(who)
        if presented is not None:
            self.open.append((who, presented))

    def come_late(self, _):
        if self.open:
            rate(self.store, *self.open.pop(self.random.randrange(len(self.open))), "tie")

    def skip(self, who):
        presented = self.claim(who)
        if presented is not None:
            handout.skip_presentation(self.store, presented.presentation, ["unreadable"], rater=who)

    def exclude(self, who):
        if who not in self.excluded and len(self.excluded) < 2:
            raters.exclude_or_include_rater(self.store, who.name, "exclude", "too fast", "owner")
            self.excluded.append(who)

    def include(self, _):
        if self.excluded:
            raters.exclude_or_include_rater(
                self.store, self.excluded.pop(0).name, "include", "a mistake", "owner"
            )

    def finish(self):
        """Let everybody rate all that is left, when all leases are over."""
        while self.excluded:
            self.include(None)
        for _ in range(2):
            self.clock.advance(hours=2)
            for who in self.people:
                rate_all(self.store, who, self.plan)


def count_closed(store):
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
    walk = Walk(store, clock, HandOutPlan(seed=slots, slots=slots, lease=timedelta(minutes=30)))
    for _ in range(600):
        walk.step()
    walk.finish()
    rows = unblind.read_tidy_rows(store)
    by_pair = Counter(row.pair_id for row in rows)
    assert Counter(by_pair.values())[slots] + count_closed(store) == 36
    assert max(by_pair.values()) == slots
    full = [lead for (pair_id, _), lead in leads(store)[1].items() if by_pair[pair_id] == slots]
    assert {abs(lead) for lead in full} == {slots % 2}
    presented = Counter((row.rater, row.pair_id) for row in unblind.read_history(store) if row.revision == 0)
    assert max(presented.values()) == 1
    assert len(unblind.read_tidy_rows(store, include_surplus=True)) > len(rows)


@pytest.mark.parametrize("later", [1, 3, 4])
def test_raters_per_pair_can_be_raised_and_lowered(store, make_pairs, plan, later):
    """Also from and to odd numbers, where the last slot has no partner."""
    pairs.add_pairs(store, make_pairs(6), plan)
    everybody = people(store, *(f"R{number}" for number in range(8)))
    for who, number in ((everybody[0], 2), (everybody[1], later), (everybody[2], 3)):
        slots.apply_plan(store, replace(plan, slots=number))
        (presented,) = handout.claim_pairs(store, who, replace(plan, slots=number))
        rate(store, who, presented)
    slots.apply_plan(store, replace(plan, slots=later))
    for who in everybody:
        rate_all(store, who, replace(plan, slots=later))
    by_pair = Counter(row.pair_id for row in unblind.read_tidy_rows(store))
    assert set(by_pair.values()) <= {later, later + 1}
    assert {abs(lead) for lead in leads(store)[1].values()} <= {0, 1}


@pytest.mark.parametrize("slots", [2, 4])
def test_slots_keep_their_sides_when_raters_leave_and_return(store, make_pairs, plan, slots):
    """Both raters of a couple are out, others take some of their slots, and all are taken in again."""
    pairs.add_pairs(store, make_pairs(12))
    everybody = people(store, *(f"person {number}" for number in range(2 * slots)))
    many = replace(plan, slots=slots)
    for rater in everybody[:slots]:
        rate_all(store, rater, many)
    before = {(row.pair_id, row.shown_first) for row in unblind.read_tidy_rows(store)}
    for rater in everybody[:2]:
        raters.exclude_or_include_rater(store, rater.name, "exclude", "why", "who")
    for rater in everybody[slots : slots + 2]:
        for presented in handout.claim_pairs(store, rater, many, limit=4):
            rate(store, rater, presented)
    for rater in everybody[:2]:
        raters.exclude_or_include_rater(store, rater.name, "include", "why", "who")
    for rater in everybody:
        rate_all(store, rater, many)
    assert len(unblind.read_tidy_rows(store)) == 12 * slots
    assert farthest(leads(store)[1]) == 0
    assert {(row.pair_id, row.shown_first) for row in unblind.read_tidy_rows(store)} == before


@pytest.mark.both_databases
def test_a_late_verdict_on_a_complete_pair_is_surplus(store, clock, make_pairs, plan):
    """Ann's slot comes before Ben's, who has rated: with one rater a pair, his is the one that stays."""
    pairs.add_pairs(store, make_pairs(1), plan)
    ann, ben, cem = people(store, "Ann", "Ben", "Cem")
    (late,) = handout.claim_pairs(store, ann, plan)
    rate(store, ben, handout.claim_pairs(store, ben, plan)[0])
    clock.advance(hours=1)
    slots.apply_plan(store, replace(plan, slots=1))
    assert handout.claim_pairs(store, cem, replace(plan, slots=1)) == []
    rate(store, ann, late)
    rows = unblind.read_tidy_rows(store, include_surplus=True)
    assert [(row.rater, row.surplus) for row in rows] == [("Ann", True), ("Ben", False)]


@pytest.mark.parametrize(("first", "later"), [(1, 3), (3, 1)])
def test_a_running_app_follows_the_owners_changed_plan(store, make_pairs, plan, first, later):
    """Its own plan is of the study.toml with which it began; neither claims nor counts bring that back."""
    served = replace(plan, slots=first)
    pairs.add_pairs(store, make_pairs(2), served)
    ann, ben, cem, dan = people(store, "Ann", "Ben", "Cem", "Dan")
    rate_all(store, ann, served)
    slots.apply_plan(store, replace(plan, slots=later))
    for who in (ben, cem, dan):
        raters.count_openings(store, served)
        assert handout.count_progress(store, who, served)[0] == 0
        rate_all(store, who, served)
    assert set(Counter(row.pair_id for row in unblind.read_tidy_rows(store)).values()) == {later}
