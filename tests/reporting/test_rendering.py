"""Tables and pages by hand: columns of words, groups, headings; what is printed is escaped once."""

import pytest

from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import Escaped
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table, to_html, to_latex, to_markdown

TABLE = Table(
    columns=("name", "n", "<state>"),
    rows=(("a", 1, "x & y"), ("b", 2, Escaped("<b>markup</b>"))),
    caption="c & d",
    words=frozenset({2}),
    groups=(("both", 2),),
)


def test_a_further_column_of_words_stands_flush_left():
    html = to_html(TABLE)
    assert '<th scope="col" class="figure">n</th><th scope="col">&lt;state&gt;</th>' in html
    assert '<td class="figure">1</td><td dir="auto">x &amp; y</td>' in html
    assert "| --- | ---: | --- |" in to_markdown(TABLE)
    assert r"\begin{tabular}{lrl}" in to_latex(TABLE)


def test_groups_stand_above_their_columns():
    above = '<thead><tr><td></td><th class="group" scope="colgroup" colspan="2">both</th></tr><tr>'
    assert above in to_html(TABLE)


def test_a_caption_may_be_a_heading():
    assert to_html(TABLE, heading=True).startswith('<h2 dir="auto">c &amp; d</h2>')
    assert to_markdown(TABLE, heading=True).startswith("## c & d\n\n".replace("&", r"\&"))


def test_a_page_escapes_each_value_once(tmp_path):
    (tmp_path / "own.html.j2").write_text(
        '{% extends "page.html.j2" %}{% block main %}{{ value }}|{{ table | table }}{% endblock %}'
    )
    page = render(tmp_path / "own.html.j2", title="<t>", value="<script> & {{ 7*7 }}", table=TABLE)
    assert "&lt;script&gt; &amp; {{ 7*7 }}|" in page
    assert "<b>markup</b>" in page
    assert "<title>&lt;t&gt;</title>" in page
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in page


def test_a_figure_that_is_missing_is_named(tmp_path):
    (tmp_path / "own.html.j2").write_text("{{ file | embedded }}")
    with pytest.raises(StudyError, match=r"cannot read the figure .*f\.svg: .*; draw it again"):
        render(tmp_path / "own.html.j2", file=tmp_path / "f.svg")
