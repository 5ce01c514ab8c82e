"""One request to a server that answers, refuses, breaks, or cannot be reached: what comes of it, in words."""

import asyncio
import contextlib
import gzip
import json
import logging
import shutil
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace

import pytest
from fake_openai import FakeOpenAI, Out, completion, failure
from judge_requests import request, sent

from guard_eval.study.judge_settings import Judge
from judge.client import LARGEST_RESPONSE, Client
from judge.failures import JudgeError
from judge.refusals import read_retry_after
from judge.server import connect_to, server_url

pytestmark = pytest.mark.slow


@pytest.fixture
def send(judge, environ, question):
    """Send one request once and return what came of it."""

    def run(url=None, *, timeout=5):
        settings = judge if url is None else Judge(model="m", base_url=url)

        async def go():
            provider = replace(connect_to(settings, environ), timeout=timeout)
            async with Client(provider, concurrency=1) as client:
                return await client.post("/chat/completions", sent(settings, question()))

        return asyncio.run(go())

    return run


def test_the_server_gets_the_body_as_it_is(send, server, judge, question, fake):
    assert json.loads(send())["usage"]["prompt_tokens"] == 100
    assert server.asks == [request(judge, question())]
    headers = server.asks[0].headers
    assert headers["authorization"] == f"Bearer {fake.KEY}"
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "kind", "billed"),
    [
        (408, "server_error", True),
        (409, "server_error", False),
        (429, "rate_limited", False),
        (500, "server_error", False),
        (502, "server_error", True),  # a gateway: what is behind it may have done the work
        (503, "server_error", False),
        (504, "timeout", True),
        (529, "rate_limited", False),
    ],
)
def test_passing_failures_are_distinguished(*, send, server, status, kind, billed):
    server.act = lambda _: failure(status, message="later", headers={"Retry-After": "7"})
    error = send()
    assert (error.kind, error.detail) == (kind, f"HTTP {status}: later")
    assert (error.billed, error.wait) == (billed, 7.0)
    assert len(server.asks) == 1  # the SDK repeats nothing


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "upstream"}, "server_error"),
        ({"message": "slow", "code": 429}, "rate_limited"),
        ("?", "server_error"),
    ],
)
def test_an_error_that_comes_as_http_200_is_an_error(send, server, error, kind):
    server.act = lambda _: Out(body=json.dumps({"error": error}).encode())
    assert send().kind == kind


def test_a_wait_is_seconds_or_nothing():
    assert read_retry_after({"retry-after": "3"}) == 3.0
    for nonsense in ("", "soon", "nan", "inf", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert read_retry_after({"retry-after": nonsense}) is None
    assert read_retry_after({}) is None


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ({"status": 401, "message": "Incorrect API key provided: {key}"}, "JUDGE_KEY"),
        ({"status": 403, "message": "{key} may not"}, "HTTP 403"),
        ({"status": 404, "message": "no model {key}", "code": "model_not_found"}, "gpt-4o-2024-11-20"),
        ({"status": 405}, "HTTP 405"),
        ({"status": 402, "message": "Insufficient Balance"}, "no credit left"),
        ({"status": 429, "kind": "insufficient_quota"}, "no credit left"),
        ({"status": 400, "code": "billing_hard_limit_reached"}, "no credit left"),
    ],
)
def test_what_only_the_user_can_mend_is_one_sentence_without_the_key(send, server, fake, act, words):
    act = act | {"message": act.get("message", "no").format(key=fake.KEY)}
    server.act = lambda _: failure(**act)
    error = send()
    assert words in error.fatal
    assert "\n" not in error.fatal
    assert fake.KEY not in repr(error)


@pytest.mark.parametrize("status", [200, 404])
def test_a_web_page_is_no_answer(send, server, status):
    page = {"body": b"<!doctype html><p>hi", "headers": {"Content-Type": "text/html"}}
    server.act = lambda _: Out(status=status, **page)
    assert "base_url" in send().fatal


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
            return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

        yield serve


def test_a_server_that_sends_blanks_for_ever_is_given_up_in_time(send, endless):
    """As routers do while a model works: each byte is in time, and the answer never comes."""
    error = send(endless(1, pause=0.02), timeout=0.2)
    assert (error.kind, error.billed) == ("timeout", True)


