"""Many threads and processes at one database: no slot twice, no slot lost, no 'database is locked'."""

import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from rating import people, rate_all
from sqlalchemy import text

from guard_eval.errors import StudyError
from guard_eval.store import Store, connection, verdicts
from guard_eval.store import pairs as pair_rows
from guard_eval.store.connection import Database
from guard_eval.store.handout import slots

pytestmark = pytest.mark.slow

WORKER = r"""
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from guard_eval.records import Plan
from guard_eval.store import Store

url, seed, slots, names = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]

def work(name):
    rater = store.rater(name, "simulated")
    while given := store.hand_out(rater, plan):
        store.save(given[0].presentation, {"fluency": "A", "coherence": "tie"}, rater=rater)
        # one write, as threads share the pipe
        print(f"{name} {given[0].presentation}\n", end="", flush=True)

plan = Plan(seed=seed, slots=slots, lease=timedelta(minutes=30))
with Store.open(url, create=True) as store, ThreadPoolExecutor(len(names)) as threads:
    list(threads.map(work, names))
"""


def at_once(functions):
    """Start the functions together; return what they return."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as threads:
        return list(threads.map(run, functions))


def assert_exactly(rows, pairs, slots):
    """Every pair has `slots` counted ratings, one per slot, by as many raters."""
    raters, taken = defaultdict(list), defaultdict(list)
    for row in rows:
        raters[row.pair_id].append(row.rater)
        taken[row.pair_id].append(row.slot)
    assert set(raters) == {pair.id for pair in pairs}
    assert all(len(set(names)) == len(names) == slots for names in raters.values())
    assert all(sorted(numbers) == list(range(slots)) for numbers in taken.values())


def test_processes_fill_every_slot_once(store, store_url, make_pairs):
    pairs = make_pairs(20)
    store.add_pairs(pairs)
    command = [sys.executable, "-c", WORKER, store_url, "7", "3"]
    workers = [
        subprocess.Popen(
            [*command, *(f"{process}-{thread}" for thread in range(3))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    results = [worker.communicate(timeout=120) for worker in workers]
    assert [errors for _, errors in results] == ["", ""]
    assert [worker.returncode for worker in workers] == [0, 0]
    acknowledged = [line.split() for output, _ in results for line in output.splitlines()]
    rows = [row for row in store.tidy() if row.criterion == "fluency"]
    assert sorted((row.rater, str(row.presentation)) for row in rows) == sorted(map(tuple, acknowledged))
    assert_exactly(rows, pairs, 3)


@pytest.mark.parametrize("abandoned", [False, True], ids=["last", "abandoned"])
def test_a_slot_goes_to_one(store, make_pairs, one, clock, abandoned):
    store.add_pairs(make_pairs(1))
    raters = people(store, *(f"person {number}" for number in range(16)))
    if abandoned:
        store.hand_out(raters.pop(), one)
        clock.advance(hours=1)
    given = at_once([lambda rater=rater: store.hand_out(rater, one) for rater in raters])
    assert Counter(map(len, given)) == {1: 1, 0: len(raters) - 1}


def test_a_late_verdict_and_a_new_rater_never_both_count(store, make_pairs, one, clock):
    """Each pair's first rater comes late, at the moment another asks: one of the two is counted, not both."""
    pairs = make_pairs(25)
    store.add_pairs(pairs)
    late, new = people(store, "late", "new")
    held = store.hand_out(late, one, limit=25)
    clock.advance(hours=1)

    def save_late():
        return [store.save(blind.presentation, {"fluency": "A"}, rater=late).surplus for blind in held]

    surplus, taken = at_once([save_late, lambda: len(rate_all(store, new, one))])
    assert sum(surplus) == taken
    assert_exactly(store.tidy(), pairs, 1)
    assert len(store.tidy(include_surplus=True)) == 25 + taken


def test_one_rater_in_many_tabs_gets_one_pair(store, make_pairs, plan):
    store.add_pairs(make_pairs(10))
    ann, _ = store.invite("Ann")
    given = at_once([lambda: store.hand_out(ann, plan) for _ in range(8)])
    assert len({blind[0].presentation for blind in given}) == 1


