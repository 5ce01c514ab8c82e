"""What a screen reader, a keyboard and weak eyes need, as far as axe-core finds, on each page."""

import pytest
from app_browser import PHONE, begin, faults, moved_on, where

pytestmark = pytest.mark.browser

CONTRAST = """() => {
  const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0.05);
  const style = selector => getComputedStyle(document.querySelector(selector));
  const lights = [light(style(".ge-side .ge-text").color), light(style(".ge-side").backgroundColor)];
  return Math.max(...lights) / Math.min(...lights);
}"""
"""The contrast of a continuation with its ground, as WCAG 2.2 defines it."""


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
    assert page.evaluate(CONTRAST) >= 7

    page.evaluate("document.querySelector('.ge-save').replaceChildren()")
    assert any("button-name" in fault for fault in faults(page))
