"""A verdict that was acknowledged is there, however its writer ended."""

import signal
import subprocess
import sys

import pytest

from guard_eval.store import Store, pairs, raters, unblind, verdicts

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

WRITER = """
import sys
from datetime import timedelta
from guard_eval.records import HandOutPlan
from guard_eval.store import Store, handout, raters, verdicts

store = Store.open(sys.argv[1])
rater = raters.get_or_add_rater(store, "simulated", "simulated")
plan = HandOutPlan(seed=1, slots=1, lease=timedelta(minutes=30))
for turn in range(1_000_000):
    for blind in handout.claim_pairs(store, rater, plan, limit=1):
        for choice in ("A", "B"):
            choices = {"fluency": choice, "coherence": "tie"}
            verdicts.save_verdict(store, blind.presentation, choices, rater=rater)
            print(blind.presentation, choice, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_verdict(store_url, make_pairs):
    with Store.open(store_url, create=True) as store:
        pairs.add_pairs(store, make_pairs(500))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, store_url], stdout=subprocess.PIPE, text=True)
    lines = [writer.stdout.readline() for _ in range(61)]
    writer.send_signal(signal.SIGKILL)
    lines += writer.stdout.readlines()
    writer.stdout.close()
    assert writer.wait(timeout=30) == -signal.SIGKILL
    acknowledged = {}
    for number, choice in (line.split() for line in lines if line.endswith("\n")):
        acknowledged[int(number)] = choice
    assert 30 <= len(acknowledged) < 500

    with Store.open(store_url) as store:
        rater = raters.get_or_add_rater(store, "simulated", "simulated")
        stored = {
            number: verdicts.read_current_choices(store, number, rater=rater) for number in acknowledged
        }
        last = max(acknowledged)
        for number, choice in acknowledged.items():
            assert stored[number]["coherence"] == "tie"
            # the last one's second choice may have been on disk without having been acknowledged yet
            assert stored[number]["fluency"] == choice or (
                number == last and stored[number]["fluency"] == "B"
            )
        # a verdict is whole or absent: never one criterion of two
        rows = unblind.read_tidy_rows(store)
        assert {row.criterion for row in rows} == {"fluency", "coherence"}
        assert len(rows) == 2 * len({row.presentation for row in rows})
        assert len(rows) // 2 - len(acknowledged) in {0, 1}
