"""The pages before the first pair, without a browser."""

import json
from unittest.mock import patch

import pytest
from app_pages import open_first_pair, open_page, press_button, read_panel_data, read_words, save_choices

from annotation_app import state
from guard_eval.store import notes as store_notes

pytestmark = pytest.mark.slow

ALL = "[annotation.pages]\nconsent = true\nbackground = true\npractice = true\ncheck = true\n"
RIGHT = {"no_difference": "similar", "own": "nothing", "cut": "judge", "orders": "judge"}
WRONG = {**RIGHT, "cut": "worse"}


@pytest.fixture
def make_study(study):
    """Return a function that builds a study with additional settings."""
    return lambda settings=ALL, number=1, **options: study(number, more=settings, **options)


@pytest.fixture
def full_disk():
    """Return a context in which no note can be stored."""

    def fail(*_args, **_options):
        raise OSError("disk full")

    return lambda: patch.object(store_notes, "write_note", fail)


def answer_check(page, answers, *, attempt=0):
    for name, value in answers.items():
        page.radio(key=f"check-{attempt}-{name}").set_value(value)
    return press_button(page, f"check-{attempt}-send")


def read_notes(built, kind=None):
    return [(note.kind, json.loads(note.detail)) for note in built.stored("notes", kind=kind)]


def test_onboarding_asks_each_question_once(make_study):
    """Every page is opened again, as in another browser."""
    built = make_study()
    ann = built.tokens["ann"]
    assert "Before you begin" in read_words(open_page(ann))
    press_button(open_page(ann), "agree")
    page = open_page(ann)
    page.radio(key="background-native").set_value("yes")
    page.text_input(key="background-languages").set_value(" Dansk, Føroyskt ")
    press_button(page, "background-send")
    assert "What to judge" in read_words(open_page(ann))
    press_button(open_page(ann), "start")
    page = open_page(ann)
    assert (read_panel_data(page)["where"], "extras" in read_panel_data(page)) == ("Practice 1 of 2", False)
    page_words = read_words(save_choices(page, "A", "B"))
    assert "You chose “A is better”, and so do we. A stays in the bakery" in page_words
    assert "we would choose “Similar”." in page_words
    page = open_page(ann)
    assert read_panel_data(page)["where"] == "Practice 2 of 2"
    page = press_button(save_choices(page, "A", "tie"), "next")
    # Who errs reads the instructions once more, and what for; the attempt counts.
    page = answer_check(page, WRONG)
    assert "Not all answers were right: “" in read_words(page)
    assert "if an answer is wrong again, the study ends for you" in read_words(page)
    page = press_button(page, "start")
    assert [question.value for question in page.radio] == [None] * 4
    answer_check(open_page(ann), RIGHT, attempt=1)
    page = open_page(ann)
    assert read_panel_data(page)["where"] == "Pair 1 of 1"
    assert "Thank you" in read_words(save_choices(page, "A", "tie"))
    stored = dict(reversed(read_notes(built)))  # the first of each kind
    assert stored["consent"]["agreed"] is True
    assert stored["background"] == {"native": "yes", "languages": "Dansk, Føroyskt"}
    assert stored["practice"]["choices"] == {"coherence": "A", "fluency": "B"}
    wrong = [detail["wrong"] for _, detail in read_notes(built, "check")]
    assert wrong == [["cut"], []]


def test_a_button_pressed_twice_gives_one_answer(make_study):
    """The second press comes from a page that was shown before the first press was stored."""
    built = make_study()
    app = state.app
    for key, kind in (("agree", "consent"), ("background-send", "background"), ("start", "instructions")):
        stale = state.start_visit(app, built.tokens["ann"])
        press_button(open_page(built.tokens["ann"]), key)
        state.store_progress_note(app, stale, kind, {"again": True})
    assert [kind for kind, _ in read_notes(built)] == ["consent", "background", "instructions"]


def test_the_check_needs_an_answer_to_every_question(make_study):
    built = make_study("[annotation.pages]\ncheck = true\n")
    page = answer_check(open_first_pair(built), {"own": "nothing"})
    assert "Please answer every question." in read_words(page)
    assert page.radio(key="check-0-own").value == "nothing"
    page = press_button(page, "read")
    assert "What to judge" in read_words(page)
    assert "A few short questions" in read_words(press_button(page, "start"))
    assert read_notes(built, "check") == []


def test_a_question_is_asked_again_if_saving_failed(make_study, full_disk):
    page = open_page(make_study().tokens["ann"])
    with full_disk():
        page = press_button(page, "agree")
        assert "Before you begin" in read_words(page)
        assert "cannot be reached just now" in read_words(page)
    assert "About you" in read_words(press_button(page, "agree"))


def test_an_unsaved_practice_answer_can_be_sent_again(make_study, full_disk):
    page = open_first_pair(make_study("[annotation.pages]\npractice = true\n"))
    with full_disk():
        page = save_choices(page, "A", "A")
    assert (read_panel_data(page)["failed"], read_panel_data(page)["where"]) == ("one", "Practice 1 of 2")
    assert "could not be saved" in read_panel_data(page)["problem"]
    assert "What we would choose" in read_words(save_choices(page, "A", "A"))


def test_custom_and_german_wording_is_shown_as_plain_text(make_study, tmp_path):
    own_pages = (
        '[consent]\nlead = "<img src=x> **not bold**"\nagree = "*Ja* $x$"\npoints = ["<b>dick</b>"]\n'
        '[[background.questions]]\nname = "q"\nask = "![x](y)"\nanswers = { a = "[a](b)", b = ":red[b]" }\n'
    )
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "own.toml").write_text(own_pages, encoding="utf-8")
    page = open_page(make_study('language = "de"\nwording = "own.toml"\n' + ALL).tokens["ann"])
    for text in ("Bevor Sie beginnen", "&lt;img src=x&gt; **not bold**", "&lt;b&gt;dick&lt;/b&gt;"):
        assert text in read_words(page)
    assert page.button(key="agree").label == r"\*Ja\* \$x\$"
    page = press_button(page, "agree")
    assert page.radio[0].label == r"!\[x\](y)"
    assert list(page.radio[0].options) == [r"\[a\](b)", r"\:red\[b\]"]
    assert "logischen Zusammenhang der Gedanken" in read_words(press_button(page, "background-send"))
