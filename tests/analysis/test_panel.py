"""Judges are one result each; a declared panel's scores follow from its members' by hand arithmetic."""

import numpy as np
import pandas as pd
import pytest
from verdicts_by_hand import joined, listed

import analysis
from analysis.scores.scores import ScoredVerdicts
from guard_eval.errors import StudyError


def judged(**judges):
    """Verdicts on x against y: of each judge, a list of one word a pair; `x` in the word is a verdict for x.

    Of a word's letters the first, third, … are verdicts with x shown first, the others with y first. A space
    is a pair that the judge did not judge.
    """
    rows = [
        (f"p{pair}", judge, {"x": "x", "y": "y", "-": "tie"}[letter], "xy"[index % 2], str(index))
        for judge, words in judges.items()
        for pair, word in enumerate(words)
        for index, letter in enumerate(word.strip())
    ]
    return listed("pair_id rater verdict shown_first presentation", rows, rater_kind="model")


def scores_of(frame, rule):
    """The panel's score of each pair, from −1 to 1."""
    scored = ScoredVerdicts.from_verdicts(frame, panel=rule)
    (panel,) = scored.panels
    rows = scored.scores[scored.scores["judge"] == panel.name]
    return dict(zip(rows["pair_id"], rows["net"] / rows["showings"], strict=True)), panel


THREE = judged(
    #   p0    p1    p2    p3    p4    p5
    a=["xx", "xx", "xy", "yy", "x-", "--"],
    b=["xx", "yy", "xy", "yy", "--", "yy"],
    c=["yy", "--", "xx", "yy", "yy", "  "],
)


def test_panel_majority_counts_one_vote_per_judge():
    result, panel = scores_of(THREE, "majority")
    # p0: x x y. p1: x, y, tie are level. p2: two flips tie, one x. p4: x- leans to x; x, tie, y are level
    assert result == {"p0": 1, "p1": 0, "p2": 0, "p3": -1, "p4": 0}
    assert (panel.name, panel.members, panel.without) == ("panel of 3 judges (majority)", ("a", "b", "c"), 1)


def test_panel_mean_follows_hand_arithmetic():
    result, panel = scores_of(THREE, "mean")
    # p0: (1 + 1 − 1)/3. p2: (0 + 0 + 1)/3. p4: (½ + 0 − 1)/3
    assert result == pytest.approx({"p0": 1 / 3, "p1": 0, "p2": 1 / 3, "p3": -1, "p4": -1 / 6})
    assert (panel.name, panel.without) == ("panel of 3 judges (mean)", 1)


def test_panel_averages_samples_of_a_judge_first():
    # a has three samples of each order, four of its six verdicts for x; b has one: they weigh the same
    frame = judged(a=["xxxxyy"], b=["yy"])
    assert scores_of(frame, "mean")[0] == pytest.approx({"p0": (1 / 3 - 1) / 2})
    assert scores_of(frame, "majority")[0] == {"p0": 0}
    # numbers of samples without a small common denominator
    many = {f"j{n}": ["x" * (n // 2) + "-" * (n - n // 2)] for n in (83, 89, 97, 79, 73, 71)}
    mean = np.mean([(int(name[1:]) // 2) / int(name[1:]) for name in many])
    assert scores_of(judged(**many), "mean")[0]["p0"] == pytest.approx(mean, abs=1e-8)


def test_report_shows_and_describes_the_panel(tmp_path):
    analysis.report(THREE, tmp_path, panel="mean")
    frame = pd.read_csv(tmp_path / "csv" / "win_shares.csv")
    assert frame["judge"].tolist() == ["a", "b", "c", "panel of 3 judges (mean)"]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "The panel of 3 judges (mean): a, b and c" in page
    assert "leaves out 1\u00a0pair without a verdict of each judge" in page


def test_panel_of_real_judges_excludes_simulated_judges():
    made_up = judged(s=["yy"] * 6).assign(rater_kind="simulated_model")
    frame = analysis.shares(joined(THREE, made_up), panel="majority")
    assert sorted(frame["judge"]) == ["a", "b", "c", "panel of 3 judges (majority)", "s"]
    panel_scores, without = scores_of(THREE, "majority")[0], frame.set_index("judge")["win_share"]
    assert without["panel of 3 judges (majority)"] == pytest.approx(
        (np.mean(list(panel_scores.values())) + 1) / 2
    )
    with pytest.raises(StudyError, match="two judges or more"):
        scores_of(made_up, "majority")


def test_judge_named_like_the_panel_is_refused():
    with pytest.raises(StudyError, match=r"are both called 'panel of 2 judges \(mean\)'"):
        scores_of(judged(**{"a": ["x"], "panel of 2 judges (mean)": ["y"]}), "mean")


def test_panel_needs_all_its_judges_in_a_comparison():
    more = judged(a=["xx"] * 3).astype(object).replace("y", "z")
    more["pair_id"] = ["z0", "z0", "z1", "z1", "z2", "z2"]
    scored = ScoredVerdicts.from_verdicts(joined(THREE, more), panel="mean")
    assert scored.restrict_to_comparisons([("x", "z")]).panels == ()
    assert scored.restrict_to_comparisons([("x", "y")]).panels[0].members == ("a", "b", "c")
    assert len(scored.restrict_to_comparisons([]).frame) == 0


def test_declared_panel_comes_before_its_judges(tmp_path):
    people = listed(
        "pair_id rater verdict", [(f"p{n}", "ann", "xy"[n % 2]) for n in range(12)], rater_kind="person"
    )
    judges = judged(**{name: ["xx", "yy"] * 6 for name in "abcd"})
    summary = analysis.report(joined(people, judges), tmp_path, panel="majority").summary
    sentences = summary.replace("\u00a0", " ").split(". ")
    told = [sentence for sentence in sentences if "judge" in sentence or "panel" in sentence]
    assert told == [
        "The panel of 4 judges (majority) judged 12 pairs",
        "a judged 12 pairs",
        "b judged 12 pairs",
        "2 more judges",
        "The panel of 4 judges (majority) found no difference between x and y on c",
        "The judge a found no difference between x and y on c",
        "The judge b found no difference between x and y on c",
        "The table has 2 more judges.",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["xx", "yy"] * 6, "The judge b found no difference between x and y on c."),
        # p is at least 2 · ½⁵ = .0625.
        (["xx"] * 5, "The judge b gives no answer on c: too few pairs favour x or y"),
        (["xy"] * 12, "The judge b found every pair balanced between x and y on c."),
    ],
)
def test_judge_without_conclusion_found_nothing(tmp_path, words, says):
    summary = analysis.report(judged(a=["xx", "yy"] * 6, b=words), tmp_path).summary
    assert says in summary.replace("\u00a0", " ")
