"""Four machines judge one study and are killed: each pair is judged once, and no answer is paid for again.

Each machine is a process with a name of its own for the machine it runs on: as on real ones, none can see
whether another's process is alive.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from guard_eval.store import Store
from judge.run import AHEAD

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

LEASE = timedelta(seconds=5)
PROGRAM = f"""
import json, sys
from datetime import timedelta
from guard_eval.errors import StudyError
from guard_eval.study.settings import Judge
from guard_eval.store import Store
from guard_eval.store.judging import runs
from judge import run
from judge.run import Retry, run_judge
machine, database = sys.argv[1:3]
settings, budget = map(json.loads, sys.argv[3:])
runs._host = lambda: machine
run.LOOK = 0.1
lease = timedelta(seconds={LEASE.total_seconds()})
with Store.open(database) as store:
    try:
        run_judge(store, Judge(**settings), seed=11, lease=lease, budget_usd=budget, retry=Retry(base=0.01))
    except StudyError as error:
        print(error)
"""

PRESENTATIONS = 60
_COST = (100 * 2 + 10 * 8) / 1e6


class Machine:
    """A process that judges, and can be started again on the same machine."""

    def __init__(self, name, *arguments, environ):
        self._command = [sys.executable, "-c", PROGRAM, name, *arguments]
        self._environ = {**os.environ, **environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.start()

    def start(self):
        out = subprocess.PIPE
        self.process = subprocess.Popen(
            self._command, env=self._environ, stdout=out, stderr=subprocess.STDOUT, text=True
        )

    def kill(self):
        self.process.kill()
        self.error_text()

    def error_text(self):
        """Return what it printed, when it has ended."""
        return self.process.communicate(timeout=120)[0]


@pytest.fixture
def machines(judge, environ):
    """Start machines of these names on a study."""
    started = []

    def start(url, *names, budget=None):
        arguments = url, json.dumps(judge.model_dump()), json.dumps(budget)
        started.extend(Machine(name, *arguments, environ=environ) for name in names)
        return started

    yield start
    for machine in started:
        machine.process.kill()
        machine.process.wait()
        machine.process.stdout.close()


@pytest.fixture
def study(pair):
    """Open a study with its pairs."""
    with ExitStack() as stack:

        def make(url):
            store = stack.enter_context(Store.open(url, create=True))
            store.add_pairs([pair(number) for number in range(PRESENTATIONS // 2)])
            return store

        yield make


@pytest.fixture
def late(server, fake):
    """Let the server answer late, and refuse now and then."""

    def act(ask):
        refuse = ask.number == 0 and int(ask.digest, 16) % 10 == 0
        made = fake.failure(500) if refuse else fake.verdict(ask)
        made.delay = 0.05
        return made

    server.act = act
    return server


def wait_for(condition, crew, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            ended = [machine for machine in crew if machine.process.poll() is not None]
            pytest.fail(f"the machines did not get that far; ended: {[each.error_text() for each in ended]}")
        time.sleep(0.01)


def rows(url, statement):
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return connection.execute(text(statement)).all()
    finally:
        engine.dispose()


def test_killed_machines_judge_every_pair_once(machines, study, late, postgres_url, judge):
    store = study(postgres_url)
    crew = machines(postgres_url, "one", "two", "three", "four")
    journalled, asked = [], []
    for share, victim in ((0.2, crew[0]), (0.4, crew[1]), (0.5, crew[3])):
        wait_for(lambda share=share: late.paid.total() >= share * PRESENTATIONS, crew)
        victim.kill()
        journalled.append(store.answered())
        asked.append(len(late.asks))
        if victim is not crew[3]:
            victim.start()
    lost_at = datetime.now(UTC)
    wait_for(lambda: sum(each.rated for each in store.raters()) == PRESENTATIONS, crew)
    assert [machine.error_text() for machine in crew[:3]] == ["", "", ""]

    slots = Counter(
        (row.pair_id, row.slot)
        for row in rows(postgres_url, "SELECT pair_id, slot FROM presentation WHERE rated_at IS NOT NULL")
    )
    assert (len(slots), set(slots.values())) == (PRESENTATIONS, {1})
    verdicts = rows(postgres_url, "SELECT count(*) FROM verdict GROUP BY presentation_id")
    assert [row[0] for row in verdicts] == [len(judge.criteria)] * PRESENTATIONS

    for before, number in zip(journalled, asked, strict=True):
        assert not {ask.key(judge) for ask in late.asks[number:]} & before
    in_flight = 3 * judge.concurrency
    assert sum(times - 1 for times in late.paid.values()) <= in_flight
    (spend,) = store.spending()
    assert (spend.answers, spend.open) == (PRESENTATIONS, 0)
    # set aside, and sent or about to be
    assert spend.lost <= 3 * (judge.concurrency + judge.concurrency // AHEAD)
    # what the machine that never came back held was not anybody's before its lease was over
    assert datetime.now(UTC) - lost_at > LEASE * 2 / 3


def test_a_budget_is_one_for_all_machines(machines, study, late, postgres_url):
    # all of them cost $0.0168; but a next one is not sent where less than $0.0103 is left
    allowed, store = 0.024, study(postgres_url)
    crew = machines(postgres_url, "one", "two", "three", budget=allowed)
    wait_for(lambda: late.paid.total() >= 10, crew)
    crew[0].kill()
    crew[0].start()
    error_text = [machine.error_text() for machine in crew]
    # whoever finds all that is left claimed by the others ends without a word
    assert {each.partition(" used up")[0] for each in error_text} <= {"", "the budget of $0.024 is"}
    assert any(error_text)
    assert 0 < late.paid.total() * _COST <= allowed
    (spend,) = store.spending()
    assert late.paid.total() * _COST <= spend.usd + spend.held_usd <= allowed
    assert 0 < spend.answers < PRESENTATIONS
