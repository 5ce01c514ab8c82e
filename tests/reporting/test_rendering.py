"""Tables and pages by hand: columns of words, headings; what is printed is escaped once."""

import csv
import io

import pytest
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.reporting.escaping import Escaped, make_csv, unescape_csv
from guard_eval.reporting.rendering import render, render_lines, render_table
from guard_eval.reporting.tables import Table

TABLE = Table(
    columns=("name", "n", "<state>"),
    rows=(("a", 1, "x & y"), ("b", 2, Escaped("<b>markup</b>"))),
    caption="c & d",
    words=frozenset({2}),
)


def test_second_text_column_is_aligned_left():
    html = render_table(TABLE, ".html")
    assert '<th scope="col" class="figure">n</th><th scope="col">&lt;state&gt;</th>' in html
    assert '<td class="figure">1</td><td dir="auto">x &amp; y</td>' in html
    assert "| --- | ---: | --- |" in render_table(TABLE, ".md")
    assert r"\begin{tabular}{lrl}" in render_table(TABLE, ".tex")


@pytest.mark.parametrize("ending", [".html", ".md", ".tex"])
def test_whole_numbers_of_a_table_have_commas(ending):
    table = Table(columns=("a", "b"), rows=(("12345", 1234567),), caption="c")
    text = render_table(table, ending)
    assert "1,234,567" in text
    assert "12345" in text  # a name stays as it is


def test_table_caption_may_be_a_heading():
    assert render_table(TABLE, ".html", heading=True).startswith('<h2 dir="auto">c &amp; d</h2>')
    assert render_table(TABLE, ".md", heading=True).startswith("## c & d\n\n".replace("&", r"\&"))


def test_a_page_escapes_each_value_once(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "own.html.j2").write_text(
        '{% extends "page.html.j2" %}{% block main %}{{ value }}|{{ table | table }}{% endblock %}'
    )
    page = render(f"{tmp_path}/module.py", "own.html", title="<t>", value="<script> & {{ 7*7 }}", table=TABLE)
    assert "&lt;script&gt; &amp; {{ 7*7 }}|" in page
    assert "<b>markup</b>" in page
    assert "<title>&lt;t&gt;</title>" in page
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in page


def test_line_breaks_in_values_do_not_split_sentences(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "own.txt.j2").write_text(
        "{% if n %}\n{{ n }} {{ value }}\n{% endif %}\n\n{{ count_in_words(n, 'pair') }}\n"
    )
    lines = render_lines(f"{tmp_path}/module.py", "own.txt", n=2000, value="a\n<b>\u2028{{ 7*7 }}")
    assert lines == ("2,000 a <b> {{ 7*7 }}", "2,000\u00a0pairs")


@given(st.text(st.sampled_from("a|\\\n\r\x00\ud800*[<$ ")))
def test_a_markdown_cell_stays_one_cell(text):
    table = Table(columns=("a", "b"), rows=((text, 1),), caption="c")
    line = render_table(table, ".md").split("\n")[4]
    assert line.replace(r"\\", "").replace(r"\|", "").count("|") == 3


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), min_size=1))
def test_csv_restores_escaped_texts(cells):
    row = list(csv.reader(io.StringIO(make_csv([cells, cells]), newline="")))[1]
    lines = [cell.replace("\r\n", "\n").replace("\r", "\n") for cell in cells]
    assert [unescape_csv(cell) for cell in row] == lines
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def test_html_table_equals_expected_markup():
    table = Table(
        columns=("name", "n"),
        rows=(("<b>", 1), ("x" * 40, None)),
        caption="<c>",
        note="&",
        strong=frozenset({0}),
    )
    parser = Page(render_table(table, ".html"))
    assert ("th", {"scope": "col", "class": "figure"}) in parser.tags
    assert ("th", {"scope": "row", "dir": "auto"}) in parser.tags
    assert {"<b>", "<c>", "&", "–"} <= set(parser.texts)
    region = dict(parser.tags)["div"]
    assert (region["role"], region["tabindex"], region["aria-label"]) == ("region", "0", "<c>")


def test_table_refuses_a_row_of_another_length():
    with pytest.raises(ValueError, match="row has 1 cells, but the table has 2"):
        Table(columns=("a", "b"), rows=(("x",),), caption="")
