"""A report on a study's own criteria: titles where people read, names in the files, nothing but text."""

import csv
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pandas as pd
import pytest
from html_page import Page

from analysis.reports.build import write_report
from analysis.reports.context import Context
from guard_eval.reporting.words import title, titled
from guard_eval.rubric import Criterion, reworded

pytestmark = pytest.mark.slow

TITLE = "DNA <b>&amp; $x_1$ **b** \\input{x} 100% _u_ `c` {{ 7*7 }}"
DEFINITION = "<script>alert(1)</script> \\write18{x} ![x](https://example.org/x.png)"
WIT = Criterion(name="wit", title=TITLE, definition=DEFINITION)
A, B = "guard", "top_k(k=50)"


def verdicts():
    """Return a fixed pattern of wins, ties and losses by three people, on two criteria."""
    return pd.DataFrame(
        {
            "pair_id": f"p{item}",
            "dataset": "d",
            "method_a": A,
            "method_b": B,
            "rater": f"r{rater}",
            "rater_kind": "person",
            "criterion": criterion,
            "verdict": (A, A, "tie", B)[(item + rater * (item % 3)) % 4],
        }
        for item in range(12)
        for rater in range(3)
        for criterion in ("wit", "story_development")
    )


CONTEXT = Context(
    name="s", planned=((A, B, "wit"), (A, B, "story_development")), study_hash="a" * 64, stored_hash="a" * 64
)


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    write_report(verdicts(), folder, replace(CONTEXT, criteria=(WIT,), reworded=("'wit' was asked as 'x'",)))
    return folder


def test_the_page_shows_the_title_as_text(reported):
    page = Page((reported / "index.html").read_text(encoding="utf-8"))
    assert sum(TITLE in text for text in page.texts) >= 3
    assert any(DEFINITION in text for text in page.texts)
    assert not [tag for tag, _ in page.tags if tag in {"b", "script", "img"}]
    assert "story development" in " ".join(page.texts)
    assert not [text for text in page.texts if "dNA" in text or "Dna" in text]  # no capital is touched
    assert any("a criterion was reworded: 'wit' was asked as 'x'" in text for text in page.texts)


def test_figures_and_other_forms_show_it_too(reported):
    texts = [" ".join(ET.parse(path).getroot().itertext()) for path in (reported / "figures").glob("*.svg")]
    assert any("DNA" in text for text in texts)
    tex = (reported / "report.tex").read_text(encoding="utf-8")
    assert "DNA" in tex
    assert "\\input{x}" not in tex
    assert "\\write18" not in tex
    markdown = (reported / "report.md").read_text(encoding="utf-8")
    assert "DNA" in markdown
    assert "<b>" not in markdown
    assert "![x](" not in markdown


def test_files_have_the_name(reported):
    with (reported / "csv" / "win_shares.csv").open(encoding="utf-8") as file:
        assert {row["criterion"] for row in csv.DictReader(file)} == {"wit", "story_development"}
    tables = json.loads((reported / "report.json").read_text(encoding="utf-8"))["tables"]
    assert {row["criterion"] for row in tables["win_shares"]} == {"wit", "story_development"}


def test_without_titles_nothing_is_renamed(tmp_path):
    write_report(verdicts(), tmp_path, CONTEXT)
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert "wit" in [text.strip() for text in page.texts]
    assert "DNA" not in " ".join(page.texts)


def test_a_title_lasts_as_long_as_it_is_asked_for():
    with titled({"wit": "Dry wit"}):
        assert title("wit") == "Dry wit"
    with pytest.raises(KeyError), titled({"wit": "Dry wit"}):
        raise KeyError
    assert title("wit") == "wit"


def test_what_was_reworded_is_said_of_what_is_known():
    before = {"wit": "Wit: old", "other": "Other: x"}
    new = Criterion(name="wit", title="Wit", definition="new")
    assert reworded(before, [new, Criterion(name="flow", title="Flow", definition="f")]) == [
        "'wit' was asked as 'Wit: old', and is now 'Wit: new'"
    ]
    assert reworded({"wit": "Wit: new"}, [new]) == []
