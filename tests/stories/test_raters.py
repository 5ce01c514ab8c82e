"""Raters in Chromium, from the link to the last page. Their answers are the verdicts that the owner reads."""

import json
import re

import pytest
from app_browser import (
    DESKTOP,
    FIRST_WORD,
    SECOND_WORD,
    PageTraffic,
    ServedStudy,
    choose_answer,
    choose_texts,
    close_instructions,
    count_chosen_answers,
    find_accessibility_faults,
    press_button,
    rate_all_pairs,
    read_heading,
    save_answers,
    serve_study,
    wait_for_next_page,
)
from app_study import build_hostile_study

from guard_eval.store import notes, unblind

SETTINGS = """
language = "de"
[annotation.pages]
consent = true
background = true
practice = true
check = true
[annotation.recruitment]
prolific = true
codes.completed = "C1A2B3"
"""
pytestmark = pytest.mark.browser


@pytest.fixture
def page(chromium):
    page = chromium.new_page(**DESKTOP)
    page.set_default_timeout(15_000)
    yield page
    page.close()


def test_raters_see_no_names_but_verdicts_have_the_methods(served, visit):
    """Rate three pairs, a gold pair and a repeated pair. All five look alike."""
    built = served.built
    page = visit("")
    wire = PageTraffic(page, served.url)
    page.goto(served.link("ann"))
    close_instructions(page)
    assert read_heading(page) == "Pair 1 of 5"

    # The first pair is rated the wrong way round, gone back to, and put right.
    choose_texts(page, coherence=SECOND_WORD, fluency=FIRST_WORD)
    press_button(page, "Comment or problem")
    page.get_by_label("Comment on this pair").fill("123 Enter")
    save_answers(page)
    page.get_by_text("✓ Saved").wait_for()
    press_button(page, "Back")
    page.get_by_text("Pair 1 of 5").wait_for()
    page.get_by_role("button", name="Comment or problem ✓").wait_for()
    choose_texts(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
    save_answers(page)

    # The instructions, and a refresh in the middle, lead back to the pair that was open, as it was left.
    choose_answer(page, "Coherence", "Similar")
    press_button(page, "Instructions")
    page.get_by_role("button", name=re.compile("^Continue")).click()
    page.get_by_role("radio", name="Similar", checked=True).wait_for()
    page.reload()
    page.get_by_role("radio", name="Similar", checked=True).wait_for()
    assert read_heading(page) == "Pair 2 of 5"
    assert count_chosen_answers(page) == 1
    rate_all_pairs(page, coherence=FIRST_WORD, fluency=SECOND_WORD)

    other = visit("ben")
    sides = ""
    while read_heading(other) != "Thank you":
        sides += other.locator(".ge-sides").inner_text()
        choose_texts(other, coherence=SECOND_WORD, fluency="Similar")
        save_answers(other)
    assert sides.count("(this text is empty)") == 1

    assert served.rows("ann") == {("coherence", built.first): 3, ("fluency", built.second): 3}
    assert served.revisions("ann") == 12
    assert served.rows("ben") == {("coherence", built.second): 3, ("fluency", "tie"): 3}
    with built.open() as store:
        assert [note.detail for note in notes.read_notes(store, rater="ann", kind="comment")] == ["123 Enter"]
        rows = [row for row in unblind.read_tidy_rows(store) if row.rater == "ann"]
        assert all(0 < row.active_seconds <= row.seconds < 60 for row in rows if row.seconds is not None)
        assert {row.rater for row in unblind.read_verdict_history(store) if row.role != "study"} >= {
            "ann",
            "ben",
        }

    assert wire.foreign == []
    received = wire.received
    assert received.count(FIRST_WORD.encode()) >= 3
    # Texts of the study begin with a space where they are stored, and those of the gold pair do not.
    assert re.search(rb'"the river had risen', received)
    assert not re.search(rb'"(\s|\\+n)+the river had risen', received)
    # The word in the texts ends as one of the secrets does.
    received = received.replace(FIRST_WORD.encode(), b"")
    secrets = [
        *(built.first, built.second, "contrastive", "top_k", built.dataset, "heldout", "c0ffee", "deface"),
        *("gold", "repeat", "written-by-hand", "nothing-at", "attention", "probe", "a11cab1e", "b0a710ad"),
        *(str(built.seed), str(built.folder), "study.db", "study.toml"),
        *(pair.id for pair in built.pairs),
    ]
    assert [secret for secret in secrets if secret.lower().encode() in received] == []


@pytest.mark.postgres
def test_answers_during_a_database_failure_are_saved_once(databases, chromium, tmp_path):
    built = build_hostile_study(
        tmp_path / "study",
        number=2,
        hostile=(FIRST_WORD, SECOND_WORD),
        new_database=lambda folder: databases.new("postgres", folder),
    )
    with serve_study(built.folder, tmp_path / "log") as url:
        served = ServedStudy(built, url)
        page = chromium.new_page(**DESKTOP)
        page.set_default_timeout(15_000)
        page.goto(served.link("ann"))
        close_instructions(page)
        for criterion in ("Coherence", "Fluency"):
            choose_answer(page, criterion, "Similar")
        save_answers(page)
        before = read_heading(page)
        with databases.away(built.database):
            for criterion in ("Coherence", "Fluency"):
                choose_answer(page, criterion, "A is better")
            page.keyboard.press("Control+Enter")
            page.get_by_role("alert").get_by_text("could not be saved").wait_for()
            assert "✓ Saved" not in page.content()
        page.keyboard.press("Control+Enter")
        wait_for_next_page(page, before)
        page.get_by_text("✓ Saved").wait_for()
        assert served.revisions("ann") == 4
        rate_all_pairs(page, coherence=FIRST_WORD, fluency=SECOND_WORD)
        page.close()
    assert served.revisions("ann") == 6
    rows = served.rows("ann")
    assert rows["coherence", "tie"] == rows["fluency", "tie"] == 1
    assert sum(rows.values()) == 6
    databases.drop(built.database)
    log = (tmp_path / "log").read_text()
    assert "not currently accepting connections" in log
    assert "Traceback" not in log


# The whole way, from the link that Prolific opens to the completion code.


def wait_for_heading(page, heading):
    """Wait for the page with this heading, which must have the focus for screen readers."""
    page.wait_for_function(
        "heading => document.activeElement.matches('h1') && document.activeElement.innerText === heading",
        arg=heading,
    )


def answer_questions(page, *downs):
    """Answer the next questions. The number for a question is the position of its answer, from 0."""
    # Streamlit fetches what draws a question when it first needs it.
    page.wait_for_selector("[role=radiogroup]")
    for down in downs:
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        for _ in range(down):
            page.keyboard.press("ArrowDown")


def practise(page):
    page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 2")
    assert find_accessibility_faults(page) == []
    for number in (1, 2):
        page.wait_for_selector(f".ge-page h1 >> text=Übung {number} von 2")
        assert "wir würden" not in page.content()
        for key in ("1", "2", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector(".ge-remark")
        wait_for_heading(page, "Unsere Antworten")
        page.keyboard.press("Control+Enter")


def test_study_can_be_rated_by_keyboard_alone(tmp_path, page):
    texts = {"number": 0, "hostile": ("One.", "Two.")}
    more = {"raters": (), "slots": 1, "more": SETTINGS}
    built, log = build_hostile_study(tmp_path / "study", **texts, **more), tmp_path / "log"
    with serve_study(built.folder, log) as url:
        rate_by_keyboard(built, url, page)
    assert "Traceback" not in log.read_text()


def rate_by_keyboard(built, url, page):
    press = page.keyboard.press
    page.goto(f"{url}/?PROLIFIC_PID=5f0c0ffee1234567890abcde&STUDY_ID=s1&SESSION_ID=v1")
    page.wait_for_selector("h1 >> text=Bevor Sie beginnen")
    page.wait_for_function("() => document.documentElement.lang === 'de'")
    page.wait_for_function("() => location.search.startsWith('?invite=')")
    assert page.evaluate("document.documentElement.dir") == "ltr"
    assert "PROLIFIC_PID" not in page.url
    result = {"consent": find_accessibility_faults(page)}
    press("Control+Enter")
    wait_for_heading(page, "Über Sie")
    answer_questions(page, 1)
    result["background"] = find_accessibility_faults(page)
    press("Control+Enter")  # with the focus in the answer just given
    wait_for_heading(page, "Zwei Texte vergleichen")
    press("Control+Enter")
    practise(page)
    wait_for_heading(page, "Einige kurze Fragen")
    press("Tab")  # past the button to the instructions
    answer_questions(page, 1, 0, 2, 0)
    result["check"] = find_accessibility_faults(page)
    press("Control+Enter")
    wait_for_heading(page, "Zwei Texte vergleichen")
    assert page.get_by_role("alert").inner_text().startswith("Nicht alle Antworten waren richtig: ")
    result["instructions"] = find_accessibility_faults(page)
    press("Control+Enter")
    wait_for_heading(page, "Einige kurze Fragen")
    press("Tab")
    answer_questions(page, 1, 0, 2, 1)
    press("Control+Enter")
    page.wait_for_selector(".ge-page h1 >> text=Paar 1 von 1")
    assert page.evaluate("document.documentElement.lang") == "de"
    assert "C1A2B3" not in page.content()
    for key in ("1", "3", "Enter"):
        press(key)
    wait_for_heading(page, "Vielen Dank")
    result["thanks"] = find_accessibility_faults(page)
    assert result == {name: [] for name in result}
    assert "C1A2B3" in page.inner_text(".stMain")
    link = page.get_by_role("link", name="Code einreichen")
    assert link.get_attribute("href") == "https://app.prolific.com/submissions/complete?cc=C1A2B3"
    with built.open() as store:
        stored = [(note.kind, json.loads(note.detail)) for note in notes.read_notes(store, rater="P-1")]
        assert len(unblind.read_tidy_rows(store)) == 2
    kinds = [
        "arrival",
        "consent",
        "background",
        "instructions",
        *["practice"] * 2,
        *["check"] * 2,
        "conduct",  # a program drives this browser
        "finished",
    ]
    assert [kind for kind, _ in stored] == kinds
    assert stored[2][1] == {"native": "no"}
    assert stored[6][1]["wrong"] == ["orders"]
