"""The whole way in Chromium, by keyboard alone: from the link that Prolific opens to the completion code."""

import json

import pytest
from app_browser import DESKTOP, faults, serving

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


def arrive(page, heading):
    """Wait for the page with this heading; the focus is on it, as a screen reader needs it."""
    page.wait_for_function(
        "heading => document.activeElement.matches('h1') && document.activeElement.innerText === heading",
        arg=heading,
    )


def answer(page, *downs):
    """Answer the next questions, each with the answer so many below the first."""
    # Streamlit fetches what draws a question when it first needs it.
    page.wait_for_selector("[role=radiogroup]")
    for down in downs:
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        for _ in range(down):
            page.keyboard.press("ArrowDown")


def practise(page):
    page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 3")
    assert faults(page) == []
    for number in (1, 2, 3):
        page.wait_for_selector(f".ge-page h1 >> text=Übung {number} von 3")
        assert "wir würden" not in page.content()
        for key in ("1", "2", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector(".ge-remark")
        arrive(page, f"Übung {number} von 3")
        page.keyboard.press("Control+Enter")


@pytest.fixture
def page(chromium):
    page = chromium.new_page(**DESKTOP)
    page.set_default_timeout(15_000)
    yield page
    page.close()


def test_the_whole_way_by_keyboard(build_study, new_database, tmp_path, page):
    texts = {"number": 0, "hostile": ("One.", "Two.")}
    more = {"raters": (), "slots": 1, "more": SETTINGS, "new_database": new_database}
    built, log = build_study(tmp_path / "study", **texts, **more), tmp_path / "log"
    with serving(built.folder, log) as url:
        rate_by_keyboard(built, url, page)
    assert "Traceback" not in log.read_text()


def rate_by_keyboard(built, url, page):
    press = page.keyboard.press
    page.goto(f"{url}/?PROLIFIC_PID=5f0c0ffee&STUDY_ID=s1&SESSION_ID=v1")
    page.wait_for_selector("h1 >> text=Bevor Sie beginnen")
    page.wait_for_function("() => document.documentElement.lang === 'de'")
    page.wait_for_function("() => location.search.startsWith('?invite=')")
    assert page.evaluate("document.documentElement.dir") == "ltr"
    assert "PROLIFIC_PID" not in page.url
    found = {"consent": faults(page)}
    press("Control+Enter")
    arrive(page, "Über Sie")
    answer(page, 1)
    found["background"] = faults(page)
    press("Control+Enter")  # with the focus in the answer just given
    arrive(page, "Zwei Texte vergleichen")
    press("Control+Enter")
    practise(page)
    arrive(page, "Einige kurze Fragen")
    press("Tab")  # past the button to the instructions
    answer(page, 1, 0, 2, 0)
    found["check"] = faults(page)
    press("Control+Enter")
    arrive(page, "Nicht alle Antworten sind richtig")
    press("Control+Enter")
    arrive(page, "Einige kurze Fragen")
    press("Tab")
    answer(page, 1, 0, 2, 1)
    press("Control+Enter")
    page.wait_for_selector(".ge-page h1 >> text=Paar 1 von 1")
    assert page.evaluate("document.documentElement.lang") == "de"
    assert "C1A2B3" not in page.content()
    for key in ("1", "3", "Enter"):
        press(key)
    arrive(page, "Vielen Dank")
    found["thanks"] = faults(page)
    assert found == {name: [] for name in found}
    assert "C1A2B3" in page.inner_text(".stMain")
    link = page.get_by_role("link", name="Code einreichen")
    assert link.get_attribute("href") == "https://app.prolific.com/submissions/complete?cc=C1A2B3"
    with built.open() as store:
        stored = [(note.kind, json.loads(note.detail)) for note in store.notes(rater="P-1")]
        assert len(store.tidy()) == 2
    kinds = ["arrival", "consent", "background", *["practice"] * 3, "check", "check", "finished"]
    assert [kind for kind, _ in stored] == kinds
    assert stored[2][1] == {"native": "no"}
    assert stored[6][1]["wrong"] == ["orders"]
