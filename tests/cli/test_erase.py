"""`raters erase`: nobody is erased by mistake, and only files that name the person are listed."""

import json

import pytest


@pytest.fixture
def raters(run, study):
    """Return what calls `guard-eval raters` on a study with pairs and two people."""
    run("generate", "small")
    run("pair", "small")
    run("raters", "small", "add", "Rose", "Ben")

    def call(*arguments):
        return run("raters", "small", *arguments)

    return call


def names(run):
    return {rater["rater"] for rater in json.loads(run("raters", "small", "--json").out)["raters"]}


def test_an_unknown_name_among_others_erases_nobody(run, raters):
    assert "'nobody'" in raters("erase", "Rose", "nobody", "--yes").refused()
    assert names(run) == {"Rose", "Ben"}


def test_without_an_answer_nobody_is_erased(run, raters):
    assert "--yes" in raters("erase", "Rose").refused()
    assert names(run) == {"Rose", "Ben"}


def test_only_names_count_and_not_words_in_texts_or_bytes_in_figures(run, raters, study):
    (study / "prompts.jsonl").write_text(json.dumps({"prompt": "The sun rose. Rose was a child who"}) + "\n")
    (study / "figure.png").write_bytes(b"\x89PNG Rose")
    (study / "page.html").write_text("<style>.Rose {}</style><p>A tale of Rose and others</p>")
    (study / "tale.csv").write_text("text\nRose went home\n")
    (study / "verdicts.csv").write_text("rater,verdict\nRose,guard\n")
    (study / "notes.csv").write_text('rater,detail\nBen,"as Rose said, unclear"\n')
    (study / "report.html").write_text("<table><td>Rose</td></table>")
    (study / "report.json").write_text(json.dumps({"raters": [{"rater": "Rose"}]}))
    said = raters("erase", "Rose", "--yes").out
    listed = {line.rpartition("/")[2] for line in said.splitlines() if line.startswith("  ")}
    assert {"verdicts.csv", "notes.csv", "report.html", "report.json"} <= listed
    assert not listed & {"prompts.jsonl", "figure.png", "page.html", "tale.csv"}
    assert "Rose" not in names(run)
