"""What the panel counts of how a page is used: numbers alone, told beforehand, and no aid raises them."""

import json

import pytest
from app_browser import ARGUMENTS, CHROMIUM, DESKTOP, begin, prefer, press, save

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
"""What a translation does to a page, even if the page asks for none."""


@pytest.fixture
def undriven(chromium):
    """A browser that does not say that a program drives it, with its accessibility tree switched on."""
    arguments = ["--disable-blink-features=AutomationControlled", "--force-renderer-accessibility"]
    browser = chromium.browser_type.launch(executable_path=str(CHROMIUM), args=[*ARGUMENTS, *arguments])
    page = browser.new_page(**DESKTOP)
    page.set_default_timeout(15_000)
    yield page
    browser.close()


def enter(page, platform, name="ann"):
    page.goto(platform.link(name))
    press(page, "I agree")
    begin(page)


def conduct(platform):
    return [json.loads(note.detail) for note in platform.built.stored("notes", kind="conduct")]


def copy_text(page, words):
    """Select the beginning of a text, copy it as a person does, and look elsewhere."""
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
    press(page, "I agree")
    begin(page)
    copy_text(page, 80)
    copy_text(page, 39)  # a word to look up
    page.evaluate(LEAVE)  # nothing was copied since
    page.evaluate(COME_BACK)
    page.reload()
    page.get_by_role("button", name="Save and continue").wait_for()
    copy_text(page, 40)
    prefer(page, coherence="marigold", fluency="Similar")
    save(page)
    for criterion in ("Coherence", "Fluency"):
        radio = page.get_by_role("radiogroup", name=criterion).get_by_role("radio", name="Similar")
        radio.evaluate("radio => radio.click()")
    save(page)
    first, second = conduct(platform)
    assert first == {"copies": 2, "driven": 1}
    assert second["driven"] == 1
    assert second["untrusted"] >= 2
    details = [note.detail for note in platform.built.stored("notes")]
    assert not [detail for detail in details if "marigold" in detail or "river" in detail]


def test_nothing_is_counted_without_consent_page(serve, browse):
    platform = serve()
    page = browse()
    page.goto(platform.link("ann"))
    begin(page)
    copy_text(page, 80)
    prefer(page, coherence="marigold", fluency="Similar")
    save(page)
    assert conduct(platform) == []


def test_screen_reader_keys_are_not_counted_as_automation(serve, undriven):
    """Only the accessibility tree is read, and only keys are pressed, those that move the cursor too."""
    platform = serve(more=CONSENT)
    enter(undriven, platform)
    tree = undriven.context.new_cdp_session(undriven).send("Accessibility.getFullAXTree")
    assert "radiogroup" in {node.get("role", {}).get("value") for node in tree["nodes"]}
    for criterion in ("Coherence", "Fluency"):
        undriven.get_by_role("radiogroup", name=criterion).get_by_role("radio").first.focus()
        for key in ("Space", "ArrowDown", "ArrowDown", "ArrowUp", "Tab"):
            undriven.keyboard.press(key)
    undriven.get_by_role("radio", name="Similar").first.click()
    undriven.get_by_role("button", name="Save and continue").focus()
    undriven.keyboard.press("Enter")
    undriven.get_by_role("heading", name="Pair 2 of 2").wait_for()
    assert len(platform.built.stored("tidy")) == 2
    assert conduct(platform) == []


def test_browser_translation_is_not_counted_as_copying(serve, undriven):
    platform = serve(more=CONSENT)
    enter(undriven, platform)
    undriven.evaluate(TRANSLATE)
    assert undriven.locator("h1").inner_text().startswith("traduit")
    for group in undriven.get_by_role("radiogroup").all():
        group.get_by_role("radio").first.click()
    undriven.locator(".ge-save").click()
    undriven.get_by_role("heading", name="Pair 2 of 2").wait_for()
    assert len(platform.built.stored("tidy")) == 2
    assert conduct(platform) == []
