"""What tokens cost and who says so; shutdown dates as OpenAI's own SDK announces them."""

import inspect
import re
import sys
import tomllib
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import anthropic.resources.messages.messages as anthropic_messages
import anthropic.types.model as anthropic_models
import pytest
from made import STUDY_HEAD
from openai.types.shared import chat_model

import guard_eval
import judge.pricing.prices
from guard_eval.errors import StudyError
from guard_eval.store import Usage
from guard_eval.study.settings import Judge
from judge.pricing.availability import (
    ModelShutDownError,
    check_available,
    replacement,
    shutdown,
    warnings,
)
from judge.pricing.estimate import estimate
from judge.pricing.preview import dry_run
from judge.pricing.price import Price, catalogue_price
from judge.pricing.prices import PriceList, is_local, price, priced, study_prices

LIST = Path(judge.pricing.prices.__file__).with_name("prices.toml")
LISTED = tomllib.loads(LIST.read_text(encoding="utf-8"))


def test_tokens_from_the_cache_cost_their_own_price():
    known = Price(input=2.0, cached=0.5, output=8.0, source="")
    usage = Usage(input_tokens=3000, cached_tokens=1000, output_tokens=50, reasoning_tokens=20)
    # 2000 x $2 + 1000 x $0.50 + 50 x $8, a million of each; reasoning is among the 50
    assert known.cost(usage) == pytest.approx((4000 + 500 + 400) / 1e6)
    assert known.usd(3000, 50) == pytest.approx((6000 + 400) / 1e6)
    assert Price(input=2.0, output=8.0, source="").cost(usage) == pytest.approx((6000 + 400) / 1e6)
    assert known.cost(Usage(input_tokens=3000)) is None


def test_a_batch_costs_a_part_and_gives_no_second_rebate():
    known = Price(input=2.0, cached=0.5, output=8.0, batch_factor=0.25, source="")
    assert known.in_batch().usd(3000, 50, cached=1000) == pytest.approx((6000 + 400) / 4 / 1e6)


def test_cached_tokens_are_never_more_than_the_prompts():
    assert Price(input=2.0, cached=0.0, output=0.0, source="").usd(10, 0, cached=99) == 0.0


def test_study_toml_goes_before_the_studys_list_and_that_before_the_catalogue():
    model = "gpt-4o-2024-11-20"
    listed = price(Judge(model=model))
    dated = f"genai-prices {version('genai-prices')}"
    assert listed == Price(input=2.5, cached=1.25, output=10.0, batch_factor=0.5, source=dated)
    entry = {"input": 3, "output": 9, "batch_factor": 0.8}
    own = PriceList.model_validate({"as_of": "2026-11-20", "models": {model: entry}})
    of_study = "the study's prices.toml of 2026-11-20"
    assert price(Judge(model=model), own=own) == Price(
        input=3.0, output=9.0, batch_factor=0.8, source=of_study
    )
    named = Judge(model=model, usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=0.0)
    assert price(named, own=own) == Price(input=1.0, output=0.0, batch_factor=0.8, source="study.toml")
    half = price(Judge(model=model, usd_per_million_input_tokens=1.0))
    assert (half.input, half.cached, half.output, half.source) == (1.0, None, 10.0, dated)
    cached = price(Judge(model=model, usd_per_million_cached_tokens=0.25, batch_factor=1))
    assert (cached.cached, cached.batch_factor) == (0.25, 1.0)


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({}, False),
        ({"usd_per_million_input_tokens": 0.0, "usd_per_million_output_tokens": 0.0}, True),
        ({"usd_per_million_output_tokens": 4.99}, True),
        ({"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 6.0}, False),
        ({"usd_per_million_output_tokens": 0.0, "base_url": "http://localhost:8000/v1"}, False),
    ],
)
def test_a_study_that_states_less_than_the_lists_do_is_said_to(settings, warned):
    """A stranger's study.toml may say that everything is free, and no budget would hold."""
    run = dry_run(Judge(model="gpt-6.1-terra", **settings), [], seed=1, environ={})
    assert any("a budget holds only" in line for line in run.summary) == warned
    own = PriceList.model_validate({"models": {"gpt-6.1-terra": {"input": 0.01, "output": 5.0}}})
    run = dry_run(Judge(model="gpt-6.1-terra", **settings), [], seed=1, environ={}, own=own)
    assert any("a budget holds only" in line for line in run.summary) == (
        "base_url" not in settings and settings.get("usd_per_million_input_tokens") != 1.0
    )


