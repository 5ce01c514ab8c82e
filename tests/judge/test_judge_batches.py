"""Runs in batches: no request is paid for twice, and failures are counted."""

import json
import signal
import time
from unittest.mock import Mock

import pytest
from fake_openai import make_chat_answer, make_error, make_verdict
from judge_requests import count_judged_presentations, end_leases, read_spending
from local_server import Response
from refusals import expect_refusal

from guard_eval import progress
from guard_eval.servers import batch_api
from guard_eval.servers.batch_api import BatchApi, is_batch_too_large, read_batch_state
from guard_eval.store import unblind
from guard_eval.store.judging import requests
from judge import batches as judge_batches

pytestmark = pytest.mark.slow

ENDLESS = [Response({"data": [{"id": name}], "has_more": True}) for name in "xyx"]
STEPS = ("upload", "create", "poll", "download")


def test_batch_run_sends_one_question_online_first(run, store, pairs, server):
    pairs(4)
    server.lag = 2
    counts = run(batch=True)
    assert (counts.verdicts, counts.requests, dict(counts.failures)) == (8, 8, {})
    assert (server.count("chat"), server.count("create"), len(server.batches)) == (1, 1, 1)
    assert server.times_paid == {1}
    assert read_spending(store).usd == pytest.approx(8 * 280 / 1e6)  # no lower price of a batch is known here
    assert run(batch=True).requests == 0
    assert run().requests == 0


def test_batch_is_kept_if_its_results_are_too_large(run, pairs, server, monkeypatch):
    pairs(4)
    with monkeypatch.context() as patch:
        patch.setattr(batch_api, "LARGEST_FILE", 1500)
        with expect_refusal("the file of results is too large"):
            run(batch=True)
    assert run(batch=True).verdicts == 7
    assert server.times_paid == {1}


@pytest.mark.parametrize("step", ["chat", *STEPS])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_batch_run_pays_nothing_twice(*, store, pairs, run, server, child, step, when):
    """Kill the run before or after a step of the server. Only the online question can be lost."""
    pairs(4)
    process = child(batch=True)
    handle = server.handle

    def kill():
        process.kill()
        process.wait()

    def handle_or_kill(method, path, raw, headers):
        if server.step(method, path)[0] == step and when == "before" and process.poll() is None:
            kill()
            return make_error(503)
        return handle(method, path, raw, headers)

    server.handle = handle_or_kill
    server.on[step] = kill
    assert process.wait(timeout=60) == -signal.SIGKILL
    end_leases(store)
    counts = run(batch=True)
    assert counts.failures.total() == 0
    assert count_judged_presentations(store) == 8
    assert server.paid.total() == 8 + (step == "chat" and when == "after")


@pytest.mark.parametrize(
    ("step", "status"),
    [
        *((step, status) for step in STEPS for status in (None, 500, 502, 503, 429)),
        *(("create", status) for status in (400, 404)),
    ],
)
def test_lost_reply_of_provider_creates_no_second_batch(*, run, store, pairs, server, step, status):
    """Simulate a gateway that reports an error although the provider has created the batch."""
    pairs(4)
    first = Response(drop=True) if status is None else make_error(status, late=True)
    server.faults[step] = [first, make_error(503), make_error(429)]
    assert run(batch=True).verdicts == 8
    assert len(server.batches) == 1
    assert server.times_paid == {1}


def test_odd_id_of_another_batch_does_not_hide_our_batch(run, pairs, server):
    pairs(4)
    server.faults["create"] = [LOST]
    server.on["create"] = lambda: server.batches.setdefault("other", {"id": "x?y#z"})
    assert run(batch=True).verdicts == 8
    assert len(server.batches) == 1 + 1
    assert server.times_paid == {1}


