"""What tokens cost and who says so; shutdown dates as OpenAI's own SDK announces them."""

import inspect
import re
import tomllib
from datetime import date
from pathlib import Path
from typing import get_args

import pytest
from openai.types.shared import chat_model

import judge.pricing.prices
from guard_eval.errors import StudyError
from guard_eval.store import Usage
from guard_eval.study.settings import Judge
from judge.pricing.prices import Price, PriceList, is_local, price, priced, shutdown, study_prices, warnings

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


def test_study_toml_goes_before_the_studys_list_and_that_before_the_packages():
    model = "gpt-4o-2024-11-20"
    listed = price(Judge(model=model))
    dated = f"the list of {LISTED['as_of']}"
    assert listed == Price(input=2.5, cached=1.25, output=10.0, batch_factor=0.5, source=dated)
    entry = {"input": 3, "output": 9, "batch_factor": 0.8}
    own = PriceList.model_validate({"as_of": "2026-11-20", "models": {model: entry}})
    of_study = "the study's prices.toml of 2026-11-20"
    assert price(Judge(model=model), own=own) == Price(
        input=3.0, output=9.0, batch_factor=0.8, source=of_study
    )
    said = Judge(model=model, usd_per_million_input_tokens=1.0, usd_per_million_output_tokens=0.0)
    assert price(said, own=own) == Price(input=1.0, output=0.0, batch_factor=0.8, source="study.toml")
    half = price(Judge(model=model, usd_per_million_input_tokens=1.0))
    assert (half.input, half.cached, half.output, half.source) == (1.0, None, 10.0, dated)
    cached = price(Judge(model=model, usd_per_million_cached_tokens=0.25, batch_factor=1))
    assert (cached.cached, cached.batch_factor) == (0.25, 1.0)


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
        ("[models", "cannot read"),
        ('[models]\n"m" = { input = 1 }', "models.m.output"),
        ('[models]\n"m" = { input = -1, output = 1 }', "models.m.input"),
        ('[models]\n"m" = { input = nan, output = 1 }', "models.m.input"),
        ("[model]", "model: extra inputs are not permitted; a model stands there as"),
    ):
        path.write_text(wrong)
        with pytest.raises(StudyError, match=re.escape(says)):
            study_prices(tmp_path)


def test_every_listed_name_is_one_of_the_sdks():
    known = set(get_args(chat_model.ChatModel))
    assert set(LISTED["models"]) <= known
    assert set(LISTED["snapshots"]) | set(LISTED["snapshots"].values()) <= known


def test_an_alias_costs_what_its_snapshot_does():
    for alias, snapshot in LISTED["snapshots"].items():
        assert LISTED["models"][alias] == LISTED["models"][snapshot]


def test_cached_tokens_cost_less_and_answers_more():
    for entry in LISTED["models"].values():
        assert 0 < entry["cached"] < entry["input"] < entry["output"]


def test_shutdown_dates_are_those_the_sdk_announces():
    text = " ".join(inspect.getsource(chat_model).split())
    found = {}
    for names, day in re.findall(r'- ((?:"[^"]+",? ?)+): Announced shutdown date: (\d{4}-\d\d-\d\d)', text):
        found |= dict.fromkeys(re.findall(r'"([^"]+)"', names), day)
    ours = [name for name in found if shutdown(name)]
    assert {"gpt-4", "gpt-4-0613", "gpt-4o-2024-11-20", "gpt-4.1-2025-04-14"} <= set(ours)
    assert {name: str(shutdown(name)) for name in ours} == {name: found[name] for name in ours}
    assert {name for name in LISTED["models"] if name in found} <= set(ours)


@pytest.mark.parametrize(
    ("model", "today", "said"),
    [
        ("gpt-4-0613", date(2026, 10, 23), ["switched off since 2026-10-23"]),
        ("gpt-4-0613", date(2026, 10, 22), ["in 1 day;"]),
        ("gpt-4o-2024-11-20", date(2026, 11, 20), ["in 55 days;"]),  # 10 in November, 31, 14
        ("gpt-4o-2024-11-20", date(2026, 11, 15), ["in 60 days;"]),
        ("gpt-4o-2024-11-20", date(2026, 11, 14), []),
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


def test_a_studys_list_may_announce_an_end():
    own = PriceList.model_validate({"shutdown": {"2027-02-01": ["gpt-5.5-2026-04-23"]}})
    found = warnings(Judge(model="gpt-5.5-2026-04-23"), today=date(2027, 1, 30), own=own)
    assert "in 2 days" in found[0]
