"""The way from the first page to the first pair, without a browser."""

import json
from unittest.mock import patch

import pytest
from app_pages import press, rate, start, view, visit, words

from annotation_app import state
from guard_eval.store import notes as store_notes

pytestmark = pytest.mark.slow

ALL = "[annotation.pages]\nconsent = true\nbackground = true\npractice = true\ncheck = true\n"
RIGHT = {"no_difference": "similar", "own": "nothing", "cut": "judge", "orders": "judge"}
WRONG = {**RIGHT, "cut": "worse"}


@pytest.fixture
def prepared(study):
    """Build a study of one pair with more settings below its table [annotation]."""
    return lambda settings=ALL, number=1, **options: study(number, more=settings, **options)


@pytest.fixture
def full_disk():
    """Return a context in which no note can be stored."""

    def fail(*_args, **_options):
        raise OSError("disk full")

    return lambda: patch.object(store_notes, "write_note", fail)


def answer(page, answers, *, attempt=0):
    for name, value in answers.items():
        page.radio(key=f"check-{attempt}-{name}").set_value(value)
    return press(page, f"check-{attempt}-send")


def notes(built, kind=None):
    return [(note.kind, json.loads(note.detail)) for note in built.stored("notes", kind=kind)]


def test_onboarding_asks_each_question_once(prepared):
    """Every page is opened anew, as in another browser. That of `rate` stays, for its feedback."""
    built = prepared()
    ann = built.tokens["ann"]
    assert "Before you begin" in words(visit(ann))
    press(visit(ann), "agree")
    page = visit(ann)
    page.radio(key="background-native").set_value("yes")
    page.text_input(key="background-languages").set_value(" Dansk, Føroyskt ")
    press(page, "background-send")
    assert "What to judge" in words(visit(ann))
    press(visit(ann), "start")
    page = visit(ann)
    assert (view(page)["where"], "extras" in view(page)) == ("Practice 1 of 2", False)
    page_words = words(rate(page, "A", "B"))
    assert "You chose “A is better”, and so do we. A stays in the bakery" in page_words
    assert "we would choose “Similar”." in page_words
    page = visit(ann)
    assert view(page)["where"] == "Practice 2 of 2"
    page = press(rate(page, "A", "tie"), "next")
    # Who errs reads the instructions once more, and what for; the attempt counts.
    page = answer(page, WRONG)
    assert "Not all answers were right: “" in words(page)
    assert "if an answer is wrong again, the study ends for you" in words(page)
    page = press(page, "start")
    assert [question.value for question in page.radio] == [None] * 4
    answer(visit(ann), RIGHT, attempt=1)
    page = visit(ann)
    assert view(page)["where"] == "Pair 1 of 1"
    assert "Thank you" in words(rate(page, "A", "tie"))
    stored = dict(reversed(notes(built)))  # the first of each kind
    assert stored["consent"]["agreed"] is True
    assert stored["background"] == {"native": "yes", "languages": "Dansk, Føroyskt"}
    assert stored["practice"]["choices"] == {"coherence": "A", "fluency": "B"}
    wrong = [detail["wrong"] for _, detail in notes(built, "check")]
    assert wrong == [["cut"], []]


def test_a_button_pressed_twice_gives_one_answer(prepared):
    """The second press comes to a page that was shown before the first was noted."""
    built = prepared()
    app = state.app
    for key, kind in (("agree", "consent"), ("background-send", "background"), ("start", "instructions")):
        stale = state.start_visit(app, built.tokens["ann"])
        press(visit(built.tokens["ann"]), key)
        state.note_progress(app, stale, kind, {"again": True})
    assert [kind for kind, _ in notes(built)] == ["consent", "background", "instructions"]


def test_the_check_needs_an_answer_to_every_question(prepared):
    built = prepared("[annotation.pages]\ncheck = true\n")
    page = answer(start(built), {"own": "nothing"})
    assert "Please answer every question." in words(page)
    assert page.radio(key="check-0-own").value == "nothing"
    page = press(page, "read")
    assert "What to judge" in words(page)
    assert "A few short questions" in words(press(page, "start"))
    assert notes(built, "check") == []


def test_an_unsaved_answer_is_asked_again(prepared, full_disk):
    page = visit(prepared().tokens["ann"])
    with full_disk():
        page = press(page, "agree")
        assert "Before you begin" in words(page)
        assert "cannot be reached just now" in words(page)
    assert "About you" in words(press(page, "agree"))


def test_an_unsaved_practice_answer_stays_on_the_form(prepared, full_disk):
    page = start(prepared("[annotation.pages]\npractice = true\n"))
    with full_disk():
        page = rate(page, "A", "A")
    assert (view(page)["failed"], view(page)["where"]) == ("one", "Practice 1 of 2")
    assert "could not be saved" in view(page)["problem"]
    assert "What we would choose" in words(rate(page, "A", "A"))


def test_custom_and_german_wording_is_shown_as_plain_text(prepared, tmp_path):
    own_pages = (
        '[consent]\nlead = "<img src=x> **not bold**"\nagree = "*Ja* $x$"\npoints = ["<b>dick</b>"]\n'
        '[[background.questions]]\nname = "q"\nask = "![x](y)"\nanswers = { a = "[a](b)", b = ":red[b]" }\n'
    )
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "own.toml").write_text(own_pages, encoding="utf-8")
    page = visit(prepared('language = "de"\nwording = "own.toml"\n' + ALL).tokens["ann"])
    for text in ("Bevor Sie beginnen", "&lt;img src=x&gt; **not bold**", "&lt;b&gt;dick&lt;/b&gt;"):
        assert text in words(page)
    assert page.button(key="agree").label == r"\*Ja\* \$x\$"
    page = press(page, "agree")
    assert page.radio[0].label == r"!\[x\](y)"
    assert list(page.radio[0].options) == [r"\[a\](b)", r"\:red\[b\]"]
    assert "logischen Zusammenhang der Gedanken" in words(press(page, "background-send"))
