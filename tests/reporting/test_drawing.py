"""The look of figures: text is text, whatever it says, and the same figure has the same bytes."""

import xml.etree.ElementTree as ET

import pytest

from guard_eval.reporting.drawing import FONT, Caption, draw_figure, make_standalone_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["$x", r"$\frac{1}{0", "<b>&", "]]>", """" font-family: 'DejaVu Sans'"""]


def draw(text, **words):
    caption = Caption(**{"name": "n", "heading": "h", "description": "d", **words})
    return draw_figure(lambda axes: axes.text(0.5, 0.5, text).axes.axis("off"), caption, height=2)


@pytest.mark.parametrize("text", HOSTILE)
def test_figure_text_is_text_in_the_page_font(text):
    (result,) = ET.fromstring(draw(text).svg).iter(f"{SVG}text")
    assert result.text == text
    assert f"font-family: {FONT};" in result.get("style")


def test_same_figure_has_the_same_bytes():
    first, second = draw("x"), draw("x")
    assert first.svg == second.svg
    assert all(first.encode(form) == second.encode(form) for form in ("pdf", "png", "svg"))
    assert ET.fromstring(make_standalone_svg(first).encode()).tag == f"{SVG}svg"


def test_figure_has_a_text_alternative():
    root = ET.fromstring(draw("x", heading="a\ufffe<b>", description='c\n"d"').svg)
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "n-title n-desc")
    assert [(child.tag, child.get("id"), child.text) for child in root][:2] == [
        (f"{SVG}title", "n-title", "a\ufffd<b>"),
        (f"{SVG}desc", "n-desc", 'c "d"'),
    ]
