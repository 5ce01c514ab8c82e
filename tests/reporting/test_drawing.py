"""The look of figures: text is text, whatever it says, and the same figure has the same bytes."""

import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from guard_eval.reporting.drawing import FONT, as_pdf, as_svg, described, style

HOSTILE = ["$x", r"$\frac{1}{0", "<b>&", "]]>", """" font-family: 'DejaVu Sans'"""]


def drawn(text, kind):
    with style(ink="#000000", frame="#111111", ground="none", salt="s"):
        figure = Figure()
        figure.text(0.5, 0.5, text)
        return kind(figure)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_drawn_as_it_stands_in_the_readers_font(text):
    (result,) = ET.fromstring(drawn(text, as_svg)).iter("{http://www.w3.org/2000/svg}text")
    assert result.text == text
    assert f"font-family: {FONT};" in result.get("style")


@pytest.mark.parametrize("kind", [as_svg, as_pdf])
def test_the_same_bytes_again(kind):
    assert drawn("x", kind) == drawn("x", kind)


def test_a_figure_says_what_it_shows():
    root = ET.fromstring(described("<svg><g/></svg>", "a\ufffe<b>", 'c\n"d"', name="one"))
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "one-title one-desc")
    assert [(child.tag, child.get("id"), child.text) for child in root] == [
        ("title", "one-title", "a\ufffd<b>"),
        ("desc", "one-desc", 'c "d"'),
        ("g", None, None),
    ]


def test_the_style_ends_with_its_block():
    before = mpl.rcParams["text.color"]
    with style(ink="#123456", frame="#111111", ground="none", salt="s"):
        assert mpl.rcParams["text.color"] == "#123456"
    assert mpl.rcParams["text.color"] == before
