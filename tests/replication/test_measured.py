"""Our figures for a table of the paper: from metrics, from verdicts, and from counts of verdicts."""

from pathlib import Path

import pandas as pd
import pytest

from analysis import read
from analysis.replication.compare import (
    KEYS,
    compare_figures_with_paper,
    compute_figures_of_verdicts,
    convert_scores_to_figures,
    read_shares_from_counts,
)
from analysis.replication.paper import find_published_figures
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError
from guard_eval.metrics.scores import OVERALL

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


@pytest.fixture
def counts(tmp_path):
    """Return a function that reads a file of counts with this text."""

    def read_text(text):
        (tmp_path / "counts.csv").write_text(text)
        return read_shares_from_counts(tmp_path / "counts.csv", raters="people")

    return read_text


def by_key(figures):
    keys = figures[["dataset", "strategy", "metric"]].itertuples(index=False, name=None)
    return dict(zip(keys, figures.itertuples(), strict=True))


def test_figures_of_metrics_have_the_papers_datasets():
    rows = [("wikitext", 90.5), (OVERALL, 90.5), ("book", None)]
    scores = pd.DataFrame(rows, columns=["dataset", "value"])
    figures = convert_scores_to_figures(
        scores.assign(metric="diversity", strategy="guard", low=90, high=91, n=3)
    )
    assert figures[[*KEYS, "ours", "low", "high", "n"]].to_numpy().tolist() == [
        ["Wikitext", "guard", "", "diversity", 90.5, 90, 91, 3]
    ]


def verdicts():
    """Make four ratings of two pairs by people (3 for GUARD, a tie) and two by a judge (ACS, GUARD)."""
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


def test_shares_of_verdicts_equal_hand_arithmetic():
    figures = by_key(compute_figures_of_verdicts(check_verdicts(verdicts())))
    for dataset in ("All", "BookCorpus"):
        assert figures[dataset, "guard", "people.fluency.win"].ours == 75
        assert figures[dataset, "guard", "people.fluency.tie"].ours == 25
        assert figures[dataset, "guard", "people.fluency.share"].ours == 87.5
        assert figures[dataset, ACS, "people.fluency.share"].ours == 12.5
        assert figures[dataset, "guard", "judge.fluency.win"].ours == 50
        assert figures[dataset, "guard", "both.fluency.agree"].ours == 0  # the judge is undecided
    for_guard = by_key(
        compute_figures_of_verdicts(check_verdicts(verdicts().replace({"verdict": {ACS: "guard"}})))
    )
    assert for_guard["All", ACS, "both.fluency.agree"].ours == 1
    win = figures["All", "guard", "people.fluency.win"]
    assert (win.low, win.high, win.n) == (0, 100, 4)  # 75 ± 12.7 · 25 of two pairs, cut
    one_prompt = by_key(compute_figures_of_verdicts(check_verdicts(verdicts().assign(prompt_id="p"))))
    assert pd.isna(one_prompt["All", "guard", "people.fluency.win"].low)  # the prompt is the unit


def test_shares_ignore_simulated_raters_beside_people():
    people = verdicts()[verdicts()["rater_kind"] == "person"]
    simulated = people.assign(rater="s", verdict=ACS, rater_kind="simulated").drop_duplicates(["pair_id"])
    figures = by_key(
        compute_figures_of_verdicts(check_verdicts(pd.concat([verdicts(), simulated], ignore_index=True)))
    )
    assert figures["All", "guard", "people.fluency.win"].ours == 75
    judge = verdicts()[4:].assign(shown_first="guard", presentation=1)
    both_orders = pd.concat(
        [judge, judge.assign(shown_first=ACS, verdict="tie", presentation=2)], ignore_index=True
    )
    figures = by_key(compute_figures_of_verdicts(both_orders))
    assert (
        figures["All", "guard", "judge.fluency.win"].ours,
        figures["All", ACS, "judge.fluency.win"].n,
    ) == (50, 2)


@pytest.mark.parametrize(
    ("label", "same", "differ"),
    [
        ("tab:humaneval_resultglacs", 12, 4),
        ("tab:human_evaluation_double_exp", 24, 0),
        ("tab:llm_with_human", 24, 0),
    ],
)
def test_published_counts_give_all_but_one_row(counts, label, same, differ):
    """The shares' row "All" is not what its own counts give: 58.00 printed, (251 + 193/2) / 600 = 57.92."""
    compared = compare_figures_with_paper(find_published_figures(label), counts(COUNTS))
    states = compared["state"].value_counts()
    assert (states["same"], states.get("differs", 0)) == (same, differ)
    assert set(compared["dataset"][compared["state"] == "differs"]) <= {"All"}


def test_counts_need_two_strategies(counts):
    for text, message in (
        (COUNTS.replace(",88,", ",many,"), r"counts\.csv has no counts .*whole numbers"),
        (COUNTS.replace(",88,", ",-88,"), r"counts\.csv has no counts .*whole numbers"),
        ("dataset,criterion,ties,guard_wins\nbook,fluency,1,2\n", r"two strategies \(found: guard_wins\)"),
    ):
        with pytest.raises(StudyError, match=message):
            counts(text)


def test_dataset_without_verdicts_has_no_share(counts):
    rows = "wikitext,fluency,0,0,0\nbook,fluency,3,1,0\n"
    figures = counts(f"dataset,criterion,guard_wins,acs_wins,ties\n{rows}")
    assert set(figures["dataset"]) == {"BookCorpus", "All"}
    assert by_key(figures)["All", "guard", "people.fluency.win"].ours == 75  # 3 of 4


@pytest.mark.parametrize(("label", "figures"), [("tab:llm_judgements", 21), ("tab:llm_with_human", 24)])
def test_published_verdicts_give_the_judges_tables(label, figures):
    path = JUDGMENTS / "guard_llm_gpt4.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here: the published verdicts do not lie in the repository")
    assert read_shares_from_counts(path, raters="judge") is None
    compared = compare_figures_with_paper(
        find_published_figures(label), compute_figures_of_verdicts(read(path, rater_kind="model"))
    )
    compared = compared[compared["ours"].notna()]
    assert len(compared) == figures
    assert (compared["value"] == compared["cell"].str.split().str[0]).all()
