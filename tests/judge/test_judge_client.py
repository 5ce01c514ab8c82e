import asyncio
import json
import logging
import subprocess
import sys
import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from guard_eval.errors import StudyError
from guard_eval.settings import Judge
from judge.client import Client, Reply, Retry, Stopped
from judge.endpoint import api_key, server
from judge.parsing import Problem
from judge.prompt import key, request
from judge.refusals import OutputRefused, retry_after

FAST = Retry(base=0.01, longest=0.02, timeout=5)


@pytest.fixture
def send(judge, environ, blind):
    """Send one request and return what came of it, and the client."""

    def run(retry=FAST, during=None):
        async def go():
            async with Client(judge, seed=1, retry=retry, environ=environ) as client:
                body = request(judge, blind(), 1, output=client.output)
                if during is not None:
                    asyncio.get_running_loop().call_later(during, client.stop)
                return await client.send(body, key=key(body)), client

        return asyncio.run(go())

    return run


def then(*acts):
    """Answer with each of `acts` in turn, the last for ever."""
    left = list(acts)

    def act(ask):
        return (left.pop(0) if len(left) > 1 else left[0])(ask)

    return act


def test_the_server_gets_the_body_as_it_is(send, server, judge, blind, fake):
    reply, client = send()
    assert isinstance(reply, Reply)
    assert (reply.status, reply.request_id) == (200, "req-1")
    assert json.loads(reply.body)["usage"]["prompt_tokens"] == 100
    assert [ask.body for ask in server.asks] == [request(judge, blind(), 1)]
    assert server.asks[0].headers["authorization"] == f"Bearer {fake.KEY}"
    assert (client.requests, client.retries) == (1, 0)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_passing_troubles_are_tried_again(send, server, fake, status):
    server.act = then(lambda _: fake.error(status), lambda _: fake.error(status), fake.verdict)
    reply, client = send()
    assert isinstance(reply, Reply)
    assert (client.requests, client.retries, len(server.asks)) == (3, 2, 3)


def test_a_reset_is_tried_again(send, server, fake):
    server.act = then(lambda _: fake.Act(reset=True, paid=True), fake.verdict)
    reply, client = send()
    assert isinstance(reply, Reply)
    assert (client.requests, client.retries) == (2, 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "upstream"}, "server_error"),
        ({"message": "slow", "code": 429}, "rate_limited"),
        ("?", "server_error"),
    ],
)
def test_an_error_that_comes_as_http_200_is_an_error(send, server, fake, error, kind):
    server.act = lambda _: fake.Act(body=json.dumps({"error": error}).encode())
    problem, client = send(Retry(attempts=2, base=0.01))
    assert isinstance(problem, Problem)
    assert (problem.kind, client.requests) == (kind, 2)


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limited"), (500, "server_error")])
def test_the_attempts_have_an_end(send, server, fake, status, kind):
    server.act = lambda _: fake.error(status, message="later")
    problem, client = send(Retry(attempts=4, base=0.01, longest=0.02))
    assert problem == Problem(kind=kind, detail=f"HTTP {status}: later")
    assert client.requests == len(server.asks) == 4


def test_a_wait_that_the_server_asks_for_is_kept(send, server, fake):
    server.act = then(lambda _: fake.error(429, headers={"Retry-After": "0.4"}), fake.verdict)
    started = time.monotonic()
    reply, _ = send()
    assert isinstance(reply, Reply)
    assert 0.4 <= time.monotonic() - started < 3


def test_a_limit_holds_for_all_questions(judge, environ, blind, server, fake):
    seen = []

    def act(ask):
        seen.append(time.monotonic())
        return fake.error(429, headers={"Retry-After": "0.5"}) if len(seen) == 1 else fake.verdict(ask)

    server.act = act

    async def go():
        async with Client(judge, seed=1, retry=FAST, environ=environ) as client:
            first = asyncio.create_task(client.send(request(judge, blind("1"), 1), key="1"))
            while not client._open_at:  # noqa: ASYNC110 (only the test waits for this)
                await asyncio.sleep(0.005)
            await asyncio.gather(first, client.send(request(judge, blind("2"), 1), key="2"))

    asyncio.run(go())
    assert len(seen) == 3
    assert all(moment - seen[0] >= 0.45 for moment in seen[1:])


def test_a_wait_of_hours_ends_the_run(send, server, fake):
    server.act = lambda _: fake.error(429, headers={"Retry-After": "7200"})
    with pytest.raises(StudyError, match="wait 7200 seconds"):
        send()
    assert len(server.asks) == 1


def test_a_wait_is_read_in_all_its_forms():
    assert retry_after({"retry-after": "3"}) == 3.0
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    later = retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=60))})
    assert later == pytest.approx(60, abs=3)
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    for nonsense in ("", "soon", "nan", "inf", "-1"):
        assert retry_after({"retry-after": nonsense}) is None
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            {"status": 401, "message": "Incorrect API key provided: {key}", "code": "invalid_api_key"},
            "OPENAI_API_KEY",
        ),
        ({"status": 403, "message": "{key} may not"}, "HTTP 403"),
        ({"status": 404, "message": "no model {key}", "code": "model_not_found"}, "gpt-4o-2024-11-20"),
        ({"status": 405}, "HTTP 405"),
        ({"status": 402, "message": "Insufficient Balance"}, "no credit left"),
        ({"status": 429, "code": "insufficient_quota", "kind": "insufficient_quota"}, "no credit left"),
        ({"status": 429, "kind": "insufficient_quota"}, "no credit left"),
        ({"status": 400, "code": "billing_hard_limit_reached"}, "no credit left"),
    ],
)
def test_what_only_the_user_can_mend_ends_it_at_once(send, server, fake, act, words):
    act = act | {"message": act.get("message", "no").format(key=fake.KEY)}
    server.act = lambda _: fake.error(**act)
    with pytest.raises(StudyError, match=words) as caught:
        send()
    assert len(server.asks) == 1
    assert "\n" not in str(caught.value)
    assert fake.KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("status", [200, 404])
