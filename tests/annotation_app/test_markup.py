"""Untrusted text is shown, character by character."""

from html_page import Page
from hypothesis import given
from hypothesis import strategies as some

from annotation_app import markup


@given(some.text())
def test_a_text_with_markup_stays_in_one_element(text):
    page = Page(markup.format_pair_text("Heading", text))
    assert [tag for tag, _ in page.tags] == ["section", "h2", "p"]
    assert "".join(page.texts) == f"Heading{text}"


def test_a_quoted_text_is_not_translated():
    attributes = dict(Page(markup.format_pair_text("Heading", "text")).tags)["p"]
    assert (attributes["translate"], attributes["lang"], attributes["dir"]) == ("no", "", "auto")
