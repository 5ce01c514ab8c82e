"""A study's own criteria in Chromium: titles and definitions are shown letter by letter."""

import json

import pytest
from app_browser import DESKTOP, PHONE, Wire, faults, serving

TITLE = 'Wit <b onclick="x">$& $` {criteria} **dry** $x_1$'
DEFINITION = (
    "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\"> &lt; &amp; "
    "![x](https://example.org/x.png) [link](https://example.org) `code` # $$\\frac12$$ :material/home: "
    ":red[red] {criterion} \U0001f994 שלום </dd></dl></script><style>*{display:none}</style>"
)
LONG = "How long this definition is. " * 34
"""Close to the most that a definition may have."""

TABLES = f"""
language = "de"
[annotation.pages]
practice = true
[criteria.wit]
title = {json.dumps(TITLE)}
definition = {json.dumps(DEFINITION, ensure_ascii=False)}
[criteria.length]
title = "Length"
definition = {json.dumps(LONG)}
[criteria.length.de]
title = "Länge"
definition = {json.dumps(LONG)}
[criteria.coherence]
title = "Zusammenhang"
definition = "Ob es zusammenhängt."
override = true
"""
CRITERIA = ("wit", "length", "coherence", "fluency")
TITLES = [TITLE, "Länge", "Zusammenhang", "Sprachflüssigkeit"]

pytestmark = pytest.mark.browser


@pytest.fixture
def site(build_study, new_database, tmp_path):
    built = build_study(
        tmp_path / "study",
        number=0,
        hostile=("One.", "Two."),
        slots=1,
        criteria=CRITERIA,
        more=TABLES,
        new_database=new_database,
    )
    with serving(built.folder, tmp_path / "log") as url:
        yield built, url
    assert "Traceback" not in (tmp_path / "log").read_text()


def shown(page, selector):
    return [each.text_content() for each in page.query_selector_all(selector)]


def fits(page):
    """Return whether nothing is wider than the page."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_titles_and_definitions_are_text_on_every_page(site, chromium):
    built, url = site
    page = chromium.new_page(**DESKTOP)
    page.set_default_timeout(15_000)
    wire = Wire(page, url)
    page.goto(f"{url}/?invite={built.tokens['ann']}")

    page.wait_for_selector(".ge-rubric")
    assert shown(page, ".ge-rubric dt") == TITLES
    assert shown(page, ".ge-rubric dd")[:3] == [DEFINITION, LONG.strip(), "Ob es zusammenhängt."]
    assert page.query_selector_all(".ge-rubric :not(dt):not(dd)") == []
    assert faults(page) == []
    page.get_by_role("button", name="Beginnen").click()

    page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 3")
    assert shown(page, ".ge-question h3") == TITLES
    assert shown(page, ".ge-question .ge-words p")[0] == DEFINITION
    assert page.get_by_role("button", name=f"Was {TITLE} bedeutet").count() == 1
    assert page.query_selector_all(".ge-words p *") == page.query_selector_all(".ge-words h3 *") == []
    assert faults(page) == []
    assert fits(page)
    page.get_by_role("button", name="Speichern").click()
    alert = page.wait_for_function("() => document.querySelector('.ge-alert').textContent").json_value()
    assert all(title in alert for title in TITLES)

    for number in (1, 2, 3):
        page.wait_for_selector(f".ge-page h1 >> text=Übung {number} von 3")
        for key in ("1", "2", "3", "1", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector(".ge-remark")
        assert "Zusammenhang" in page.inner_text(".stMain")
        page.keyboard.press("Control+Enter")
    page.wait_for_selector(".ge-page h1 >> text=Paar 1 von 1")
    page.keyboard.press("3")
    note = page.wait_for_function("() => document.querySelector('.ge-note').textContent").json_value()
    assert TITLE in note
    for key in ("1", "2", "2", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("h1 >> text=Vielen Dank")
    assert page.title() != "pwned"
    assert wire.foreign == []
    page.close()
    with built.open() as store:
        assert {row.criterion for row in store.tidy()} == set(CRITERIA)


def test_four_criteria_with_long_words_fit_a_phone(site, chromium):
    built, url = site
    context = chromium.new_context(**PHONE)
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.goto(f"{url}/?invite={built.tokens['ann']}")
    page.wait_for_selector(".ge-rubric")
    assert fits(page)
    page.get_by_role("button", name="Beginnen").click()
    page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 3")
    for about in page.query_selector_all(".ge-about"):
        about.click()
    assert all(each.is_visible() for each in page.query_selector_all(".ge-words p"))
    assert fits(page)
    context.close()


def test_a_key_pressed_as_the_pair_appears_is_confirmed(site, chromium):
    built, url = site
    page = chromium.new_page(**DESKTOP)
    page.set_default_timeout(15_000)
    page.goto(f"{url}/?invite={built.tokens['ann']}")
    page.get_by_role("button", name="Beginnen").click()
    page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 3")
    page.evaluate("""() => new MutationObserver((_, observer) => {
        if (!document.querySelector(".ge-page h1")?.textContent.startsWith("Übung 2")) return;
        observer.disconnect();
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "3", bubbles: true }));
    }).observe(document.body, { childList: true, subtree: true })""")
    for key in ("1", "2", "3", "1", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".ge-remark")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".ge-page h1 >> text=Übung 2 von 3")
    page.wait_for_timeout(300)  # longer than the page waits with its own note
    assert TITLE in page.inner_text(".ge-note")
    page.close()