def test_a_web_page_is_no_answer(send, server, fake, status):
    server.act = lambda _: fake.Act(
        status=status, body=b"<!doctype html><p>hi", headers={"Content-Type": "text/html"}
    )
    with pytest.raises(StudyError, match="base_url"):
        send()
    assert len(server.asks) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1"])
def test_an_unreachable_server_is_named(environ, blind, url):
    judge = Judge(model="m", base_url=url)

    async def go():
        async with Client(judge, seed=1, retry=FAST, environ=environ) as client:
            await client.send(request(judge, blind(), 1), key="k")

    with pytest.raises(StudyError, match="no answer from") as caught:
        asyncio.run(go())
    assert url in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_a_silent_server_is_given_up(send, server, fake):
    server.act = lambda ask: fake.completion("{}", delay=1.0)
    with pytest.raises(StudyError, match="no answer from"):
        send(Retry(base=0.01, timeout=0.1))


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ({"status": 400, "code": "context_length_exceeded"}, "too_long"),
        ({"status": 400, "message": "This model's maximum context length is 8192 tokens"}, "too_long"),
        ({"status": 413, "message": "too large"}, "too_long"),
        ({"status": 400, "code": "content_filter"}, "content_filter"),
        ({"status": 400, "message": "bad temperature", "param": "temperature"}, "rejected"),
        ({"status": 422, "message": "what?"}, "rejected"),
    ],
)
def test_what_concerns_one_request_is_its_problem(send, server, fake, act, kind):
    server.act = lambda _: fake.error(**act)
    problem, client = send()
    assert isinstance(problem, Problem)
    assert problem.kind == kind
    assert client.requests == 1


@pytest.mark.parametrize(
    "act",
    [
        {
            "status": 400,
            "message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
        },
        {"status": 400, "param": "response_format"},
        {"status": 422, "message": "guided decoding is off"},
    ],
)
def test_a_refused_format_is_told_from_a_refused_request(send, server, fake, act):
    server.act = lambda _: fake.error(**act)
    with pytest.raises(OutputRefused) as caught:
        send()
    assert caught.value.output == "json_schema"


def test_stopping_ends_a_wait_and_receives_what_is_under_way(send, server, fake):
    server.act = lambda _: fake.error(500, headers={"Retry-After": "100"})
    started = time.monotonic()
    with pytest.raises(Stopped):
        send(during=0.2)
    assert time.monotonic() - started < 5
    server.act = lambda ask: fake.verdict(ask).__class__(**(vars(fake.verdict(ask)) | {"delay": 0.5}))
    reply, _ = send(during=0.1)
    assert isinstance(reply, Reply)


def test_the_key_shows_nowhere(send, server, fake, caplog):
    caplog.set_level(logging.DEBUG)
    echo = fake.completion(f"your key is {fake.KEY}", headers={"x-request-id": f"{fake.KEY}-1"})
    server.act = then(
        lambda _: fake.error(500, message=fake.KEY, headers={"x-request-id": fake.KEY}),
        lambda _: fake.Act(reset=True),
        lambda _: echo,
    )
    reply, client = send()
    assert reply.request_id == "[key]-1"
    assert b"your key is [key]" in reply.body
    server.act = lambda _: fake.error(400, message=f"key {fake.KEY} and sk-abc***xyz", code="x")
    problem, _ = send()
    assert problem.detail == "HTTP 400: key [key] and [key]"
    said = [repr(client), repr(reply), repr(problem), caplog.text, *map(repr, client.notices)]
    said += [repr(vars(record)) for record in caplog.records]
    for words in said:
        assert fake.KEY not in words
    assert caplog.records


def test_the_key_is_asked_for_where_it_is_needed():
    with pytest.raises(StudyError, match="OPENAI_API_KEY is not set"):
        api_key("https://api.openai.com/v1", {})
    assert api_key("http://localhost:8000/v1", {}) == "none"
    assert api_key("http://localhost:8000/v1", {"OPENAI_API_KEY": " sk-x\n"}) == "sk-x"


@pytest.mark.parametrize("key", ["sk-se\ncret", "sk-se cret", "sk-sécret", "sk-\x00secret", "sk-…"])
def test_a_key_that_cannot_be_one_is_not_repeated(key):
    with pytest.raises(StudyError, match="OPENAI_API_KEY") as caught:
        api_key("http://localhost:8000/v1", {"OPENAI_API_KEY": key})
    assert "sk-" not in str(caught.value)


def test_the_address_is_study_tomls_then_the_environments_then_openais():
    there = {"OPENAI_BASE_URL": "http://b/v1"}
    assert server(Judge(model="m", base_url="http://a/v1"), there) == "http://a/v1"
    assert server(Judge(model="m"), there) == "http://b/v1"
    assert server(Judge(model="m"), {}) == "https://api.openai.com/v1"


def test_without_openai_the_dry_run_works_and_the_run_says_what_to_install():
    program = """
import sys
sys.modules["openai"] = None
import judge.preview
try:
    import judge.run
except Exception as error:
    print(type(error).__name__, error)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "MissingExtraError" in out
    assert "pip install 'guard-eval[judge]'" in out
