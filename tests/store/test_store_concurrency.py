"""Many threads and processes at one database: no slot twice, no slot lost, no 'database is locked'."""

import subprocess
import sys
import threading
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from rating import people, rate_all

from guard_eval.store import Store, handout, unblind, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters

pytestmark = pytest.mark.slow

WORKER = r"""
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from guard_eval.records import Plan
from guard_eval.store import Store, handout, verdicts
from guard_eval.store import raters as store_raters

url, seed, slots, names = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]

def work(name):
    rater = store_raters.get_or_add(store, name, "simulated")
    while given := handout.claim(store, rater, plan):
        verdicts.save(store, given[0].presentation, {"fluency": "A", "coherence": "tie"}, rater=rater)
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
    store_pairs.add(store, pairs)
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
    rows = [row for row in unblind.tidy(store) if row.criterion == "fluency"]
    assert sorted((row.rater, str(row.presentation)) for row in rows) == sorted(map(tuple, acknowledged))
    assert_exactly(rows, pairs, 3)


@pytest.mark.parametrize("abandoned", [False, True], ids=["last", "abandoned"])
def test_a_slot_goes_to_one(store, make_pairs, one, clock, abandoned):
    store_pairs.add(store, make_pairs(1))
    raters = people(store, *(f"person {number}" for number in range(16)))
    if abandoned:
        handout.claim(store, raters.pop(), one)
        clock.advance(hours=1)
    given = at_once([lambda rater=rater: handout.claim(store, rater, one) for rater in raters])
    assert Counter(map(len, given)) == {1: 1, 0: len(raters) - 1}


def test_a_late_verdict_and_a_new_rater_never_both_count(store, make_pairs, one, clock):
    """Each pair's first rater comes late, at the moment another asks: one of the two is counted, not both."""
    pairs = make_pairs(25)
    store_pairs.add(store, pairs)
    late, new = people(store, "late", "new")
    held = handout.claim(store, late, one, limit=25)
    clock.advance(hours=1)

    def save_late():
        return [
            verdicts.save(store, blind.presentation, {"fluency": "A"}, rater=late).surplus for blind in held
        ]

    surplus, taken = at_once([save_late, lambda: len(rate_all(store, new, one))])
    assert sum(surplus) == taken
    assert_exactly(unblind.tidy(store), pairs, 1)
    assert len(unblind.tidy(store, include_surplus=True)) == 25 + taken


def test_one_rater_in_many_tabs_gets_one_pair(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(10))
    ann, _ = store_raters.invite(store, "Ann")
    given = at_once([lambda: handout.claim(store, ann, plan) for _ in range(8)])
    assert len({blind[0].presentation for blind in given}) == 1


def test_the_same_verdict_from_many_threads_is_one(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(1))
    ann, _ = store_raters.invite(store, "Ann")
    number = handout.claim(store, ann, plan)[0].presentation
    saved = at_once([lambda: verdicts.save(store, number, {"fluency": "B"}, rater=ann) for _ in range(12)])
    assert {result.revision for result in saved} == {0}
    other = at_once(
        [
            lambda choice=choice: verdicts.save(store, number, {"fluency": choice}, rater=ann)
            for choice in "ABABAB"
        ]
    )
    assert max(result.revision for result in other) >= 1
    assert len(unblind.tidy(store)) == 1


def test_twenty_threads_save_thirty_times_each(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(30))
    raters = people(store, *(f"person {number}" for number in range(20)))
    twenty = replace(plan, slots=20)

    def save_thirty(rater):
        given = handout.claim(store, rater, twenty, limit=30)
        for blind in given:
            verdicts.save(store, blind.presentation, {"fluency": "A"}, rater=rater)
            verdicts.current(store, blind.presentation, rater=rater)
        return len(given)

    assert at_once([lambda rater=rater: save_thirty(rater) for rater in raters]) == [30] * 20
    assert len(unblind.tidy(store)) == 600


def test_a_database_made_by_many_at_once_is_made_once(store_url):
    def make():
        with Store.open(store_url, create=True) as store:
            return store_pairs.read(store)

    assert at_once([make] * 8) == [[]] * 8
