"""Runs that are killed or stopped, the runs after them, and two at once: what was paid stays paid once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from guard_eval.store import Store
from judge.run import Retry, run_judge

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

PROGRAM = """
import json, sys
from guard_eval.store import Store
from guard_eval.study.settings import Judge
from judge.run import run_judge
database, settings = sys.argv[1], json.loads(sys.argv[2])
print("started", flush=True)
with Store.open(database) as store:
    try:
        ledger = run_judge(
            store, Judge(**settings), seed=11, on_progress=lambda now: now.notice and print(now.notice)
        )
        print("ended", ledger.requests, ledger.verdicts)
    except KeyboardInterrupt:
        print("interrupted", len(store.answered()), len({row.presentation for row in store.tidy()}))
        sys.exit(130)
"""


@pytest.fixture
def start(judge, environ):
    """Start runs, each in a process of its own."""
    started = []

    def go(url):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url, json.dumps(judge.model_dump())],
            env={**os.environ, **environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield go
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.fixture
def twenty(pair):
    """Pairs that make 40 presentations."""
    return [pair(number) for number in range(20)]


def wait_for(condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the run did not get that far"
        time.sleep(0.005)


@pytest.fixture
def slow(server, fake):
    def act(ask):
        made = fake.verdict(ask)
        made.delay = 0.03
        return made

    server.act = act
    return server


def finish(store, judge, environ):
    return run_judge(store, judge, seed=11, environ=environ, retry=Retry(base=0.01))


def test_nothing_journalled_is_paid_again_after_kill_9(
    *, start, slow, store, database, judge, environ, twenty, pairs
):
    store.add_pairs(twenty)
    for part in (0.20, 0.50, 0.85):
        before = len(slow.asks)
        journalled = store.answered()
        process = start(database)
        wait_for(lambda part=part: len(store.answered()) >= 40 * part)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.2)  # the server ends what it was asked
        assert not {ask.key(judge) for ask in slow.asks[before:]} & journalled
        assert sum(slow.paid.values()) - len(store.answered()) <= 3 * judge.concurrency
        (spend,) = store.spending()
        assert len(slow.asks) <= spend.requests  # what was in flight is open, and stays booked
    before = len(slow.asks)
    journalled = store.answered()
    ledger = finish(store, judge, environ)
    assert not {ask.key(judge) for ask in slow.asks[before:]} & journalled
    assert ledger.requests == 40 - len(journalled)
    assert len({row.presentation for row in store.tidy()}) == 40
    assert sum(count - 1 for count in slow.paid.values()) <= 3 * judge.concurrency
    assert finish(store, judge, environ).requests == 0
    (spend,) = store.spending()
    assert (spend.answers, spend.open) == (40, 0)
    assert (spend.held_usd > 0) == (spend.lost > 0)


def test_ctrl_c_receives_and_saves_what_is_under_way(
    *, start, slow, store, database, judge, environ, twenty, pairs
):
    store.add_pairs(twenty)
    process = start(database)
    wait_for(lambda: len(slow.asks) >= 10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert err == ""
    asked = len(slow.asks)
    assert asked < 40
    assert "answers are under way and are waited for" in out
    assert "run the same command again to go on" in out
    assert out.splitlines()[-1] == f"interrupted {asked} {asked}"
    assert store.spending()[0].held_usd == 0
    assert finish(store, judge, environ).requests == 40 - asked
    assert set(slow.paid.values()) == {1}


def test_two_at_once_send_no_pair_twice(*, start, slow, store_url, twenty, pairs, pair):
    with Store.open(store_url, create=True) as store:
        same = [pair(20, text_a="the same", text_b="here"), pair(21, text_a="here", text_b="the same")]
        store.add_pairs([*twenty, *same])
        both = [start(store_url), start(store_url)]
        outputs = [process.communicate(timeout=60) for process in both]
        assert [err for _, err in outputs] == ["", ""]
        ended = [out.splitlines()[-1].split() for out, _ in outputs]
        assert [words[0] for words in ended] == ["ended", "ended"]
        assert sum(int(words[1]) for words in ended) == len(slow.asks)
        assert sum(int(words[2]) for words in ended) == 44
        counted = Counter(row.presentation for row in store.tidy())
        assert (len(counted), set(counted.values())) == (44, {2})
        assert set(slow.paid.values()) == {1}
        assert store.spending()[0].requests == len(slow.asks)
