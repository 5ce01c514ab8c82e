"""A run in batches that ends anywhere, and the run after it: one batch, and each answer paid once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_openai import Out, completion

from guard_eval.errors import StudyError
from judge.backend import JudgeRequest
from judge.batch.openai_batches import OpenAIBatches
from judge.batch.runner import BatchRunner, parts

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

providers = pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"], indirect=True)

PROGRAM = """
import sys
from datetime import timedelta
from guard_eval.store import Store
from guard_eval.study.judge_settings import Judge
from judge.run import Patience, run_judge
database, settings, lease = sys.argv[1:]
judge, patience = Judge.model_validate_json(settings), Patience(first=0.02, longest=0.1, second_look=0.01)
with Store.open(database) as store:
    run_judge(store, judge, seed=11, lease=timedelta(seconds=float(lease)), patience=patience)
"""


LINES = object.__new__(OpenAIBatches)


class KilledError(BaseException):
    """The end of a run, as if by a signal."""


def after(cls, name, monkeypatch):
    """Let the run end when a step is done and before anything is made of it."""
    whole = getattr(cls, name)

    async def cut(self, *arguments, **more):
        await whole(self, *arguments, **more)
        raise KilledError

    monkeypatch.setattr(cls, name, cut)


@providers
@pytest.mark.parametrize(
    ("where", "name", "uploads"),
    [
        (None, "upload", 2),  # the file is there, and nobody knows its name: it costs nothing
        (None, "create", 1),  # the batch is there, and nobody knows its name: it is looked for
        (BatchRunner, "_note", 1),
        (None, "download", 1),
        (BatchRunner, "_store_answers", 1),  # the answers are journalled, and not read
        (BatchRunner, "_close", 1),
    ],
)
def test_what_a_run_left_is_taken_over(
    *, run, store, pairs, server, monkeypatch, where, name, uploads, pair, batches, batch_class, provider
):
    pairs(3)
    with monkeypatch.context() as patched:
        after(where or batch_class, name, patched)
        with pytest.raises(KilledError):
            run()
    assert store.tidy() == []
    store.add_pairs([pair(9)])  # something new to be sent besides
    ledger = run()
    assert ledger.verdicts == 8
    assert len({row.presentation for row in store.tidy()}) == 8
    assert set(server.paid.values()) == {1}
    assert len(server.batches) == (1 if name == "upload" else 2)
    if provider != "anthropic":  # there the requests go up with the batch
        assert server.count("upload") == uploads + (name != "upload")
    assert {batch.status for batch in batches()} == {"done"}
    spend = store.spending()[0]
    assert (spend.answers, spend.lost, spend.held_usd) == (8, 0, 0)


@providers
def test_a_batch_that_was_never_made_is_made_again(run, pairs, server, monkeypatch):
    pairs(1)
    with monkeypatch.context() as patched:
        update = BatchRunner._update

        async def cut(self, batch, **values):
            await update(self, batch, **values)
            if values.get("status") == "creating":
                raise KilledError

        patched.setattr(BatchRunner, "_update", cut)
        with pytest.raises(KilledError):
            run()
    assert run().verdicts == 2
    assert (len(server.batches), server.count("list")) == (1, 2)  # a list may be behind: two looks


@providers
def test_a_provider_that_cannot_list_gets_what_may_be_there_once_more_and_its_money_stays(
    *, run, store, pairs, server, monkeypatch, batch_class
):
    pairs(1)
    with monkeypatch.context() as patched:
        after(batch_class, "create", patched)
        with pytest.raises(KilledError):
            run()
    server.faults["list"] = [Out(status=404)]
    reports = []
    assert run(on_progress=reports.append).verdicts == 2
    assert any("count as lost" in (each.notice or "") for each in reports)
    spend = store.spending()[0]
    assert (spend.lost, spend.answers) == (2, 2)
    assert spend.held_usd > 0


@pytest.fixture
def begin(judge, database, environ):
    """Begin a run in a process of its own."""
    begun = []

    def begin(lease=1800):
        begun.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, database, judge.model_dump_json(), str(lease)],
                env={**os.environ, **environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            )
        )
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


@providers
def test_two_runs_that_find_a_batch_at_once_leave_it_to_one(
    *, run, begin, store, pairs, server, monkeypatch, batch_class, batches
):
    pairs(3)
    with monkeypatch.context() as patched:
        after(batch_class, "create", patched)
        with pytest.raises(KilledError):
            run()
    server.lag = 10**6
    polls = server.count("poll")
    together = [begin(), begin()]
    wait_for(lambda: server.count("poll") >= polls + 2 and any(each.poll() == 0 for each in together))
    server.lag = 0
    assert [each.wait(timeout=60) for each in together] == [0, 0]
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}
    assert len({row.presentation for row in store.tidy()}) == 6
    assert {batch.status for batch in batches()} == {"done"}
    (spend,) = store.spending()
    assert (spend.answers, spend.lost, spend.held_usd) == (6, 0, 0)


@providers
def test_a_run_that_stood_still_beyond_its_lease_pays_nothing_twice(
    *, run, begin, store, pairs, server, batches
):
    """A machine that slept: another run took its batch over and settled it; then it wakes."""
    pairs(3)
    server.lag = 10**6
    asleep = begin(lease=2)
    wait_for(lambda: server.count("poll") >= 1)
    asleep.send_signal(signal.SIGSTOP)
    server.lag = 0
    wait_for(lambda: run().verdicts == 6)
    asleep.send_signal(signal.SIGCONT)
    assert asleep.wait(timeout=60) == 0
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}
    assert len(store.tidy()) == 12
    assert {batch.status for batch in batches()} == {"done"}
    (spend,) = store.spending()
    assert (spend.answers, spend.lost, spend.held_usd) == (6, 0, 0)


def wait_for(holds):
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@providers
def test_kill_9_while_the_batch_is_made(*, run, begin, pairs, server):
    pairs(3)
    begun = []

    def kill():
        begun[0].send_signal(signal.SIGKILL)
        begun[0].wait()

    server.on["create"] = kill
    begun.append(begin())
    begun[0].wait(timeout=60)
    del server.on["create"]
    assert len(server.batches) == 1
    assert run().verdicts == 6  # a killed run's claims are free at once on its own machine
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}


@providers
def test_online_runs_leave_to_a_batch_what_is_in_it(
    *, run, store, pairs, server, judge, environ, monkeypatch, pair, batch_class
):
    pairs(2)
    with monkeypatch.context() as patched:
        after(batch_class, "poll", patched)
        with pytest.raises(KilledError):
            run()
    store.add_pairs([pair(5)])
    assert run(style="auto").verdicts == 2
    assert run().verdicts == 4
    assert set(server.paid.values()) == {1}


@providers
def test_ctrl_c_leaves_the_batch_going_and_says_how_to_go_on(run, pairs, server):
    pairs(1)
    server.lag = 10**6
    reports = []

    def stop(now):
        reports.append(now.notice or "")
        if "the batch" in reports[-1] and "is sent" not in reports[-1]:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(on_progress=stop)
    assert "run the same command again" in reports[-1]
    server.lag = 0
    assert run().verdicts == 2
    assert len(server.batches) == 1


def question(size, number):
    body = b'{"a":"' + b"x" * size + b'"}'
    return JudgeRequest(key=f"{number:064x}", body=body, shape="chat/text", max_output_tokens=1)


def test_large_studies_are_split_by_count_and_by_bytes():
    lines = [(each, LINES.line_of(each)) for each in (question(10, number) for number in range(7))]
    assert [len(part) for part in parts(lines, requests=3, size=10**6)] == [3, 3, 1]
    size = len(lines[0][1])
    assert [len(part) for part in parts(lines, requests=100, size=2 * size)] == [2, 2, 2, 1]
    assert [len(part) for part in parts(lines, requests=100, size=2 * size - 1)] == [1] * 7
    alone = [len(part) for part in parts(lines, requests=100, size=1)]
    assert alone == [1] * 7  # what is too large alone is refused there
    assert list(parts([], requests=1, size=1)) == []
    assert (LINES.most_requests, LINES.most_bytes) == (50_000, 200_000_000)  # OpenAI's limits


def test_lines_that_are_no_results_are_passed_over():
    content = b'\n[1]\n{"custom_id": 3}\n{"custom_id": "k"}\nnonsense\n' + b"[" * 5000 + b"\n\xff\n"
    (result,) = LINES.read_results(content)
    assert (result.key, result.status, result.error) == ("k", None, "no answer")


@pytest.mark.parametrize(
    "line",
    [
        {"response": {"status_code": 200, "body": {"error": {"message": "x"}}}},
        {"response": {"status_code": 200, "body": None}},
        {"response": {"status_code": 200, "body": completion("x").body}, "error": {"code": "x"}},
        {"response": {"body": completion("x").body}},
        {"response": None, "error": None},
    ],
)
def test_only_a_whole_answer_of_status_200_counts_as_one(line):
    (result,) = LINES.read_results(json.dumps({"custom_id": "k", **line}).encode())
    assert result.error


def test_a_batch_that_no_server_answers_ends_with_a_sentence(run, pairs, server):
    pairs(1)
    for step, out in (
        ("poll", Out(b"<html>", 200, {"Content-Type": "text/html"})),
        ("download", Out(b"<html>login", 200, {"Content-Type": "text/html"})),
        ("create", Out({"object": "batch"})),
        ("upload", Out([])),
    ):
        server.faults[step] = [out]
    for _ in range(4):
        with pytest.raises(StudyError, match="does not answer as a Batch API"):
            run()
    assert run().verdicts == 2
    assert set(server.paid.values()) == {1}
