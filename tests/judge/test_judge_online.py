"""Runs over servers of all kinds: those of either dialect, old ones, and ones that do not listen."""

import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from fake_openai import Ask, Out, answer, failure, verdict
from judge_requests import request, request_key

from guard_eval.errors import StudyError
from guard_eval.store import Answer, PlannedRequest, Usage
from judge.providers.shapes import first_shape
from judge.rater import LEASE, judge_plan

pytestmark = pytest.mark.slow

MAX = "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead."


def test_the_responses_dialect_gives_the_same_verdicts(run, store, pairs, server):
    pairs(3)
    ledger = run(style="responses")
    assert (ledger.verdicts, ledger.failures) == (6, {})
    assert Counter(row.verdict for row in store.tidy()) == {"guard": 6, "top_k(k=50)": 6}
    assert server.count("responses") == 6
    assert server.count("chat") == 0
    answers = list(store.answers_of("gpt-4o-2024-11-20"))
    assert {answer.backend for answer in answers} == {"responses"}
    assert {(answer.usage.cached_tokens, answer.usage.reasoning_tokens) for answer in answers} == {(40, 4)}
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


def json_mode(body):
    """Take JSON mode and no schema."""
    if body.form == "json_object":
        return verdict(body)
    return failure(400, f"response_format {body.form} is unknown")


def deaf(body):
    """Take any form, and answer in prose unless the prompt asks for a block."""
    return answer(body, "Method A reads better to me.") if "response_format" in body else verdict(body)


@pytest.mark.parametrize("style", ["auto", "batch"])
@pytest.mark.parametrize(
    ("act", "notices"), [(only_elsewhere, 1), (no_max_tokens, 1), (bare, 5), (deaf, 1), (json_mode, 1)]
)
def test_a_server_is_asked_as_it_can_be_and_what_it_lacks_is_named(
    *, run, pairs, server, act, notices, style
):
    pairs(3)
    server.act = act
    ledger = run(style=style)
    assert (ledger.verdicts, ledger.failures) == (6, {})
    assert len(ledger.notices) == notices
    assert set(server.paid.values()) == {1}
    assert run(style=style).requests == 0


@pytest.mark.parametrize(
    ("act", "settings"), [(only_elsewhere, {"style": "chat"}), (bare, {"output": "json_schema"})]
)
def test_what_is_fixed_ends_the_run_with_a_sentence(*, run, store, pairs, server, act, settings):
    pairs(1)
    server.act = act
    with pytest.raises(StudyError, match=r"study\.toml"):
        run(**settings)
    assert store.tidy() == []


@pytest.mark.parametrize("output", ["json_schema", "json_object", "text"])
def test_an_answer_that_was_never_read_is_read_in_whatever_shape_it_was_asked(
    *, run, store, pairs, server, judge, output
):
    pairs(1)
    earlier = store.begin(store.rater(judge.model, "model"), LEASE)
    shape = first_shape(judge.model_copy(update={"output": output}))
    for showing in store.claim(earlier, judge_plan(judge, seed=11), 10):
        key, number = request_key(judge, showing.blind, 11), showing.blind.presentation
        (right,) = store.record(earlier, planned=[PlannedRequest(key=key, presentation=number, usd=None)])
        body = verdict(Ask(request(judge, showing.blind, 11, shape=shape))).body
        answer = Answer(
            key=key, attempt=right.attempt, presentation=number, status=200, body=json.dumps(body).encode(),
            request_id=None, usage=Usage(), seconds=1.0, at=datetime.now(UTC),
        )  # fmt: skip
        store.record(earlier, answers=[answer])
    store.end(earlier)
    ledger = run()
    assert (ledger.verdicts, ledger.requests, ledger.reused) == (2, 0, 2)
    assert server.seen == []


def test_the_shape_that_the_server_made_us_take_is_recorded_with_the_response(
    run, store, pairs, server, judge
):
    pairs(2)
    server.act = lambda body: (
        failure(400, "response_format is unknown") if "response_format" in body else verdict(body)
    )
    assert run().verdicts == 4
    answers = list(store.answers_of(judge.model))
    assert {each.shape for each in answers} == {"chat/text/max_tokens"}
    keys = {
        request_key(judge, each.blind, 11) for each in store.shown([each.presentation for each in answers])
    }
    assert {each.key for each in answers} == keys


def test_judges_that_differ_in_a_fixed_output_are_asked_each(run, pairs):
    pairs(1)
    assert run().requests == 2
    assert run(name="in text", output="text").requests == 2
    assert run(name="the same").requests == 0


def test_the_server_is_asked_once_what_it_is_and_it_is_said(run, pairs, server):
    pairs(3)
    server.models = [{"id": "llama3:latest", "object": "model", "owned_by": "library"}]
    ledger = run(model="llama3")
    assert server.count("models") == 1
    assert any("the server is Ollama" in notice and "no Batch API" in notice for notice in ledger.notices)
    asked = len(server.seen)
    assert run(model="llama3").requests == 0
    assert len(server.seen) == asked  # nothing to send: nothing is asked


