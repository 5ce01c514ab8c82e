"""Anthropic's and Gemini's own interfaces, by their SDKs, against servers that follow their documentation."""

import asyncio
import json
import sys

import httpx2
import pytest
from fake_anthropic import FakeAnthropic
from fake_gemini import FakeGemini
from fake_openai import KEY, FakeOpenAI, Out, answer, failure, verdict
from made import STUDY_HEAD
from pydantic import ValidationError

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.study.judge_settings import Judge
from judge.failures import Retry
from judge.providers.client import Client
from judge.providers.endpoint import MAKERS, key_variable, provider_of

pytestmark = pytest.mark.slow

FAKES = {"anthropic": FakeAnthropic, "gemini": FakeGemini}
KEYS = {"anthropic": "sk-ant-api03-NeverToBeSeen", "gemini": "AIzaNeverToBeSeen0123456789"}


@pytest.fixture(params=["anthropic", "gemini"])
def provider(request):
    return request.param


@pytest.fixture
def server(provider):
    made = FAKES[provider]()
    yield made
    made.close()


@pytest.fixture
def judge(judge, provider, server):
    url = getattr(server, "base", server.url)
    return judge.model_copy(update={"provider": provider, "base_url": url, "api_key_env": None})


@pytest.fixture
def environ(provider, server):
    """Have the provider's own key, and its own address in the user's environment."""
    maker = MAKERS[provider]
    return {maker.variable: KEYS[provider], maker.url_variable: getattr(server, "base", server.url)}


def test_a_study_is_judged_and_its_tokens_are_counted(run, store, pairs, server, provider):
    pairs(3)
    ledger = run()
    assert (ledger.verdicts, ledger.requests, server.count("chat")) == (6, 6, 6)
    assert set(server.paid.values()) == {1}
    answers = list(store.answers_of("gpt-4o-2024-11-20"))
    usage = [each.usage for each in answers]
    tokens = {(each.input_tokens, each.cached_tokens, each.written_tokens) for each in usage}
    assert tokens == {(100, 40, 20 if provider == "anthropic" else None)}
    assert {(each.output_tokens, each.reasoning_tokens) for each in usage} == {(10, 4)}
    assert {each.usage.model for each in answers} == {"snapshot-1"}
    assert {each.backend for each in answers} == {"messages" if provider == "anthropic" else "generate"}
    # 60 new tokens at $2 and 40 from the cache at the same price, as study.toml names none; 10 at $8
    assert ledger.cost_usd == pytest.approx(6 * (100 * 2 + 10 * 8) / 1e6)
    kind = {"anthropic": "message", "gemini": None}[provider]
    assert all(json.loads(each.body).get("type") == kind for each in answers)
    assert run().requests == 0


def test_the_request_has_schema_and_system_as_the_interface_has_them(run, pairs, server, provider, judge):
    pairs(1)
    run()
    body = next(each.body for each in server.seen if each.step == "chat")
    names = list(judge.criteria)
    if provider == "anthropic":
        assert list(body["output_config"]["format"]["schema"]["properties"]) == names
        assert body["max_tokens"] == judge.max_output_tokens
        (system,) = body["system"]  # what all requests begin with is cached
        assert system["cache_control"] == {"type": "ephemeral"}
        assert {"seed", "response_format"} & set(body) == set()
    else:
        settings = body["generationConfig"]
        assert list(settings["responseJsonSchema"]["properties"]) == names
        assert settings["responseMimeType"] == "application/json"
        assert settings["maxOutputTokens"] == judge.max_output_tokens
        assert settings["seed"] > 0
        assert body["systemInstruction"]["parts"][0]["text"]
        assert [each["role"] for each in body["contents"]] == ["user"]


def test_the_key_goes_where_the_interface_wants_it_and_nothing_else_of_the_environment(
    *, run, pairs, server, provider, monkeypatch, tmp_path
):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-mine: secret")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    for name in (
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_ENTERPRISE",
        "GOOGLE_API_USE_CLIENT_CERTIFICATE",
    ):
        monkeypatch.setenv(name, "true")
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_QUOTA_PROJECT"):
        monkeypatch.setenv(name, "another")
    read = []
    monkeypatch.setattr("google.auth.default", lambda *_, **__: read.append(1))
    (tmp_path / "credentials.json").write_text("another's, which nobody reads")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "credentials.json"))
    pairs(1)
    assert run().verdicts == 2
    assert read == []
    for each in server.seen:
        wanted = {each.headers.get(name) for name in ("x-api-key", "x-goog-api-key", "authorization")}
        assert wanted & {KEYS[provider], f"Bearer {KEYS[provider]}"}
        assert "another" not in str(each.headers)


def test_no_request_is_repeated_by_the_sdk(run, store, pairs, server):
    pairs(1)
    seen = []

    def act(ask):
        seen.append(ask.digest)
        return Out({}, 500) if len(seen) == 1 else verdict(ask)

    server.act = act
    ledger = run()
    assert (ledger.verdicts, ledger.requests, ledger.retries) == (2, len(seen), 1)


