"""A run that is killed or stopped, and the run after it: what was paid stays paid once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from judge.prompt import key
from judge.run import Retry, run_judge

PROGRAM = """
import json, sys
from datetime import timedelta
from guard_eval.store import Store
from guard_eval.settings import Judge
from judge.run import run_judge
database, settings = sys.argv[1], json.loads(sys.argv[2])
with Store.open(database) as store:
    try:
        run_judge(store, Judge(**settings), seed=11, lease=timedelta(minutes=30))
    except KeyboardInterrupt:
        print("interrupted", len(store.answers()), len({row.presentation for row in store.tidy()}))
        sys.exit(130)
"""


@pytest.fixture
def start(judge, environ, database, store, pair):
    """Start a run of 40 presentations in a process of its own."""
    store.add_pairs([pair(number) for number in range(20)])
    started = []

    def go():
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, database, json.dumps(judge.model_dump())],
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


def wait_for(condition, seconds=30):
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


def finish(store, judge, environ, lease):
    return run_judge(store, judge, seed=11, lease=lease, environ=environ, retry=Retry(base=0.01))


@pytest.mark.parametrize("after", [1, 22])
def test_nothing_journalled_is_paid_again_after_kill_9(*, start, slow, store, judge, environ, lease, after):
    process = start()
    wait_for(lambda: len(slow.asks) >= after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.2)  # the server ends what it was asked
    before = len(slow.asks)
    journalled = set(store.answers())
    assert before - len(journalled) <= judge.concurrency  # in flight, and no more
    ledger = finish(store, judge, environ, lease)
    later = {key(ask.body) for ask in slow.asks[before:]}
    assert not later & journalled
    assert len({row.presentation for row in store.tidy()}) == 40
    assert ledger.requests == 40 - len(journalled)
    assert sum(count - 1 for count in slow.paid.values() if count > 1) <= judge.concurrency
    assert finish(store, judge, environ, lease).requests == 0


def test_ctrl_c_receives_and_saves_what_is_under_way(*, start, slow, store, judge, environ, lease):
    process = start()
    wait_for(lambda: len(slow.asks) >= 10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert err == ""
    asked = len(slow.asks)
    assert asked < 40
    assert out.split() == ["interrupted", str(asked), str(asked)]
    assert finish(store, judge, environ, lease).requests == 40 - asked
    assert set(slow.paid.values()) == {1}
