"""A declared composite of criteria by hand arithmetic; and none where none was declared."""

import json

import pytest
from verdicts_by_hand import joined, listed

from analysis import report as written
from analysis import shares
from analysis.reports.command import report
from analysis.scores.scores import ScoredVerdicts
from guard_eval.errors import StudyError

BOTH = {"coherence": 2, "fluency": 1}


def table(pairs, kind="person", raters="rst", **names):
    """Verdicts on x against y: of each pair a word a rater, its letters on coherence and on fluency.

    A space is a criterion that the rater did not judge.
    """
    a, b = names.get("a", "x"), names.get("b", "y")
    rows = [
        (f"{a}{b}{pair}", raters[rater], criterion, {"x": a, "y": b, "-": "tie"}[letter])
        for pair, words in enumerate(pairs)
        for rater, word in enumerate(words)
        for criterion, letter in zip(BOTH, word, strict=True)
        if letter != " "
    ]
    return listed("pair_id rater criterion verdict", rows, rater_kind=kind, method_a=a, method_b=b)


THREE = [
    ["x-", "-y"],  # 2/3 and −1/3: mean 1/6
    ["xx", "xy"],  # 1 and 1/3: mean 2/3
    ["yx", "--"],  # −1/3 and 0: mean −1/6
]
MANY = [["xx" if n % 4 else "yy"] * 2 for n in range(40)]


def test_composite_of_a_panel_uses_panel_scores():
    judged = {"a": ["xx", "yx"], "b": ["xx", "yx"], "c": ["yy", "yy"]}
    frames = [table([[word] for word in words], "model", name) for name, words in judged.items()]
    result = ScoredVerdicts.from_verdicts(
        joined(*frames),
        composite=BOTH,
        panel="majority",
    )
    (panel,) = result.panels
    rows = result.scores[(result.scores["judge"] == panel.name) & (result.scores["criterion"] == "composite")]
    # x and x: 1; y and x: (−2 + 1)/3
    assert (rows["net"] / rows["showings"]).tolist() == pytest.approx([1, -1 / 3])


APART = table([["x ", " y"], ["y ", " x"]])
RENAMED = table(THREE).astype({"criterion": object}).replace({"criterion": {"coherence": "composite"}})


@pytest.mark.parametrize(
    ("weights", "frame", "message"),
    [
        ({"coherence": 1}, table(THREE), "composite: .*should have at least 2 items"),
        (
            {"composite": 1, "fluency": 1},
            table(THREE),
            "all of composite and fluency; .*choose from: coh",
        ),
        ({"coherence": 1, "fluidity": 1}, table(THREE), "all of coherence and fluidity; .*choose from: coh"),
        (BOTH, APART, "no rater has judged a pair on all of coherence and fluency"),
        (BOTH, RENAMED, "are both called 'composite'"),
    ],
)
def test_impossible_composite_is_refused(weights, frame, message):
    with pytest.raises(StudyError, match=message):
        shares(frame, composite=weights)


@pytest.mark.slow
def test_report_describes_its_composite(tmp_path):
    result = written(table(MANY), tmp_path, paper=True, composite=BOTH)
    assert "x was preferred to y on the composite" in result.summary
    assert "the weighted mean of coherence (2) and fluency (1)" in result.summary
    assert json.loads((tmp_path / "report.json").read_text())["composite"] == BOTH
    tables = (tmp_path / "paper/table.md").read_text()
    assert "the weighted mean of coherence (2) and fluency (1)" in tables


@pytest.mark.slow
def test_report_toml_and_option_declare_composites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(MANY).to_csv("verdicts.csv", index=False)
    (tmp_path / "report.toml").write_text('family = ["coherence"]\n[composite]\ncoherence = 1\nfluency = 1\n')
    result = report(tmp_path / "verdicts.csv", overrides=["composite.coherence=3.0"])
    assert "the weighted mean of coherence (3) and fluency (1)" in result.answer
    assert "Holm for 2 results" in (tmp_path / "verdicts-report" / "index.html").read_text()
    assert "--set composite.coherence=3.0" in (tmp_path / "verdicts-report" / "report.md").read_text()
    (tmp_path / "report.toml").write_text("[composite]\ncoherence = -1\nfluency = 1\n")
    with pytest.raises(
        StudyError, match=r"(?s)report.toml.*composite.coherence: -1: input should be greater than 0"
    ):
        report(tmp_path / "verdicts.csv")
