"""A proxy of the environment: named without its password, charged with nothing, and no reader of a key."""

import asyncio
import base64
import os

import pytest
from fake_openai import KEY, Out

from guard_eval.errors import StudyError
from guard_eval.study.judge_settings import Judge
from judge.providers.client import Client
from judge.providers.server import connect_to

pytestmark = pytest.mark.slow

FAR = "https://judge.invalid/v1"
USER = "ann:S3cret"


@pytest.fixture
def proxy(server, monkeypatch):
    """Let all requests go by a proxy that wants another password."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("THEIR_KEY", KEY)
    address = server.url.removesuffix("/v1").replace("//", f"//{USER}@")
    for name in ("ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, address)
    server.faults["unknown"] = [Out(status=407)]
    return server


def ask(**settings):
    async def go():
        judge = Judge(model="m", **settings)
        async with Client(connect_to(judge, plain_http=("http://judge.invalid",)), concurrency=1) as client:
            return await client.post("/chat/completions", b'{"contents": [{"parts": [{"text": "?"}]}]}')

    return asyncio.run(go())


def test_a_proxy_that_refuses_is_named_without_its_password_and_nothing_was_charged(proxy, caplog):
    error = ask(base_url=FAR, api_key_env="THEIR_KEY")
    assert (error.kind, error.billed) == ("transport", False)
    assert f"no answer from {FAR}" in error.detail
    assert "HTTPS_PROXY" in error.fatal
    (seen,) = proxy.seen
    assert seen.path == "judge.invalid:443"
    assert seen.headers["proxy-authorization"] == f"Basic {base64.b64encode(USER.encode()).decode()}"
    assert KEY not in repr(seen)
    assert not any(each in f"{error!r} {caplog.text}" for each in ("S3cret", "ann", KEY))


@pytest.mark.parametrize("host", ["judge.invalid", "127.0.0.1:1"])
def test_a_key_that_is_not_encrypted_is_shown_to_no_proxy(proxy, host):
    error = ask(base_url=f"http://{host}/v1", api_key_env="THEIR_KEY")
    assert not error.billed
    assert "proxy" not in error.detail
    assert proxy.seen == []


def test_a_proxy_that_wants_a_password_is_no_failure_of_the_pair(proxy):
    error = ask(base_url="http://judge.invalid/v1")  # no key is sent: it may pass
    assert "the proxy before" in error.fatal
    assert "S3cret" not in repr(error)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("address", [f"foo://{USER}@h:1", f"http://{USER}@h:port", f"http://{USER}@[::"])
def test_an_address_that_is_no_proxy_is_refused_and_not_repeated(proxy, monkeypatch, address):
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(StudyError, match="proxy that the environment names cannot be used") as caught:
        ask(base_url=FAR)
    assert "S3" not in str(caught.value)
    assert caught.value.__suppress_context__
