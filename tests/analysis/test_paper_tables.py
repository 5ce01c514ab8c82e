"""The paper's tables of verdicts, cell by cell: people from its counts, GPT-4 from the published verdicts."""

from pathlib import Path

import pandas as pd
import pytest
from verdicts_by_hand import papers_people

from analysis.reports.paper_tables import paper_tables
from analysis.results.shares import share_rows
from analysis.verdicts.tidy import orient, validate

GPT4 = Path(__file__).parents[3] / "shared/data/judgments/guard_llm_gpt4.csv"


def tables(*frames):
    return paper_tables(share_rows(orient(validate(pd.concat(frames, ignore_index=True)))))


@pytest.fixture(scope="module")
def with_gpt4():
    if not GPT4.exists():
        pytest.skip(f"GPT-4's verdicts are not here: {GPT4}")
    judged = pd.read_csv(GPT4, dtype=str)
    return tables(papers_people(), judged.assign(rater_kind="model"))


def test_people_as_in_the_paper():
    split, wins = tables(papers_people())
    # tab:humaneval_resultglacs, whose row "All" is rounded to 58/42 and 53/47.
    assert split.rows == (
        ("book", "48.75", "51.25", "52.50", "47.50"),
        ("wikinews", "40.00", "60.00", "45.25", "54.75"),
        ("wikitext", "37.50", "62.50", "43.75", "56.25"),
        ("All", "42.08", "57.92", "47.17", "52.83"),
    )
    assert "coherence p = 2.875e-06 (n = 600); fluency p = 0.01819 (n = 600)" in split.note
    assert wins.rows[1:] == (("coherence", "41.8", "26.0", "32.2"), ("fluency", "19.2", "13.5", "67.3"))


def test_the_judge_as_in_the_paper(with_gpt4):
    wins = next(t for t in with_gpt4 if t.caption == "Wins and ties, judged by gpt-4, %")
    # tab:llm_judgements, GUARD against ACS: all seven rows.
    assert wins.rows == (
        ("Overall", "34.3", "30.6", "35.1"),
        ("coherence", "40.7", "34.0", "25.3"),
        ("factuality", "4.0", "10.0", "86.0"),
        ("fluency", "40.7", "35.3", "24.0"),
        ("informativeness", "40.0", "35.3", "24.7"),
        ("interestingness", "40.0", "34.7", "25.3"),
        ("story development", "40.7", "34.0", "25.3"),
    )
    assert "p\u00a0=\u00a0.17)" in wins.note  # scipy.stats.binomtest(309, 584)


def test_people_beside_the_judge_as_in_the_paper(with_gpt4):
    beside = with_gpt4[-1]
    # tab:llm_with_human, with its "Agree?".
    assert beside.rows == (
        ("coherence", "book", "38.0", "35.5", "26.5", "40.0", "36.0", "24.0", "yes"),
        ("coherence", "wikinews", "43.5", "23.5", "33.0", "40.0", "34.0", "26.0", "yes"),
        ("coherence", "wikitext", "44.0", "19.0", "37.0", "42.0", "32.0", "26.0", "yes"),
        ("coherence", "Overall", "41.8", "26.0", "32.2", "40.7", "34.0", "25.3", "yes"),
        ("fluency", "book", "13.0", "18.0", "69.0", "40.0", "34.0", "26.0", "no"),
        ("fluency", "wikinews", "21.5", "12.0", "66.5", "40.0", "40.0", "20.0", "no"),
        ("fluency", "wikitext", "23.0", "10.5", "66.5", "42.0", "32.0", "26.0", "yes"),
        ("fluency", "Overall", "19.2", "13.5", "67.3", "40.7", "35.3", "24.0", "yes"),
    )
