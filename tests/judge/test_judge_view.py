"""The page of exchanges shows all requests and answers, names no method, and runs no foreign script."""

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from app_study import chromium, shared_browser  # noqa: F401
from fake_openai import make_answer, make_error
from local_server import Response
from refusals import expect_refusal

from guard_eval.records import HandOutPlan
from guard_eval.store import handout, raters, verdicts
from guard_eval.store import pairs as store_pairs
from judge.viewer import format_answer, read_judged_comparisons, write_judge_exchanges_page

pytestmark = pytest.mark.slow

HOSTILE = (
    "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    "\x1b[31mred\x1b]0;title\x07 \u202egnorw <!--"
)
REFUSED, PROSE, HOSTILE_PAIR = 5, 6, 3
JUDGES = ({"model": "steady"}, {"model": "always-a", "name": "a judge <img src=x>"})


def answer_by_model_name(ask):
    """Answer as the model's name says: always prefer the same text, or always the text shown first."""
    if ask["model"] == "always-a":
        return make_answer(ask, json.dumps({"fluency": "A", "coherence": "A"}))
    if f"prompt number {REFUSED}" in ask.words:
        return make_error(400, f"no such text {HOSTILE}", code="content_filter")
    if f"prompt number {PROSE}" in ask.words:
        return make_answer(ask, f"I would rather not. {HOSTILE}")
    fluency = "A" if ask.texts[0].startswith("first") else "B"
    thought = f"<think>I think {HOSTILE} of it.</think>"
    return make_answer(ask, thought + json.dumps({"fluency": fluency, "coherence": "tie"}))


@pytest.fixture
def judged(store, pair, server, run):
    """Let two judges compare twelve pairs in both orders. One pair is hostile."""
    server.act = answer_by_model_name
    pairs = [pair(number) for number in range(12)]
    hostile = {name: getattr(pairs[HOSTILE_PAIR], name) + HOSTILE for name in ("prompt", "text_a")}
    pairs[HOSTILE_PAIR] = replace(pairs[HOSTILE_PAIR], **hostile)
    store_pairs.add_pairs(store, pairs)
    for named in JUDGES:
        run(**named)
    return pairs


def test_page_has_every_exchange_and_no_method_name(judged, store, judge, tmp_path):
    judges = [judge.model_copy(update=named) for named in JUDGES]
    for _ in range(2):
        assert write_judge_exchanges_page(store, judges, tmp_path / "view.html", seed=11) == 12 * 2 * 2
    (tmp_path / "own.html").write_text("<!doctype html>\n<p>mine", encoding="utf-8")
    with expect_refusal(r"own.html exists, and is no earlier result"):
        write_judge_exchanges_page(store, judges, tmp_path / "own.html", seed=11)
    page = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert page.count('class="comparison"') == 24
    for pair in judged:
        assert pair.id in page
    assert not any(method in page for method in (judged[0].method_a, judged[0].method_b))
    assert "continuation" not in page
    assert "<script>document" not in page
    assert "<img" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)
    assert HOSTILE not in page


def test_page_shows_only_the_beginning_of_huge_answers(*, store, pair, server, run, judge, tmp_path):
    server.act = lambda _: Response(b"x" * 3_000_000)
    store_pairs.add_pairs(store, [pair(0)])
    run(orders="one")
    write_judge_exchanges_page(store, [judge], tmp_path / "view.html", seed=11)
    page = (tmp_path / "view.html").read_text(encoding="utf-8")
    assert page.count("Answer as it came, the first megabyte") == 3
    assert page.count("x" * 1_000_000) == 3
    assert "x" * 1_000_001 not in page


