"""Our figures for a table: from metrics, from times, from verdicts and from counts."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from made import PROMPT, continuation

from analysis.verdicts.tidy import read, validate
from guard_eval.errors import StudyError
from guard_eval.metrics.scores import OVERALL, Score
from guard_eval.replication.compare import compare
from guard_eval.replication.measured import from_counts, from_metrics, from_times, from_verdicts, is_counts
from guard_eval.replication.paper import published

pytestmark = pytest.mark.slow

JUDGMENTS = Path(__file__).parents[2].parent / "shared" / "data" / "judgments"
ACS = "acs(q=1)"

COUNTS = """\
dataset,criterion,n_judgements,guard_wins,acs_wins,ties
wikitext,coherence,200,88,38,74
wikinews,coherence,200,87,47,66
book,coherence,200,76,71,53
wikitext,fluency,200,46,21,133
wikinews,fluency,200,43,24,133
book,fluency,200,26,36,138
"""
"""What the paper's percentages are of, 200 ratings a dataset (`tab:llm_with_human`)."""


def test_metrics_have_the_papers_names():
    score = Score(metric="diversity", strategy="guard", dataset="wikitext", value=90.5, low=90, high=91, n=3)
    others = [replace(score, dataset=OVERALL), replace(score, dataset="book", value=None)]
    ((key, ours),) = from_metrics([score, *others], model="m").items()
    assert key == ("m", "Wikitext", "guard", "", "diversity")
    assert (ours.value, ours.low, ours.high, ours.n) == (90.5, 90, 91, 3)


def texts(*seconds):
    return [
        continuation(prompt=replace(PROMPT, id=f"p{n}"), seconds=each, new_tokens=10)
        for n, each in enumerate(seconds)
    ]


def test_speed_by_hand():
    figures = from_times({"guard": texts(1.0, 2.0, 3.0), ACS: texts(3.0, 6.0, 9.0)})
    assert figures["", "", "guard", "", "sec_per_story"].value == pytest.approx(2.0)
    assert figures["", "", "guard", "", "tokens_per_sec"].value == pytest.approx(30 / 6)
    length = figures["", "", ACS, "", "tokens_per_story"]
    assert (length.value, length.low) == (10, None)  # no width
    seconds = figures["", "", ACS, "", "sec_per_story"]
    assert seconds.low < seconds.value < seconds.high


def test_only_prompts_that_all_continued_count():
    figures = from_times({"guard": texts(1.0, 2.0, 30.0), ACS: texts(3.0, 6.0)})
    assert figures["", "", "guard", "", "sec_per_story"].value == pytest.approx(1.5)


def verdicts():
    """Two pairs, two raters each: three for GUARD and a tie; a judge for ACS and for GUARD."""
    rows = [
        ("p1", "r1", "guard", "person"),
        ("p1", "r2", "guard", "person"),
        ("p2", "r1", "guard", "person"),
        ("p2", "r2", "tie", "person"),
        ("p1", "gpt", ACS, "model"),
        ("p2", "gpt", "guard", "model"),
    ]
    table = pd.DataFrame(rows, columns=["pair_id", "rater", "verdict", "rater_kind"])
    return table.assign(dataset="book", method_a="guard", method_b=ACS, criterion="fluency")


def test_shares_by_hand():
    figures = from_verdicts(validate(verdicts()))
    for dataset in ("All", "BookCorpus"):
        assert figures["", dataset, "guard", ACS, "people.fluency.win"].value == 75
        assert figures["", dataset, "guard", ACS, "people.fluency.tie"].value == 25
        assert figures["", dataset, "guard", ACS, "people.fluency.share"].value == 87.5
        assert figures["", dataset, ACS, "guard", "people.fluency.share"].value == 12.5
        assert figures["", dataset, "guard", ACS, "judge.fluency.win"].value == 50
        assert figures["", dataset, "guard", ACS, "both.fluency.agree"].value == 0  # the judge is undecided
    win = figures["", "All", "guard", ACS, "people.fluency.win"]
    assert (win.low, win.high, win.n) == (0, 100, 4)  # 75 ± 12.7 · 25 of two pairs, cut
    assert (win.error, win.df) == (pytest.approx(25), pytest.approx(1))


def test_simulated_raters_do_not_count_beside_people():
    people = verdicts()[verdicts()["rater_kind"] == "person"]
    simulated = people.assign(rater="s", verdict=ACS, rater_kind="simulated").drop_duplicates(["pair_id"])
    figures = from_verdicts(validate(pd.concat([verdicts(), simulated], ignore_index=True)))
    assert figures["", "All", "guard", ACS, "people.fluency.win"].value == 75


@pytest.mark.parametrize(
    ("label", "same", "differ"),
    [
        ("tab:humaneval_resultglacs", 12, 4),
        ("tab:human_evaluation_double_exp", 24, 0),
        ("tab:llm_with_human", 24, 0),
    ],
)
def test_the_papers_counts_give_its_tables_but_for_one_row(tmp_path, label, same, differ):
    """The shares' row "All" is not what its own counts give: 58.00 printed, (251 + 193/2) / 600 = 57.92."""
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS)
    assert is_counts(path)
    compared = [each for each in compare(published(label), from_counts(path, who="people")) if each.ours]
    states = [each.state for each in compared]
    assert (states.count("same"), states.count("differs")) == (same, differ)
    assert {each.figure.dataset for each in compared if each.state == "differs"} <= {"All"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COUNTS.replace(",88,", ",many,"), r"cannot read counts in .*counts.csv .*'many'"),
        ("dataset,criterion,ties,guard_wins\nbook,fluency,1,2\n", r"1 columns NAME_wins \(guard_wins\)"),
        ("dataset,criterion,ties,a_wins,b_wins,c_wins\nbook,fluency,1,2,3,4\n", "3 columns.*keep one such"),
        ("dataset,criterion,ties\nbook,fluency,1\n", "none"),
    ],
)
def test_counts_that_are_none(tmp_path, text, message):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(StudyError, match=message):
        from_counts(path, who="people")


def test_a_dataset_without_a_verdict_has_no_share(tmp_path):
    path = tmp_path / "counts.csv"
    rows = "wikitext,fluency,0,0,0\nbook,fluency,3,1,0\n"
    path.write_text(f"dataset,criterion,guard_wins,acs_wins,ties\n{rows}")
    figures = from_counts(path, who="people")
    assert {key[1] for key in figures} == {"BookCorpus", "All"}
    assert figures["", "All", "guard", ACS, "people.fluency.win"].value == 75  # 3 of 4


@pytest.mark.parametrize(("label", "figures"), [("tab:llm_judgements", 21), ("tab:llm_with_human", 24)])
def test_the_published_verdicts_of_the_judge_give_its_tables(label, figures):
    path = JUDGMENTS / "guard_llm_gpt4.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here: the published verdicts do not lie in the repository")
    assert not is_counts(path)
    ours = from_verdicts(read(path, rater_kind="model"))
    compared = [each for each in compare(published(label), ours) if each.ours]
    assert len(compared) == figures
    assert all(each.is_equal for each in compared)
