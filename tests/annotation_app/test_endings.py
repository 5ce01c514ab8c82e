"""How a visit from a platform ends: each way has its page, and its code or none."""

import json
import re
from datetime import timedelta

import pytest
from app_pages import panel, press, rate, turn, view, visit, words

from guard_eval.records import Plan
from guard_eval.store import handout, raters, verdicts

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

CODES = {
    "completed": "CODE-DONE",
    "no_place": "CODE-FULL",
    "ran_out": "CODE-OUT",
    "screened_out": "CODE-FAILED",
    "declined": "CODE-NO",
}
WRONG = {"no_difference": "guess", "own": "nothing", "cut": "judge", "orders": "judge"}


@pytest.fixture
def recruiting(study, came_from):
    """Build a study to which people come from Prolific, each in a browser of their own."""

    def make(number=2, *, slots=1, quota=None, pages="", codes=CODES):
        named = ", ".join(f'{name} = "{code}"' for name, code in codes.items())
        more = (
            f"pairs_per_rater = {quota}\n" if quota else ""
        ) + f"[annotation.pages]\n{pages}[annotation.recruitment]\nprolific = true\ncodes = {{ {named} }}\n"
        return study(number, raters=(), slots=slots, more=more)

    def come(name, *, browser=None):
        came_from(browser or f"browser of {name}")
        return visit(PROLIFIC_PID=name, STUDY_ID="s", SESSION_ID="v")

    make.come = come
    return make


def codes_on(page):
    """Return the codes that are anywhere in what the browser has got on this page."""
    sent = words(page) + "".join(str(element.proto) for element in page.main.children.values())
    sent += "" if panel(page) is None else json.dumps(view(page))
    return sorted(set(re.findall(r"CODE-[A-Z]+", sent)))


def rate_all(page):
    page = press(page, "start")
    while panel(page) is not None:
        assert codes_on(page) == []
        page = rate(page, "A", "tie")
    return page


def test_no_place_is_said_before_consent_and_adds_nobody(recruiting):
    built = recruiting(pages="consent = true\n")
    assert "Before you begin" in words(recruiting.come("ann"))
    page = recruiting.come("ben")
    assert "No place is free just now" in words(page)
    assert codes_on(page) == ["CODE-FULL"]
    assert [rater.external_id for rater in built.stored("raters")] == ["ann"]


def test_a_latecomer_whose_pairs_ran_out_after_consent(recruiting):
    built = recruiting(1, pages="consent = true\n")
    ann = press(recruiting.come("ann"), "agree")
    assert "What to judge" in words(ann)
    with built.open() as store:
        # somebody who was invited by name takes the only pair
        who, _ = raters.invite(store, "guest")
        plan = Plan(seed=1, slots=1, lease=timedelta(hours=1))
        given = handout.claim(store, who, plan)[0]
        verdicts.save(store, given.presentation, {"coherence": "A"}, rater=who)
    page = press(ann, "start")
    assert "Nothing is left to compare" in words(page)
    assert codes_on(page) == ["CODE-OUT"]


def test_screened_out(recruiting):
    recruiting(pages="check = true\n")
    page = press(recruiting.come("ann"), "start")
    for attempt in range(2):
        assert codes_on(page) == []
        for name, value in WRONG.items():
            page.radio(key=f"check-{attempt}-{name}").set_value(value)
        page = press(page, f"check-{attempt}-send")
        page = press(page, "retry") if attempt == 0 else page
    assert "the study ends here for you" in words(page)
    assert codes_on(page) == ["CODE-FAILED"]


@pytest.mark.parametrize("when", ["before the first pair", "among the pairs", "at the end"])
def test_who_is_excluded_gets_no_code_whenever_that_happens(recruiting, when):
    built = recruiting(3, quota=2)
    page = recruiting.come("ann")
    if when != "before the first pair":
        page = rate(press(page, "start"), "A", "A")
    if when == "at the end":
        page = rate(page, "A", "A")
        assert codes_on(page) == ["CODE-DONE"]
    with built.open() as store:
        raters.exclude(store, "P-1", "3 s a pair", "owner")
    if when == "before the first pair":
        page = press(page, "start")
    elif when == "among the pairs":
        page = rate(page, "A", "A")
    else:
        page = page.run()
    for shown in (page, recruiting.come("ann")):
        assert "The study has ended for you" in words(shown)
        assert codes_on(shown) == []


@pytest.mark.parametrize("how", ["starts", "turns", "saves"])
def test_who_returned_the_study_gets_no_code_for_a_pair_or_two(recruiting, how):
    """`guard-eval prolific sync` revokes who left; the page may still be open."""
    built = recruiting(5, quota=4)
    page = recruiting.come("ann")
    if how != "starts":
        page = rate(press(page, "start"), "A", "A")
    with built.open() as store:
        raters.revoke(store, "P-1")
    if how == "saves":
        page = rate(page, "A", "A")
    else:
        page = press(page, "start") if how == "starts" else turn(turn(page, "back"), "latest")
    assert "The study has ended for you" in words(page)
    assert codes_on(page) == []
    assert built.stored("notes", kind="finished") == []


def test_who_waits_is_handed_the_pair_when_its_lease_is_over(recruiting):
    built = recruiting(2, slots=1, quota=2)
    page = press(recruiting.come("ann"), "start")
    with built.open() as store:
        guest, _ = raters.invite(store, "guest")
        handout.claim(store, guest, built.plan)
    page = rate(page, "A", "A")
    assert "One moment, please" in words(page)
    assert codes_on(page) == []
    with built.open() as store:
        raters.revoke(store, "guest")
    page = page.run()
    assert view(page)["where"] == "Pair 2 of 2"
    page = rate(page, "A", "A")
    assert codes_on(page) == ["CODE-DONE"]


def test_an_id_is_bound_to_its_browser_and_the_personal_link_leads_back(recruiting):
    built = recruiting()
    page = recruiting.come("ann", browser="b1")
    link = page.query_params["invite"]
    assert f"/?invite={link}" in words(page)
    rate(press(page, "start"), "A", "A")
    thief = recruiting.come("ann", browser="b2")
    assert "in another browser" in words(thief)
    assert link not in words(thief)
    assert panel(thief) is None
    assert view(visit(link))["where"] == "Pair 2 of 2"
    assert view(recruiting.come("ann", browser="b1"))["where"] == "Pair 2 of 2"
    assert [rater.rated for rater in built.stored("raters")] == [1]


def test_no_code_nor_id_is_logged(recruiting, caplog):
    recruiting()
    rate_all(recruiting.come("SECRET-PERSON"))
    recruiting.come("SECRET-OTHER")
    assert not re.findall("CODE-|SECRET", caplog.text)
