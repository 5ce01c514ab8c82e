"""What lets a study grow: how full pairs are is always right, and a hand-out reads no more than before."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from rating import people
from sqlalchemy import event, text

from guard_eval.records import Plan
from guard_eval.store import Store
from guard_eval.store.handout import slots

pytestmark = pytest.mark.slow

HELD_BY_COUNT = """
    SELECT pair.id, count(DISTINCT taken.slot) FROM pair LEFT JOIN (
        SELECT pair_id, slot FROM presentation
        WHERE pool = 'people' AND NOT superseded AND NOT withdrawn
        UNION SELECT pair_id, slot FROM assignment JOIN rater ON rater.id = rater_id
        WHERE revoked_at IS NULL AND excluded_at IS NULL
    ) AS taken ON taken.pair_id = pair.id GROUP BY pair.id
"""


def rows(store, statement):
    with store._database.read() as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def held(store):
    return dict(rows(store, "SELECT pair_id, held FROM occupancy WHERE pool = 'people'"))


def rate(store, rater, plan):
    given = store.hand_out(rater, plan)
    if given:
        store.save(given[0].presentation, {"fluency": "A"}, rater=rater)
    return bool(given)


class Walk:
    """What raters and owners do, in an order drawn by a seed."""

    def __init__(self, store, plan, clock, seed):
        self.store, self.plan, self.clock, self.rng = store, plan, clock, random.Random(seed)
        self.people = [store.invite(f"person {number}")[0] for number in range(7)]
        self.out, self.open = [], []

    def rate(self, who):
        rate(self.store, who, self.plan)

    def leave(self, who):
        self.open += [(who, given) for given in self.store.hand_out(who, self.plan, limit=2)]

    def come_late(self, _):
        if self.open:
            who, given = self.open.pop()
            self.store.save(given.presentation, {"fluency": "B"}, rater=who)

    def wait(self, _):
        self.clock.advance(minutes=20)

    def exclude(self, who):
        if who not in self.out and len(self.out) < 3:
            self.store.exclude(who.name, "why", "who")
            self.out.append(who)

    def include(self, _):
        if self.out:
            self.store.include(self.out.pop(0).name, "why", "who")

    def step(self):
        deeds = [self.rate] * 3 + [self.leave, self.come_late, self.wait, self.exclude, self.include]
        self.rng.choice(deeds)(self.rng.choice(self.people))


@pytest.fixture(params=range(2))
def walk(request, store, plan, clock):
    return Walk(store, replace(plan, slots=3), clock, request.param)


@pytest.mark.parametrize("roster", [False, True], ids=["comers", "roster"])
def test_what_is_held_is_what_can_be_counted(store, make_pairs, walk, roster):
    """Whatever they do: rate, leave, come late, are excluded, taken in again, revoked; and all ends exact."""
    store.add_pairs(make_pairs(12))
    if roster:
        store.assign([who.name for who in walk.people[:4]], walk.plan)
        assert held(store) == dict(rows(store, HELD_BY_COUNT)) == dict.fromkeys(held(store), 3)
    store.add_pairs(make_pairs(16))
    for _ in range(60):
        walk.step()
    store.revoke(walk.people[0].name)
    counted = dict(rows(store, HELD_BY_COUNT))
    assert held(store) == counted
    vacant = dict(rows(store, "SELECT pair_id, vacant FROM occupancy WHERE pool = 'people'"))
    assert vacant == {pair_id: number < 3 for pair_id, number in counted.items()}
    while walk.out:
        walk.include(None)
    walk.clock.advance(days=1)
    newcomers = [store.invite(f"newcomer {number}")[0] for number in range(3)]
    for who in newcomers:  # what is kept for others is theirs alone
        promised = store.progress(who, walk.plan)[1]
        assert sum(iter(lambda who=who: rate(store, who, walk.plan), False)) == promised
    for who in (*walk.people[1:], *newcomers):  # leases of what was open are others' now
        while rate(store, who, walk.plan):
            pass
    ratings = rows(
        store,
        "SELECT pair_id, count(*), count(DISTINCT rater_id), count(DISTINCT slot) FROM presentation "
        "WHERE rated_at IS NOT NULL AND NOT superseded AND NOT withdrawn GROUP BY pair_id",
    )
    assert sorted(ratings) == [(pair_id, 3, 3, 3) for pair_id in sorted(counted)]


def test_many_leases_that_ended_together_are_all_found(store, make_pairs, plan, clock):
    """More than are looked up at once, of the same moment; and some that the next rater has seen."""
    count = 3 * slots.WINDOW
    store.add_pairs(make_pairs(count))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    two = replace(plan, slots=2)
    for _ in range(slots.WINDOW + 3):
        rate(store, ben, two)
    store.hand_out(ann, two, limit=count)
    while rate(store, eve, two):
        pass
    clock.advance(hours=1)
    assert store.progress(ben, two) == (slots.WINDOW + 3, count - slots.WINDOW - 3)
    assert len(store.hand_out(ben, two, limit=999)) == count - slots.WINDOW - 3


def test_what_is_left_is_counted_up_to_a_limit(store, make_pairs, plan, monkeypatch):
    store.add_pairs(make_pairs(20))
    ann, _ = store.invite("Ann")
    monkeypatch.setattr(slots, "MOST_COUNTED", 15)
    assert store.progress(ann, plan) == (0, 15)
    for _ in range(3):
        rate(store, ann, plan)
    assert store.progress(ann, plan) == (3, 15)
    for _ in range(4):
        rate(store, ann, plan)
    assert store.progress(ann, plan) == (7, 13)
    assert store.progress(ann, replace(plan, quota=9)) == (7, 2)


class Steps:
    """Counts the steps that SQLite's machine makes, which no load of the computer changes."""

    def __init__(self, store):
        self.count = 0
        self.statements = []
        engine = store._database.engine
        engine.dispose()
        event.listen(engine, "connect", lambda raw, _: raw.set_progress_handler(self._step, 1))
        event.listen(
            engine,
            "before_cursor_execute",
            lambda _c, _u, statement, parameters, _x, _m: self.statements.append((statement, parameters)),
        )

    def _step(self):
        self.count += 1
        return 0

    def of(self, function):
        before = self.count
        function()
        return self.count - before