LOST = Response(drop=True)
FAULTS = [
    ({"create": [LOST], "list": [make_error(404)]}, "connection was lost"),
    *(
        ({"create": [LOST], "list": listed}, "does not follow the Batch API")
        for listed in ([Response([])], [Response({"data": {}})], [ENDLESS[0]] * 2, ENDLESS)
    ),
    ({"poll": [Response([])]}, "does not follow the Batch API"),
    ({"poll": [make_error(404)]}, "has no batch .* If the batch was deleted, give"),
    ({"download": [make_error(404)]}, "has no batch .* or no results of this batch"),
    ({"upload": [make_error(404)]}, "has no Batch API"),
    ({"create": [make_error(400, "no such model")]}, "refuses the batch .*no such model"),
]


@pytest.mark.parametrize(("faults", "words"), FAULTS)
def test_unknown_batch_status_repeats_no_request(*, run, store, pairs, server, faults, words):
    pairs(4)
    server.batches["batch_x"] = {"id": "batch_x", "status": "failed", "metadata": {"guard-eval": "another"}}
    server.faults |= faults
    with expect_refusal(words):
        run(batch=True)
    assert run(batch=True).failures.total() == 0
    assert count_judged_presentations(store) == 8
    assert server.times_paid == {1}
    assert len(server.batches) == 1 + 1


def test_next_run_repeats_failed_requests_of_a_batch(run, store, pairs, server):
    pairs(3)
    turns = iter(range(6))  # the first is online
    # request 4 is never processed
    outs = {2: make_error(500, "oops"), 3: make_chat_answer("", refusal="no"), 4: None}
    server.act = lambda ask: outs.get(next(turns), make_verdict(ask))
    counts = run(batch=True)
    assert (counts.verdicts, counts.failures.total()) == (3, 3)
    with store.begin_read() as db:
        failures = set(requests.read_question_failures(db).values())
    assert {kind for kind, _ in failures} == {"server_error", "refusal"}
    assert ("server_error", "HTTP 500: oops") in failures
    assert read_spending(store).held_usd == 0
    server.act = make_verdict
    counts = run(batch=True)
    assert (counts.verdicts, dict(counts.failures)) == (2, {("refusal", "no"): 1})
    assert server.times_paid == {1}


@pytest.mark.parametrize(("ends", "lost"), [("completed", 5), ("expired", 0), ("cancelled", 0)])
def test_request_missing_from_batch_results_is_a_failure(*, run, store, pairs, server, ends, lost):
    """Check that the next run asks again, and that unsent requests reserve no money."""
    pairs(3)
    server.ends, server.forgets = ends, True
    assert run(batch=True).failures.total() == 5
    with store.begin_read() as db:
        reasons = set(requests.read_question_failures(db).values())
    assert reasons == {("server_error", "the batch has neither an answer nor an error")}
    assert read_spending(store).lost == lost
    server.forgets = False
    assert run(batch=True).verdicts == 5


def test_answers_without_file_stay_open_for_days(*, run, store, pairs, server, monkeypatch):
    """Seven answers are counted, and the file has six. Only after days is the seventh lost."""
    pairs(4)
    download = BatchApi.download_file

    async def download_part(api, file_id):
        content = await download(api, file_id)
        return content[content.index(b"\n") - 9 :]

    reporter = Mock()
    with progress.use_reporter(reporter), monkeypatch.context() as patched:
        patched.setattr(BatchApi, "download_file", download_part)
        for verdicts in (7, 0):
            counts = run(batch=True)
            assert (counts.verdicts, counts.in_batches, counts.requests) == (verdicts, 1, verdicts and 8)
            assert (count_judged_presentations(store), read_spending(store).open) == (7, 1)
            end_leases(store)
    assert "1 more answers" in str(reporter.warn.call_args_list)
    completed = {"id": "x", "status": "completed", "output_file_id": None}
    server.faults["poll"] = [Response(completed | {"request_counts": {"total": 7, "completed": 7}})]
    server.faults["poll"] *= 2 + judge_batches.LATE_FILE_POLLS
    assert run(batch=True).in_batches == 1
    end_leases(store)
    monkeypatch.setattr(judge_batches, "GIVEN_UP_AFTER", judge_batches.timedelta(0))
    assert run(batch=True).verdicts == 1
    assert read_spending(store).lost == 1


