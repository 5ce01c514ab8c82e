"""`guard-eval judge` ends in the same way by a service manager as by Ctrl-C, and loses no paid answer."""

import contextlib
import signal
import subprocess
import threading
import time

import pytest
from command_line import make_environment
from fake_openai import KEY, make_verdict
from judge_requests import count_judged_presentations, read_spending

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
    """Return an event. Until the event is set, the server answers only the first request."""
    free = threading.Event()

    def act(ask):
        if len(server.asks) > 1:
            free.wait(60)
        return make_verdict(ask)

    server.act = act
    yield free
    free.set()


def wait_for_17(server, process):
    """Wait for the first request and 16 parallel requests."""
    while len(server.asks) < 17:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


@pytest.fixture
def start(folder, server, spawn):
    """Return a function that starts the command in a new process."""

    def start_command(before=None):
        variables = make_environment(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url, PYTHONUNBUFFERED="1")
        arguments = ("-m", "guard_eval", "judge", folder, "--yes")
        return spawn(*arguments, env=variables, stdin=subprocess.DEVNULL, preexec_fn=before)

    return start_command


def read_until(process, words):
    """Read the output of the command until these words."""
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"it never printed {words!r}: {process.stdout.read()}")


def ignore_ctrl_c():
    """Ignore Ctrl-C, like a command that a script runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize(
    ("number", "code", "before"), [(signal.SIGINT, 130, None), (signal.SIGTERM, 143, ignore_ctrl_c)]
)
def test_stopped_run_stores_the_answers_in_flight(
    *, start, free, server, judge_command, opened, number, code, before
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
    assert count_judged_presentations(opened) == 17
    spend = read_spending(opened)
    assert (spend.answers, spend.lost, spend.open, spend.held_usd) == (17, 0, 0, 0)
    assert judge_command("--yes").code == 0
    assert server.times_paid == {1}
    assert count_judged_presentations(opened) == 2 * PAIRS


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
    spend = read_spending(opened)
    # Those that had money set aside and waited for their turn count too: nobody was left to release them.
    assert (spend.requests, spend.answers) == (spend.lost + spend.open + 1, 1)
    assert spend.lost + spend.open >= 16
    assert spend.held_usd > 0
