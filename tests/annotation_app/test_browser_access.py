"""What a screen reader, a keyboard and weak eyes need, as far as axe-core finds, on each page."""

import pytest
from app_browser import PHONE, begin, contrast, faults, moved_on, pick, where

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    "options",
    [{"color_scheme": "light"}, {"color_scheme": "dark", **PHONE}],
    ids=["light", "dark-phone"],
)
def test_no_page_has_serious_faults(served, visit, options):
    page = visit("", **options)
    page.goto(served.url)
    page.get_by_label("Invite code").wait_for()
    found = {"sign in": faults(page)}
    page.goto(served.link({"light": "mia", "dark": "ned"}[options["color_scheme"]]))
    page.get_by_role("button", name="Start").wait_for()
    found["instructions"] = faults(page)
    begin(page)
    found["a pair"] = faults(page)
    assert contrast(page, ".ge-foot button:disabled") >= 4.5  # which axe-core leaves out
    page.get_by_role("radio").first.click()
    page.get_by_role("button", name="Comment or problem").click()
    page.get_by_role("button", name="Save and continue").click()
    page.get_by_role("alert").wait_for()
    found["half answered"] = faults(page)
    page.get_by_role("button", name="Break").click()
    found["break"] = faults(page)
    page.get_by_role("button", name="Go on").click()
    for _ in range(5):
        before = where(page)
        for group in page.get_by_role("radiogroup").all():
            group.get_by_role("radio", name="Similar").click()
        page.get_by_role("button", name="Save and continue").click()
        moved_on(page, before)
    page.get_by_role("heading", name="Thank you").wait_for()
    found["thanks"] = faults(page)
    page.get_by_role("button", name="Back").click()
    page.get_by_role("button", name="To the newest pair").wait_for()
    found["an earlier pair"] = faults(page)
    assert {page: faults for page, faults in found.items() if faults} == {}
    # axe-core cannot judge text on a shade.
    assert contrast(page, ".ge-side .ge-text") >= 7

    page.evaluate("document.querySelector('.ge-save').replaceChildren()")
    assert any("button-name" in fault for fault in faults(page))


def test_letters_of_double_size_fit_a_narrow_phone(visit):
    page = visit("ola", viewport={"width": 360, "height": 640}, is_mobile=True, has_touch=True)
    page.add_style_tag(content="html { font-size: 32px !important; }")
    pick(page, "Coherence", "B is better")
    assert page.evaluate("() => document.querySelector('.ge-page').scrollWidth") == 360
    boxes = [answer.bounding_box() for answer in page.locator(".ge-answer").all()]
    assert len({(round(box["x"]), round(box["width"])) for box in boxes}) == 1  # A and B look alike


def test_colours_of_the_system_show_what_is_chosen(visit):
    page = visit("pia", forced_colors="active")
    pick(page, "Coherence", "B is better")

    def colours(selector, name):
        return page.locator(selector).evaluate_all(
            "(all, name) => all.map(e => getComputedStyle(e)[name])", name
        )

    grounds = colours(".ge-answer", "backgroundColor")
    assert [ground != grounds[0] for ground in grounds] == [False, False, True, False, False, False]
    assert len(set(colours(".ge-question", "borderInlineStartColor"))) == 2
