"""Comparing our figures with the paper's: marks of differences, and the layout of tables."""

import pandas as pd
import pytest

from analysis.replication.compare import (
    KEYS,
    compare_figures_with_paper,
    explain_comparison_marks,
    make_comparison_tables,
)
from analysis.replication.paper import find_published_figures

MAIN = find_published_figures("tab:ablation_resultglacs")
GUARD = MAIN[
    (MAIN["dataset"] == "Wikitext") & (MAIN["strategy"] == "guard") & (MAIN["metric"] == "diversity")
]
"""Printed: 92.86."""


def make_our_figures(figures, *, value=None, low=None, high=None, is_exact=False):
    """Make our figures for the paper's figures, by default with the paper's numbers."""
    values = figures["number"] if value is None else value
    return figures[KEYS].assign(ours=values, low=low, high=high, n=5, is_exact=is_exact)


def find_state(figures, *differences, **numbers):
    return compare_figures_with_paper(figures, make_our_figures(figures, **numbers), differences)[
        "state"
    ].iloc[0]


def test_compare_says_whether_interval_has_papers_figure():
    """The printed figure 92.86 is inside if any number that rounds to 92.86 is inside."""
    for low, high, expected in (
        (92.864, 93.0, "inside"),
        (92.866, 93.0, "above"),
        (92.0, 92.856, "inside"),
        (92.0, 92.854, "below"),
        (None, None, "no interval"),
    ):
        assert find_state(GUARD, value=93.0, low=low, high=high) == expected


def test_compare_does_not_judge_figures_of_another_setting():
    numbers = {"value": 10, "low": 9, "high": 11}
    assert find_state(GUARD, **numbers) == "below"
    assert find_state(GUARD, "20 prompts", **numbers) == "other setting"


@pytest.mark.parametrize(
    ("printed", "value", "expected"),
    [("58.00", 57.9167, "differs"), ("58.00", 58.004, "same"), ("47", 47.5, "same"), ("48", 47.5, "same")],
)
def test_shares_from_published_counts_equal_published_shares(printed, value, expected):
    half_unit = 0.5 if "." not in printed else 0.005
    figure = GUARD.assign(value=printed, number=float(printed), half_unit=half_unit)
    assert find_state(figure, value=value, is_exact=True) == expected


def test_table_shows_ticks_as_words():
    judged = find_published_figures("tab:llm_with_human")
    tick = judged[judged["value"] == "yes"].head(1)
    assert [find_state(tick, value=value, is_exact=True) for value in (1.0, 0.0)] == ["same", "differs"]
    assert (
        compare_figures_with_paper(tick, make_our_figures(tick, value=0.0, is_exact=True))["cell"].item()
        == "no ≠"
    )


def test_main_table_has_the_papers_layout():
    compared = compare_figures_with_paper(
        MAIN, make_our_figures(MAIN, low=MAIN["number"], high=MAIN["number"])
    )
    assert set(compared["state"]) == {"inside"}
    assert (compared["value"] == compared["cell"].str.split().str[0]).all()
    tables = make_comparison_tables(compared)
    assert [table.caption[:8] for table in tables] == ["Wikitext", "Wikinews", "BookCorp"]
    assert tables[0].columns[1::2] == ("Div., paper", "MAUVE, paper", "Coh., paper", "BERT-Sc., paper")
    assert [row[0] for row in tables[0].rows][::12] == ["Greedy", "Human"]
    assert tables[0].rows[0][1:3] == ("16.97", "16.97 = [16.97, 16.97]")


def test_table_of_models_has_the_papers_groups():
    figures = find_published_figures("tab:model_size_results")
    gemma = figures[figures["model"] == "Gemma-7B"]
    tables = make_comparison_tables(compare_figures_with_paper(gemma, make_our_figures(gemma)))
    assert [table.caption for table in tables] == ["Diversity", "MAUVE", "Coherence"]
    assert tables[0].columns[1::2] == ("CS, paper", "ACS, paper", "GUARD, paper")
    cells = ("Wikitext, Gemma-7B", "68.99", "68.99 ≡", "47.99", "47.99 ≡", "96.54", "96.54 ≡")
    assert (tables[0].rows[0], len(tables[0].rows)) == (cells, 3)


def test_legend_counts_papers_figures_inside_our_intervals():
    two = pd.concat(
        [
            make_our_figures(GUARD, value=92.861, low=92.0, high=93.0),
            make_our_figures(MAIN.head(1), value=50, low=49, high=51),
        ]
    )
    meanings = explain_comparison_marks(compare_figures_with_paper(MAIN, two))
    assert "1 of 2 of the paper's figures lie within our intervals" in meanings
    assert "> ours is higher" in meanings
    assert "< " not in meanings