@pytest.mark.parametrize(
    "shorten", [lambda _: b"", lambda lines: b"\n".join(lines)[:-9]], ids=["empty", "cut"]
)
def test_short_result_file_is_read_again(*, run, store, pairs, server, monkeypatch, shorten):
    """The provider needs some moments until the file has all answers that are counted."""
    pairs(4)
    download = BatchApi.download_file
    names = []

    async def download_part(api, file_id):
        names.append(file_id)
        content = await download(api, file_id)
        return shorten(content.splitlines()[:3]) if len(names) < 4 else content

    monkeypatch.setattr(BatchApi, "download_file", download_part)
    counts = run(batch=True)
    assert (counts.verdicts, counts.in_batches, len(set(names))) == (8, 0, 1)
    assert count_judged_presentations(store) == 8
    assert server.times_paid == {1}


@pytest.mark.parametrize("name", ["b\x000", "b\x1b[31m", "b" * 70_000, "b\ud800", "../files/x", "x?y#z", " "])
@pytest.mark.parametrize("step", ["create", "upload"])
def test_provider_id_that_is_no_address_is_never_stored(*, run, store, pairs, server, name, step):
    pairs(4)
    server.faults[step] = [Response({"id": name})]
    with expect_refusal("does not follow the Batch API"):
        run(batch=True)
    end_leases(store)
    assert run(batch=True).failures.total() == 0
    assert count_judged_presentations(store) == 8
    assert server.times_paid == {1}


def test_empty_batch_answer_is_paid_and_repeated_twice(run, store, pairs, server):
    pairs(2)
    server.act = lambda ask: Response(None, paid=True) if "number 1" in ask.words else make_verdict(ask)
    failures = [run(batch=True).failures for _ in range(2)]
    assert failures[0] == failures[1]
    assert {kind for kind, _ in failures[0]} == {"unreadable"}
    assert sum("number 1" in ask.words for ask in [*server.asks, *server.batched]) == 2 * 3


STATES = {
    "completed": ["COMPLETED", "complete", "succeeded", "JOB_STATE_SUCCEEDED", "SUCCESS", "ended"],
    "cancelled": ["EXPIRED", "Cancelled", "canceled", "timed_out", "TIMEOUT_EXCEEDED"],
    "failed": ["FAILED", "error", "rejected"],
    "open": ["in_progress", "cancelling", "validating", "queued", None],
}


@pytest.mark.parametrize(("state", "words"), STATES.items())
def test_batch_state_is_read_in_every_spelling(state, words):
    assert {read_batch_state(word) for word in words} == {state}


ENQUEUED = "Enqueued token limit reached for gpt-4o in organization o. Limit: 90,000 enqueued tokens."


TOO_LARGE = [
    ("HTTP 429: Enqueued token limit reached", "rate_limited"),
    ("HTTP 413: ", "too_long"),
    ("HTTP 400: The batch exceeds the maximum of 10 requests.", "rejected"),
    ("HTTP 422: Too many requests in batch: at most 10 are allowed", "rejected"),
]


@pytest.mark.parametrize(("words", "kind"), TOO_LARGE)
def test_too_large_batch_is_recognised_in_every_wording(words, kind):
    assert is_batch_too_large(words, kind)


@pytest.mark.parametrize("overfull", [None, make_error(429, ENQUEUED, code="token_limit_exceeded")])
def test_too_large_batch_is_split_in_half(run, store, pairs, server, overfull):
    """Ask 40 questions: one alone, then tries of 39, 20 and 10 requests, then batches of 10, 10 and 9."""
    pairs(20)
    server.queue, server.overfull = 10, overfull
    counts = run(batch=True)
    assert (counts.verdicts, dict(counts.failures)) == (40, {})
    assert server.times_paid == {1}
    assert server.count("create") == 2 + 4
    assert read_spending(store).held_usd == 0
    assert run(batch=True).requests == 0