def test_lost_connections_and_slow_answers_are_counted_as_such(run, store, pairs, server):
    pairs(1)
    lost = []

    def act(ask):
        lost.append(ask)
        return Out(drop=True) if len(lost) == 1 else verdict(ask)

    server.act = act
    ledger = run(concurrency=1)
    assert (ledger.verdicts, ledger.retries) == (2, 1)
    assert store.spending()[0].lost == 1  # it may have been paid


def test_a_server_that_is_not_there_is_named(run, pairs, server, provider):
    pairs(1)
    server.close()
    with pytest.raises(StudyError, match="the connection was refused"):
        run()


def test_an_answer_that_does_not_come_in_time_is_a_timeout(run, pairs, server):
    pairs(1)
    server.act = lambda ask: verdict(ask, delay=1.5)
    assert run(retry=Retry(timeout=0.3)).failures == {"timeout": 2}


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (429, "Rate limit", None),
        (529, "Overloaded", None),
        (503, "The model is overloaded", None),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "too_long"),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed (8)", "too_long"),
    ],
)
def test_refusals_are_in_the_table(*, run, store, pairs, server, status, words, kind):
    pairs(1)
    first = []

    def act(ask):
        first.append(ask)
        return failure(status, words) if kind or len(first) == 1 else verdict(ask)

    server.act = act
    ledger = run()
    if kind is None:
        assert (ledger.verdicts, ledger.retries) == (2, 1)
    else:
        assert ledger.failures == {kind: 2}
        assert {each.kind for each in store.failures()} == {kind}


@pytest.mark.parametrize(
    ("status", "words", "says"),
    [
        (401, "invalid x-api-key", "does not accept the key"),
        (400, "API key not valid. Please pass a valid API key.", "does not accept the key"),
        (403, "no", "does not allow this key"),
        (404, "models/m is not found", "has no model"),
        (400, "Your credit balance is too low to access the API", "no credit left"),
    ],
)
def test_what_only_the_user_can_fix_ends_the_run(*, run, pairs, server, status, words, says):
    pairs(1)
    server.act = lambda _: failure(status, words)
    with pytest.raises(StudyError, match=says) as caught:
        run()
    assert not any(key in str(caught.value) for key in KEYS.values())


@pytest.mark.parametrize(
    ("more", "kind"),
    [({"finish": "length"}, "truncated"), ({"finish": "content_filter"}, None), ({"refusal": "no"}, None)],
)
def test_ends_of_an_answer_are_told_apart(*, run, store, pairs, server, provider, more, kind):
    if "refusal" in more and provider == "gemini":
        pytest.skip("Gemini has no refusals of their own")
    pairs(1)
    server.act = lambda ask: answer(ask, "{}", **more)
    wanted = kind or ("refusal" if provider == "anthropic" else "content_filter")
    assert run().failures == {wanted: 2}


def test_a_schema_that_is_not_taken_is_left_out(run, pairs, server, provider):
    pairs(2)
    server.act = lambda ask: server._checked(ask) or verdict(ask)
    field = {"anthropic": "output_config", "gemini": "responseJsonSchema"}[provider]
    server.refuses[field] = f"{field}: not supported by this model"
    ledger = run(concurrency=1)
    assert ledger.verdicts == 4
    assert any("is now asked" in notice for notice in ledger.notices)


def test_a_temperature_that_is_not_taken_is_left_out(run, pairs, server):
    pairs(1)
    server.act = lambda ask: server._checked(ask) or verdict(ask)
    server.refuses["temperature"] = "`temperature` is deprecated for this model."
    assert run(concurrency=1).verdicts == 2


def test_extras_of_study_toml_go_along(run, pairs, server, provider):
    pairs(1)
    extra = {"anthropic": {"top_k": 5}, "gemini": {"topK": 5}}[provider]
    run(extra_body=extra, headers={"x-title": "mine"}, top_p=0.5)
    (seen, *_) = [each for each in server.seen if each.step == "chat"]
    assert seen.headers["x-title"] == "mine"
    if provider == "anthropic":
        assert (seen.body["top_k"], seen.body["top_p"]) == (5, 0.5)
    else:
        assert seen.body["generationConfig"]["topK"] == 5
        assert seen.body["generationConfig"]["topP"] == 0.5


def test_an_extra_that_gemini_does_not_have_is_named(run, pairs, server, provider):
    if provider == "anthropic":
        pytest.skip("Anthropic's SDK passes everything on")
    pairs(1)
    with pytest.raises(StudyError, match="does not have surprise"):
        run(extra_body={"surprise": 1})


