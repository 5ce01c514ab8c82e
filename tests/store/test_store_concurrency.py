"""Many threads and processes use one database: no slot is given twice or lost, and no call fails."""

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from rating import invite_people, rate_all_pairs, save_choice
from sqlalchemy import text

from guard_eval.store import Store, handout
from guard_eval.store.pairs import add_pairs, read_pairs
from guard_eval.store.unblind import read_tidy_rows, read_verdict_history

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

WORKER = r"""
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from guard_eval.records import HandOutPlan
from guard_eval.store import Store, handout, raters, verdicts

url, names = sys.argv[1], sys.argv[2:]

def work(name):
    rater = raters.get_or_add_rater(store, name, "simulated")
    while shown := handout.claim_pairs(store, rater, plan):
        verdicts.save_verdict(store, shown[0].presentation, {"fluency": "A", "coherence": "tie"}, rater=rater)
        # one write, as threads share the pipe
        print(f"{name} {shown[0].presentation}\n", end="", flush=True)

plan = HandOutPlan(seed=7, slots=3, lease=timedelta(minutes=30))
with Store.open(url, create=True) as store, ThreadPoolExecutor(len(names)) as threads:
    list(threads.map(work, names))
"""


def run_at_once(functions):
    """Start all functions at the same time; return their results."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as threads:
        return list(threads.map(run, functions))


def assert_every_slot_is_rated_once(rows, count, slots):
    """Check that each of `count` pairs has one rating per slot, all by different raters."""
    assert Counter((row.pair_id, row.slot) for row in rows) == Counter(
        {(row.pair_id, row.slot) for row in rows}
    )
    assert set(Counter(row.pair_id for row in rows).values()) == {slots}
    assert len({(row.pair_id, row.rater) for row in rows}) == len(rows) == count * slots


def test_parallel_processes_fill_every_slot_once(store, store_url, add_new_pairs):
    add_new_pairs(20)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, store_url, *(f"{process}-{thread}" for thread in range(3))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    results = [worker.communicate(timeout=120) for worker in workers]
    assert [errors for _, errors in results] == ["", ""]
    acknowledged = [tuple(line.split()) for output, _ in results for line in output.splitlines()]
    rows = [row for row in read_tidy_rows(store) if row.criterion == "fluency"]
    assert sorted((row.rater, str(row.presentation)) for row in rows) == sorted(acknowledged)
    assert_every_slot_is_rated_once(rows, 20, 3)


@pytest.mark.parametrize("abandoned", [False, True], ids=["last", "abandoned"])
def test_twenty_raters_at_once_never_get_the_same_slot(store, add_new_pairs, single_plan, clock, abandoned):
    add_new_pairs(1)
    everybody = invite_people(store, *(f"person {number}" for number in range(20)))
    if abandoned:
        handout.claim_pairs(store, everybody.pop(), single_plan)
        clock.advance(hours=1)
    claimed = run_at_once(
        [lambda rater=rater: handout.claim_pairs(store, rater, single_plan) for rater in everybody]
    )
    assert Counter(map(len, claimed)) == {1: 1, 0: len(everybody) - 1}


def test_a_late_and_a_new_verdict_never_both_count(store, add_new_pairs, single_plan, clock):
    """The first rater of each pair saves late, while another rater claims the pair."""
    add_new_pairs(25)
    late, new = invite_people(store, "late", "new")
    held = handout.claim_pairs(store, late, single_plan, limit=25)
    clock.advance(hours=1)
    _, taken = run_at_once(
        [
            lambda: [save_choice(store, late, blind) for blind in held],
            lambda: len(rate_all_pairs(store, new, single_plan)),
        ]
    )
    assert Counter(row.rater for row in read_tidy_rows(store)) == Counter(late=25 - taken, new=taken)
    assert_every_slot_is_rated_once(read_tidy_rows(store), 25, 1)
    assert len(read_tidy_rows(store, include_surplus=True)) == 25 + taken


def test_a_rater_in_many_tabs_gets_one_pair(store, ann, add_new_pairs, plan):
    add_new_pairs(10)
    claimed = run_at_once([lambda: handout.claim_pairs(store, ann, plan) for _ in range(8)])
    assert len({blind[0].presentation for blind in claimed}) == 1
    presented = claimed[0][0]
    run_at_once([lambda: save_choice(store, ann, presented, "B")] * 12)
    assert [row.revision for row in read_verdict_history(store)] == [0]
    run_at_once([lambda choice=choice: save_choice(store, ann, presented, choice) for choice in "ABABAB"])
    assert [row.revision for row in read_verdict_history(store)][:2] == [0, 1]
    assert len(read_tidy_rows(store)) == 1


def test_start_times_of_write_transactions_never_decrease(store_url):
    """Each writer opens the database itself, as processes do."""
    times = []

    def write():
        with Store.open(store_url) as store:
            for _ in range(40):
                with store.begin_write() as (_, now):
                    times.append(now)

    run_at_once([write] * 6)
    assert times == sorted(times)


def test_parallel_processes_create_a_database_once(empty_url):
    def make():
        with Store.open(empty_url, create=True) as store:
            return read_pairs(store)

    assert run_at_once([make] * 8) == [[]] * 8


def test_a_read_transaction_sees_one_state(store, store_url, make_pairs):
    count = text("SELECT count(*) FROM pair")
    with store.begin_read() as db:
        before = db.execute(count).scalar_one()
        with Store.open(store_url) as other:
            add_pairs(other, make_pairs(2))
        assert db.execute(count).scalar_one() == before == 0
    assert len(read_pairs(store)) == 2
