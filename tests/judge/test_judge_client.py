"""The client: answers, failures and error messages of single requests, without the key in any output."""

import asyncio
import base64
import contextlib
import gzip
import json
import logging
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace

import pytest
from fake_openai import KEY, FakeOpenAI, make_chat_answer, make_error
from judge_requests import make_request
from local_server import Response
from refusals import expect_refusal

from guard_eval.servers.answers import load_json_or_none
from guard_eval.servers.client import LARGEST_RESPONSE, Client
from guard_eval.servers.redaction import remove_key_from_answer, remove_key_from_text
from guard_eval.servers.refusals import explain_refusal
from guard_eval.servers.server import make_server
from guard_eval.servers.waits import read_wait_seconds
from guard_eval.study.judge_settings import Judge
from guard_eval.study.served_model import ServedModel

pytestmark = pytest.mark.slow


@pytest.fixture
def send(judge, environ, question):
    """Return a function that sends one request and returns the answer or the failure."""

    def send_once(url=None, *, timeout=5):
        settings = judge if url is None else Judge(model="m", base_url=url)

        async def post():
            provider = replace(make_server(settings, environ), timeout=timeout)
            async with Client(provider, concurrency=1) as client:
                return await client.post("/chat/completions", make_request(settings, question()))

        return asyncio.run(post())

    return send_once


FAILURES = {  # responses by the kind of failure, and by the part of the request to change
    ("rejected", "output"): [
        make_error(404, param="response_format"),
        make_error(400, "Failed to initialize samplers"),
    ],
    ("rejected", "temperature"): [
        make_error(400, "`temperature` is deprecated for this model."),
        make_error(400, "`temperature` may only be set to 1 when thinking is on"),
        make_error(400, "temperature must be strictly positive"),
    ],
    ("rejected", "limit"): [make_error(400, "Unsupported parameter: 'max_tokens'")],
    ("rejected", "system"): [make_error(400, "System role not supported")],
    ("rejected", "seed"): [
        make_error(422, "extra fields not permitted: seed"),
        make_error(400, "extraneous key [seed] is not permitted"),
    ],
    ("rejected", "responses"): [make_error(404, "only supported in v1/responses")],
    ("rejected", "guess"): [
        make_error(400, "bad temperature", param="temperature"),
        make_error(422, "what?"),
        make_error(400, "max_" * 100_000),  # no pattern is tried on all of it
    ],
    ("rejected", None): [make_error(400, "max_tokens must be at least 16")],
    ("too_long", "fewer_tokens"): [
        make_error(400, code="context_length_exceeded"),
        make_error(400, "This model's maximum context length is 8192 tokens"),
    ],
    ("too_long", None): [make_error(413)],
    ("content_filter", None): [
        make_error(400, code="content_filter"),
        make_error(403, "Your input was flagged (violence)"),
    ],
    ("server_error", None): [make_error(409), make_error(503), make_error(408), make_error(502)],
    ("server_error", "guess"): [
        make_error(500),
        Response({"error": {"message": "upstream"}}),
        Response({"error": "?"}),
    ],
    ("rate_limited", None): [
        make_error(429),
        make_error(403, "You have exceeded a secondary rate limit"),
        Response({"error": {"message": "slow", "code": 429}}),
    ],
    ("timeout", None): [make_error(504)],
}
BILLED = {408, 502, 504}  # the server behind a gateway may have answered


@pytest.mark.parametrize(
    ("out", "kind", "change"), [(out, *failure) for failure, outs in FAILURES.items() for out in outs]
)
def test_failure_tells_cost_and_change_that_may_help(*, send, server, out, kind, change):
    out = replace(out, headers={"Retry-After": "7"})
    server.act = lambda _: out
    error = send()
    assert (error.kind, error.change, error.billed) == (kind, change, out.status in BILLED)
    assert (error.fatal is None) == (out.status != 404)  # unless another form helps, it ends the run
    waits = kind in {"rate_limited", "server_error", "timeout"}
    assert error.wait == (7 if waits and out.status != 200 else None)
    assert len(server.asks) == 1  # the SDK repeats nothing


