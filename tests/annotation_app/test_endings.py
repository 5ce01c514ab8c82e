"""Each ending of a visit from a platform shows the right page, and the right code or none."""

import json
import re

import pytest
from app_pages import (
    find_panel,
    go_to_page,
    open_page,
    press_button,
    read_panel_data,
    read_words,
    save_choices,
)
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
    """Return a function that builds a study for people from Prolific. Its `come` opens a person's page."""

    def make(number=2, *, quota=10, pages=""):
        named = ", ".join(f'{name} = "{code}"' for name, code in CODES.items())
        more = f"pairs_per_rater = {quota}\n[annotation.pages]\n{pages}\n[annotation.recruitment]\n"
        more += f"prolific = true\ncodes = {{ {named} }}\n"
        return study(number, raters=(), slots=1, more=more)

    def come(name):
        came_from(f"browser of {name}")
        return open_page(PROLIFIC_PID=prolific_id(name), STUDY_ID="s", SESSION_ID="v")

    make.come = come
    return make


def find_codes(page):
    """Return all completion codes in the data of a page."""
    sent = read_words(page) + "".join(str(element.proto) for element in page.main.children.values())
    sent += "" if find_panel(page) is None else json.dumps(read_panel_data(page))
    return sorted(set(re.findall(r"CODE-[A-Z]+", sent)))


def test_a_full_study_turns_raters_away_before_consent(recruiting):
    built = recruiting(pages="consent = true\n")
    assert "Before you begin" in read_words(recruiting.come("ann"))
    page = recruiting.come("ben")
    assert "No place is free just now" in read_words(page)
    assert find_codes(page) == ["CODE-FULL"]
    assert [rater.external_id for rater in built.stored("raters")] == [prolific_id("ann")]


def test_a_rater_who_arrives_late_sees_the_end_page(recruiting):
    built = recruiting(1, pages="consent = true\n")
    ann = press_button(recruiting.come("ann"), "agree")
    assert "What to judge" in read_words(ann)
    with built.open() as store:
        # somebody who was invited by name takes the only pair
        who, _ = raters.invite_rater(store, "guest")
        (presentation,) = handout.claim_pairs(store, who, built.hand_out_plan)
        verdicts.save_verdict(store, presentation.presentation, {"coherence": "A"}, rater=who)
    page = press_button(ann, "start")
    assert "Nothing is left to compare" in read_words(page)
    assert find_codes(page) == ["CODE-OUT"]


def test_rejected_and_declined_raters_get_the_right_codes(recruiting):
    built = recruiting(pages="consent = true\ncheck = true\n")
    page = press_button(recruiting.come("ann"), "decline")
    assert find_codes(page) == ["CODE-NO"]
    page = recruiting.come("ann")
    assert "That is fine" in read_words(page)
    page = press_button(press_button(page, "reconsider"), "agree")
    for attempt in range(2):
        page = press_button(page, "start")
        assert find_codes(page) == []
        for name, value in WRONG.items():
            page.radio(key=f"check-{attempt}-{name}").set_value(value)
        page = press_button(page, f"check-{attempt}-send")
    for ended in (page, recruiting.come("ann")):
        assert "the study ends here for you" in read_words(ended)
        assert find_codes(ended) == ["CODE-FAILED"]
    assert [rater.handed_out for rater in built.stored("raters")] == [0]


@pytest.mark.parametrize("state", ["excluded", "revoked"])
@pytest.mark.parametrize("when", ["before the first pair", "among the pairs", "on turning", "at the end"])
def test_an_excluded_rater_never_gets_a_completion_code(recruiting, when, state):
    """The owner excludes or revokes the rater at different moments of the visit."""
    built = recruiting(3, quota=2)
    page = recruiting.come("ann")
    if when != "before the first pair":
        page = save_choices(press_button(page, "start"), "A", "A")
    if when == "at the end":
        page = save_choices(page, "A", "A")
        assert find_codes(page) == ["CODE-DONE"]
    with built.open() as store:
        if state == "excluded":
            raters.decide_about_rater(store, "P-1", "exclude", by="owner", reason="3 s a pair")
        else:
            raters.decide_about_rater(store, "P-1", "revoke", by="owner")
    acts = {
        "before the first pair": lambda: press_button(page, "start"),
        "among the pairs": lambda: save_choices(page, "A", "A"),
        "on turning": lambda: go_to_page(go_to_page(page, "back"), "latest"),
        "at the end": page.run,
    }
    for presentation in (acts[when](), recruiting.come("ann")):
        assert "The study has ended for you" in read_words(presentation)
        assert find_codes(presentation) == []
    assert len(built.stored("notes", kind="finished")) == (when == "at the end")


def test_a_waiting_rater_gets_a_pair_that_becomes_free(recruiting, databases, monkeypatch):
    built = recruiting(2, quota=2)
    page = press_button(recruiting.come("ann"), "start")
    with built.open() as store:
        guest, _ = raters.invite_rater(store, "guest")
        handout.claim_pairs(store, guest, built.hand_out_plan)
    page = save_choices(page, "A", "A")
    assert "One moment, please" in read_words(page)
    assert find_codes(page) == []
    # A database that fails for a moment is looked for again by the page itself.
    polls = []
    monkeypatch.setattr(markup, "reload_page_periodically", polls.append)
    with databases.away(built.database):
        page = page.run()
    assert "Please try again in a moment" in read_words(page)
    assert len(polls) == 1
    with built.open() as store:
        raters.decide_about_rater(store, "guest", "revoke", by="owner")
    page = page.run()
    assert read_panel_data(page)["where"] == "Pair 2 of 2"
    page = save_choices(page, "A", "A")
    assert find_codes(page) == ["CODE-DONE"]
