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
    # a person reads before the next press: each comes a second after the last, however fast the test
    page.add_init_script(
        "window.now = window.pause = 1000;"
        "Object.defineProperty(Event.prototype, 'timeStamp', { get: () => window.now += window.pause })"
    )
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


def test_a_second_press_at_the_same_place_is_not_meant_for_the_next_page(
    build_study, new_database, tmp_path, page
):
    """A double click on a page's button must not answer a question that appears under it, nor skip a page."""
    texts = {"number": 0, "hostile": ("One.", "Two.")}
    more = {"raters": (), "slots": 1, "more": SETTINGS, "new_database": new_database}
    built = build_study(tmp_path / "study", **texts, **more)
    with serving(built.folder, tmp_path / "log") as url:
        page.goto(f"{url}/?PROLIFIC_PID=5f0c0ffee&STUDY_ID=s1&SESSION_ID=v1")
        page.wait_for_function("() => document.documentElement.lang === 'de'")
        agree = page.get_by_role("button", name="Ich stimme zu").bounding_box()
        place = agree["x"] + agree["width"] / 2, agree["y"] + agree["height"] / 2
        page.evaluate("window.pause = 0")  # from here on all presses come at one moment
        page.mouse.click(*place)
        arrive(page, "Über Sie")
        page.wait_for_selector("[role=radiogroup]")
        label = page.locator("label:has(input[type=radio])").first.bounding_box()
        x, y = (place[0] - label["x"] - label["width"] / 2, place[1] - label["y"] - label["height"] / 2)
        # the answer lies where the button was, as it may on any screen
        page.add_style_tag(content=f".stMain {{ transform: translate({x}px, {y}px) }}")
        page.mouse.click(*place)
        assert page.get_by_role("radio", checked=True).count() == 0
        page.evaluate("window.now += 1000")
        page.mouse.click(*place)
        page.get_by_role("radio", checked=True).wait_for(state="attached")
        page.evaluate("window.now += 1000")
        page.keyboard.press("Control+Enter")
        arrive(page, "Zwei Texte vergleichen")
        page.keyboard.press("Control+Enter")
        page.keyboard.press("Control+Enter")
        assert page.locator("h1").inner_text() == "Zwei Texte vergleichen"
        page.evaluate("window.now += 1000")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 3")
    with built.open() as store:
        (stored,) = [json.loads(note.detail) for note in store.notes(rater="P-1", kind="background")]
    assert len(stored) == 1
