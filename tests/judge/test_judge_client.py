import asyncio
import contextlib
import gzip
import json
import logging
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from judge_requests import request, sent

from guard_eval.study.judge_settings import Judge
from judge.client import LARGEST_RESPONSE, Client, Reply
from judge.failures import JudgeError
from judge.refusals import read_retry_after
from judge.server import connect_to, server_url

pytestmark = pytest.mark.slow


@pytest.fixture
def send(judge, environ, question):
    """Send one request once and return what came of it."""

    def run(*, timeout=5, settings=judge):
        async def go():
            provider = replace(connect_to(settings, environ), timeout=timeout)
            async with Client(provider, concurrency=1) as client:
                body = sent(settings, question())
                return await client.post("/chat/completions", body)

        return asyncio.run(go())

    return run


def test_the_server_gets_the_body_as_it_is(send, server, judge, question, fake):
    reply = send()
    assert isinstance(reply, Reply)
    assert json.loads(reply.body)["usage"]["prompt_tokens"] == 100
    assert server.asks == [request(judge, question())]
    headers = server.asks[0].headers
    assert headers["authorization"] == f"Bearer {fake.KEY}"
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("AsyncOpenAI/Python")


@pytest.mark.parametrize(
    ("status", "kind", "billed"),
    [
        (408, "server_error", True),
        (409, "server_error", False),
        (425, "server_error", False),
        (429, "rate_limited", False),
        (500, "server_error", False),
        (502, "server_error", True),  # a gateway: what is behind it may have done the work
        (503, "server_error", False),
        (504, "timeout", True),
        (529, "rate_limited", False),
    ],
)
def test_passing_failures_are_distinguished(*, send, server, fake, status, kind, billed):
    server.act = lambda _: fake.failure(status, message="later", headers={"Retry-After": "7"})
    request_error = send()
    assert (request_error.kind, request_error.detail) == (kind, f"HTTP {status}: later")
    assert (request_error.billed, request_error.wait) == (billed, 7.0)
    assert len(server.asks) == 1  # the SDK repeats nothing


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "upstream"}, "server_error"),
        ({"message": "slow", "code": 429}, "rate_limited"),
        ("?", "server_error"),
    ],
)
def test_an_error_that_comes_as_http_200_is_an_error(send, server, fake, error, kind):
    server.act = lambda _: fake.Out(body=json.dumps({"error": error}).encode())
    request_error = send()
    assert isinstance(request_error, JudgeError)
    assert request_error.kind == kind


def test_a_wait_is_read_in_all_its_forms():
    assert read_retry_after({"retry-after": "3"}, {}) == 3.0
    assert read_retry_after({"retry-after-ms": "1500", "retry-after": "9"}, {}) == 1.5
    later = read_retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=60))}, {})
    assert later == pytest.approx(60, abs=3)
    assert read_retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, {}) == 0.0
    for nonsense in ("", "soon", "nan", "inf", "-1", "1 Jan 2020 1:1:1 +99999999999999"):
        assert read_retry_after({"retry-after": nonsense}, {}) is None
    assert read_retry_after({}, {}) is None


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            {"status": 401, "message": "Incorrect API key provided: {key}", "code": "invalid_api_key"},
            "JUDGE_KEY",
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
def test_what_only_the_user_can_fix_ends_it_at_once(send, server, fake, act, words):
    act = act | {"message": act.get("message", "no").format(key=fake.KEY)}
    server.act = lambda _: fake.failure(**act)
    refusal = send()
    assert words in refusal.fatal
    assert len(server.asks) == 1
    assert "\n" not in refusal.fatal
    assert fake.KEY not in repr(refusal)


@pytest.mark.parametrize("status", [200, 404])
def test_a_web_page_is_no_answer(send, server, fake, status):
    server.act = lambda _: fake.Out(
        status=status, body=b"<!doctype html><p>hi", headers={"Content-Type": "text/html"}
    )
    assert "base_url" in send().fatal
    assert len(server.asks) == 1


