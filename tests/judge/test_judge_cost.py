import inspect
import json
import re
import socket
from datetime import date

import pytest
from openai.types.shared import chat_model

from guard_eval.errors import StudyError
from guard_eval.settings import Judge
from judge.cost import Price, estimate, price, shutdown, warnings
from judge.preview import dry_run
from judge.prompt import PROMPT_VERSION, canonical, keys, request


def priced(**settings):
    return Judge(
        model="local", usd_per_million_input_tokens=3.0, usd_per_million_output_tokens=12.0, **settings
    )


def test_the_bounds_are_bytes_and_the_limit(blind):
    judge = priced(criteria=["fluency", "coherence"], max_output_tokens=100)
    blinds = [blind("één"), blind("two")]
    sizes = [
        len(json.dumps(request(judge, each, 1), ensure_ascii=False, separators=(",", ":")).encode())
        for each in blinds
    ]
    found = estimate(judge, blinds, seed=1)
    assert (found.requests, found.reused) == (2, 0)
    assert found.input_tokens == sum(sizes)
    assert found.output_tokens == 200
    # three samples of everything; a quarter of the bytes and 2 x (2 x 8 + 4) tokens of JSON
    assert found.worst_usd == pytest.approx(3 * (sum(sizes) * 3 + 200 * 12) / 1e6)
    assert found.expected_usd == pytest.approx((-(-sum(sizes) // 4) * 3 + 40 * 12) / 1e6)


def test_what_is_answered_or_the_same_costs_nothing(blind):
    judge = priced()
    blinds = [blind("x", presentation=1), blind("x", presentation=2), blind("y"), blind("z")]
    answered = {keys(judge, blind("y"), 1)["json_object"]}
    found = estimate(judge, blinds, seed=1, answered=answered)
    assert (found.requests, found.reused) == (2, 2)
    assert found.input_tokens == sum(len(canonical(request(judge, blind(text), 1))) for text in "xz")


def test_nothing_left_costs_nothing():
    found = estimate(priced(), [], seed=1)
    assert (found.requests, found.expected_usd, found.worst_usd) == (0, 0.0, 0.0)


def test_the_list_knows_openais_models_and_study_toml_goes_before_it():
    listed = price(Judge(model="gpt-4o-2024-11-20"))
    assert listed == Price(input=2.5, output=10.0, source="list of 2025-11")
    own = price(
        Judge(model="gpt-4o-2024-11-20", usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=0.0)
    )
    assert own == Price(input=1.0, output=0.0, source="study.toml")
    half = price(Judge(model="gpt-4o-2024-11-20", usd_per_million_input_tokens=1.0))
    assert half == Price(input=1.0, output=10.0, source="list of 2025-11")


def test_an_unknown_price_is_asked_for(blind):
    for judge in (Judge(model="llama"), Judge(model="gpt-4o-2024-11-20", base_url="http://localhost:1/v1")):
        found = estimate(judge, [blind()], seed=1)
        assert (found.price, found.expected_usd, found.worst_usd) == (None, None, None)
        assert "usd_per_million_input_tokens and usd_per_million_output_tokens" in found.notes[0]


def test_listed_prices_say_their_date(blind):
    notes = " ".join(estimate(Judge(model="gpt-4.1-2025-04-14"), [blind()], seed=1).notes)
    assert "2025-11" in notes
    assert "may have changed" in notes
    assert "UTF-8 byte" in notes


def test_shutdown_dates_are_those_the_sdk_announces():
    source = inspect.getsource(chat_model)
    text = " ".join(source.split())
    found = {}
    for names, day in re.findall(r'- ((?:"[^"]+",? ?)+): Announced shutdown date: (\d{4}-\d\d-\d\d)', text):
        found |= dict.fromkeys(re.findall(r'"([^"]+)"', names), day)
    ours = [name for name in found if shutdown(name)]
    assert {"gpt-4", "gpt-4-0613", "gpt-4o-2024-11-20", "gpt-4.1-2025-04-14"} <= set(ours)
    assert {name: str(shutdown(name)) for name in ours} == {name: found[name] for name in ours}


@pytest.mark.parametrize(
    ("model", "today", "said"),
    [
        ("gpt-4-0613", date(2026, 10, 23), ["switched off since 2026-10-23"]),
        ("gpt-4-0613", date(2026, 10, 22), ["in 1 day;"]),
        ("gpt-4o-2024-11-20", date(2026, 11, 20), ["in 55 days;"]),  # 10 in November, 31, 14
        ("gpt-4o-2024-11-20", date(2026, 10, 16), ["in 90 days;"]),
        ("gpt-4o-2024-11-20", date(2026, 10, 15), []),
        ("gpt-4o", date(2026, 1, 1), ["pin a snapshot, such as gpt-4o-2024-11-20"]),
        ("some-model", date(2030, 1, 1), []),
    ],
)
def test_a_models_end_is_announced(model, today, said):
    found = warnings(Judge(model=model), today=today)
    assert len(found) == len(said)
    assert all(words in each for words, each in zip(said, found, strict=True))


def test_another_servers_models_are_its_own():
    assert warnings(Judge(model="gpt-4", base_url="http://localhost/v1"), today=date(2030, 1, 1)) == ()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("a dry run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_dry_run_shows_everything_and_sends_nothing(no_network, blind):
    judge = Judge(model="gpt-4o-2024-11-20", criteria=["fluency"])
    text = "first \x1b[31mtext\nof two lines"
    shown = dry_run(judge, [blind(text), blind("text two")], seed=3, environ={}, today=date(2026, 11, 20))
    assert shown.server == "https://api.openai.com/v1"
    lines = "\n".join(shown.summary)
    assert f"(prompt {PROMPT_VERSION})" in lines
    assert "to ask: 2 requests" in lines
    assert "in 55 days" in lines
    assert "$2.5 in, $10 out per million tokens, list of 2025-11" in lines
    assert "first \\x1b[31mtext\nof two lines" in shown.example
    assert "You are a language evaluation specialist" in shown.example
    assert "temperature: 0" in shown.example
    assert "\x1b" not in shown.example


def test_a_dry_run_of_nothing_has_no_example(no_network):
    shown = dry_run(Judge(model="m"), [], seed=3, environ={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert shown.example is None
    assert shown.server == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    "url",
    [
        "api.openai.com/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://[::1/v1",
        "http://host/ v1",
        "http://host\x1b/v1",
        "https://user:secret-word@host/v1",
        "https://host/v1?key=secret-word",
        "https://host/v1#secret-word",
    ],
)
def test_an_address_that_is_none_is_refused_unrepeated(url):
    with pytest.raises(StudyError, match="base_url") as caught:
        dry_run(Judge(model="m", base_url=url), [], seed=3, environ={})
    assert "secret-word" not in str(caught.value)
    assert "\n" not in str(caught.value)
