"""Our figures for a table: from files of metrics, from times, from verdicts and from counts."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from made import PROMPT, continuation

from analysis.verdicts.tidy import read, validate
from guard_eval.cli.replication.compare import Departures, compare
from guard_eval.cli.replication.ours import is_counts, of_counts, of_metrics, of_speed, of_verdicts
from guard_eval.cli.replication.paper import published, speed_with_ratios
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow

JUDGMENTS = Path(__file__).parents[3].parent / "shared" / "data" / "judgments"
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


def test_metrics_are_those_of_the_file(tmp_path):
    score = {"metric": "diversity", "strategy": "guard", "value": 90.5, "low": 90, "high": 91, "n": 3}
    scores = [
        {**score, "dataset": "wikitext"},
        {**score, "dataset": "all datasets"},
        {**score, "dataset": "book", "value": None},
    ]
    (tmp_path / "metrics.json").write_text(json.dumps({"scores": scores}))
    ((key, ours),) = of_metrics(tmp_path, model="m").items()
    assert key == ("m", "Wikitext", "guard", "", "diversity")
    assert (ours.value, ours.low, ours.high, ours.n) == (90.5, 90, 91, 3)
    assert of_metrics(tmp_path / "nowhere") == {}
    (tmp_path / "metrics.json").write_text("[]")
    with pytest.raises(StudyError, match=r"cannot read .*metrics.json"):
        of_metrics(tmp_path)


def texts(*seconds, tokens=10):
    prompts = [replace(PROMPT, id=f"p{n}") for n in range(len(seconds))]
    return [
        continuation(prompt=prompt, seconds=each, new_tokens=tokens)
        for prompt, each in zip(prompts, seconds, strict=True)
    ]


def test_speed_by_hand():
    """Thrice as long for the same tokens on every prompt: the ratio is 3 in every resample."""
    found = of_speed({"guard": texts(1.0, 2.0, 3.0), ACS: texts(3.0, 6.0, 9.0)})
    assert found["", "", "guard", "", "sec_per_story"].value == pytest.approx(2.0)
    assert found["", "", "guard", "", "tokens_per_sec"].value == pytest.approx(30 / 6)
    assert found["", "", ACS, "", "tokens_per_story"].value == 10
    ratio = found["", "", "guard", ACS, "tokens_per_sec_ratio"]
    assert ratio.value == pytest.approx(3.0)
    assert ratio.low is None or ratio.low == pytest.approx(3.0)
    uneven = of_speed({"guard": texts(1.0, 2.0, 3.0), ACS: texts(3.0, 2.0, 9.0)})[
        "", "", "guard", ACS, "tokens_per_sec_ratio"
    ]
    assert uneven.value == pytest.approx(14 / 6)
    assert uneven.low < uneven.value < uneven.high


def test_only_prompts_that_all_continued_count():
    found = of_speed({"guard": texts(1.0, 2.0, 30.0), ACS: texts(3.0, 6.0)})
    assert found["", "", "guard", "", "sec_per_story"].value == pytest.approx(1.5)


def test_the_papers_two_ratios():
    """28.3 / 22.0 tokens per second, and 11.6 / 4.42 seconds: the paper's own figures, divided."""
    ratios = {(f.row, f.column): f.value for f in speed_with_ratios()[15:]}
    assert len(ratios) == 8
    assert ratios["GUARD over CS (10, 0.6)", "by #tokens/sec"] == "1.29"
    assert ratios["GUARD over CS (10, 0.6)", "by sec/story"] == "2.62"
    assert ratios["GUARD over ACS (q = 1)", "by #tokens/sec"] == "1.74"