def steps_of_a_study(path, pairs, plan, *, ratings):
    """Return the steps of a hand-out and of progress in a study in which `ratings` of all slots are rated."""
    with Store.open(f"sqlite:///{path}", create=True) as store:
        store.add_pairs(pairs)
        people = [store.invite(f"person {number}")[0] for number in range(4)]
        for who in people[:2]:
            store.hand_out(who, plan, limit=max(1, round(ratings * len(pairs))))
        with store._database.write() as connection:  # saving each would wait for the disk each time
            connection.execute(text("UPDATE presentation SET rated_at = handed_out WHERE id % 50 <> 0"))
        steps = Steps(store)
        found = [
            steps.of(lambda: store.hand_out(people[2], replace(plan, quota=50))),
            steps.of(lambda: store.progress(people[3], replace(plan, quota=50))),
        ]
        return found, steps.statements, [plan_of(store, *each) for each in steps.statements]


def plan_of(store, statement, parameters):
    if not statement.startswith(("SELECT", "UPDATE", "INSERT")):
        return []
    with store._database.engine.connect() as connection:
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]


@pytest.mark.parametrize("ratings", [0.0, 0.5, 1.0], ids=["new", "half full", "all but full"])
def test_a_hand_out_takes_as_many_steps_in_a_study_ten_times_as_large(tmp_path, make_pairs, ratings):
    plan = Plan(seed=1, slots=2, lease=timedelta(hours=1))
    small, *_ = steps_of_a_study(tmp_path / "small.db", make_pairs(120), plan, ratings=ratings)
    large, *_ = steps_of_a_study(tmp_path / "large.db", make_pairs(1200), plan, ratings=ratings)
    assert all(more <= 1.5 * less for less, more in zip(small, large, strict=True)), (small, large)


def test_no_statement_of_a_hand_out_goes_through_a_whole_table(tmp_path, make_pairs):
    plan = Plan(seed=1, slots=2, lease=timedelta(hours=1))
    _, statements, plans = steps_of_a_study(tmp_path / "study.db", make_pairs(40), plan, ratings=0.5)
    scans = [
        (statement, step)
        for (statement, _), lines in zip(statements, plans, strict=True)
        for step in lines
        if step.startswith("SCAN")
        and step.split()[1] in {"pair", "presentation", "occupancy", "verdict", "seen"}
    ]
    assert scans == []
    assert len(statements) > 10
