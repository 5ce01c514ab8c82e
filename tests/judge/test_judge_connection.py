"""Servers that cannot be reached: each reason in its own words, with what helps."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from dataclasses import replace

import pytest
from fake_openai import FakeOpenAI, Out, completion

from guard_eval.errors import StudyError
from guard_eval.study.judge_settings import Judge
from judge.client import Client, Reply
from judge.server import connect_to

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Make a certificate that nobody has signed but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    index = tmp_path_factory.mktemp("tls")
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    files = ("-keyout", str(index / "key.pem"), "-out", str(index / "certificate.pem"))
    subprocess.run([*command, *files], check=True, capture_output=True)
    return index


@pytest.fixture
def secure(certificate):
    """Serve over TLS with that certificate."""
    made = FakeOpenAI()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
    made._server.socket = context.wrap_socket(made._server.socket, server_side=True)
    made.url = made.url.replace("http://", "https://")
    made.act = lambda _: completion("{}")
    yield made
    made.close()


def send(url):
    """Send one request, and return what came of it."""

    async def go():
        provider = replace(connect_to(Judge(model="m", base_url=url), {}), timeout=5.0)
        async with Client(provider, concurrency=1) as client:
            return await client.post("/chat/completions", b'{"messages": []}')

    return asyncio.run(go())


def test_a_certificate_that_nobody_trusts_ends_it_and_can_be_trusted(secure, certificate, monkeypatch):
    monkeypatch.setattr(ssl, "create_default_context", ssl.create_default_context.__wrapped__)
    with pytest.raises(StudyError, match=r"certificate of .* is not trusted \(self-signed .*SSL_CERT_FILE"):
        send(secure.url)
    assert secure.seen == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "certificate.pem"))
    assert isinstance(send(secure.url), Reply)


def test_a_name_that_does_not_resolve():
    error = send("http://no-such-host.invalid/v1")
    assert "the name of the host does not resolve" in error.detail
    assert "spelling" in error.fatal
    assert not error.billed


def test_a_port_where_nothing_listens():
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        error = send(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert "the connection was refused: nothing listens at that port" in error.detail
    assert "start the server, or correct the port" in error.fatal
    assert not error.billed


def test_tls_where_there_is_none(server):
    error = send(server.url.replace("http://", "https://"))
    assert "does not speak TLS" in error.detail
    assert "http:// or https://" in error.fatal


def test_a_connection_that_is_dropped_may_have_been_paid(server):
    server.act = lambda _: Out(drop=True)
    error = send(server.url)
    assert "the connection was lost before the whole answer came" in error.detail
    assert error.billed


def test_a_server_that_takes_the_connection_and_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"

        async def go():
            provider = replace(connect_to(Judge(model="m", base_url=url), {}), timeout=0.2)
            async with Client(provider, concurrency=1) as client:
                return await client.post("/chat/completions", b"{}")

        error = asyncio.run(go())
    assert (error.kind, error.billed) == ("timeout", True)
