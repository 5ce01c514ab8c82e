"""The panel counts copies and automation only after consent, and never counts assistive technology."""

import json

import pytest
from app_browser import (
    ARGUMENTS,
    CHROMIUM,
    DESKTOP,
    choose_texts,
    close_instructions,
    press_button,
    save_answers,
)

pytestmark = pytest.mark.browser

CONSENT = "pages = { consent = true }"
LEAVE = "document.hasFocus = () => false; window.dispatchEvent(new Event('blur'))"
COME_BACK = "delete document.hasFocus; window.dispatchEvent(new Event('focus'))"
TRANSLATE = """() => {
  document.documentElement.lang = "fr";
  document.documentElement.classList.add("translated-ltr");
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (words.nextNode()) nodes.push(words.currentNode);
  const isTheirs = (node) => node.data.trim() && !node.parentElement.closest("script, style");
  for (const node of nodes.filter(isTheirs)) {
    const font = document.createElement("font");
    font.textContent = `traduit: ${node.data}`;
    node.replaceWith(font);
  }
}"""
"""The changes that a browser's translation makes, even if a page asks for no translation."""


@pytest.fixture
def undetected_page(chromium):
    """A page whose browser does not report automation, and computes the accessibility tree."""
    arguments = ["--disable-blink-features=AutomationControlled", "--force-renderer-accessibility"]
    browser = chromium.browser_type.launch(executable_path=str(CHROMIUM), args=[*ARGUMENTS, *arguments])
    page = browser.new_page(**DESKTOP)
    page.set_default_timeout(15_000)
    yield page
    browser.close()


def consent_and_begin(page, platform, name="ann"):
    page.goto(platform.link(name))
    press_button(page, "I agree")
    close_instructions(page)


def read_conduct(platform):
    return [json.loads(note.detail) for note in platform.built.stored("notes", kind="conduct")]


def copy_text(page, words):
    """Copy the first characters of a text, leave the window and return."""
    page.locator(".ge-prompt .ge-text").evaluate(
        """(box, count) => getSelection().setBaseAndExtent(box.firstChild, 0, box.firstChild, count)""", words
    )
    page.keyboard.press("Control+c")
    page.evaluate(LEAVE)
    page.evaluate(COME_BACK)


def test_copied_text_and_automation_are_counted_by_pair(serve, browse):
    platform = serve(number=2, more=CONSENT)
    page = browse()
    page.goto(platform.link("ann"))
    sentence = "We do not store what you copy."
    page.get_by_text(sentence).wait_for()
    press_button(page, "I agree")
    close_instructions(page)
    copy_text(page, 80)
    copy_text(page, 39)  # a word to look up
    page.evaluate(LEAVE)  # nothing was copied since
    page.evaluate(COME_BACK)
    page.reload()
    page.get_by_role("button", name="Save and continue").wait_for()
    copy_text(page, 40)
    choose_texts(page, coherence="marigold", fluency="Similar")
    save_answers(page)
    for criterion in ("Coherence", "Fluency"):
        radio = page.get_by_role("radiogroup", name=criterion).get_by_role("radio", name="Similar")
        radio.evaluate("radio => radio.click()")
    save_answers(page)
    first, second = read_conduct(platform)
    assert first == {"copies": 2, "driven": 1}
    assert second["driven"] == 1
    assert second["untrusted"] >= 2
    details = [note.detail for note in platform.built.stored("notes")]
    assert not [detail for detail in details if "marigold" in detail or "river" in detail]


def test_signs_of_misuse_are_not_counted_without_consent_page(serve, browse):
    platform = serve()
    page = browse()
    page.goto(platform.link("ann"))
    close_instructions(page)
    copy_text(page, 80)
    choose_texts(page, coherence="marigold", fluency="Similar")
    save_answers(page)
    assert read_conduct(platform) == []


def test_screen_reader_keys_are_not_counted_as_automation(serve, undetected_page):
    """A screen reader reads the accessibility tree and sends only keys."""
    platform = serve(more=CONSENT)
    consent_and_begin(undetected_page, platform)
    tree = undetected_page.context.new_cdp_session(undetected_page).send("Accessibility.getFullAXTree")
    assert "radiogroup" in {node.get("role", {}).get("value") for node in tree["nodes"]}
    for criterion in ("Coherence", "Fluency"):
        undetected_page.get_by_role("radiogroup", name=criterion).get_by_role("radio").first.focus()
        for key in ("Space", "ArrowDown", "ArrowDown", "ArrowUp", "Tab"):
            undetected_page.keyboard.press(key)
    undetected_page.get_by_role("radio", name="Similar").first.click()
    undetected_page.get_by_role("button", name="Save and continue").focus()
    undetected_page.keyboard.press("Enter")
    undetected_page.get_by_role("heading", name="Pair 2 of 2").wait_for()
    assert len(platform.built.stored("tidy")) == 2
    assert read_conduct(platform) == []


def test_browser_translation_is_not_counted_as_copying(serve, undetected_page):
    platform = serve(more=CONSENT)
    consent_and_begin(undetected_page, platform)
    undetected_page.evaluate(TRANSLATE)
    assert undetected_page.locator("h1").inner_text().startswith("traduit")
    for group in undetected_page.get_by_role("radiogroup").all():
        group.get_by_role("radio").first.click()
    undetected_page.locator(".ge-save").click()
    undetected_page.get_by_role("heading", name="Pair 2 of 2").wait_for()
    assert len(platform.built.stored("tidy")) == 2
    assert read_conduct(platform) == []
