"""The page of one text, as Chromium shows it."""

import pytest
from app_browser import ARGUMENTS, CHROMIUM

from guard_eval.reporting.tokens import tokens_page


def page_of(texts, **numbers):
    return tokens_page(texts, numbers, colour="entropy", prompt="", facts={})


@pytest.mark.slow
def test_words_stand_in_the_order_of_the_text_in_either_direction(tmp_path):
    """Tokens must not be laid out one by one: in an Arabic text that would turn English words around."""
    if not CHROMIUM.is_file():
        pytest.skip(f"{CHROMIUM} is missing; run: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    texts = ["ال", "كت", "اب", " the", " cat", " sat", " ع", "لى", "\u202e", " end"]
    path = tmp_path / "text.html"
    path.write_text(page_of(texts, entropy=[0.0] * len(texts)), encoding="utf-8")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        shown = browser.new_page()
        shown.goto(path.as_uri())
        left = shown.eval_on_selector_all(
            ".tokens span", "spans => spans.map(one => one.getBoundingClientRect().left)"
        )
        browser.close()
    first, *_, the, cat, sat, after, _, _, _ = left
    assert after < the < cat < sat < first


def test_numbers_are_explained_and_their_lack_too():
    page = page_of(["a", "b"], entropy=[1.0, 2.0], mu=[6.0, 5.0], mine=[0.0, 1.0])
    assert "entropy: how unsure the model is, in nats" in page
    assert "mu: the surprise that sets how many candidates mirostat keeps, in bits" in page
    assert "mine, token by token" in page
    assert "beams" not in page
    assert "knows its text in the end only" in page_of(["a b"])