@pytest.mark.parametrize(
    ("url", "model", "prices"),
    [  # input, cached, written, output, and a batch's part, from the providers' pages of 2026-11
        (None, "gpt-5.4-mini-2026-03-17", (0.75, 0.075, None, 4.5, 0.5)),
        (None, "gpt-6.1-terra", (1.0, 0.05, 1.25, 5.0, 0.5)),
        ("https://api.anthropic.com", "claude-opus-5-5", (4.0, 0.2, 5.0, 20.0, 0.5)),
        ("https://generativelanguage.googleapis.com", "gemini-3.1-flash-lite", (0.25, 0.025, None, 1.5, 0.5)),
        ("https://some.openai.azure.com/openai/v1", "gpt-4.1-2025-04-14", (2.0, 0.5, None, 8.0, 0.5)),
        ("https://openrouter.ai/api/v1", "openai/gpt-6.1-terra", (1.0, 0.05, 1.25, 5.0, 0.5)),
    ],
)
def test_the_catalogue_knows_prices_by_server(url, model, prices):
    found = price(Judge(model=model, base_url=url))
    assert (found.input, found.cached, found.written, found.output, found.batch_factor) == prices


@pytest.mark.parametrize(
    ("url", "model"),
    [
        ("https://api.openai.com/v1", "claude-opus-5-5"),  # not sold there
        ("https://gateway.example/v1", "meta-llama/Llama-3.3-70B-Instruct"),  # anybody may serve it
        ("https://gateway.example/v1", "openai/gpt-oss-120b"),
        ("https://gateway.example/v1", "google/gemma-3-27b-it"),
    ],
)
def test_no_price_is_guessed(url, model):
    assert price(Judge(model=model, base_url=url)) is None


def test_without_the_catalogue_a_price_is_unknown_and_the_preview_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    monkeypatch.setattr("judge.pricing.price.find_spec", lambda _: None)
    assert price(Judge(model="gpt-6.1-terra")) is None
    (note,) = estimate(Judge(model="gpt-6.1-terra"), [], seed=1).notes
    assert "pip install 'guard-eval[judge]'" in note


def test_a_providers_own_price_is_found_without_an_address():
    assert price(Judge(model="claude-sonnet-5-5", provider="anthropic")).input == 2.0
    assert price(Judge(model="gemini-3.1-flash-lite", provider="gemini")).output == 1.5


def test_open_weights_on_ones_own_machine_cost_nothing():
    assert price(Judge(model="gpt-oss-20b", base_url="http://localhost:8000/v1")).assumed


def test_a_gateway_charges_what_the_maker_does():
    assert price(Judge(model="openai/gpt-4.1", base_url="https://gateway.example/v1")).input == 2.0


def test_long_prompts_cost_their_own_price():
    """gpt-6.1-terra: beyond 272,000 tokens of prompt input costs twice as much, output half as much again."""
    known = price(Judge(model="gpt-6.1-terra"))
    assert known.cost(Usage(input_tokens=272_000, output_tokens=100)) == pytest.approx(0.272 + 0.0005)
    assert known.cost(Usage(input_tokens=272_001, output_tokens=100)) == pytest.approx(0.544002 + 0.00075)
    # what is set aside expects that all of it is written to the cache, at a quarter more
    assert known.most_usd(272_000, 100) == pytest.approx(0.34 + 0.0005)
    assert known.most_usd(300_000, 100) == pytest.approx(0.75 + 0.00075)


def test_tokens_written_to_the_cache_cost_their_own_price():
    known = Price(input=4.0, cached=0.2, written=5.0, output=20.0, source="")
    usage = Usage(input_tokens=1000, cached_tokens=300, written_tokens=500, output_tokens=10)
    # 200 x $4 + 300 x $0.20 + 500 x $5 + 10 x $20, a million of each
    assert known.cost(usage) == pytest.approx((800 + 60 + 2500 + 200) / 1e6)


