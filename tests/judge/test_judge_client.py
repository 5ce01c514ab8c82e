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
from fake_openai import KEY, FakeOpenAI, Out, completion, failure
from judge_requests import sent

from guard_eval.study.judge_settings import Judge
from judge.providers.client import LARGEST_RESPONSE, Client
from judge.providers.refusals import read_retry_after
from judge.providers.server import connect_to

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


UNBILLED = [  # what the server sends, the kind of failure, and what of the request's form may help
    (failure(404, param="response_format"), "rejected", "output"),
    (failure(400, "Unsupported parameter: 'max_tokens'"), "rejected", "limit"),
    (failure(400, "System role not supported"), "rejected", "system"),
    (failure(422, "extra fields not permitted: seed"), "rejected", "seed"),
    (failure(404, "only supported in v1/responses"), "rejected", "responses"),
    (failure(400, "bad temperature", param="temperature"), "rejected", "guess"),
    (failure(422, "what?"), "rejected", "guess"),
    (failure(400, "max_" * 100_000), "rejected", "guess"),  # no pattern is tried on all of it
    (failure(400, code="context_length_exceeded"), "too_long", None),
    (failure(400, "This model's maximum context length is 8192 tokens"), "too_long", None),
    (failure(413), "too_long", None),
    (failure(400, code="content_filter"), "content_filter", None),
    (failure(409), "server_error", None),
    (failure(500), "server_error", "guess"),
    (failure(503), "server_error", None),
    (failure(429), "rate_limited", None),
    (Out({"error": {"message": "slow", "code": 429}}), "rate_limited", None),
    (Out({"error": {"message": "upstream"}}), "server_error", "guess"),
    (Out({"error": "?"}), "server_error", "guess"),
]
BILLED = [  # by a gateway: what is behind it may have done the work
    (failure(408), "server_error", None),
    (failure(502), "server_error", None),
    (failure(504), "timeout", None),
]


@pytest.mark.parametrize(
    ("out", "kind", "change", "billed"),
    [(*row, rows is BILLED) for rows in (UNBILLED, BILLED) for row in rows],
)
def test_a_failure_says_whether_it_was_billed_and_what_may_help(*, send, server, out, kind, change, billed):
    out = replace(out, headers={"Retry-After": "7"})
    server.act = lambda _: out
    error = send()
    assert (error.kind, error.change, error.billed) == (kind, change, billed)
    assert (error.fatal is None) == (out.status != 404)  # unless another form helps, it ends the run
    assert error.wait == (7 if out.status in {408, 409, 429} or out.status >= 500 else None)
    assert len(server.asks) == 1  # the SDK repeats nothing


def test_a_wait_is_seconds_or_nothing():
    assert read_retry_after({"retry-after": "3"}) == 3.0
    for nonsense in ("", "soon", "nan", "inf", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert read_retry_after({"retry-after": nonsense}) is None
    assert read_retry_after({}) is None


WEB = {"body": b"<!doctype html><p>hi", "headers": {"Content-Type": "text/html"}}


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (failure(401, f"Incorrect API key provided: {KEY}"), "JUDGE_KEY"),
        (failure(403, f"{KEY} may not"), "HTTP 403"),
        (failure(404, f"no model {KEY}", code="model_not_found"), "gpt-4o-2024-11-20"),
        (failure(402, "Insufficient Balance"), "no credit left"),
        (failure(429, kind="insufficient_quota"), "no credit left"),
        (failure(400, code="billing_hard_limit_reached"), "no credit left"),
        (Out(**WEB), "base_url"),
        (Out(status=404, **WEB), "base_url"),
    ],
)
def test_what_only_the_user_can_mend_is_one_sentence_without_the_key(send, server, out, words):
    server.act = lambda _: out
    error = send()
    assert words in error.fatal
    assert "\n" not in error.fatal
    assert KEY not in repr(error)


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


def test_the_key_shows_nowhere(send, server, caplog):
    caplog.set_level(logging.DEBUG)
    printed = []
    for out in (
        failure(500, message=KEY, headers={"x-request-id": KEY}),
        failure(400, message=f"key {KEY} and sk-abc***xyz", code="x"),
        Out(drop=True),
        completion(f"your key is {KEY}", headers={"x-request-id": f"{KEY}-1"}),
    ):
        server.act = lambda _, out=out: out
        printed.append(repr(send()))
    assert "HTTP 400: key [key] and [key]" in printed[1]
    assert "your key is [key]" in printed[3]
    printed += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert caplog.records
    assert not any(KEY in words for words in printed)


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
