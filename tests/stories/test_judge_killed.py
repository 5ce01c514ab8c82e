"""A judge is killed with kill -9 and runs again: only the requests in flight are paid for twice."""

import itertools
import subprocess
import threading

import pytest
from command_line import make_command, make_environment
from fake_openai import KEY, FakeOpenAI, make_verdict
from judge_requests import end_leases

from guard_eval.store import Store, unblind
from guard_eval.study import Study

pytestmark = pytest.mark.slow
ANSWERED, IN_FLIGHT, REQUESTS = 3, 2, 6


@pytest.fixture
def server():
    """Serve three requests at once, and the others after `free` is set."""
    server = FakeOpenAI()
    server.free, server.waiting = threading.Event(), threading.Semaphore(0)
    numbers = itertools.count()

    def act(ask):
        if next(numbers) >= ANSWERED:
            server.waiting.release()
            server.free.wait(60)
        return make_verdict(ask)

    server.act = act
    yield server
    server.free.set()
    server.close()


def test_killed_judge_does_not_repeat_stored_requests(server, paired, typed):
    arguments = make_command("judge", "small", "--yes", "--set", f"judge[1].concurrency={IN_FLIGHT}")
    account = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
    process = subprocess.Popen(
        arguments, cwd=paired.parent, env=make_environment(**account), stderr=subprocess.DEVNULL
    )
    for _ in range(IN_FLIGHT):
        assert server.waiting.acquire(timeout=120), "the run did not get that far"
    process.kill()
    process.wait(timeout=60)
    server.free.set()

    study = Study.open(paired)
    with Store.open(study.database) as store:
        stored = {row.presentation for row in unblind.read_tidy_rows(store)}
        end_leases(store)  # until which what was in flight is waited for
    assert 1 <= len(stored) <= ANSWERED  # an answer that is stored may not have been read yet
    second = typed("judge", "small", "--yes", **account)
    assert second.code == 0, second
    with Store.open(study.database) as store:
        judged = [row.presentation for row in unblind.read_tidy_rows(store) if row.criterion == "fluency"]
    assert len(judged) == len(set(judged)) == REQUESTS
    assert stored < set(judged)
    paid = sorted(server.paid.values())
    assert paid == [1] * (REQUESTS - IN_FLIGHT) + [2] * IN_FLIGHT
    assert "requests to send: 0" in typed("judge", "small", "--dry-run", **account).out