@pytest.fixture
def voted(judged, store):
    """Add votes of two people: both agree with the judge on pair 0, one on pair 1, and none on pair 2."""
    plan = HandOutPlan(seed=1, slots=2, lease=timedelta(minutes=5))
    for rater, sides in (("ann", "ab"), ("ben", "aa")):
        person = raters.get_or_add_rater(store, rater, "person")
        for blind in handout.claim_pairs(store, person, plan, limit=12):
            number = next(index for index, pair in enumerate(judged) if pair.prompt == blind.prompt)
            winner = sides[number] if number < 2 else "b"
            texts = {"a": judged[number].text_a, "b": judged[number].text_b}
            choice = "A" if texts[winner].startswith(blind.text_a[:12]) else "B"
            verdicts.save_verdict(store, blind.presentation, {"fluency": choice}, rater=person)
    return judged


def test_page_compares_people_with_judge_and_each_other(voted, store):
    by_pair = {
        comparison["id"]: comparison
        for comparison in read_judged_comparisons(store, seed=11, only_judges={"steady"})
    }
    figures = [(by_pair[pair.id]["apart"], by_pair[pair.id]["split"]) for pair in voted[:3]]
    assert figures == [(0, 0), (1, 1), (2, 0)]
    assert by_pair[voted[1].id]["people"] == {"fluency": {"text 1": 1, "text 2": 1}}


@pytest.mark.browser
def test_page_sorts_exchanges_by_disagreement(voted, store, judge, chromium, tmp_path):  # noqa: F811
    judges = [judge.model_copy(update=named) for named in JUDGES]
    write_judge_exchanges_page(store, judges, tmp_path / "view.html", seed=11, only_judges={"steady"})
    page = chromium.new_page()
    page.goto((tmp_path / "view.html").as_uri())
    ids = page.locator(".comparison .id")
    drawn = ids.all_inner_texts()
    page.locator("#order").select_option("people disagree most")
    assert ids.first.inner_text() == voted[1].id
    assert page.locator(".comparison").first.inner_text().count("1 text") == 2
    page.locator("#order").select_option("people and judge disagree most")
    places = [ids.all_inner_texts().index(voted[number].id) for number in (2, 1, 0)]
    assert places == sorted(places)
    page.get_by_role("button", name="All").click()
    page.wait_for_function(
        "first => document.querySelector('.comparison .id').innerText === first", arg=drawn[0]
    )
    assert ids.all_inner_texts() == drawn
    page.close()


@pytest.mark.browser
def test_page_of_exchanges_never_scrolls_sideways(voted, store, judge, chromium, tmp_path):  # noqa: F811
    write_judge_exchanges_page(store, [judge], tmp_path / "view.html", seed=11)
    page = chromium.new_page(viewport={"width": 320, "height": 256})
    page.goto((tmp_path / "view.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(section => section.open = true)")
    too_wide = "[...document.querySelectorAll('html, pre')].filter(e => e.scrollWidth > e.clientWidth).length"
    assert page.evaluate(too_wide) == 0
    page.close()


def test_page_shows_verdicts_by_text_and_failures(judged, store):
    pairs = {pair.id: pair for pair in judged}
    comparisons = list(read_judged_comparisons(store, seed=11, only_judges={"steady"}))
    kinds = {order["failure"] for comparison in comparisons for order in comparison["orders"]}
    assert kinds == {None, "content_filter", "unparseable"}
    assert "I think" in format_answer(comparisons[0]["orders"][0]["attempts"][-1])
    firsts = set()
    for comparison in comparisons:
        first = next(number for number, text in enumerate(comparison["texts"], 1) if text.startswith("first"))
        firsts.add(first)
        for order in comparison["orders"]:
            if order["better"]:  # this judge always prefers the text that begins with "first"
                assert order["better"]["fluency"] == f"text {first}"
        assert pairs[comparison["id"]].prompt.partition("<")[0] in comparison["prompt"]
    assert firsts == {1, 2}
    flips = {
        comparison["judge"]: comparison["flip"] for comparison in read_judged_comparisons(store, seed=11)
    }
    assert flips["a judge <img src=x>"] == "flip"  # this one prefers the first place
