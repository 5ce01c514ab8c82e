"""Batches: what is sent is paid once, at whatever step a run ends, and what fails is counted."""

import signal
import time
from datetime import UTC, datetime

import pytest
from fake_openai import Out, failure, verdict

from guard_eval.errors import StudyError
from guard_eval.store import requests, unblind

pytestmark = pytest.mark.slow

STEPS = ("upload", "create", "poll", "download")


def spent_by(store):
    with store.read() as db:
        return requests.read_spending(db)[0]


def end_leases(store):
    """Let the lease of a killed run end now, and not in half a minute."""
    with store.write() as (db, _):
        db.execute(requests.REQUEST.update().values(leased_until=datetime(2020, 1, 1, tzinfo=UTC)))


def test_one_question_goes_online_and_the_others_in_a_batch(run, store, pairs, server):
    pairs(4)
    server.shuffle, server.lag = True, 2
    ledger = run(batch=True)
    assert (ledger.verdicts, ledger.requests, dict(ledger.failures)) == (8, 8, {})
    assert (server.count("chat"), server.count("create"), len(server.batches)) == (1, 1, 1)
    assert set(server.paid.values()) == {1}
    assert spent_by(store).usd == pytest.approx(8 * 280 / 1e6)  # no lower price of a batch is known here
    assert run(batch=True).requests == 0
    assert run().requests == 0


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_at_any_step_pays_nothing_twice(*, store, pairs, run, server, child, step, when):
    """The server kills the run in the middle of a step, before or after it has done its part."""
    pairs(4)
    process = child(batch=True)
    killed = []

    def kill(*_):
        if not killed:
            killed.append(True)
            process.send_signal(signal.SIGKILL)
            process.wait()

    if when == "after":
        server.on[step] = kill
    else:
        handle = server.handle

        def handle_or_kill(method, path, raw, headers):
            wanted = server._route(method, path.removeprefix("/v1"))[0]
            if wanted == step and not killed:
                kill()
                return failure(503)
            return handle(method, path, raw, headers)

        server.handle = handle_or_kill
    process.wait(timeout=60)
    assert killed
    end_leases(store)
    ledger = run(batch=True)
    assert ledger.failures.total() == 0
    assert len({row.presentation for row in unblind.tidy(store)}) == 8
    assert set(server.paid.values()) == {1}


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_answer_about_a_batch_makes_no_second_one(run, store, pairs, server, step):
    pairs(4)
    server.faults[step] = [Out(drop=True), failure(503), failure(429)]
    assert run(batch=True).verdicts == 8
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}


def test_another_studys_batches_are_left_alone(run, store, pairs, server):
    pairs(2)
    server.batches["batch_x"] = {
        "id": "batch_x", "status": "in_progress", "polls": 0, "metadata": {"guard-eval": "another"},
    }  # fmt: skip
    server.faults["create"] = [Out(drop=True)]
    assert run(batch=True).verdicts == 4
    assert server.batches["batch_x"]["polls"] == 0


def test_what_failed_in_a_batch_is_counted(run, store, pairs, server, fake):
    pairs(3)
    server.act = lambda ask: failure(500, "oops") if "prompt number 1\n" in ask.words else verdict(ask)
    ledger = run(batch=True)
    assert ledger.verdicts + ledger.failures.total() == 6
    assert ledger.failures.total() == 2
    with store.read() as db:
        assert {kind for kind, _ in requests.read_failures(db).values()} == {"server_error"}
    assert spent_by(store).held_usd == 0


def test_requests_whose_turn_never_came_are_sent_by_the_next_run(run, pairs, server):
    pairs(3)
    turns = []

    def act(ask):
        turns.append(ask)
        return None if len(turns) in {2, 3} else verdict(ask)

    server.act = act
    assert run(batch=True).failures.total() == 2
    ledger = run(batch=True)
    assert (ledger.verdicts, dict(ledger.failures)) == (2, {})
    assert set(server.paid.values()) == {1}


def test_a_server_without_batches_says_so_and_costs_nothing(run, store, pairs, server):
    pairs(3)
    server.faults["upload"] = [failure(404)] * 3
    with pytest.raises(StudyError, match="has no Batch API; run without --batch"):
        run(batch=True)
    assert spent_by(store).held_usd == 0
    assert run().verdicts == 5  # one was answered before


def test_a_batch_that_is_refused_ends_the_run(run, store, pairs, server):
    pairs(3)
    server.faults["create"] = [failure(400, "too many tokens are enqueued")]
    with pytest.raises(StudyError, match="does not take the batch"):
        run(batch=True)
    assert spent_by(store).held_usd == 0


def test_a_batch_keeps_within_its_budget(run, store, pairs, server):
    pairs(6)
    with pytest.raises(StudyError, match="is used up"):
        run(batch=True, budget_usd=0.012)
    spent = spent_by(store)
    assert 0 < spent.usd + spent.held_usd <= 0.012
    assert run(batch=True, budget_usd=1).failures.total() == 0
    assert len({row.presentation for row in unblind.tidy(store)}) == 12


def test_questions_in_a_batch_are_not_asked_online(*, run, store, pairs, server, child, judge):
    pairs(3)
    server.lag = 10**6
    process = child(batch=True)
    while server.count("poll") < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    with store.read() as db:
        waiting = requests.read_in_batches(db, judge.rater_name)
    assert len(waiting) == 5
    process.send_signal(signal.SIGINT)
    process.wait(timeout=30)
    server.lag = 0
    assert run(batch=True).requests == 0  # it only collects
    assert set(server.paid.values()) == {1}


def test_an_answer_in_a_batch_without_a_verdict_is_a_failure_in_the_store_too(
    run, store, pairs, server, fake
):
    pairs(2)
    server.act = lambda ask: verdict(ask) if "number 0" in ask.words else fake.completion("", refusal="no")
    assert run(batch=True).failures.total() == 2
    with store.read() as db:
        assert [kind for kind, _ in requests.read_failures(db).values()] == ["refusal", "refusal"]
