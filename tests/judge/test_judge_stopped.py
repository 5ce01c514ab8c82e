"""`guard-eval judge` stopped by a service manager: the same end as by Ctrl-C, and nothing paid is lost."""

import contextlib
import signal
import subprocess
import threading
import time

import pytest
from command_line import environment
from fake_openai import KEY, verdict
from judge_requests import judged_in, spent_by

from guard_eval.store import Store
from guard_eval.study import Study

pytestmark = pytest.mark.slow

JUDGE = '[[judge]]\nmodel = "gpt-4o-2024-11-20"\ncriteria = ["fluency"]\nconcurrency = 16\n'
PAIRS = 30


@pytest.fixture
def folder(study, pair):
    return study(JUDGE, map(pair, range(PAIRS)))


@pytest.fixture
def opened(folder):
    with Store.open(Study.open(folder).database) as store:
        yield store


@pytest.fixture
def free(server):
    """Let the server answer the first request, which goes alone, and no other before this is set."""
    free = threading.Event()

    def act(ask):
        if len(server.asks) > 1:
            free.wait(60)
        return verdict(ask)

    server.act = act
    yield free
    free.set()


def wait_for_17(server, process):
    """Wait for the first request, and the 16 that may be under way after it."""
    while len(server.asks) < 17:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


@pytest.fixture
def start(folder, server, spawn):
    """Start the command in a process of its own."""

    def go(before=None):
        variables = environment(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url, PYTHONUNBUFFERED="1")
        arguments = ("-m", "guard_eval", "judge", folder, "--yes")
        return spawn(*arguments, env=variables, stdin=subprocess.DEVNULL, preexec_fn=before)

    return go


def read_until(process, words):
    """Read what the command prints until these words; it may then wait for its server as long as it likes."""
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"it never printed {words!r}: {process.stdout.read()}")


def no_ctrl_c():
    """Ignore it, as what a script runs in the background does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize(
    ("number", "code", "before"), [(signal.SIGINT, 130, None), (signal.SIGTERM, 143, no_ctrl_c)]
)
def test_stopped_run_stores_the_answers_in_flight(
    *, start, free, server, guard_eval, opened, number, code, before
):
    process = start(before)
    wait_for_17(server, process)
    process.send_signal(number)
    read_until(process, "waiting for 16 answers")
    free.set()
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert err.endswith(
        "stopped; everything written so far is kept: run the same command again to continue\n"
    )
    assert "Traceback" not in err
    assert server.paid.total() == 17
    assert judged_in(opened) == 17
    spend = spent_by(opened)
    assert (spend.answers, spend.lost, spend.open, spend.held_usd) == (17, 0, 0, 0)
    assert guard_eval("judge", "s", "--yes").code == 0
    assert server.times_paid == {1}
    assert judged_in(opened) == 2 * PAIRS


@pytest.mark.usefixtures("free")
def test_second_signal_ends_at_once_and_keeps_reserved_cost(start, server, opened):
    process = start()
    wait_for_17(server, process)
    process.send_signal(signal.SIGTERM)
    read_until(process, "stopping: waiting for")
    time.sleep(0.5)  # one that comes while the command prints the line above does not count
    for _ in range(20):
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)  # a third would interrupt its end
            break
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in err
    spend = spent_by(opened)
    # Those that had money set aside and waited for their turn count too: nobody was left to release them.
    assert (spend.requests, spend.answers) == (spend.lost + spend.open + 1, 1)
    assert spend.lost + spend.open >= 16
    assert spend.held_usd > 0
