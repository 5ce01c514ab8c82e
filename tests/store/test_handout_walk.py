"""Whatever raters do, every pair gets as many verdicts as planned, and its sides are even."""

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest
from sqlalchemy import text

from guard_eval.records import Pair, Plan
from guard_eval.store import handout, pairs, raters, roster, unblind, verdicts

METHODS = ("guard", "top_k(k=50)", "acs", "greedy")


def compare(n, comparisons):
    """Return `n` pairs of the first comparisons of four methods."""
    couples = list(combinations(METHODS, 2))[:comparisons]
    return [
        Pair(
            id=f"pair-{number}",
            dataset="d",
            prompt_id=f"prompt-{number}",
            prompt="p",
            method_a=couples[number % comparisons][0],
            method_b=couples[number % comparisons][1],
            continuation_a=f"a{number}",
            continuation_b=f"b{number}",
            text_a=f"text a {number}",
            text_b=f"text b {number}",
            position=number,
        )
        for number in range(n)
    ]


class Walk:
    """People who rate, leave, come late, skip, are excluded and taken in again, in random order."""

    def __init__(self, store, clock, plan, seed):
        self.store, self.clock, self.plan, self.random = store, clock, plan, random.Random(seed)
        self.people = [raters.invite(store, f"R{number}")[0] for number in range(12)]
        self.excluded = []
        self.open = []

    def step(self):
        self.clock.advance(seconds=self.random.choice([1, 30, 400]))
        actions = {self.rate: 10, self.leave: 2, self.come_late: 2, self.skip: 0.5, self.exclude: 0.1}
        action = self.random.choices([*actions, self.include], [*actions.values(), 0.1])[0]
        action(self.random.choice(self.people))

    def claim(self, who):
        return next(iter(handout.claim(self.store, who, self.plan)), None)

    def rate(self, who):
        shown = self.claim(who)
        if shown is not None:
            verdicts.save(self.store, shown.presentation, {"fluency": self.random.choice("AB")}, rater=who)

    def leave(self, who):
        shown = self.claim(who)
        if shown is not None:
            self.open.append((who, shown.presentation))

    def come_late(self, _):
        if self.open:
            who, number = self.open.pop(self.random.randrange(len(self.open)))
            verdicts.save(self.store, number, {"fluency": "tie"}, rater=who)

    def skip(self, who):
        shown = self.claim(who)
        if shown is not None:
            handout.skip(self.store, shown.presentation, ["unreadable"], rater=who)

    def exclude(self, who):
        if who not in self.excluded and len(self.excluded) < 2:
            raters.exclude(self.store, who.name, "too fast", "owner")
            self.excluded.append(who)

    def include(self, _):
        if self.excluded:
            raters.include(self.store, self.excluded.pop(0).name, "a mistake", "owner")

    def finish(self):
        """Let everybody rate all that is left, when all leases are over."""
        while self.excluded:
            self.include(None)
        for _ in range(2):
            self.clock.advance(hours=2)
            for who in self.people:
                while self.claim(who) is not None:
                    self.rate(who)


def count_closed(store):
    with store.read() as db:
        return db.execute(
            text("SELECT count(DISTINCT pair_id) FROM slot WHERE NOT open AND held_by IS NULL")
        ).scalar_one()


@pytest.mark.parametrize(("seed", "slots", "comparisons"), [(0, 1, 1), (1, 2, 3), (2, 3, 6), (3, 4, 3)])
def test_every_pair_gets_its_verdicts_whatever_raters_do(store, clock, seed, slots, comparisons):
    pairs.add(store, compare(40, comparisons))
    walk = Walk(store, clock, Plan(seed=seed, slots=slots, lease=timedelta(minutes=30)), seed)
    for _ in range(700):
        walk.step()
    walk.finish()
    rows = unblind.tidy(store)
    counts = Counter(Counter(row.pair_id for row in rows).values())
    closed = count_closed(store)
    assert counts[slots] + closed == 40
    assert max(counts) == slots
    sides = Counter()
    for row in rows:
        sides[row.pair_id] += 1 if row.shown_first == row.method_a else -1
    full = [pair_id for pair_id, times in Counter(row.pair_id for row in rows).items() if times == slots]
    assert {abs(sides[pair_id]) for pair_id in full} == {slots % 2}
    shown = Counter((row.rater, row.pair_id) for row in unblind.history(store) if row.revision == 0)
    assert max(shown.values()) == 1
    assert len(unblind.tidy(store, include_surplus=True)) > len(rows)


def test_a_pair_that_a_rosters_rater_skips_goes_to_another(store, clock, make_pairs, plan):
    pairs.add(store, make_pairs(8))
    ann, ben, cem = (raters.invite(store, name)[0] for name in ("Ann", "Ben", "Cem"))
    roster.assign(store, ["Ann", "Ben"], plan)
    (skipped,) = handout.claim(store, ann, plan)
    assert handout.skip(store, skipped.presentation, ["unreadable"], rater=ann)
    for who in (ann, ben, cem):
        while shown := handout.claim(store, who, plan):
            verdicts.save(store, shown[0].presentation, {"fluency": "A"}, rater=who)
    rows = unblind.tidy(store)
    assert set(Counter(row.pair_id for row in rows).values()) == {2}
    assert Counter(row.rater for row in rows) == {"Ann": 7, "Ben": 8, "Cem": 1}


@pytest.mark.parametrize("later", [1, 3, 4])
def test_raters_per_pair_can_be_raised_and_lowered(store, make_pairs, plan, later):
    pairs.add(store, make_pairs(6), plan)
    people = [raters.invite(store, f"R{number}")[0] for number in range(6)]
    (shown,) = handout.claim(store, people[0], plan)
    verdicts.save(store, shown.presentation, {"fluency": "A"}, rater=people[0])
    changed = replace(plan, slots=later)
    for who in people:
        while got := handout.claim(store, who, changed):
            verdicts.save(store, got[0].presentation, {"fluency": "A"}, rater=who)
    assert set(Counter(row.pair_id for row in unblind.tidy(store)).values()) == {later}
    sides = Counter()
    for row in unblind.tidy(store):
        sides[row.pair_id] += 1 if row.shown_first == row.method_a else -1
    assert {abs(lead) for lead in sides.values()} == {later % 2}


def test_a_late_verdict_is_surplus_where_the_pair_needs_no_more(store, clock, make_pairs, plan):
    pairs.add(store, make_pairs(1), plan)
    ann, ben, cem = (raters.invite(store, name)[0] for name in ("Ann", "Ben", "Cem"))
    late = handout.claim(store, ann, plan)[0].presentation
    clock.advance(hours=1)
    verdicts.save(store, handout.claim(store, ben, plan)[0].presentation, {"fluency": "A"}, rater=ben)
    assert handout.claim(store, cem, replace(plan, slots=1)) == []
    assert verdicts.save(store, late, {"fluency": "A"}, rater=ann).surplus
    assert [row.rater for row in unblind.tidy(store)] == ["Ben"]