def test_the_same_verdict_from_many_threads_is_one(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    ann, _ = store.invite("Ann")
    number = store.hand_out(ann, plan)[0].presentation
    saved = at_once([lambda: store.save(number, {"fluency": "B"}, rater=ann) for _ in range(12)])
    assert {result.revision for result in saved} == {0}
    other = at_once(
        [lambda choice=choice: store.save(number, {"fluency": choice}, rater=ann) for choice in "ABABAB"]
    )
    assert max(result.revision for result in other) >= 1
    assert len(store.tidy()) == 1


def test_twenty_threads_save_thirty_times_each(store, make_pairs, plan):
    store.add_pairs(make_pairs(30))
    raters = people(store, *(f"person {number}" for number in range(20)))
    twenty = replace(plan, slots=20)

    def save_thirty(rater):
        given = store.hand_out(rater, twenty, limit=30)
        for blind in given:
            store.save(blind.presentation, {"fluency": "A"}, rater=rater)
            store.current(blind.presentation, rater=rater)
        return len(given)

    assert at_once([lambda rater=rater: save_thirty(rater) for rater in raters]) == [30] * 20
    assert len(store.tidy()) == 600


def test_many_stores_of_one_file_take_turns(store_url, make_pairs, plan):
    with Store.open(store_url, create=True) as store:
        store.add_pairs(make_pairs(5))

    def rate(number):
        with Store.open(store_url) as mine:
            rater = mine.rater(f"simulated {number}", "simulated")
            return len(rate_all(mine, rater, replace(plan, slots=8)))

    assert at_once([lambda number=number: rate(number) for number in range(8)]) == [5] * 8


def test_a_database_made_by_many_at_once_is_made_once(store_url):
    def make():
        with Store.open(store_url, create=True) as store:
            return store.pairs()

    assert at_once([make] * 8) == [[]] * 8


@pytest.fixture
def other(store_url, clock, monkeypatch):
    """The same database, opened as another process does: with a lock of its own."""
    monkeypatch.setattr(connection, "_write_locks", {})
    with Store.open(store_url, clock=clock) as opened:
        yield opened


@pytest.fixture
def late(store, make_pairs, one, clock):
    """Return who rates late, when pairs may be drawn again, and the number of what is shown."""
    store.add_pairs(make_pairs(2))
    ann, _ = store.invite("Ann")
    [shown] = store.hand_out(ann, one)
    clock.advance(hours=1)
    return ann, shown.presentation


def waits(url, call):
    """Wait until a call is over, or waits for another transaction; SQLite does not show it."""
    database = Database(url)
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    until = time.monotonic() + 60
    while not database.is_sqlite and not call.done() and time.monotonic() < until:
        with database.read() as opened:
            if opened.execute(text(query)).scalar_one():
                break
    database.close()


def test_pairs_are_not_drawn_again_while_a_verdict_is_being_saved(
    *, store, other, store_url, make_pairs, late, monkeypatch
):
    ann, number = late
    save = verdicts.save
    with ThreadPoolExecutor(1) as threads:
        calls = []

        def save_and_wait(*args, **more):
            saved = save(*args, **more)
            calls.append(threads.submit(other.replace_pairs, make_pairs(5)))
            waits(store_url, calls[0])
            return saved

        monkeypatch.setattr(verdicts, "save", save_and_wait)
        store.save(number, {"fluency": "A"}, rater=ann)
        with pytest.raises(StudyError, match="cannot be drawn again: there are verdicts"):
            calls[0].result()
    assert store.pairs() == make_pairs(2)
    assert len(store.tidy()) == 1


def test_no_verdict_is_acknowledged_while_pairs_are_drawn_again(
    *, store, other, store_url, make_pairs, late, monkeypatch
):
    ann, number = late
    remove = pair_rows.remove_all
    new = [replace(pair, id=pair.id[::-1]) for pair in make_pairs(2)]
    with ThreadPoolExecutor(1) as threads:
        calls = []

        def wait_and_remove(opened):
            calls.append(threads.submit(other.save, number, {"fluency": "A"}, rater=ann))
            waits(store_url, calls[0])
            remove(opened)

        monkeypatch.setattr(pair_rows, "remove_all", wait_and_remove)
        assert store.replace_pairs(new) == 2
        with pytest.raises(StudyError, match="there is no presentation"):
            calls[0].result()
    assert store.pairs() == new
    assert store.tidy() == []


@pytest.mark.postgres
def test_a_verdict_that_comes_during_a_hand_out_waits_for_it(
    postgres_url, make_pairs, one, clock, monkeypatch
):
    """The slot has just been found free: the other rater gets it, and the late verdict is surplus."""
    find = slots.free_slots
    with Store.open(postgres_url, create=True, clock=clock) as store, ThreadPoolExecutor(1) as threads:
        store.add_pairs(make_pairs(1))
        late, new = people(store, "late", "new")
        (held,) = store.hand_out(late, one)
        clock.advance(hours=1)
        saving = []
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")

        def find_while_saving(turn, places):
            found = find(turn, places)
            saving.append(threads.submit(store.save, held.presentation, {"fluency": "A"}, rater=late))
            with store._database.engine.connect() as other:
                while not other.execute(waiting).scalar_one():
                    assert not saving[0].done()
            return found

        monkeypatch.setattr(slots, "free_slots", find_while_saving)
        (given,) = store.hand_out(new, one)
        assert given.prompt == held.prompt
        assert saving[0].result().surplus
