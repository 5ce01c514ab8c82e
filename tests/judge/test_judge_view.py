"""The page of exchanges: all that was asked and answered, no method's name, and nothing foreign that runs."""

import re

import pytest
from judged_study import HOSTILE, METHODS, judged_study

from judge.viewer import read_comparisons, write_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return judged_study(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def page(judged, tmp_path):
    with judged.open() as store:
        count = write_page(store, judged.judges, tmp_path / "view.html", seed=11)
    assert count == 12 * 2 * 2
    return (tmp_path / "view.html").read_text(encoding="utf-8")


def test_it_has_every_exchange_as_text_and_no_name_of_a_method(page, judged):
    assert page.count('class="comparison"') == 24
    for pair in judged.pairs:
        assert pair.id in page
    assert not any(method in page for method in METHODS)
    assert "continuation" not in page
    assert "<script>document" not in page
    assert "<img" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
    assert HOSTILE not in page


def test_failures_are_shown_and_a_verdict_follows_the_text_that_is_drawn_as_first(judged):
    pairs = {pair.id: pair for pair in judged.pairs}
    with judged.open() as store:
        comparisons = list(read_comparisons(store, seed=11, only={"steady"}))
    kinds = {order["failure"] for each in comparisons for order in each["orders"]}
    assert kinds == {None, "content_filter", "unparseable"}
    assert "I think" in comparisons[0]["orders"][0]["attempts"][-1]["answer"]
    firsts = set()
    for each in comparisons:
        first = next(number for number, text in enumerate(each["texts"], 1) if text.startswith("first"))
        firsts.add(first)
        for order in each["orders"]:
            if order["better"]:  # this judge always prefers the text that begins with "first"
                assert order["better"]["fluency"] == f"text {first}"
        assert pairs[each["id"]].prompt.split(".")[0] in each["prompt"]
    assert firsts == {1, 2}
    with judged.open() as store:
        flips = {each["judge"]: each["flip"] for each in read_comparisons(store, seed=11)}
    assert flips["a judge <img src=x>"] == "flip"  # this one prefers the first place