def test_an_answer_is_the_same_requests_however_it_was_asked(run, store, pairs, server, judge):
    """What the server made us change on the wire is no part of a request's name."""
    pairs(1)
    run(output="auto")
    before = {each.key for each in store.answers_of("gpt-4o-2024-11-20")}
    server.refuses["temperature"] = "no"
    assert run().requests == 0
    assert {each.key for each in store.answers_of("gpt-4o-2024-11-20")} == before


def test_what_an_interface_has_nothing_for_is_refused_in_study_toml(provider):
    wrong = {"anthropic": {"output": "json_object"}, "gemini": {"reasoning_effort": "max"}}[provider]
    for settings in (wrong, {"style": "responses"}):
        with pytest.raises(ValidationError, match=f'is not for provider = "{provider}"'):
            Judge(model="m", provider=provider, **settings)


def test_each_makers_key_goes_to_no_other_server(provider):
    maker = MAKERS[provider]
    assert key_variable(Judge(model="m", provider=provider), {}) == maker.variable
    assert key_variable(Judge(model="m", provider=provider, base_url="https://elsewhere.example"), {}) is None
    for name in ("openai", provider):
        judge = Judge(
            model="m", provider=name, base_url="https://elsewhere.example", api_key_env=maker.variable.lower()
        )
        with pytest.raises(StudyError, match=f"names {maker.variable}, which goes to {maker.label}"):
            key_variable(judge, {maker.variable: "k"})
    compatible = Judge(model="m", base_url=f"{maker.url}/v1", api_key_env=maker.variable)
    assert key_variable(compatible, {}) == maker.variable
    with pytest.raises(StudyError, match=f"{maker.variable} is not set"):
        provider_of(Judge(model="m", provider=provider), {})


def test_no_sdk_sends_anything_to_a_server_that_was_not_named(provider):
    """A body may name an address for Gemini's SDK, and a response one for the next request."""
    server, other = FAKES[provider](), FakeOpenAI()
    url, maker = getattr(server, "base", server.url), MAKERS[provider]
    environ = {maker.variable: KEYS[provider], maker.url_variable: url}
    client = Client(provider_of(Judge(model="m", provider=provider), environ), concurrency=1)
    there = other.url.removesuffix("/v1")

    async def calls():
        if provider == "anthropic":
            await client.sdk.get(f"{there}/v1/files/f", cast_to=httpx2.Response)
        else:
            contents = [{"role": "user", "parts": [{"text": "?"}]}]
            body = {"contents": contents, "generationConfig": {"httpOptions": {"baseUrl": there}}}
            await client.post("/", json.dumps(body).encode())

    async def go():
        try:
            await calls()
        except Exception as error:  # noqa: BLE001 (each SDK has classes of its own)
            client.explain(error)
        finally:
            await client.close()

    try:
        with pytest.raises(StudyError, match=r"would go to 127\.0\.0\.1:\d+, which was not named"):
            asyncio.run(go())
        assert other.seen == []
    finally:
        server.close()
        other.close()


def test_a_panel_of_three_has_three_keys_and_none_reaches_anothers_server(tmp_path, monkeypatch, pair):
    """One command, three servers with three interfaces: what came to each holds its own key alone."""
    from guard_eval.cli.judge import command
    from guard_eval.store import Store
    from guard_eval.study.folder import Study

    servers = {"openai": FakeOpenAI(), "anthropic": FakeAnthropic(), "gemini": FakeGemini()}
    keys = {"openai": KEY, **KEYS}
    lines = [STUDY_HEAD]
    for name, server in servers.items():
        lines += ["[[judge]]", f'provider = "{name}"', f'model = "{name}-1"', 'criteria = ["fluency"]']
        monkeypatch.setenv(MAKERS[name].variable, keys[name])
        monkeypatch.setenv(MAKERS[name].url_variable, getattr(server, "base", server.url))
    (tmp_path / "study.toml").write_text("\n".join(lines))
    study = Study.open(tmp_path)
    with Store.open(study.database, create=True) as store:
        store.add_pairs([pair(number) for number in range(2)])
    try:
        command(tmp_path, yes=True)
    finally:
        for server in servers.values():
            server.close()
    for name, server in servers.items():
        assert server.count("chat") == 4
        assert all(keys[name] in str(each.headers) for each in server.seen)
        others = [key for other, key in keys.items() if other != name]
        assert not any(key in str(each) for each in server.seen for key in others)
    with Store.open(study.database) as store:
        assert {row.rater for row in store.tidy()} == {f"{name}-1" for name in servers}
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not any(key.encode() in everything for key in keys.values())


@pytest.mark.parametrize(("name", "module"), [("anthropic", "anthropic"), ("gemini", "google.genai")])
def test_a_missing_sdk_is_no_fault_of_a_proxy(monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "judge.providers.gemini_sdk", raising=False)
    judge = Judge(model="m", provider=name)
    environ = {"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
    with pytest.raises(MissingExtraError, match=rf"pip install 'guard-eval\[{name}\]'"):
        Client(provider_of(judge, environ), concurrency=1)