NOON = "Wed, 21 Oct 2026 12:00:00 GMT"
WAITS = [  # the headers, the error, and the seconds from noon on
    ({"retry-after": "3"}, None, 3.0),
    ({"retry-after": "Wed, 21 Oct 2026 12:01:30 GMT"}, None, 90.0),
    ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None, 0.0),
    ({"retry-after": "2026-10-21T14:00:05+02:00"}, None, 5.0),
    ({"retry-after-ms": "250", "retry-after": "1"}, None, 0.25),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}, None, 90.0),
    ({"x-ratelimit-remaining-tokens": " 0 ", "x-ratelimit-reset-tokens": "30"}, None, 30.0),
    ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "1m30s"}, None, None),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792584007000"}, None, 7.0),  # milliseconds
    ({}, {"message": "Rate limit reached for m. Please try again in 7m12s. Need more?"}, 432.0),
    ({}, {"message": "Please try again in 6ms."}, 0.006),
    ({}, {"message": "Limit 3 / day. Please try again in 1h2m3.5s"}, 3723.5),
    ({}, {"message": "Please retry after 60 seconds."}, 60.0),
    ({}, {"message": "Wait 1 minute and 5 seconds"}, 65.0),
    ({}, {"details": [{"retryDelay": "39s"}]}, 39.0),
    ({}, {"retry_after": 12.5}, 12.5),
    ({}, {"retry_after_secs": 2}, 2.0),
    ({}, {"retryAfterMs": 250}, 0.25),
    ({}, {"message": "Quota resets at 2026-10-21T12:01:00Z"}, 60.0),
    ({"ratelimit": '"default";r=0;t=30'}, None, 30.0),
    ({"ratelimit": "limit=10, remaining=0, reset=33"}, None, 33.0),
    ({"ratelimit": "limit=10, remaining=2, reset=33"}, None, None),
    ({}, {"message": "You sent 40 requests in 60 seconds"}, None),
    ({}, None, None),
    *(({"retry-after": nonsense}, None, None) for nonsense in ("", "soon", "nan", "inf", "-1", "9" * 400)),
    ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999"}, None, None),
    ({"ratelimit": "remaining=0 " * 100_000}, None, None),
    ({"retry-after": "2678400"}, None, 31 * 86_400.0),
    ({"retry-after": "2678401"}, None, None),
    ({"retry-after": "9999-12-31T23:59:59-23:59"}, None, None),
    ({}, {"message": f"try again in {'9' * 400} s"}, None),
    ({"retry-after": "1e308"}, {"message": "try again in 5 s"}, 5.0),
]


@pytest.mark.parametrize(("headers", "error", "seconds"), WAITS)
def test_wait_time_is_read_from_every_header_format(headers, error, seconds):
    assert read_wait_seconds({"date": NOON, **headers}, error) == (seconds and pytest.approx(seconds))


WEB = {"body": b"<!doctype html><p>hi", "headers": {"Content-Type": "text/html"}}


@pytest.mark.parametrize(
    ("out", "blames_address"),
    [
        (Response(**WEB), True),
        (make_error(404, "no such model", code="model_not_found"), True),
        (make_error(404, "page not found"), True),
        (make_error(302), True),
        (make_error(401), False),
        (make_error(402), False),
        (make_error(400, "what?"), False),
    ],
)
def test_failure_tells_whether_the_address_seems_wrong(send, server, out, blames_address):
    server.act = lambda _: out
    assert send().blames_address == blames_address


