import asyncio
import json
from collections import Counter

import pytest
from fake_openai import Out, answer, failure, verdict

from guard_eval.errors import StudyError
from guard_eval.store import Usage
from judge.batch import api
from judge.failures import Retry
from judge.providers.client import Client
from judge.providers.endpoint import provider_of

pytestmark = pytest.mark.slow


def test_a_batch_judges_all_and_costs_half(batches, run, store, pairs, server):
    pairs(4)
    server.lag = 2
    server.shuffle = True
    reports = []
    ledger = run(on_progress=reports.append)
    assert (ledger.verdicts, ledger.requests, ledger.failures) == (8, 8, {})
    assert ledger.cost_usd == pytest.approx(8 * (100 * 2 + 10 * 8) / 2 / 1e6)
    assert Counter(row.verdict for row in store.tidy()) == {"guard": 8, "top_k(k=50)": 8}
    assert [server.count(step) for step in ("upload", "create", "poll", "download")] == [1, 1, 3, 1]
    (batch,) = batches()
    assert (batch.status, batch.provider_id, batch.input_file) == ("done", "batch_2", "file_1")
    notices = "; ".join(each.notice for each in reports if each.notice)
    assert "batch_2 with 8 requests is sent" in notices
    assert "batch_2: completed, 8 of 8" in notices
    assert run().requests == 0
    assert server.count("upload") == 1


def test_what_a_batch_asks_is_what_is_asked_online_and_has_its_keys(run, store, pairs, server):
    pairs(3)
    run(orders="one", style="chat")
    online = [each.body for each in server.seen if each.step == "chat"]
    assert len(online) == 3
    ledger = run()
    assert (ledger.requests, ledger.verdicts) == (3, 3)
    lines = [json.loads(line) for line in server.files["file_1"].splitlines()]
    assert {line["url"] for line in lines} == {"/v1/chat/completions"}
    assert {line["method"] for line in lines} == {"POST"}
    assert {line["custom_id"] for line in lines} <= store.answered()
    assert len(store.answered()) == 6
    assert sorted(lines[0]["body"]) == sorted(online[0])
    assert set(server.paid.values()) == {1}


def test_the_journal_has_the_line_as_it_came_and_what_it_states(run, store, pairs, server):
    pairs(1)
    run(orders="one")
    (answer,) = store.answers_of("gpt-4o-2024-11-20")
    assert answer.body in server.files["file_3"].splitlines()
    assert (answer.backend, answer.request_id) == ("batch", "req-1")
    assert answer.usage == Usage(
        model="snapshot-1", fingerprint="fp_1",
        input_tokens=100, cached_tokens=40, output_tokens=10, reasoning_tokens=4,
    )  # fmt: skip
    assert answer.seconds == 60  # the batch's own times: made at 1000, completed at 1060
    assert answer.usd == pytest.approx((100 * 2 + 10 * 8) / 2 / 1e6)


def test_only_an_error_file_is_read_and_only_the_missing_are_sent_again(run, store, pairs, server):
    pairs(3)
    server.act = lambda _: failure(500, "busy")
    server.on["create"] = lambda: len(server.batches) > 1 and setattr(server, "act", verdict)
    ledger = run()
    assert (ledger.verdicts, ledger.requests, ledger.failures) == (6, 12, {})
    assert "output_file_id" not in server.batches["batch_2"]
    assert server.batches["batch_2"]["status"] == "completed"
    spend = store.spending()[0]
    assert (spend.answers, spend.lost, spend.held_usd) == (6, 0, 0)


def test_an_expired_batch_gives_what_it_has_and_the_rest_is_sent_again(run, pairs, server):
    pairs(3)
    turns = iter(range(100))
    server.act = lambda body: verdict(body) if next(turns) not in {1, 4} else None
    server.ends = "expired"
    server.on["create"] = lambda: len(server.batches) > 1 and setattr(server, "ends", "completed")
    ledger = run()
    assert (ledger.verdicts, ledger.requests) == (6, 6 + 2)
    assert set(server.paid.values()) == {1}


@pytest.mark.parametrize(
    ("out", "kind", "batches"),
    [
        (failure(400, code="context_length_exceeded"), "too_long", 1),
        (failure(400, "what is this"), "rejected", 1),
        (failure(429), "rate_limited", 3),
        (None, "server_error", 3),
    ],
)
def test_a_failure_is_counted_after_its_rounds_and_is_no_verdict(
    *, run, store, pairs, server, out, kind, batches
):
    pairs(3)
    server.act = lambda body: out if "text number 1" in json.dumps(body) else verdict(body)
    ledger = run()
    assert (ledger.verdicts, ledger.failures) == (4, {kind: 2})
    assert len(server.batches) == batches
    assert [each.kind for each in store.failures()] == [kind] * 2
    assert len({row.presentation for row in store.tidy()}) == 4


def test_a_request_that_is_in_neither_file_counts_as_lost_and_ends(run, store, pairs, server):
    pairs(1)
    answer = server._run

    def forgetful(batch):
        answer(batch)
        del batch["output_file_id"]

    server._run = forgetful
    ledger = run(orders="one")
    assert (ledger.verdicts, ledger.failures, ledger.requests) == (0, {"server_error": 1}, 3)
    assert store.spending()[0].lost == 3


def test_prose_is_asked_again_as_another_sample(run, pairs, server):
    pairs(2)
    server.act = lambda body: answer(body, "I prefer A.") if len(server.batches) == 1 else verdict(body)
    ledger = run(output="json_schema")
    assert (ledger.verdicts, ledger.requests) == (4, 8)
    assert len(server.paid) == 8


