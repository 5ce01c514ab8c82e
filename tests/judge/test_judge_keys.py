"""Keys: which key goes to which server and through which proxy, whatever a stranger's study.toml says."""

import asyncio
import base64
import contextlib
import os

import pytest
from fake_openai import KEY, FakeOpenAI
from local_server import Response
from pydantic import ValidationError
from refusals import expect_refusal

from guard_eval.servers.client import Client
from guard_eval.servers.server import KEYLESS, find_origin, make_server
from guard_eval.study.judge_settings import Judge

pytestmark = pytest.mark.slow

FAR = "https://judge.invalid/v1"
USER = "ann:S3cret"
OTHER = "other-secret-0123456789"
OWN = {"OPENAI_API_KEY": KEY}


def choose_key(base_url, environ=OWN, **more):
    """Return the variable and the key that would go to this address."""
    result = make_server(Judge(model="m", base_url=base_url, **more), environ)
    return result.variable, result.key


@pytest.mark.parametrize(
    ("base_url", "environ"),
    [
        (None, OWN),
        ("https://api.openai.com/v1", OWN),
        ("https://API.OpenAI.com:443/v1/", OWN),
        (None, OWN | {"OPENAI_BASE_URL": "https://gate.example/v1"}),
        ("https://gate.example/v1/", OWN | {"OPENAI_BASE_URL": "https://gate.example/v1"}),
        (None, OWN | {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}),
    ],
)
def test_key_goes_to_servers_that_the_user_names(base_url, environ):
    assert choose_key(base_url, environ) == ("OPENAI_API_KEY", KEY)


FOREIGN = """https://api.openai.com.evil.example/v1 https://evil.example/api.openai.com/v1 https://xapi.openai.com/v1
https://api.openai.com:8443/v1 https://api.openai.com./v1 http://api.openai.com/v1 http://localhost:8000/v1
https://gate.example:8443/v1 https://gate.example/v1/elsewhere http://gate.example/v1"""


@pytest.mark.parametrize("base_url", FOREIGN.split())
def test_key_goes_to_no_server_that_only_the_study_names(base_url):
    environ = OWN | {"OPENAI_BASE_URL": "https://gate.example/v1"}
    assert choose_key(base_url, environ) == (None, KEYLESS)
    for name in ("OPENAI_API_KEY", "openai_api_key"):
        with expect_refusal(r"(?i)OPENAI_API_KEY is only for ") as caught:
            choose_key(base_url, environ | {name: KEY}, api_key_env=name)
        assert KEY not in str(caught.value)


AMBIGUOUS = """api.openai.com@evil.example evil.example\\@api.openai.com api.openai.com\\.evil.example
api.openai.com%2eevil.example api.openai\u3002com api.openai.c\u043em user:word@evil.example"""


@pytest.mark.parametrize("host", [*AMBIGUOUS.split(), "api.openai.com\t.evil.example"])
def test_ambiguous_server_address_is_refused(host):
    with expect_refusal("the model 'm'") as caught:
        choose_key(f"https://{host}/v1")
    assert "word" not in str(caught.value).replace("password", "")


def test_server_gets_only_the_key_named_in_its_settings():
    environ = OWN | {"THEIR_KEY": f" {OTHER}\n"}
    assert choose_key("https://far.example/v1", environ, api_key_env="THEIR_KEY") == ("THEIR_KEY", OTHER)
    with expect_refusal(r"THEIR_KEY is not set .* https://far.example needs a key"):
        choose_key("https://far.example/v1", OWN, api_key_env="THEIR_KEY")
    for name in ("", "A B", "1A", "A=B", "A\n", "${HOME}", "Ä"):
        with pytest.raises(ValidationError):
            Judge(model="m", api_key_env=name)


def test_openai_needs_a_key():
    with expect_refusal("OPENAI_API_KEY is not set"):
        choose_key(None, {})
    assert choose_key(None, {"OPENAI_BASE_URL": "http://gpu:8000/v1"}) == (None, KEYLESS)


HERE = ("127.8.9.1", "[::1]", "LOCALHOST")
ELSEWHERE = ("0.0.0.0", "gpu-box", "127.0.0.1.nip.example", "localhost.example", "2130706433")


@pytest.mark.parametrize("host", [*HERE, *ELSEWHERE])
def test_unencrypted_key_goes_only_to_this_machine(host):
    judge = Judge(model="m", base_url=f"http://{host}:8000/v1", api_key_env="THEIR_KEY")
    environ = {"THEIR_KEY": OTHER}
    assert make_server(judge, environ, plain_http={find_origin(judge.base_url)}).key == OTHER
    if host in HERE:
        assert make_server(judge, environ).key == OTHER
        return
    with expect_refusal(r"over plain http, .* --send-key") as caught:
        make_server(judge, environ)
    assert OTHER not in str(caught.value)
    with expect_refusal(r"OPENAI_API_KEY would go .* over plain http"):
        make_server(Judge(model="m"), OWN | {"OPENAI_BASE_URL": judge.base_url})


