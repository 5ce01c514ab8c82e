"""Tables: nothing that somebody typed becomes markup, a formula or a command in any of the formats."""

import csv
import io
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.reporting.tables import Table, to_csv, to_html, to_latex, to_markdown

NASTY = [
    "<script>alert(1)</script>",
    '" onmouseover="x',
    "a|b",
    "**bold** _it_ [link](http://x) `code` $x$",
    r"\input{/etc/passwd} % # & ~ ^",
    "=1+1",
    "line\nbreak",
    "\x00\x1b\ud800",
    "www.example.com",
    "[0pt]",
    "*star",
]


class Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("text", NASTY)
def test_a_markdown_cell_stays_one_cell(text):
    table = Table(columns=("a", "b"), rows=((text, 1),), caption="c")
    line = to_markdown(table).split("\n")[4]
    assert line.replace(r"\|", "").count("|") == 3


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), min_size=1))
def test_csv_gives_back_the_text(cells):
    table = Table(columns=tuple(map(str, range(len(cells)))), rows=(tuple(cells),), caption="")
    row = list(csv.reader(io.StringIO(to_csv(table), newline="")))[1]
    lines = [cell.replace("\r\n", "\n").replace("\r", "\n") for cell in cells]
    assert [cell.removeprefix("'") for cell in row] == [cell.removeprefix("'") for cell in lines]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def test_a_table_in_html():
    table = Table(
        columns=("name", "n"),
        rows=(("<b>", 1), ("x" * 40, None)),
        caption="<c>",
        note="&",
        strong=frozenset({0}),
    )
    parser = Texts()
    parser.feed(to_html(table))
    assert ("th", {"scope": "col", "class": "figure"}) in parser.tags
    assert ("th", {"scope": "row", "dir": "auto"}) in parser.tags
    assert {"<b>", "<c>", "&", "–"} <= set(parser.texts)
    region = dict(parser.tags)["div"]
    assert (region["role"], region["tabindex"], region["aria-label"]) == ("region", "0", "<c>")


def test_rows_fit_their_columns():
    with pytest.raises(ValueError, match="1 cells in a table of 2"):
        Table(columns=("a", "b"), rows=(("x",),), caption="")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_tables_compile(tmp_path):
    cells = tuple((text, 1) for text in [*NASTY, "".join(map(chr, range(32, 0x250))), "κ中עa\u0301"])
    table = to_latex(Table(columns=("a", "b"), rows=cells, caption=NASTY[4], strong=frozenset({1})))
    (tmp_path / "t.tex").write_text(
        r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\usepackage{lmodern,textcomp,amssymb,array,"
        r"booktabs}\newcommand{\fitwidth}[1]{#1}\begin{document}" + table + r"\end{document}",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-800:].decode("utf-8", "replace")
