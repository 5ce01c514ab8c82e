"""How a visit from a platform ends: each way has its page, and its code or none."""

import json
import re
from contextlib import contextmanager
from datetime import timedelta

import pytest
from app_pages import panel, press, rate, turn, view, visit, words

from guard_eval.records import Plan
from guard_eval.store.handout import places

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

    def come(name, *, browser=None, address=None):
        came_from(browser or f"browser of {name}", address)
        return visit(PROLIFIC_PID=name, STUDY_ID="s", SESSION_ID="v")

    make.come = come
    return make


def codes_on(page):
    """Return the codes that are anywhere in what the browser has got on this page."""
    sent = words(page) + "".join(str(element.proto) for element in page.main.children.values())
    sent += "" if panel(page) is None else json.dumps(view(page))
    return sorted(set(re.findall(r"CODE-[A-Z]+", sent)))


@contextmanager
def lapsing():
    """Let a place be kept for no time at all."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "HOLD", timedelta(0))
        yield


def rate_all(page):
    page = press(page, "start")
    while panel(page) is not None:
        assert codes_on(page) == []
        page = rate(page, "A", "tie")
    return page


def test_completed(recruiting):
    recruiting()
    page = rate_all(recruiting.come("ann"))
    assert "Thank you" in words(page)
    assert codes_on(page) == ["CODE-DONE"]


def test_no_place_is_said_before_consent_and_adds_nobody(recruiting):
    built = recruiting(pages="consent = true\n")
    assert "Before you begin" in words(recruiting.come("ann"))
    page = recruiting.come("ben")
    assert "No place is free just now" in words(page)
    assert codes_on(page) == ["CODE-FULL"]
    assert [rater.external_id for rater in built.stored("raters")] == ["ann"]
    with built.open() as store:
        store.end_place(store.rater("P-1", "person"))
    assert "Before you begin" in words(press(page, "look-again"))


def test_a_place_that_lapsed_before_consent_is_no_place(recruiting):
    recruiting(pages="consent = true\n")
    ann = recruiting.come("ann")
    with lapsing():
        ann.run()
    recruiting.come("ben")
    assert codes_on(ann.run()) == ["CODE-FULL"]


def test_a_latecomer_whose_pairs_ran_out_after_consent(recruiting):
    built = recruiting(1, pages="consent = true\n")
    ann = press(recruiting.come("ann"), "agree")
    assert "What to judge" in words(ann)
    with built.open() as store:
        # somebody who was invited by name takes the only pair
        who, _ = store.invite("guest")
        plan = Plan(seed=1, slots=1, lease=timedelta(hours=1))
        given = store.hand_out(who, plan)[0]
        store.save(given.presentation, {"coherence": "A"}, rater=who)
    page = press(ann, "start")
    assert "Nothing is left to compare" in words(page)
    assert codes_on(page) == ["CODE-OUT"]


def test_screened_out_and_the_place_is_free(recruiting):
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
    assert "What to judge" in words(recruiting.come("ben"))


def test_declined_and_the_place_is_free_until_it_is_asked_for_again(recruiting):
    recruiting(pages="consent = true\n")
    ann = press(recruiting.come("ann"), "decline")
    assert "That is fine" in words(ann)
    assert codes_on(ann) == ["CODE-NO"]
    ben = recruiting.come("ben")
    assert "Before you begin" in words(ben)
    # who thinks again finds the place taken, and gets it when it is free
    assert codes_on(press(ann, "reconsider")) == ["CODE-FULL"]
    press(ben, "decline")
    assert "Before you begin" in words(press(ann, "look-again"))


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
        store.exclude("P-1", "3 s a pair", "owner")
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
        store.revoke("P-1")
    if how == "saves":
        page = rate(page, "A", "A")
    else:
        page = press(page, "start") if how == "starts" else turn(turn(page, "back"), "latest")
    assert "The study has ended for you" in words(page)
    assert codes_on(page) == []
    assert built.stored("notes", kind="finished") == []


def test_without_codes_every_ending_is_a_message(recruiting):
    recruiting(pages="consent = true\n", codes={})
    ann = recruiting.come("ann")
    assert "No place is free" in words(recruiting.come("ben"))
    assert "That is fine" in words(press(ann, "decline"))


def test_who_waits_is_handed_the_pair_when_its_lease_is_over(recruiting):
    built = recruiting(2, slots=1, quota=2)
    page = press(recruiting.come("ann"), "start")
    with built.open() as store:
        guest, _ = store.invite("guest")
        store.hand_out(guest, built.plan)
    page = rate(page, "A", "A")
    assert "One moment, please" in words(page)
    assert codes_on(page) == []
    with built.open() as store:
        store.revoke("guest")
    page = page.run()
    assert view(page)["where"] == "Pair 2 of 2"
    page = rate(page, "A", "A")
    assert codes_on(page) == ["CODE-DONE"]


def test_who_waits_is_done_when_the_other_has_rated(recruiting):
    built = recruiting(2, slots=1, quota=2)
    page = press(recruiting.come("ann"), "start")
    with built.open() as store:
        guest, _ = store.invite("guest")
        held = store.hand_out(guest, built.plan)[0]
        page = rate(page, "A", "A")
        assert codes_on(page) == []
        store.save(held.presentation, {"coherence": "A"}, rater=guest)
    assert codes_on(page.run()) == ["CODE-DONE"]


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


def test_one_browser_that_invents_ids_has_one_place(recruiting):
    recruiting(10, slots=2)
    for number in range(17):
        assert "What to judge" in words(recruiting.come(f"id{number}", browser="b"))
    assert "What to judge" in words(recruiting.come("honest"))


def test_one_address_that_invents_ids_is_turned_away_for_a_day(recruiting, caplog):
    built = recruiting(10, slots=2)
    with lapsing():
        for number in range(17):
            page = recruiting.come(f"id{number}", address="192.0.2.7")
    assert "no more people can take part from your network" in words(page)
    assert "--proxy ADDRESS" in caplog.text
    assert len(built.stored("raters")) == places.FEW
    assert "What to judge" in words(recruiting.come("honest", address="192.0.2.8"))


def test_no_code_nor_id_is_logged(recruiting, caplog):
    recruiting()
    rate_all(recruiting.come("SECRET-PERSON"))
    recruiting.come("SECRET-OTHER")
    assert not re.findall("CODE-|SECRET", caplog.text)
