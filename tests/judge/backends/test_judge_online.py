"""Runs over servers of all kinds: those of either dialect, old ones, and ones that do not listen."""

import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from fake_openai import failure, said, verdict

from guard_eval.errors import StudyError
from guard_eval.store import Answer
from judge.orders import LEASE, judge_plan
from judge.prompt import request, request_key

pytestmark = pytest.mark.slow

MAX = "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead."


def test_the_responses_dialect_gives_the_same_verdicts(run, store, pair, provider):
    store.add_pairs([pair(number) for number in range(3)])
    ledger = run(style="responses")
    assert (ledger.verdicts, ledger.failures) == (6, {})
    assert Counter(row.verdict for row in store.tidy()) == {"guard": 6, "top_k(k=50)": 6}
    assert provider.count("responses") == 6
    assert provider.count("chat") == 0
    answers = list(store.answers_of("gpt-4o-2024-11-20"))
    assert {answer.backend for answer in answers} == {"responses"}
    assert {(answer.cached_tokens, answer.reasoning_tokens) for answer in answers} == {(40, 4)}
    assert run(style="responses").requests == 0


def only_elsewhere(body):
    words = "This model is only supported in v1/responses and not in v1/chat/completions."
    return verdict(body) if "input" in body else failure(404, words, param="model")


def no_max_tokens(body):
    return failure(400, MAX, param="max_tokens") if "max_tokens" in body else verdict(body)


def bare(body):
    """Take what the first servers of this kind took, and name what is more."""
    for name in ("response_format", "seed", "temperature"):
        if name in body:
            return failure(400, f"Unrecognized request argument supplied: {name}", param=name)
    if any(message["role"] == "system" for message in body["messages"]):
        return failure(400, "System role not supported")
    return verdict(body)


def deaf(body):
    """Take any form, and answer in prose unless the prompt asks for a block."""
    return said(body, "Method A reads better to me.") if "response_format" in body else verdict(body)


@pytest.mark.parametrize(("act", "notices"), [(only_elsewhere, 1), (no_max_tokens, 1), (bare, 5), (deaf, 1)])
def test_a_server_is_asked_as_it_can_be_and_what_it_lacks_is_said(
    *, run, store, pair, provider, act, notices
):
    store.add_pairs([pair(number) for number in range(3)])
    provider.act = act
    ledger = run()
    assert (ledger.verdicts, ledger.failures) == (6, {})
    assert len(ledger.notices) == notices
    assert set(provider.paid.values()) == {1}
    assert run().requests == 0


@pytest.mark.parametrize(
    ("act", "settings"), [(only_elsewhere, {"style": "chat"}), (bare, {"output": "json_schema"})]
)
def test_what_is_fixed_ends_the_run_with_a_sentence(*, run, store, pair, provider, act, settings):
    store.add_pairs([pair(0)])
    provider.act = act
    with pytest.raises(StudyError, match=r"study\.toml"):
        run(**settings)
    assert store.tidy() == []


@pytest.mark.parametrize("output", ["json_schema", "json_object", "text"])
def test_an_answer_that_was_never_read_is_read_in_whatever_shape_it_was_asked(
    *, run, store, pair, provider, judge, output
):
    store.add_pairs([pair(0)])
    earlier = store.begin(store.rater(judge.model, "model"), LEASE)
    for showing in store.claim(earlier, judge_plan(judge, seed=11), 10):
        body = request(judge, showing.blind, 11, output=output)
        store.journal(
            Answer(
                key=request_key(judge, showing.blind, 11),
                presentation=showing.blind.presentation,
                status=200,
                body=json.dumps(verdict(body)).encode(),
                request_id=None,
                model=None,
                input_tokens=None,
                output_tokens=None,
                seconds=1.0,
                at=datetime.now(UTC),
            )
        )
    store.end(earlier)
    ledger = run()
    assert (ledger.verdicts, ledger.requests, ledger.reused) == (2, 0, 2)
    assert provider.seen == []


def test_the_shape_that_the_server_made_us_take_is_recorded_with_the_response(
    run, store, pair, provider, judge
):
    store.add_pairs([pair(number) for number in range(2)])
    provider.act = lambda body: (
        failure(400, "response_format is unknown") if "response_format" in body else verdict(body)
    )
    assert run().verdicts == 4
    answers = list(store.answers_of(judge.model))
    assert {each.shape for each in answers} == {"chat/text/max_tokens"}
    keys = {
        request_key(judge, each.blind, 11) for each in store.shown([each.presentation for each in answers])
    }
    assert {each.key for each in answers} == keys


def test_judges_that_differ_in_a_fixed_output_are_asked_each(run, store, pair, provider):
    store.add_pairs([pair(0)])
    assert run().requests == 2
    assert run(name="in text", output="text").requests == 2
    assert run(name="the same").requests == 0


def test_the_server_is_asked_once_what_it_is_and_it_is_said(run, store, pair, provider):
    store.add_pairs([pair(number) for number in range(3)])
    provider.models = [{"id": "llama3:latest", "object": "model", "owned_by": "library"}]
    ledger = run(model="llama3")
    assert provider.count("models") == 1
    assert any("the server is Ollama" in notice and "no Batch API" in notice for notice in ledger.notices)
    asked = len(provider.seen)
    assert run(model="llama3").requests == 0
    assert len(provider.seen) == asked  # nothing to send: nothing is asked


@pytest.mark.parametrize("out", [failure(404), failure(500), failure(401)])
def test_a_server_without_a_list_of_models_is_asked_all_the_same(run, store, pair, provider, out):
    store.add_pairs([pair(0)])
    provider.faults["models"] = [out]
    ledger = run()
    assert (ledger.verdicts, ledger.notices) == (2, ())


def test_every_request_looks_as_the_sdk_makes_it(run, store, pair, provider):
    store.add_pairs([pair(0)])
    run(style="responses")
    for seen in provider.seen:
        assert seen.path.startswith("/v1/")
        assert seen.headers["user-agent"].startswith("AsyncOpenAI/Python")
        assert seen.headers["authorization"].startswith("Bearer sk-")
    bodies = [seen.body for seen in provider.seen if seen.step == "responses"]
    assert all(json.dumps(body["text"]["format"]["schema"]) for body in bodies)