@pytest.mark.parametrize("out", [failure(404), failure(500), failure(401)])
def test_a_server_without_a_list_of_models_is_asked_all_the_same(run, pairs, server, out):
    pairs(1)
    server.faults["models"] = [out]
    ledger = run()
    assert (ledger.verdicts, ledger.notices) == (2, ())


def test_log_probabilities_are_asked_for_and_stay_in_the_journal(run, store, pairs, server, judge):
    pairs(1)

    def act(body):
        out = verdict(body)
        assert body["logprobs"] is True
        out.body["choices"][0]["logprobs"] = {"content": [{"token": "A", "logprob": -0.25, "bytes": [65]}]}
        return out

    server.act = act
    assert run(extra_body={"logprobs": True}).verdicts == 2
    for each in store.answers_of(judge.model):
        assert json.loads(each.body)["choices"][0]["logprobs"]["content"][0]["logprob"] == -0.25


def test_every_request_looks_as_the_sdk_makes_it(run, pairs, server):
    pairs(1)
    run(style="responses")
    for seen in server.seen:
        assert seen.path.startswith("/v1/")
        assert seen.headers["user-agent"].startswith("AsyncOpenAI/Python")
        assert seen.headers["authorization"].startswith("Bearer sk-")
    bodies = [seen.body for seen in server.seen if seen.step == "responses"]
    assert all(json.dumps(body["text"]["format"]["schema"]) for body in bodies)


def no_schema(body):
    """Fail on a schema as a server with a bug does, and take JSON mode."""
    return failure(500, "Internal Server Error") if body.form == "json_schema" else verdict(body)


def no_samplers(body):
    """Refuse a grammar as llama.cpp does."""
    return failure(400, "Failed to initialize samplers") if body.form == "json_schema" else verdict(body)


def own_temperature(body):
    return (
        failure(400, "`temperature` is deprecated for this model.")
        if "temperature" in body
        else verdict(body)
    )


def says_nothing(body):
    """Take plain text alone, and say no word of it."""
    return verdict(body) if body.form == "text" else failure(422, "Unprocessable Entity")


def routed(body):
    """Take the simplest form, as a router does whose providers take no parameters."""
    if {"response_format", "seed", "temperature"} & set(body):
        return failure(404, "No endpoints found that can handle the requested parameters.")
    return verdict(body)


@pytest.mark.parametrize(
    ("act", "form"),
    [
        (no_schema, "json_object"),
        (no_samplers, "json_object"),
        (own_temperature, "json_schema"),
        (says_nothing, "text"),
        (routed, "text"),
    ],
)
def test_a_refusal_in_whatever_words_is_met_by_a_simpler_form(*, run, store, pairs, server, act, form):
    pairs(4)
    server.act = act
    ledger = run()
    assert (ledger.verdicts, ledger.failures) == (8, {})
    assert set(server.paid.values()) == {1}
    assert {ask.form for ask in server.asks if server.paid[ask.digest]} == {form}
    assert "refuses" in " ".join(ledger.notices)
    assert run().requests == 0


def test_an_unknown_model_is_named_after_one_simpler_attempt(run, pairs, server):
    pairs(4)
    server.act = lambda _: failure(404, "no such thing")
    with pytest.raises(StudyError, match=r"has no model 'gpt-4o-2024-11-20'.*HTTP 404: no such thing"):
        run(concurrency=1)
    assert len(server.asks) == 2
    assert [ask.form for ask in server.asks] == ["json_schema", "text"]


def test_a_model_that_the_server_names_as_unknown_is_asked_once(run, pairs, server):
    pairs(4)
    server.act = lambda _: failure(404, "The model `m` does not exist", code="model_not_found")
    with pytest.raises(StudyError, match="has no model"):
        run(concurrency=1)
    assert len(server.asks) == 1


def test_a_router_without_a_provider_is_explained(run, pairs, server):
    pairs(1)
    server.act = lambda _: failure(404, "No endpoints found for such a policy")
    with pytest.raises(StudyError, match=r"no provider behind .* No endpoints found for such a policy"):
        run(concurrency=1)


def test_a_page_that_says_too_many_requests_is_a_rate_limit(run, pairs, server):
    pairs(2)
    page = Out(b"<html><h1>429 Too Many Requests</h1></html>", 429, {"Content-Type": "text/html"})
    server.faults["chat"] = [page, page]
    assert run().verdicts == 4


def test_a_text_that_does_not_fit_is_too_long_in_llama_cpp_s_words(run, pairs, server):
    pairs(2)
    words = "the request exceeds the available context size, try increasing it"
    server.act = lambda ask: failure(400, words) if "number 1" in ask.texts[0] else verdict(ask)
    ledger = run()
    assert (ledger.verdicts, ledger.failures) == (2, {"too_long": 2})
    assert ledger.notices == ()


def test_one_refused_text_among_the_first_is_one_failure(run, pairs, server):
    """The first of four requests is refused for its text, in words that nobody knows."""
    pairs(6)
    server.act = lambda ask: failure(400, "no") if "number 0" in ask.texts[0] else verdict(ask)
    ledger = run()
    assert (ledger.verdicts, ledger.failures) == (10, {"rejected": 2})
    assert set(server.paid.values()) == {1}
