"""Untrusted text is shown, character by character."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as some

from annotation_app import markup


class Reader(HTMLParser):
    """Collects tags and text as a browser would."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("![x](https://example.org/x.png)", "![x](https://example.org/x.png)"),
        ("a &amp; b", "a &amp; b"),
        ("$\\frac{1}{2}$", "$\\frac{1}{2}$"),
        ("nul \x00 bell \x07 del \x7f c1 \x85", "nul ␀ bell ␇ del ␡ c1 \ufffd"),
        ("half \ud83d emoji", "half \ufffd emoji"),
        ("one\r\ntwo\rthree\tfour", "one\ntwo\nthree\tfour"),
        ("\u202eright to left", "\u202eright to left"),
    ],
)
def test_plain_shows_the_text_itself(raw, shown):
    reader = read(f"<p>{markup.plain(raw)}</p>")
    assert reader.tags == ["p"]
    assert reader.text == shown


@given(some.text())
def test_plain_is_always_one_text_that_can_be_sent(text):
    reader = read(markup.plain(text))
    assert reader.tags == []
    assert len(reader.text) == len(text.replace("\r\n", "\n"))
    markup.plain(text).encode("utf-8")