@pytest.mark.parametrize("key", ["sk-se\ncret", "sk-se cret", "sk-sécret"])
def test_malformed_key_is_refused_and_not_printed(key):
    with expect_refusal("OPENAI_API_KEY") as caught:
        choose_key(None, {"OPENAI_API_KEY": key})
    assert "sk-" not in str(caught.value)
    assert KEY not in repr(make_server(Judge(model="m"), OWN))


NAMES = """OPENAI_API_KEY OPENAI_ADMIN_KEY OPENAI_ORG_ID OPENAI_PROJECT_ID OPENAI_WEBHOOK_SECRET
GEMINI_API_KEY GOOGLE_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_API_KEY AWS_SECRET_ACCESS_KEY"""
HEADERS = "\n".join(
    f"{name}: NeverToBeSeen" for name in ("X-Gate", "Authorization", "x-api-key", "X-Goog-Api-Key")
)
SECRETS = dict.fromkeys(NAMES.split(), KEY)
SECRETS |= dict.fromkeys(("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"), HEADERS)


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """Return a function that asks a server. The environment is full of secrets."""
    for name, value in (SECRETS | {"THEIR_KEY": OTHER}).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password NeverToBeSeen\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    def ask_server(**settings):
        async def post():
            to = make_server(Judge(model="m", **settings), plain_http=("http://judge.invalid",))
            async with Client(to, concurrency=1) as client:
                reply = await client.post("/chat/completions", b'{"messages": []}')
                await client.get("/batches")
                return reply

        return asyncio.run(post())

    return ask_server


@pytest.mark.parametrize(("named", "key"), [(None, KEYLESS), ("THEIR_KEY", OTHER)])
def test_server_receives_its_key_and_no_other_secret(ask, server, named, key):
    ask(base_url=server.url, api_key_env=named)
    assert {request.step for request in server.seen} == {"chat", "list"}
    for seen in server.seen:
        assert seen.headers["authorization"] == f"Bearer {key}"
        assert "NeverToBeSeen" not in repr(seen)


def test_study_headers_are_sent(ask, server):
    ask(base_url=server.url, headers={"X-Title": "a study", "anthropic-beta": "b"})
    (seen,) = [request for request in server.seen if request.step == "chat"]
    assert (seen.headers["x-title"], seen.headers["anthropic-beta"]) == ("a study", "b")
    assert seen.headers["authorization"] == f"Bearer {KEYLESS}"
    assert seen.headers["content-type"] == "application/json"


def test_redirects_are_not_followed(ask, server):
    with contextlib.closing(FakeOpenAI()) as another:
        for status in (301, 302, 303, 307, 308):
            server.faults["chat"] = [Response(None, status, {"Location": f"{another.url}/chat/completions"})]
            error = ask(base_url=server.url, api_key_env="THEIR_KEY")
            assert f"another address (HTTP {status}: to {another.url}/chat/completions)" in error.fatal
        assert another.seen == []


@pytest.fixture
def proxy(server, monkeypatch):
    """Send all requests through a proxy that refuses the password."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    address = server.url.removesuffix("/v1").replace("//", f"//{USER}@")
    for name in ("ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, address)
    server.faults["unknown"] = [Response(status=407)]
    return server


def test_error_names_a_proxy_without_its_password(ask, proxy, caplog):
    error = ask(base_url=FAR, api_key_env="THEIR_KEY")
    assert (error.kind, error.billed) == ("transport", False)
    assert f"no answer from {FAR}" in error.detail
    assert "HTTPS_PROXY" in error.fatal
    seen = proxy.seen[0]
    assert seen.path == "judge.invalid:443"
    assert seen.headers["proxy-authorization"] == f"Basic {base64.b64encode(USER.encode()).decode()}"
    printed = f"{error!r} {caplog.text}"
    assert not any(secret in printed + repr(seen) for secret in (OTHER, "NeverToBeSeen"))
    assert not any(secret in printed for secret in ("S3cret", "ann"))


@pytest.mark.parametrize("host", ["judge.invalid", "127.0.0.1:1"])
def test_unencrypted_key_is_sent_through_no_proxy(ask, proxy, host):
    error = ask(base_url=f"http://{host}/v1", api_key_env="THEIR_KEY")
    assert not error.billed
    assert "proxy" not in error.detail
    assert proxy.seen == []


def test_proxy_that_needs_a_password_ends_the_run(ask, proxy):
    error = ask(base_url="http://judge.invalid/v1")  # no key is sent: it may pass
    assert "the proxy before" in error.fatal
    assert "S3cret" not in repr(error)
    assert proxy.seen


@pytest.mark.parametrize("address", [f"foo://{USER}@h:1", f"http://{USER}@h:port", f"http://{USER}@[::"])
def test_invalid_proxy_address_is_refused_and_not_printed(ask, monkeypatch, address):
    monkeypatch.setenv("ALL_PROXY", address)
    with expect_refusal("proxy in the environment cannot be used") as caught:
        ask(base_url=FAR)
    assert "S3" not in str(caught.value)
    assert caught.value.__suppress_context__