def test_a_price_that_changes_on_a_day_is_that_days():
    """Gemini 3.8 Flash: half the price until the end of 2026."""
    url = "https://generativelanguage.googleapis.com"
    before = catalogue_price("gemini-3.8-flash", url, at=datetime(2026, 12, 31, tzinfo=UTC))
    after = catalogue_price("gemini-3.8-flash", url, at=datetime(2027, 1, 1, tzinfo=UTC))
    assert (before.input, after.input) == (0.75, 1.5)


def test_a_price_put_into_the_settings_is_found_there_without_any_list():
    known = Price(input=3.0, cached=0.3, output=9.0, batch_factor=0.8, source="somebody")
    found = price(priced(Judge(model="gpt-4o-2024-11-20"), known))
    assert found == Price(input=3.0, cached=0.3, output=9.0, batch_factor=0.8, source="study.toml")


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.7/v1", True),
        ("http://gpu-box:8000/v1", True),
        ("http://gpu.lab.internal/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://localhost.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
        (None, False),
    ],
)
def test_a_model_in_no_list_costs_nothing_nearby_and_is_unknown_elsewhere(url, local):
    assert is_local(url) is local
    found = price(Judge(model="some-model", base_url=url))
    if local:
        assert (found.input, found.output, found.assumed) == (0.0, 0.0, True)
    else:
        assert found is None
    assert price(Judge(model="some-model", base_url=url, usd_per_million_input_tokens=1.0)) is None


def test_a_listed_model_has_its_price_wherever_it_is_asked():
    """A server nearby may pass requests on to who charges for them."""
    found = price(Judge(model="gpt-4o-2024-11-20", base_url="http://localhost:4000/v1"))
    assert (found.input, found.assumed) == (2.5, False)


def test_a_studys_own_list_is_read_or_says_what_is_wrong(tmp_path):
    assert study_prices(tmp_path) is None
    path = tmp_path / "prices.toml"
    path.write_text('[models]\n"m" = { input = 1.5, output = 6 }\n')
    found = price(Judge(model="m", base_url="https://far.example/v1"), own=study_prices(tmp_path))
    assert (found.input, found.cached, found.output) == (1.5, None, 6.0)
    assert found.source == "the study's prices.toml"
    for wrong, says in (
        ("[models", "is not valid TOML"),
        ('[models]\n"m" = { input = 1 }', "models.m.output"),
        ('[models]\n"m" = { input = -1, output = 1 }', "models.m.input"),
        ('[models]\n"m" = { input = nan, output = 1 }', "models.m.input"),
        ("[model]", "model: extra inputs are not permitted; a model is written there as"),
    ):
        path.write_text(wrong)
        with pytest.raises(StudyError, match=re.escape(says)):
            study_prices(tmp_path)


def test_every_snapshot_is_one_of_the_sdks():
    known = set(get_args(chat_model.ChatModel)) | set(get_args(get_args(anthropic_models.Model)[0]))
    assert set(LISTED["snapshots"]) | set(LISTED["snapshots"].values()) <= known


def test_an_alias_costs_what_its_snapshot_does():
    for alias, snapshot in LISTED["snapshots"].items():
        url = "https://api.anthropic.com" if alias.startswith("claude") else None
        assert price(Judge(model=alias, base_url=url)) == price(Judge(model=snapshot, base_url=url))


def test_shutdown_dates_are_those_the_sdks_announce():
    text = " ".join(inspect.getsource(chat_model).split())
    found = {}
    for names, day in re.findall(r'- ((?:"[^"]+",? ?)+): Announced shutdown date: (\d{4}-\d\d-\d\d)', text):
        found |= dict.fromkeys(re.findall(r'"([^"]+)"', names), date.fromisoformat(day))
    for name, day in anthropic_messages.DEPRECATED_MODELS.items():
        plain = re.sub(r"(\d)(?:st|nd|rd|th)", r"\1", day)
        found[name] = datetime.strptime(plain, "%B %d, %Y").replace(tzinfo=UTC).date()
    ours = [name for name in found if shutdown(name)]
    assert {name: shutdown(name) for name in ours} == {name: found[name] for name in ours}
    not_for_text = re.compile(r"audio|search|codex|mythos")
    assert {name for name in found if not not_for_text.search(name)} == set(ours)


def test_what_replaces_a_model_is_on_sale_and_has_a_price():
    for name in LISTED["instead"].values():
        assert shutdown(name) is None
        url = {"c": "https://api.anthropic.com", "g": None}[name[0]]
        if name.startswith("gemini"):
            url = "https://generativelanguage.googleapis.com"
        assert price(Judge(model=name, base_url=url)) is not None
    for names in LISTED["shutdown"].values():
        assert all(replacement(name) for name in names)