def verdicts():
    """Two pairs, two raters each: three for GUARD and a tie; a judge in one order, for ACS and for GUARD."""
    rows = [
        ("p1", "r1", "guard", "person"),
        ("p1", "r2", "guard", "person"),
        ("p2", "r1", "guard", "person"),
        ("p2", "r2", "tie", "person"),
        ("p1", "gpt", ACS, "model"),
        ("p2", "gpt", "guard", "model"),
    ]
    return pd.DataFrame(
        [
            {
                "pair_id": pair,
                "dataset": "book",
                "method_a": "guard",
                "method_b": ACS,
                "rater": rater,
                "criterion": "fluency",
                "verdict": verdict,
                "rater_kind": kind,
            }
            for pair, rater, verdict, kind in rows
        ]
    )


def test_shares_by_hand():
    found = of_verdicts(validate(verdicts()))
    for dataset in ("All", "BookCorpus"):
        assert found["", dataset, "guard", ACS, "people.fluency.win"].value == 75
        assert found["", dataset, "guard", ACS, "people.fluency.tie"].value == 25
        assert found["", dataset, "guard", ACS, "people.fluency.share"].value == 87.5
        assert found["", dataset, ACS, "guard", "people.fluency.share"].value == 12.5
        assert found["", dataset, "guard", ACS, "judge.fluency.win"].value == 50
        assert found["", dataset, "guard", ACS, "both.fluency.agree"].value == 0  # the judge prefers neither
    win = found["", "All", "guard", ACS, "people.fluency.win"]
    assert (win.low, win.high, win.n) == (50, 100, 4)  # resampled by pair: 2/4, 3/4 or 4/4


def test_simulated_raters_do_not_count_beside_people():
    made = verdicts()
    simulated = made[made["rater_kind"] == "person"].assign(rater="s", verdict=ACS, rater_kind="simulated")
    simulated = simulated.drop_duplicates(["pair_id"])
    found = of_verdicts(validate(pd.concat([made, simulated], ignore_index=True)))
    assert found["", "All", "guard", ACS, "people.fluency.win"].value == 75


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
    blocks = compare(published(label), of_counts(path, who="people"), Departures())
    cells = [cell for block in blocks for _, row in block.rows for cell in row if cell and cell.ours]
    states = [cell.state for cell in cells]
    assert (states.count("same"), states.count("differs")) == (same, differ)
    assert {cell.figure.dataset for cell in cells if cell.state == "differs"} <= {"All"}


def test_counts_that_are_none(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(COUNTS.replace(",88,", ",many,"))
    with pytest.raises(StudyError, match=r"cannot read counts in .*counts.csv .*'many'"):
        of_counts(path, who="people")


@pytest.mark.parametrize(("label", "figures"), [("tab:llm_judgements", 21), ("tab:llm_with_human", 24)])
def test_the_published_verdicts_of_the_judge_give_its_tables(label, figures):
    path = JUDGMENTS / "guard_llm_gpt4.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here: the published verdicts do not lie in the repository")
    assert not is_counts(path)
    blocks = compare(published(label), of_verdicts(read(path, rater_kind="model")), Departures())
    cells = [cell for block in blocks for _, row in block.rows for cell in row if cell and cell.ours]
    assert len(cells) == figures
    assert all(cell.equal for cell in cells)


def test_a_dataset_without_a_verdict_has_no_share(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(
        "dataset,criterion,guard_wins,acs_wins,ties\nwikitext,fluency,0,0,0\nbook,fluency,3,1,0\n"
    )
    found = of_counts(path, who="people")
    assert {key[1] for key in found} == {"BookCorpus", "All"}
    assert found["", "All", "guard", ACS, "people.fluency.win"].value == 75  # 3 of 4


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("guard_wins", "1 columns NAME_wins \\(guard_wins\\)"),
        ("a_wins,b_wins,c_wins", "3 columns"),
        ("x", "none"),
    ],
)
def test_counts_are_of_two_strategies(tmp_path, columns, named):
    path = tmp_path / "counts.csv"
    path.write_text(f"dataset,criterion,ties,{columns}\nbook,fluency,1,2,3,4\n")
    with pytest.raises(StudyError, match=f"{named}.*keep one such column"):
        of_counts(path, who="people")
