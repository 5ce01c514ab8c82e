"""Escaping: nothing that somebody typed becomes markup, a formula or a command in any of the formats."""

import pytest
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.reporting.escaping import (
    Escaped,
    escape_csv,
    escape_html,
    escape_latex,
    escape_markdown,
    join_lines,
    make_csv,
    replace_unwritable_characters,
)


def test_replace_unwritable_changes_only_invalid_text():
    assert (
        replace_unwritable_characters("a\x00\ud800\ufffe\u202e\u2067\r\n b\t<c>\r\x1b\u200f")
        == "a\ufffd\ufffd\ufffd\ufffd\ufffd\n b\t<c>\n\ufffd\u200f"
    )
    assert join_lines("a\x00\ud800\ufffe\n b\t<c>") == "a\ufffd\ufffd\ufffd b <c>"


@given(st.text())
def test_escaped_html_parses_to_the_text_without_tags(text):
    parser = Page(f"<p>{escape_html(text)}</p>")
    assert parser.tags == [("p", {})]
    if text.isascii() and text.isprintable():
        assert "".join(parser.texts) == text


MARKUP = st.text(st.sampled_from("#>+-=*_~`|[]()<>!&:;.$@\\\\1 9ax\n"))


@given(st.text() | MARKUP)
def test_escaped_markdown_renders_as_plain_text(text):
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(escape_markdown(text))
    inline = [child for token in tokens if token.type == "inline" for child in token.children]
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}
    assert {child.type for child in inline} <= {"text", "text_special"}
    if text.isascii() and text.isprintable():
        assert "".join(child.content for child in inline) == " ".join(text.split())


def test_markdown_escapes_each_special_character():
    expected = {
        "a|b": r"a\|b",
        "# head": r"\# head",
        "- item": r"\- item",
        "1. item": r"1\. item",
        "1.5 +1.5 -0.25": "1.5 +1.5 -0.25",
        "R&D #1": r"R\&D \#1",
        "WWW.x.y _www.x": r"WWW\.x.y \_www\.x",
        "---": r"\---",
        "guard-eval: 3": "guard-eval: 3",
        "two\n\nlines": "two lines",
    }
    assert {text: escape_markdown(text) for text in expected} == expected


@given(st.text())
def test_latex_special_characters_are_escaped(text):
    escaped = escape_latex(text)
    assert all(character.isascii() or character.isalpha() for character in escaped)
    assert "%" not in escaped.replace(r"\%", "")
    assert "\n" not in escaped
    depth = 0
    for character in escaped.replace(r"\{", "").replace(r"\}", ""):
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert not any(ligature in escaped for ligature in ("-----", ",,", "?`", "!`"))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"])
def test_escaped_csv_cells_are_no_formulas(text):
    assert escape_csv(text) == f"'{text}".replace("\r", "\n")


def test_csv_numbers_stay_numbers():
    cells = (-1, -0.25, True, None, float("nan"), "a-b")
    assert [escape_csv(cell) for cell in cells] == ["-1", "-0.25", "true", "", "", "a-b"]


LATEX = [
    (r"\input{x}", r"\textbackslash{}input\{x\}"),
    (r"50% & \x_{1}", r"50\% \& \textbackslash{}x\_\{1\}"),
    ("é ñ ß κ 中", r"é ñ ß $\kappa$ {[U+4E2D]}"),
    (Escaped(r"\emph{x}"), r"\emph{x}"),
    ("a_b^c", r"a\_b\textasciicircum{}c"),
    ("top-k, top--k, –-", "top-k, top-{}-k, --{}-"),
    ("„a“, 1,,2", r"{[U+201E]}a``, 1,{},2"),
    ("中文", r"{[U+4E2D]}\allowbreak{}{[U+6587]}"),
    (
        "contrastive_search(k=4,alpha=0.6)",
        r"contrastive\_\allowbreak{}search(\allowbreak{}k=\allowbreak{}4,\allowbreak{}alpha=\allowbreak{}0.\allowbreak{}6)",
    ),
    ("[0pt]*", "{[}0pt{]}{*}"),
    ('say "ą"', r"say \char34{}{[U+0105]}\char34{}"),
]


def test_escape_latex_gives_the_expected_codes():
    assert [escape_latex(text) for text, _ in LATEX] == [escaped for _, escaped in LATEX]


def test_make_csv_quotes_cells_by_rfc_4180():
    text = make_csv([("a", "b"), ("=1", 0.1), ("x,y", float("inf")), (10**400, None)])
    assert text == f'a,b\n\'=1,0.1\n"x,y",\n{10**400},\n'