def test_too_large_batch_of_one_request_ends_the_run(run, store, pairs, server):
    pairs(3)
    server.queue, server.overfull = 0, make_error(400, ENQUEUED)
    with expect_refusal(r"refuses a batch of one request .*Enqueued token limit"):
        run(batch=True)
    assert read_spending(store).open == 0


def test_batches_respect_the_providers_size_limits(run, pairs, server, monkeypatch):
    """Check that all batches are sent before the run waits for the first batch."""
    pairs(10)
    monkeypatch.setattr(judge_batches, "MOST_BYTES", 40_000)
    monkeypatch.setattr(judge_batches, "REQUESTS_AT_ONCE", 2)
    assert run(batch=True).verdicts == 20
    sizes = [len(content) for content in server.files.values() if b'"method"' in content]
    assert len(sizes) > 1
    assert max(sizes) <= 40_000
    steps = [request.step for request in server.seen if request.step in ("create", "poll")]
    assert steps == ["create"] * len(sizes) + ["poll"] * len(sizes)


LINES = [  # what providers write around a paid answer
    lambda line: line["response"].update(status_code="200"),
    lambda line: line["response"].update(status_code=0),
    lambda line: line["response"].pop("status_code"),
    lambda line: line["response"].update(status_code=None, body=json.dumps(line["response"]["body"])),
    lambda line: line.update(response=line["response"]["body"]),
    lambda line: line.update(line.pop("response")),
    lambda line: line.update(line.pop("response")["body"]),
    lambda line: line.update(result={"type": "succeeded", "response": line.pop("response")["body"]}),
    lambda line: line["response"].update(status_code="OK"),
]


@pytest.mark.parametrize("rewrite", LINES)
def test_batch_answers_are_read_in_every_result_format(run, store, pairs, server, rewrite):
    pairs(3)
    server.rewrite = rewrite
    assert run(batch=True).verdicts == 6
    assert server.times_paid == {1}
    assert read_spending(store).unmetered == 0


def test_batch_above_its_reserved_cost_ends_run_with_budget(run, store, pairs, server):
    pairs(3)
    server.act = lambda ask: make_verdict(ask, tokens=(100, 10_000 if server.batches else 10))
    with expect_refusal(r"a response cost \$0.0802, but at most"):
        run(batch=True, budget_usd=1)
    assert read_spending(store).open == 0
    assert run().verdicts == 5


def test_online_run_skips_questions_in_a_batch(*, run, store, pairs, server, child):
    """Check batches of a live run and of a killed run. The next run with --batch collects the batch."""
    pairs(3)
    server.lag = 10**6
    process = child(batch=True)
    while server.count("poll") < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    counts = run()
    assert (counts.requests, counts.verdicts, counts.in_batches) == (0, 0, 5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert run().in_batches == 5
    end_leases(store)
    server.lag = 0
    counts = run(batch=True)
    assert (counts.requests, counts.verdicts) == (0, 5)  # it only collects
    assert server.times_paid == {1}


def _make_error_line(line):
    error = {"response": {"status_code": 500, "body": {"error": {"message": "oops"}}}, "error": None}
    return json.dumps(json.loads(line) | error).encode()


@pytest.mark.parametrize(
    "repeat",
    [_make_error_line, lambda line: line.replace(rb"\"A\"", rb"\"B\"")],
    ids=["an error", "another verdict"],
)
def test_second_answer_to_a_batch_request_is_ignored(*, run, store, pairs, monkeypatch, repeat):
    pairs(4)
    download = BatchApi.download_file

    async def download_twice(api, file_id):
        lines = (await download(api, file_id)).splitlines()
        return b"\n".join([*lines, *map(repeat, lines)])

    monkeypatch.setattr(BatchApi, "download_file", download_twice)
    assert run(batch=True).verdicts == 8
    assert {row.position for row in unblind.read_tidy_rows(store)} == {"A"}
    assert read_spending(store).answers == 8
    assert run(batch=True).requests == 0