@pytest.mark.parametrize(
    ("model", "url", "ends"),
    [
        ("gpt-4", None, True),
        ("gpt-4", "https://api.openai.com/v1", True),
        ("gpt-4", "http://localhost:8000/v1", False),  # whoever serves it there decides
        ("gpt-4o", None, False),
        ("claude-opus-4-20250514", "https://api.anthropic.com/v1", True),
        ("claude-opus-4-20250514", "http://localhost:8000", False),
    ],
)
def test_a_model_that_was_shut_down_is_refused_where_its_maker_serves_it(model, url, ends):
    judge, today = Judge(model=model, base_url=url), date(2026, 11, 22)
    if not ends:
        return check_available(judge, today=today)
    with pytest.raises(
        ModelShutDownError, match=f"switch {model} off on 2026-.*such as {replacement(model)}"
    ):
        check_available(judge, today=today)
    later = PriceList.model_validate({"shutdown": {"2027-02-01": [model]}})
    return check_available(judge, today=today, own=later)


def test_the_shipped_studies_name_models_on_sale_for_a_year():
    root = Path(guard_eval.__file__).parent
    files = [
        *root.rglob("study.toml"),
        *root.rglob("study.toml.in"),
        *root.glob("cli/replication/studies/*.toml"),
    ]
    models = {
        name
        for path in files
        for name in re.findall(r'(?s)\[\[judge\]\].*?model = "([^"]+)"', path.read_text())
    }
    assert models == {"gpt-6.1-terra", "gpt-6.1-sol"}
    for model in models:
        assert warnings(Judge(model=model), today=date(2027, 11, 22)) == ()
        assert price(Judge(model=model)) is not None


@pytest.mark.parametrize(
    ("model", "today", "expected"),
    [
        ("gpt-4-0613", date(2026, 10, 23), ["off on 2026-10-23; name another model, such as gpt-6.1-sol"]),
        ("gpt-4-0613", date(2026, 10, 22), ["in 1 day;"]),
        ("gpt-4o-2024-11-20", date(2026, 11, 20), ["in 55 days;"]),  # 10 in November, 31, 14
        ("gpt-4o-2024-11-20", date(2026, 11, 15), ["in 60 days;"]),
        ("gpt-4o-2024-11-20", date(2026, 11, 14), []),
        ("gpt-4o", date(2026, 1, 1), ["pin a snapshot, such as gpt-4o-2024-11-20"]),
        ("some-model", date(2030, 1, 1), []),
    ],
)
def test_a_models_end_is_announced(model, today, expected):
    found = warnings(Judge(model=model), today=today)
    assert len(found) == len(expected)
    assert all(words in each for words, each in zip(expected, found, strict=True))


def test_another_servers_models_are_its_own():
    assert warnings(Judge(model="gpt-4", base_url="http://localhost/v1"), today=date(2030, 1, 1)) == ()


def test_a_studys_list_may_announce_an_end():
    own = PriceList.model_validate({"shutdown": {"2027-02-01": ["gpt-5.5-2026-04-23"]}})
    found = warnings(Judge(model="gpt-5.5-2026-04-23"), today=date(2027, 1, 30), own=own)
    assert "in 2 days" in found[0]


def test_the_command_refuses_a_model_that_was_shut_down_before_it_connects(
    tmp_path, monkeypatch, pair, capsys
):
    from guard_eval.cli.judge import command
    from guard_eval.store import Store
    from guard_eval.study.folder import Study

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-sent")
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("a connection was opened"))
    (tmp_path / "study.toml").write_text(f'{STUDY_HEAD}[[judge]]\nmodel = "gpt-4"\n')
    with Store.open(Study.open(tmp_path).database, create=True) as store:
        store.add_pairs([pair(1)])
    command(tmp_path, dry_run=True)
    out = " ".join(capsys.readouterr().out.split())
    assert "warning: OpenAI announced to switch gpt-4 off on 2026-10-23; name another model, such as" in out
    with pytest.raises(ModelShutDownError, match=r"switch gpt-4 off on 2026-10-23.*gpt-6\.1-sol"):
        command(tmp_path, yes=True)
