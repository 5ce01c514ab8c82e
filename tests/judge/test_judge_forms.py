"""Forms of requests: servers refuse or ignore parts of a request, and the judge finds a simpler form."""

import json

import pytest
from fake_openai import make_answer, make_error, make_verdict
from judge_requests import read_spending
from refusals import expect_refusal

from guard_eval.servers.form import Form
from guard_eval.store import pairs as store_pairs
from guard_eval.store import unblind
from guard_eval.store.judging import requests
from guard_eval.store.judging.requests import CalibrationCheck
from judge.questions import RequestBuilder, read_unjudged_questions

pytestmark = pytest.mark.slow
CHECK = CalibrationCheck(check="identical", target="A", orders=1)

MAX = "Unsupported parameter: 'max_tokens' is not supported here. Use 'max_completion_tokens' instead."


def refuse_fields(*fields, status=400, words, param=None):
    """Return a server's reaction that refuses requests with one of these fields."""
    return lambda body: (
        make_error(status, words, param=param) if set(fields) & set(body) else make_verdict(body)
    )


ELSEWHERE = "This model is only supported in v1/responses and not in v1/chat/completions."
ROUTED = "No endpoints found that can handle the requested parameters."  # no provider takes a parameter
only_elsewhere = refuse_fields("messages", status=404, words=ELSEWHERE, param="model")
no_max_tokens = refuse_fields("max_tokens", words=MAX, param="max_tokens")
routed = refuse_fields("response_format", "seed", "temperature", status=404, words=ROUTED)


def refuse_newer_fields(body):
    """Refuse each field that the first servers of this kind did not accept."""
    for name in ("response_format", "seed", "temperature"):
        if name in body:
            return make_error(400, f"Unrecognized request argument supplied: {name}", param=name)
    if any(message["role"] == "system" for message in body["messages"]):
        return make_error(400, "System role not supported")
    return make_verdict(body)


def ignore_schema(body):
    """Accept any form, and answer in prose unless the prompt asks for a block."""
    return (
        make_answer(body, "Method A reads better to me.") if "response_format" in body else make_verdict(body)
    )


@pytest.mark.parametrize(
    ("act", "refused", "form", "batch"),
    [
        (only_elsewhere, 2, "responses/json_schema/max_tokens", True),
        (no_max_tokens, 2, "chat/json_schema/max_completion_tokens", False),
        (refuse_newer_fields, 5, "chat/text/max_tokens/seed/system/temperature", False),
        (ignore_schema, 2, "chat/text/max_tokens", True),
        (routed, 7, "chat/text/max_tokens/seed/temperature", False),
    ],
)
def test_first_two_questions_decide_the_request_form(*, run, store, pairs, server, act, refused, form, batch):
    """Count by hand: each refused form costs a request, and each question costs one more."""
    pairs(3)
    server.act = act
    counts = run(batch=batch)
    assert (counts.verdicts, dict(counts.failures)) == (6, {})
    assert counts.requests == refused + 6
    assert server.times_paid == {1}
    with store.begin_read() as db:
        attempts = list(
            requests.read_requests_about_pairs(db, [entry.id for entry in store_pairs.read_pairs(store)])
        )
    assert {entry.form for entry in attempts if not entry.failure} == {form}
    assert run(batch=batch).requests == 0


vague = refuse_fields("response_format", words="Bad request")


@pytest.mark.parametrize("first_server", [vague, make_verdict], ids=["from the first run on", "later"])
def test_next_run_finds_a_form_despite_vague_rejections(*, run, store, judge, pairs, server, first_server):
    pairs(5)
    server.act = first_server
    assert run(questions=read_unjudged_questions(store, judge, seed=11)[:1]).verdicts == 1
    server.act = vague
    counts = run()
    assert (counts.verdicts, counts.requests, dict(counts.failures)) == (9, 9 + 2, {})


@pytest.mark.parametrize(
    ("act", "settings", "words", "requests_sent"),
    [
        (only_elsewhere, {"style": "chat"}, r"study\.toml", 1),
        (refuse_newer_fields, {"output": "json_schema"}, r"study\.toml", 1),
        (
            make_error(404, "no such thing"),
            {},
            r"has no model 'gpt-4o-2024-11-20'.*HTTP 404: no such thing",
            8,
        ),
        (
            make_error(404, "No endpoints found for it"),
            {},
            r"no provider behind .* for it",
            8,
        ),
        (make_error(401, "bad"), {}, "JUDGE_KEY", 1),
    ],
)
def test_fatal_error_ends_the_run_at_once(*, run, store, pairs, server, act, settings, words, requests_sent):
    pairs(4)
    server.act = act if callable(act) else lambda _: act
    with expect_refusal(words):
        run(**settings)
    assert len(server.asks) == requests_sent
    spent = read_spending(store)
    assert (spent.requests, spent.usd, spent.held_usd) == (0, 0, 0)


def test_responses_interface_gives_the_same_verdicts(run, store, pairs, server):
    pairs(3)
    assert run(style="responses").verdicts == 6
    assert (server.count("responses"), server.count("chat")) == (6, 0)
    assert {row.verdict for row in unblind.read_tidy_rows(store)} == {"guard", "top_k(k=50)"}
    spent = read_spending(store)
    assert (spent.cached_tokens, spent.reasoning_tokens) == (6 * 40, 6 * 4)


def test_request_seed_depends_on_sample_and_not_on_order(judge, question):
    def seed(asked_question, sample=0):
        body = RequestBuilder(judge, seed=1).build_request_body(
            asked_question, Form(), sample, max_output_tokens=512
        )
        return json.loads(body)["seed"]

    first = seed(question())
    second = seed(question(), 1)
    other = seed(question(number=1))
    calibration = seed(question(check=CHECK))
    assert first == other
    assert len({first, second, calibration}) == 3
    assert 0 <= min(first, second) < 2**31


OTHERS = [
    *({"name": "b"}, {"model": "n"}, {"temperature": 0.3}, {"base_url": "http://h/v1"}, {"rationale": True}),
    *({"criteria": ["fluency"]}, {"extra_body": {"top_k": 1}}, {"output": "text"}),
    *({"headers": {"X-Region": "eu"}}, {"reasoning_effort": "low"}),
]
SAME = [
    *({"timeout": 1.0}, {"concurrency": 1}, {"max_output_tokens": 99}, {"api_key_env": "K"}),
    *({"usd_per_million_tokens": [1.0, 2.0]}, {"headers": {"X-Title": "t"}}),
]


@pytest.mark.parametrize("change", [*OTHERS, *SAME])
def test_request_key_depends_on_settings_that_affect_answers(judge, question, change):
    judges = (judge, judge.model_copy(update=change))
    keys = {RequestBuilder(settings, seed=1).make_request_key(question(), Form()) for settings in judges}
    assert len(keys) == (2 if change in OTHERS else 1)


def test_request_keys_differ_by_seed_text_order_and_form(judge, question):
    questions = [question(), question(number=1), question(text_a="x"), question(check=CHECK)]
    forms = (Form(), Form(output="text"), Form(without=("seed",)), Form(without=("system",)))
    keys = {
        RequestBuilder(judge, seed=seed).make_request_key(asked_question, form, sample)
        for seed in (1, 2)
        for asked_question in questions
        for form in forms
        for sample in (0, 1)
    }
    assert len(keys) == 2 * 4 * 4 * 2