@pytest.fixture
def endless():
    """Serve answers that never end: so many blanks again and again, for as long as somebody reads them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(blanks, pause=0.0):
            def answer():
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    while True:
                        connection.sendall(b"%x\r\n%s\r\n" % (blanks, b" " * blanks))
                        time.sleep(pause)

            threading.Thread(target=answer, daemon=True).start()
            return Judge(model="m", base_url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1")

        yield serve


def test_a_server_that_sends_blanks_for_ever_is_given_up_in_time(send, endless):
    """As routers do while a model works: each byte is in time, and the answer never comes."""
    request_error = send(settings=endless(1, pause=0.02), timeout=0.1)
    assert (request_error.kind, request_error.billed) == ("timeout", True)


def test_an_answer_without_end_is_not_held_in_memory(send, endless):
    request_error = send(settings=endless(2**16), timeout=60)
    assert (request_error.kind, request_error.billed) == ("unreadable", True)
    assert "larger than 32 MB" in request_error.detail


def test_a_small_answer_that_unpacks_to_a_large_one_is_given_up(send, server, fake):
    packed = gzip.compress(b" " * (LARGEST_RESPONSE + 1))
    server.act = lambda _: fake.Out(body=packed, headers={"Content-Encoding": "gzip"})
    assert len(packed) < LARGEST_RESPONSE / 500
    assert send().kind == "unreadable"
    server.act = lambda _: fake.Out(body=packed, status=500, headers={"Content-Encoding": "gzip"})
    assert send().kind == "unreadable"
    whole = json.dumps(fake.completion("{}").body).encode()
    server.act = lambda _: fake.Out(body=gzip.compress(whole), headers={"Content-Encoding": "gzip"})
    assert send().body == whole


@pytest.mark.parametrize("key", ["e", "1", "EMPTY"])
def test_a_key_that_is_no_secret_spoils_no_answer(send, server, fake, environ, key):
    """A server of one's own may be given any key; the letters of a short one stand in every answer."""
    environ["JUDGE_KEY"] = key
    whole = fake.completion('{"fluency": "A", "EMPTY": 1}')
    server.act = lambda _: whole
    assert json.loads(send().body) == whole.body


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ({"status": 400, "code": "context_length_exceeded"}, "too_long"),
        ({"status": 400, "message": "This model's maximum context length is 8192 tokens"}, "too_long"),
        ({"status": 413, "message": "too large"}, "too_long"),
        ({"status": 400, "code": "content_filter"}, "content_filter"),
        ({"status": 400, "message": "bad temperature", "param": "temperature"}, "rejected"),
        ({"status": 422, "message": "what?"}, "rejected"),
        ({"status": 400, "message": "max_" * 100_000}, "rejected"),  # no pattern is tried on all of it
    ],
)
def test_what_concerns_one_request_is_its_problem(send, server, fake, act, kind):
    server.act = lambda _: fake.failure(**act)
    request_error = send()
    assert isinstance(request_error, JudgeError)
    assert (request_error.kind, request_error.billed) == (kind, False)


@pytest.mark.parametrize(
    ("act", "change"),
    [
        ({"status": 404, "param": "response_format"}, "output"),
        ({"status": 400, "message": "Unsupported parameter: 'max_tokens'"}, "limit"),
        ({"status": 400, "message": "System role not supported"}, "system"),
        ({"status": 422, "message": "extra fields not permitted: seed"}, "seed"),
        ({"status": 404, "message": "only supported in v1/responses"}, "responses"),
        ({"status": 500, "message": "oops"}, "guess"),
        *(({"status": status}, None) for status in (401, 403, 408, 413, 429, 502, 503)),
    ],
)
def test_a_refusal_says_what_of_the_form_may_help(send, server, fake, act, change):
    server.act = lambda _: fake.failure(**act)
    assert send().change == change


def test_the_key_shows_nowhere(send, server, fake, caplog):
    caplog.set_level(logging.DEBUG)
    echo = fake.completion(f"your key is {fake.KEY}", headers={"x-request-id": f"{fake.KEY}-1"})
    server.act = lambda _: fake.failure(500, message=fake.KEY, headers={"x-request-id": fake.KEY})
    printed = [repr(send())]
    server.act = lambda _: fake.Out(drop=True)
    printed.append(repr(send()))
    server.act = lambda _: echo
    reply = send()
    assert b"your key is [key]" in reply.body
    server.act = lambda _: fake.failure(400, message=f"key {fake.KEY} and sk-abc***xyz", code="x")
    request_error = send()
    assert request_error.detail == "HTTP 400: key [key] and [key]"
    printed += [repr(reply), repr(request_error), caplog.text]
    printed += [repr(vars(record)) for record in caplog.records]
    for words in printed:
        assert fake.KEY not in words
    assert caplog.records


def test_the_address_is_study_tomls_then_the_environments_then_openais():
    there = {"OPENAI_BASE_URL": "http://b/v1"}
    assert server_url(Judge(model="m", base_url="http://a/v1"), there) == "http://a/v1"
    assert server_url(Judge(model="m"), there) == "http://b/v1"
    assert server_url(Judge(model="m"), {}) == "https://api.openai.com/v1"
