"""How a visit from a platform ends: each way has its page, and its code or none."""

import json
import re

import pytest
from app_pages import panel, press, rate, turn, view, visit, words
from factories import prolific_id

from annotation_app import markup
from guard_eval.store import handout, raters, verdicts

pytestmark = pytest.mark.slow

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

    def make(number=2, *, quota=10, pages=""):
        named = ", ".join(f'{name} = "{code}"' for name, code in CODES.items())
        more = f"pairs_per_rater = {quota}\n[annotation.pages]\n{pages}\n[annotation.recruitment]\n"
        more += f"prolific = true\ncodes = {{ {named} }}\n"
        return study(number, raters=(), slots=1, more=more)

    def come(name):
        came_from(f"browser of {name}")
        return visit(PROLIFIC_PID=prolific_id(name), STUDY_ID="s", SESSION_ID="v")

    make.come = come
    return make


def codes_on(page):
    """Return the codes that are anywhere in what the browser has got on this page."""
    sent = words(page) + "".join(str(element.proto) for element in page.main.children.values())
    sent += "" if panel(page) is None else json.dumps(view(page))
    return sorted(set(re.findall(r"CODE-[A-Z]+", sent)))


def test_a_full_study_is_reported_before_consent(recruiting):
    built = recruiting(pages="consent = true\n")
    assert "Before you begin" in words(recruiting.come("ann"))
    page = recruiting.come("ben")
    assert "No place is free just now" in words(page)
    assert codes_on(page) == ["CODE-FULL"]
    assert [rater.external_id for rater in built.stored("raters")] == [prolific_id("ann")]


def test_a_rater_who_arrives_late_sees_the_end_page(recruiting):
    built = recruiting(1, pages="consent = true\n")
    ann = press(recruiting.come("ann"), "agree")
    assert "What to judge" in words(ann)
    with built.open() as store:
        # somebody who was invited by name takes the only pair
        who, _ = raters.invite(store, "guest")
        (presentation,) = handout.claim(store, who, built.hand_out_plan)
        verdicts.save(store, presentation.presentation, {"coherence": "A"}, rater=who)
    page = press(ann, "start")
    assert "Nothing is left to compare" in words(page)
    assert codes_on(page) == ["CODE-OUT"]


def test_screened_out_and_declined_raters_see_end_pages(recruiting):
    built = recruiting(pages="consent = true\ncheck = true\n")
    page = press(recruiting.come("ann"), "decline")
    assert codes_on(page) == ["CODE-NO"]
    page = recruiting.come("ann")
    assert "That is fine" in words(page)
    page = press(press(page, "reconsider"), "agree")
    for attempt in range(2):
        page = press(page, "start")
        assert codes_on(page) == []
        for name, value in WRONG.items():
            page.radio(key=f"check-{attempt}-{name}").set_value(value)
        page = press(page, f"check-{attempt}-send")
    for ended in (page, recruiting.come("ann")):
        assert "the study ends here for you" in words(ended)
        assert codes_on(ended) == ["CODE-FAILED"]
    assert [rater.handed_out for rater in built.stored("raters")] == [0]


@pytest.mark.parametrize("state", ["excluded", "revoked"])
@pytest.mark.parametrize("when", ["before the first pair", "among the pairs", "on turning", "at the end"])
def test_an_excluded_rater_never_gets_a_completion_code(recruiting, when, state):
    """As an owner excludes for carelessness, and revokes who returned the study; the page may be open."""
    built = recruiting(3, quota=2)
    page = recruiting.come("ann")
    if when != "before the first pair":
        page = rate(press(page, "start"), "A", "A")
    if when == "at the end":
        page = rate(page, "A", "A")
        assert codes_on(page) == ["CODE-DONE"]
    with built.open() as store:
        if state == "excluded":
            raters.exclude_or_include(store, "P-1", "exclude", "3 s a pair", "owner")
        else:
            raters.revoke(store, "P-1")
    acts = {
        "before the first pair": lambda: press(page, "start"),
        "among the pairs": lambda: rate(page, "A", "A"),
        "on turning": lambda: turn(turn(page, "back"), "latest"),
        "at the end": page.run,
    }
    for presentation in (acts[when](), recruiting.come("ann")):
        assert "The study has ended for you" in words(presentation)
        assert codes_on(presentation) == []
    assert len(built.stored("notes", kind="finished")) == (when == "at the end")


def test_a_waiting_rater_gets_the_pair_when_its_lease_ends(recruiting, databases, monkeypatch):
    built = recruiting(2, quota=2)
    page = press(recruiting.come("ann"), "start")
    with built.open() as store:
        guest, _ = raters.invite(store, "guest")
        handout.claim(store, guest, built.hand_out_plan)
    page = rate(page, "A", "A")
    assert "One moment, please" in words(page)
    assert codes_on(page) == []
    # A database that fails for a moment is looked for again by the page itself.
    polls = []
    monkeypatch.setattr(markup, "reload_page", polls.append)
    with databases.away(built.database):
        page = page.run()
    assert "Please try again in a moment" in words(page)
    assert len(polls) == 1
    with built.open() as store:
        raters.revoke(store, "guest")
    page = page.run()
    assert view(page)["where"] == "Pair 2 of 2"
    page = rate(page, "A", "A")
    assert codes_on(page) == ["CODE-DONE"]