def test_an_answer_without_end_is_not_held_in_memory(send, endless, server):
    error = send(endless(2**16), timeout=60)
    assert (error.kind, error.billed) == ("unreadable", True)
    assert "larger than 32 MB" in error.detail
    packed = gzip.compress(b" " * (LARGEST_RESPONSE + 1))
    server.act = lambda _: Out(body=packed, headers={"Content-Encoding": "gzip"})
    assert send().kind == "unreadable"


@pytest.mark.parametrize("key", ["e", "EMPTY"])
def test_a_key_that_is_no_secret_spoils_no_answer(send, server, environ, key):
    """A server of one's own may be given any key; the letters of a short one stand in every answer."""
    environ["JUDGE_KEY"] = key
    whole = completion('{"fluency": "A", "EMPTY": 1}')
    server.act = lambda _: whole
    assert json.loads(send()) == whole.body


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
def test_what_concerns_one_request_is_its_problem(send, server, act, kind):
    server.act = lambda _: failure(**act)
    error = send()
    assert (error.kind, error.billed, error.fatal) == (kind, False, None)


@pytest.mark.parametrize(
    ("act", "change"),
    [
        ({"status": 404, "param": "response_format"}, "output"),
        ({"status": 400, "message": "Unsupported parameter: 'max_tokens'"}, "limit"),
        ({"status": 400, "message": "System role not supported"}, "system"),
        ({"status": 422, "message": "extra fields not permitted: seed"}, "seed"),
        ({"status": 404, "message": "only supported in v1/responses"}, "responses"),
        ({"status": 500, "message": "oops"}, "guess"),
        *(({"status": status}, None) for status in (401, 403, 413, 429, 503)),
    ],
)
def test_a_refusal_says_what_of_the_form_may_help(send, server, act, change):
    server.act = lambda _: failure(**act)
    assert send().change == change


def test_the_key_shows_nowhere(send, server, fake, caplog):
    caplog.set_level(logging.DEBUG)
    printed = []
    for out in (
        failure(500, message=fake.KEY, headers={"x-request-id": fake.KEY}),
        failure(400, message=f"key {fake.KEY} and sk-abc***xyz", code="x"),
        Out(drop=True),
        completion(f"your key is {fake.KEY}", headers={"x-request-id": f"{fake.KEY}-1"}),
    ):
        server.act = lambda _, out=out: out
        printed.append(repr(send()))
    assert "HTTP 400: key [key] and [key]" in printed[1]
    assert "your key is [key]" in printed[3]
    printed += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert caplog.records
    assert not any(fake.KEY in words for words in printed)


def test_the_address_is_study_tomls_then_the_environments_then_openais():
    there = {"OPENAI_BASE_URL": "http://b/v1"}
    assert server_url(Judge(model="m", base_url="http://a/v1"), there) == "http://a/v1"
    assert server_url(Judge(model="m"), there) == "http://b/v1"
    assert server_url(Judge(model="m"), {}) == "https://api.openai.com/v1"


@pytest.fixture
def certificate(tmp_path):
    """Make a certificate that nobody has signed but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    files = ("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem"))
    subprocess.run([*command, *files], check=True, capture_output=True)
    return tmp_path / "certificate.pem"


def test_a_certificate_that_nobody_trusts_ends_it_and_can_be_trusted(send, certificate, monkeypatch):
    monkeypatch.setattr(ssl, "create_default_context", ssl.create_default_context.__wrapped__)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with contextlib.closing(FakeOpenAI(context)) as secure:
        error = send(secure.url)
        assert "its certificate is not trusted (self-signed" in error.detail
        assert "SSL_CERT_FILE" in error.fatal
        assert secure.seen == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert isinstance(send(secure.url), bytes)


def test_a_server_that_cannot_be_reached_is_explained(send, server):
    error = send("http://no-such-host.invalid/v1")
    assert "the name of the host does not resolve" in error.detail
    assert "check its spelling" in error.fatal
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        error = send(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert "nothing listens at that port; start the server, or correct base_url" in error.fatal
    assert not error.billed
    error = send(server.url.replace("http://", "https://"))
    assert "does not speak TLS; check whether the address begins with http" in error.fatal


def test_a_request_that_was_sent_may_have_been_paid(send, server):
    server.act = lambda _: Out(drop=True)
    error = send()
    assert "the connection was lost before the whole answer came" in error.detail
    assert (error.kind, error.billed) == ("transport", True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = send(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", timeout=0.2)
    assert (error.kind, error.billed) == ("timeout", True)
    assert isinstance(error, JudgeError)
