"""Every page in Chromium: accessibility, contrast, small screens, and hostile wording."""

import json

import pytest
from app_browser import (
    DESKTOP,
    PHONE,
    PageTraffic,
    choose_answer,
    close_instructions,
    find_accessibility_faults,
    measure_contrast,
    press_button,
    read_heading,
    save_answers,
)

TITLE = 'Wit <b onclick="x">$& $` {criteria} **dry** $x_1$'
DEFINITION = (
    "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\"> &lt; &amp; "
    "![x](https://example.org/x.png) [link](https://example.org) `code` # $$\\frac12$$ :material/home: "
    ":red[red] {criterion} \U0001f994 שלום </dd></dl></script><style>*{display:none}</style>"
)
LONG = "How long this definition is. " * 34
"""A definition of almost the longest allowed length."""

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
"""
CRITERIA = ("wit", "length", "coherence", "fluency")
TITLES = [TITLE, "Length", "Kohärenz", "Sprachflüssigkeit"]

pytestmark = pytest.mark.browser


def read_texts(page, selector):
    return [element.text_content() for element in page.query_selector_all(selector)]


def is_within_page_width(page):
    """Return whether the page needs no horizontal scrolling."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_titles_and_definitions_are_plain_text_on_every_page(serve, browse):
    page, phone = browse(), browse(**PHONE)
    served = serve(0, raters=("ann", "ben"), criteria=CRITERIA, more=TABLES)
    wire = PageTraffic(page, served.url)
    page.goto(served.link("ann"))

    page.wait_for_selector(".ge-rubric")
    assert read_texts(page, ".ge-rubric dt") == TITLES
    assert read_texts(page, ".ge-rubric dd")[:2] == [DEFINITION, LONG.strip()]
    assert page.query_selector_all(".ge-rubric :not(dt):not(dd)") == []
    assert find_accessibility_faults(page) == []
    press_button(page, "Beginnen")

    page.wait_for_selector(".ge-page h1 >> text=Übung 1 von 2")
    assert read_texts(page, ".ge-question h3") == TITLES
    assert read_texts(page, ".ge-question .ge-words p")[0] == DEFINITION
    assert page.get_by_role("button", name=f"Was {TITLE} bedeutet").count() == 1
    assert page.query_selector_all(".ge-words :is(p, h3) *") == []
    assert find_accessibility_faults(page) == []
    assert is_within_page_width(page)
    press_button(page, "Speichern")
    alert = page.wait_for_function("() => document.querySelector('.ge-alert').textContent").json_value()
    assert all(title in alert for title in TITLES)

    for number in (1, 2):
        page.wait_for_selector(f".ge-page h1 >> text=Übung {number} von 2")
        for key in ("1", "2", "3", "1", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector(".ge-remark")
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
    assert {row.criterion for row in served.built.stored()} == set(CRITERIA)

    # The same long words on a phone, all of them unfolded.
    phone.goto(served.link("ben"))
    phone.wait_for_selector(".ge-rubric")
    assert is_within_page_width(phone)
    press_button(phone, "Beginnen")
    phone.wait_for_selector(".ge-page h1 >> text=Übung 1 von 2")
    for about in phone.query_selector_all(".ge-about"):
        about.click()
    assert all(element.is_visible() for element in phone.query_selector_all(".ge-words p"))
    assert is_within_page_width(phone)


# What axe-core finds.


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mia", {"color_scheme": "light", "viewport": {"width": 1920, "height": 1080}}),
        ("max", {"color_scheme": "dark", **DESKTOP}),
        ("ned", {"color_scheme": "dark", **PHONE, "viewport": {"width": 360, "height": 640}}),
    ],
)
def test_every_page_passes_the_accessibility_check(served, browse, name, options):
    page, result = browse(**options), {}
    page.goto(served.url)
    page.get_by_text("Open the invite link").wait_for()
    result["sign in"] = find_accessibility_faults(page)
    page.goto(served.link(name))
    page.get_by_role("button", name="Start").wait_for()
    result["instructions"] = find_accessibility_faults(page)
    close_instructions(page)
    result["a pair"] = find_accessibility_faults(page)
    assert measure_contrast(page, ".ge-foot button:disabled") >= 4.5  # which axe-core leaves out
    page.get_by_role("radio").first.click()
    press_button(page, "Comment or problem")
    press_button(page, "Save and continue")
    page.get_by_role("alert").wait_for()
    result["half answered"] = find_accessibility_faults(page)
    while read_heading(page) != "Thank you":
        for group in page.get_by_role("radiogroup").all():
            group.get_by_role("radio", name="Similar").click()
        save_answers(page)
    result["thanks"] = find_accessibility_faults(page)
    press_button(page, "Back")
    page.get_by_role("button", name="To the newest pair").wait_for()
    result["an earlier pair"] = find_accessibility_faults(page)
    assert {page: faults for page, faults in result.items() if faults} == {}
    assert measure_contrast(page, ".ge-side .ge-text") >= 7  # axe-core cannot judge text on a shade
    page.evaluate("document.querySelector('.ge-save').replaceChildren()")
    assert any("button-name" in fault for fault in find_accessibility_faults(page))


def test_a_chosen_button_is_visible_in_forced_colours(visit):
    page = visit("pia", forced_colors="active")
    choose_answer(page, "Coherence", "B is better")

    def colours(selector, name):
        return page.locator(selector).evaluate_all(
            "(all, name) => all.map(e => getComputedStyle(e)[name])", name
        )

    grounds = colours(".ge-answer", "backgroundColor")
    assert [ground != grounds[0] for ground in grounds] == [False, False, True, False, False, False]
    assert len(set(colours(".ge-question", "borderInlineStartColor"))) == 2
