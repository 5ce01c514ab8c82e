"""What is Gemini's alone in batches: states, errors in a line, and answers that a filter withheld."""

import json

import pytest
from fake_openai import Out, answer, failure, verdict

from guard_eval.errors import StudyError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.both_databases,
    pytest.mark.parametrize("provider", ["gemini"], indirect=True),
]


def test_the_journal_has_the_lines_as_they_came_and_online_runs_reuse_them(run, store, pairs, server):
    pairs(2)
    ledger = run()
    assert (ledger.verdicts, ledger.requests) == (4, 4)
    answers = list(store.answers_of("gpt-4o-2024-11-20"))
    (batch,) = server.batches.values()
    results = server.files[batch["output"]["responsesFile"].removeprefix("files/")]
    assert {answer.body for answer in answers} == set(results.splitlines())
    usage = [each.usage for each in answers]
    assert {(each.input_tokens, each.cached_tokens, each.output_tokens) for each in usage} == {(100, 40, 10)}
    assert {each.reasoning_tokens for each in usage} == {4}
    sent = [json.loads(line) for line in server.files[batch["input_file_id"]].splitlines()]
    assert {each["key"] for each in sent} == {answer.key for answer in answers}
    assert batch["displayName"] == f"files/{batch['input_file_id']}"
    run(style="auto")
    assert server.count("chat") == 0


def test_a_request_in_error_and_one_without_an_answer_are_sent_again(run, store, pairs, server):
    pairs(2)
    asked = []

    def act(ask):
        asked.append(ask)
        return {1: None, 2: failure(503, "overloaded")}.get(len(asked), verdict(ask))

    server.act = act
    ledger = run()
    assert ledger.verdicts == 4
    assert len(server.batches) == 2
    assert set(server.paid.values()) == {1}
    assert store.spending()[0].answers == 4


def test_a_filter_is_a_failure_and_is_not_asked_again(run, pairs, server):
    pairs(1)
    server.act = lambda ask: answer(ask, "{}", finish="content_filter")
    assert run().failures == {"content_filter": 2}
    assert len(server.batches) == 1


@pytest.mark.parametrize("state", ["BATCH_STATE_FAILED", "BATCH_STATE_CANCELLED", "BATCH_STATE_EXPIRED"])
def test_a_batch_that_did_not_succeed_costs_nothing_and_can_be_sent_again(
    *, run, store, pairs, server, state
):
    pairs(1)
    whole = server._run

    def fail(batch):
        whole(batch)
        if len(server.batches) == 1:
            batch["state"] = state
            server.paid.clear()
            del batch["output"]

    server._run = fail
    if state == "BATCH_STATE_FAILED":
        with pytest.raises(StudyError, match="refused the batch"):
            run()
    assert run().verdicts == 2
    assert store.spending()[0].held_usd == 0
    assert len(server.batches) == 2


def test_a_batch_whose_making_was_not_confirmed_is_found_by_its_name(run, pairs, server):
    pairs(1)
    server.faults["create"] = [Out(drop=True)]
    assert run().verdicts == 2
    assert (len(server.batches), server.count("create")) == (1, 1)


@pytest.mark.parametrize("step", ["poll", "list", "download", "create"])
def test_an_answer_that_is_none_ends_with_a_sentence_and_loses_nothing(*, run, pairs, server, step):
    pairs(1)
    server.faults[step] = [Out(b"<html>", 200, {"Content-Type": "text/html"})]
    if step == "list":
        server.faults["create"] = [Out(drop=True)]
    with pytest.raises(StudyError, match="does not answer as a Batch API"):
        run()
    assert run().verdicts == 2
    assert set(server.paid.values()) == {1}