FATAL = {  # responses by the words that the user reads
    "JUDGE_KEY": [make_error(401, f"Incorrect API key provided: {KEY}")],
    "wrong region; use eu.example": [make_error(401, "wrong region; use eu.example")],
    "HTTP 403": [make_error(403, f"{KEY} may not")],
    "does not serve this country": [
        make_error(403, code="unsupported_country_region_territory"),
        make_error(400, "User location is not supported for the API use."),
        make_error(403, "Model m is not available in your region."),
        make_error(403, "Access denied from your location"),
        make_error(403, "blocked because of geographic restrictions"),
    ],
    "set fewer tokens": [
        make_error(400, "max_tokens is too large: 8192; at most 4096 are supported"),
        make_error(422, "`max_new_tokens` must be <= 4096. Given: 8192"),
    ],
    "Request this model at https://x.example": [make_error(403, "Request this model at https://x.example")],
    "gpt-4o-2024-11-20": [make_error(404, f"no model {KEY}", code="model_not_found")],
    "has no model": [
        make_error(404, "Deployment not found"),
        make_error(404, "The API deployment for this resource does not exist."),
    ],
    "Buy more at /credits": [
        make_error(402, f"{'You can afford 100 tokens. ' * 9}Buy more at /credits"),
    ],
    "no credit left": [
        make_error(402, "Insufficient Balance"),
        make_error(403, "Sorry, your account balance is insufficient"),
        make_error(429, kind="insufficient_quota"),
        make_error(400, code="billing_hard_limit_reached"),
    ],
    "base_url": [Response(**WEB), *(Response(status=status, **WEB) for status in (403, 404))],
    "https://new.example/v1": [Response(status=308, headers={"Location": "https://new.example/v1"})],
    "usually ends in /v1": [
        Response({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
        Response({"detail": "Not Found"}, 404),
        Response(b"404 page not found", 404),
        make_error(404, "Resource not found"),
        make_error(404, "File Not Found", kind="not_found_error"),
        Response(b"", 404),
    ],
}


@pytest.mark.parametrize(("out", "words"), [(out, words) for words, outs in FATAL.items() for out in outs])
def test_fatal_error_contains_no_key(send, server, out, words):
    server.act = lambda _: out
    error = send()
    assert words in error.fatal
    assert "\n" not in error.fatal
    assert KEY not in repr(error)


def test_error_inside_a_routers_error_is_read(send, server):
    """Use the format of OpenRouter: https://openrouter.ai/docs/api-reference/errors."""
    raw = json.dumps({"error": {"message": "`temperature` is not supported by this model"}})
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
    server.act = lambda _: Response({"error": error})
    assert (send().change, "`temperature` is not supported" in send().detail) == ("temperature", True)


@pytest.fixture
def serve_endlessly():
    """Return a function that serves blanks until the client disconnects."""
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


def test_endless_blanks_from_a_server_time_out(send, serve_endlessly):
    """Simulate a router that sends blanks while a model works, and never sends an answer."""
    error = send(serve_endlessly(1, pause=0.02), timeout=0.2)
    assert (error.kind, error.billed) == ("timeout", True)


def test_only_the_beginning_of_an_endless_answer_is_kept(send, serve_endlessly, server):
    assert len(send(serve_endlessly(2**16), timeout=60)) == LARGEST_RESPONSE + 1
    packed = gzip.compress(b" " * 2 * LARGEST_RESPONSE)
    server.act = lambda _: Response(body=packed, headers={"Content-Encoding": "gzip"})
    assert len(send()) == LARGEST_RESPONSE + 1


ORDINARY = (
    "A permit is required; it is not needed. LM-Studio or lm-studio, anything EMPTY, sk-no-key-required."
)
ORDINARY_KEYS = ["e", "EMPTY", "lm-studio", "not-needed", "anything", "sk-no-key-required"]


@pytest.mark.parametrize("key", ORDINARY_KEYS)
def test_ordinary_key_is_not_removed_from_answers(send, server, environ, key):
    """Use keys of local servers that are ordinary words."""
    environ["JUDGE_KEY"] = key
    whole = make_chat_answer(json.dumps({"fluency": "A", "rationale": ORDINARY}))
    server.act = lambda _: whole
    assert json.loads(send()) == whole.body
    assert remove_key_from_text(f"{key} is wrong, a number is required", key).endswith(
        " is wrong, a number is required"
    )


ECHOES = {  # a key as servers may send it back
    "plain": KEY,
    "escaped in JSON": KEY.replace("s", r"\u0073").replace("K", r"\u004B").replace("-", r"\u002d"),
    "escaped twice": json.dumps(json.dumps(KEY).replace("k", r"\u006b"))[1:-1],
    "in a URL": KEY.replace("-", "%2D"),
    "in HTML": KEY.replace("-", "&#45;"),
    "in HTML with zeros": KEY.replace("-", "&#0045;").replace("s", "&#x073"),
    "escaped in braces": KEY.replace("-", r"\u{2d}"),
    "in base64": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "in base64 after one byte": base64.urlsafe_b64encode(f"x{KEY}yz".encode()).decode(),
    "in hexadecimal": KEY.encode().hex(),
    "in capitals": KEY.upper(),
    "from its end": KEY[::-1],
    "in octal escapes": "".join(f"\\{ord(letter):03o}" for letter in KEY),
    "in decimal numbers": str([ord(letter) for letter in KEY]),
    "in hexadecimal numbers": " ".join(hex(ord(letter)) for letter in KEY),
    "in letters": "', '".join(KEY),
    "split by a line": f"{KEY[:20]}\\n{KEY[20:]}",
    "split by spaces": " ".join(KEY),
    "split by what is not seen": f"{KEY[:20]}\u200b{KEY[20:]}",
    "in two parts": f'{KEY[:20]}"}}, {{"type": "text", "text": "{KEY[20:]}',
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
@pytest.mark.parametrize("status", [200, 401])
def test_key_is_removed_from_answers_in_every_encoding(send, server, echo, status):
    body = f'[{{"message": "your key is {echo}"}}]'
    server.act = lambda _: Response(body.encode(), status)
    printed = repr(send())
    assert "[key]" in printed
    seen = re.sub(r"[^a-z0-9]|u200b", "", printed.lower())
    for secret in (
        KEY[8:20],
        KEY[20:],
        KEY[8:20].encode().hex(),
        base64.b64encode(KEY[9:30].encode()).decode(),
    ):
        assert re.sub(r"[^a-z0-9]", "", secret.lower()) not in seen


@pytest.mark.parametrize("fragment", ["\\", "\\u{", "%25", "&#0", "&#x0", "max_"])
def test_removing_a_key_from_a_hostile_answer_is_fast(fragment):
    content = fragment.encode() * 100_000
    assert remove_key_from_answer(content, KEY) == content
    assert remove_key_from_text(content.decode(), KEY) == content.decode()


def test_nested_errors_are_explained_at_every_depth():
    server = make_server(ServedModel(model="m", base_url="http://localhost:1/v1"), {})
    for depth in range(900, 1100):  # Python's limit is 1000
        error = load_json_or_none(b"[" * depth + b"]" * depth)
        assert explain_refusal(server, 429, {}, error).kind == "rate_limited"


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        ({"message": "the quota is exceeded"}, "an error: the quota is exceeded"),
        ({"message": "busy", "code": 503}, "HTTP 503: busy"),
        ("busy", "an error: busy"),
    ],
)
def test_error_with_status_200_is_quoted_without_another_status(send, server, error, detail):
    server.faults["chat"] = [Response({"error": error})]
    failure = send()
    assert (failure.kind, failure.detail) == ("server_error", detail)


def test_key_never_appears_in_output_or_database(send, server, caplog):
    caplog.set_level(logging.DEBUG)
    printed = []
    for out in (
        make_error(500, message=KEY, headers={"x-request-id": KEY}),
        make_error(400, message=f"key {KEY} and sk-abc***xyz", code="x"),
        make_error(401, message=f"no key …{KEY[-12:]}", code="x"),
        Response(drop=True),
        make_chat_answer(f"your key is {KEY}", headers={"x-request-id": f"{KEY}-1"}),
    ):
        server.act = lambda _, out=out: out
        printed.append(repr(send()))
    assert "HTTP 400: key [key] and [key]" in printed[1]
    assert "HTTP 401: no key [key]" in printed[2]
    assert "your key is [key]" in printed[4]
    printed += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert caplog.records
    assert not any(KEY in words for words in printed)


@pytest.fixture
def certificate(tmp_path):
    """Make a self-signed certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    files = ("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem"))
    subprocess.run([*command, *files], check=True, capture_output=True)
    return tmp_path / "certificate.pem"


def test_untrusted_certificate_ends_the_run(send, certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with contextlib.closing(FakeOpenAI(context)) as secure:
        error = send(secure.url)
        assert "its certificate is not trusted (self-signed" in error.detail
        assert "SSL_CERT_FILE" in error.fatal
        assert secure.seen == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert isinstance(send(secure.url), bytes)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_refused(send, server, tmp_path, monkeypatch, content):
    path = tmp_path / "certificates.pem"
    if content:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with expect_refusal("correct SSL_CERT_FILE"):
        send("https://example.com/v1")


def test_error_names_an_unreachable_server(send, server):
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


def test_sent_request_without_reply_counts_as_billed(send, server):
    server.act = lambda _: Response(drop=True)
    error = send()
    assert "the connection was lost before the whole answer came" in error.detail
    assert (error.kind, error.billed) == ("transport", True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = send(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", timeout=0.2)
    assert (error.kind, error.billed) == ("timeout", True)