def test_a_model_of_the_other_dialect_is_sent_there(run, pairs, server):
    pairs(1)
    words = "This model is only supported in v1/responses and not in v1/chat/completions."
    server.act = lambda body: verdict(body) if "input" in body else failure(404, words, param="model")
    ledger = run()
    assert ledger.verdicts == 2
    assert [batch["endpoint"] for batch in server.batches.values()] == [
        "/v1/chat/completions",
        "/v1/responses",
    ]


def test_passing_failures_of_each_step_are_tried_again(run, pairs, server):
    pairs(1)
    for step in ("upload", "create", "poll", "download"):
        server.faults[step] = [failure(500), failure(429, headers={"Retry-After": "0.01"})]
    server.faults["poll"] += [failure(503)] * 8  # an outage while the batch runs is borne
    assert run().verdicts == 2
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}


@pytest.mark.parametrize("listed", [True, False])
def test_a_batch_whose_making_was_not_confirmed_is_looked_for(run, pairs, server, listed):
    pairs(1)
    server.faults["create"] = [Out(drop=True)]  # it is made, and the answer is lost
    if not listed:
        server.faults["list"] = [failure(404)] * 9
        with pytest.raises(StudyError, match="cannot be asked"):
            run()
        assert len(server.batches) == 1
        server.faults["list"] = []
    ledger = run()
    assert ledger.verdicts == 2
    assert len(server.batches) == 1
    assert set(server.paid.values()) == {1}


def test_a_server_without_batches_is_said_to_have_none(run, store, pairs, server):
    pairs(1)
    server.faults["upload"] = [failure(404)]
    with pytest.raises(StudyError, match="no Batch API; run without --batch"):
        run()
    assert store.spending()[0].held_usd == 0
    assert run().verdicts == 2


@pytest.mark.parametrize(
    ("step", "fault", "words"),
    [
        ("upload", failure(401), "JUDGE_KEY"),
        ("create", failure(429, code="insufficient_quota"), "no credit left"),
        ("create", failure(400, "file is malformed"), "does not take the batch"),
    ],
)
def test_what_only_the_user_can_fix_is_said_and_nothing_is_lost(*, run, pairs, server, step, fault, words):
    pairs(1)
    server.faults[step] = [fault]
    with pytest.raises(StudyError, match=words):
        run()
    assert run().verdicts == 2
    assert set(server.paid.values()) == {1}


def test_a_refused_batch_says_why_and_frees_its_money(run, store, pairs, server):
    pairs(1)
    server._run = lambda batch: batch.update(
        status="failed", errors={"data": [{"code": "mismatched_model", "message": "one model only"}]}
    )
    with pytest.raises(StudyError, match=r"refused the batch batch_2: one model only; nothing of it is paid"):
        run()
    spend = store.spending()[0]
    assert (spend.usd, spend.held_usd, spend.lost) == (0, 0, 0)


def test_a_provider_that_takes_less_at_once_gets_less(run, pairs, server):
    pairs(4)
    run_all = server._run

    def limited(batch):
        if len(server.files[batch["input_file_id"]].splitlines()) > 3:
            error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
            batch.update(status="failed", errors={"data": [error]})
        else:
            run_all(batch)

    server._run = limited
    ledger = run()
    assert ledger.verdicts == 8
    sizes = [len(server.files[each["input_file_id"]].splitlines()) for each in server.batches.values()]
    assert sizes == [8, 4, 2, 2, 2, 2]


def test_the_budget_is_held_by_what_a_batch_can_cost(run, store, pairs, server):
    pairs(10)

    def dear(body):  # nearly what is set aside: a token for each byte, and all of the answer's
        return verdict(body, tokens=(len(json.dumps(body)) - 200, 500))

    server.act = dear
    with pytest.raises(StudyError, match="budget of"):
        run(budget_usd=0.02)  # a request has about 3 600 bytes: $0.0056 in a batch
    spend = store.spending()[0]
    assert spend.answers == 3
    assert 0.01 < spend.usd + spend.held_usd <= 0.02
    assert run().verdicts == 20 - 3


def test_a_key_in_a_line_is_not_journalled(run, store, pairs, server, environ):
    pairs(1)
    server.act = lambda body: answer(body, f"the key is {environ['JUDGE_KEY']}")
    run(output="json_schema", orders="one")
    bodies = [answer.body for answer in store.answers_of("gpt-4o-2024-11-20")]
    assert len(bodies) == 3
    assert all(b"the key is [key]" in body for body in bodies)


def test_a_batch_of_another_key_is_not_forgotten(run, pairs, server):
    pairs(1)
    server.faults["poll"] = [failure(404)]
    with pytest.raises(StudyError, match="knows no batch batch_2"):
        run()
    assert run().verdicts == 2
    assert len(server.batches) == 1


@pytest.mark.parametrize("large", [False, True])
def test_an_answer_that_never_ends_holds_no_run_for_ever(judge, environ, monkeypatch, large):
    monkeypatch.setattr(api, "LONGEST" if large else "TRANSFER", 0.01)
    client = Client(provider_of(judge, environ), concurrency=1)
    calls = api.BatchCalls(client, retry=Retry(base=0, longest=0), seed=1)

    async def drips():
        await asyncio.Event().wait()

    with pytest.raises(StudyError, match=r"no response from .*run again to go on from here"):
        asyncio.run(calls.until(drips, "poll", large=large))
