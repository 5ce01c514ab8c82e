import json
import socket
from datetime import date

import pytest
from judge_requests import request, request_key, sent

from guard_eval.errors import StudyError
from guard_eval.records import JudgeSpending
from guard_eval.store import Showing
from guard_eval.study.settings import Judge
from judge.pricing.estimate import estimate
from judge.pricing.preview import dry_run
from judge.prompts.prompt import PROMPT_VERSION


def priced(**settings):
    return Judge(
        model="local", usd_per_million_input_tokens=3.0, usd_per_million_output_tokens=12.0, **settings
    )


def shown(*blinds):
    return [Showing(blind=each, sample=0) for each in blinds]


def test_the_bounds_are_bytes_and_the_limit(blind):
    judge = priced(criteria=["fluency", "coherence"], max_output_tokens=100)
    blinds = [blind("één"), blind("two")]
    sizes = [
        len(json.dumps(request(judge, each, 1), ensure_ascii=False, separators=(",", ":")).encode())
        for each in blinds
    ]
    found = estimate(judge, shown(*blinds), seed=1)
    assert (found.requests, found.reused) == (2, 0)
    assert found.input_tokens == sum(sizes)
    assert found.output_tokens == 200
    # three samples of everything; a quarter of the bytes and 2 x (2 x 8 + 4) tokens of JSON
    assert found.worst_usd == pytest.approx(3 * (sum(sizes) * 3 + 200 * 12) / 1e6)
    assert found.expected_usd == pytest.approx((-(-sum(sizes) // 4) * 3 + 40 * 12) / 1e6)


def test_what_is_answered_or_the_same_costs_nothing(blind):
    judge = priced()
    blinds = [blind("x", presentation=1), blind("x", presentation=2), blind("y"), blind("z")]
    answered = {request_key(judge, blind("y"), 1)}
    found = estimate(judge, shown(*blinds), seed=1, answered=answered)
    assert (found.requests, found.reused) == (2, 2)
    assert found.input_tokens == sum(len(sent(judge, blind(text), 1)) for text in "xz")


def test_nothing_left_costs_nothing():
    found = estimate(priced(), [], seed=1)
    assert (found.requests, found.expected_usd, found.worst_usd) == (0, 0.0, 0.0)


def test_an_unknown_price_is_asked_for(blind):
    judge = Judge(model="llama", base_url="https://far.example/v1")
    found = estimate(judge, shown(blind()), seed=1)
    assert (found.price, found.expected_usd, found.batch_worst_usd) == (None, None, None)
    assert "usd_per_million_input_tokens and usd_per_million_output_tokens" in found.notes[0]


def test_nothing_is_reckoned_for_an_unlisted_model_nearby(blind):
    found = estimate(Judge(model="llama", base_url="http://localhost:1/v1"), shown(blind()), seed=1)
    assert (found.expected_usd, found.worst_usd) == (0.0, 0.0)
    assert "nothing is reckoned" in found.notes[0]


def test_listed_prices_say_their_date_and_what_the_bounds_are(blind):
    found = estimate(Judge(model="gpt-4.1-2025-04-14"), shown(blind()), seed=1)
    assert found.price.source.startswith("genai-prices ")
    notes = " ".join(found.notes)
    assert "prices change" in notes
    assert "UTF-8 byte" in notes


def test_a_batch_costs_its_part(blind):
    found = estimate(priced(batch_factor=0.25), shown(blind()), seed=1)
    assert found.batch_expected_usd == pytest.approx(found.expected_usd / 4)
    assert found.batch_worst_usd == pytest.approx(found.worst_usd / 4)


def test_samples_are_requests_of_their_own(blind):
    judge = priced(samples=2)
    left = [Showing(blind=blind(), sample=sample) for sample in (0, 1)]
    assert estimate(judge, left, seed=1).requests == 2


def test_what_was_answered_tells_what_more_will_take(blind):
    spent = JudgeSpending(
        judge="local", requests=6, answers=5, lost=1, open=0, unmetered=1, input_tokens=4000, cached_tokens=0,
        output_tokens=800, reasoning_tokens=0, usd=0.0, held_usd=0.0, unpriced=0,
    )  # fmt: skip
    found = estimate(priced(), shown(blind("x"), blind("y")), seed=1, so_far=spent)
    # 4 metered answers: 1000 tokens and 200 each, for two requests more
    assert found.expected_usd == pytest.approx((2 * 1000 * 3 + 2 * 200 * 12) / 1e6)
    assert "follows the 4 answers" in found.notes[0]


def test_reasoning_is_guessed_until_there_are_answers(blind):
    judge = Judge(model="gpt-5.4-mini-2026-03-17", criteria=["fluency"])
    found = estimate(judge, shown(blind()), seed=1)
    bare = 8 + 4
    size = len(sent(judge, blind(), 1))
    assert found.expected_usd == pytest.approx((-(-size // 4) * 0.75 + (bare + 1000) * 4.5) / 1e6)
    assert found.output_tokens == 8192
    assert "how long" in found.notes[0]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("a dry run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_dry_run_shows_everything_and_sends_nothing(no_network, blind):
    judge = Judge(model="gpt-4o-2024-11-20", criteria=["fluency"])
    text = "first \x1b[31mtext\nof two lines"
    shown_run = dry_run(
        judge, shown(blind(text), blind("text two")), seed=3, environ={}, today=date(2026, 11, 20)
    )
    assert shown_run.server == "https://api.openai.com/v1"
    lines = "\n".join(shown_run.summary)
    assert f"(chat, prompt {PROMPT_VERSION})" in lines
    assert "to ask: 2 requests" in lines
    assert "in 55 days" in lines
    assert "price: $2.5 in, $1.25 cached, $10 out per million tokens; in a batch × 0.5 (genai-prices" in lines
    assert [cost[0] for cost in shown_run.costs] == [f"{judge.model}, online", f"{judge.model}, in a batch"]
    assert "first \\x1b[31mtext\nof two lines" in shown_run.example
    assert "You are a language evaluation specialist" in shown_run.example
    assert "temperature: 0" in shown_run.example
    assert "\x1b" not in shown_run.example


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
