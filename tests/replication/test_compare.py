"""Our figures beside the paper's: how a difference is marked, and in which layout."""

from dataclasses import replace

import pytest

from guard_eval.estimate import Estimate
from guard_eval.replication.compare import (
    COUNTED,
    SettingDifference,
    compare,
    key_of,
    legend,
    setting_sentence,
    state_of,
    tables_of,
)
from guard_eval.replication.paper import published

MAIN = published("tab:ablation_resultglacs")
GUARD = next(f for f in MAIN if (f.dataset, f.strategy, f.metric) == ("Wikitext", "guard", "diversity"))
"""Printed: 92.86."""
HUMAN = next(f for f in MAIN if (f.dataset, f.strategy, f.metric) == ("Wikitext", "human", "diversity"))


@pytest.mark.parametrize(
    ("low", "high", "state"),
    [
        (92.0, 93.0, "inside"),
        (92.864, 93.0, "inside"),  # a number that rounds to 92.86 lies inside
        (92.866, 93.0, "above"),
        (92.0, 92.856, "inside"),
        (92.0, 92.854, "below"),
        (None, None, "no interval"),
    ],
)
def test_the_papers_figure_and_our_interval(low, high, state):
    assert state_of(GUARD, Estimate(value=93.0, low=low, high=high)) == state


def test_another_setting_says_nothing():
    ours = {key_of(GUARD): Estimate(value=10, low=9, high=11)}
    for difference, state in (
        (SettingDifference(words="model x"), "other setting"),
        (SettingDifference(words="20 prompts", dataset="Wikitext"), "other setting"),
        (SettingDifference(words="20 prompts", dataset="Wikinews"), "below"),
        (SettingDifference(words="model x", model="Llama-2"), "below"),
    ):
        assert compare([GUARD], ours, [difference])[0].state == state
    prompts = SettingDifference(words="20 prompts", dataset="Wikinews")
    assert prompts.concerns(replace(GUARD, dataset="All"))
    assert not SettingDifference(words="model x").concerns(HUMAN)  # no model wrote the references
    assert setting_sentence([prompts, prompts]) == (
        "OTHER SETTING: 20 prompts. A difference says nothing of the paper."
    )
    assert setting_sentence([]) == ""


@pytest.mark.parametrize(
    ("printed", "value", "state"),
    [
        ("58.00", 57.9167, "differs"),
        ("58.00", 58.004, "same"),
        ("47", 47.5, "same"),
        ("48", 47.5, "same"),
    ],
)
def test_what_is_computed_from_the_papers_counts_must_be_the_papers(printed, value, state):
    figure = replace(GUARD, value=printed, metric="people.coherence.share")
    assert state_of(figure, Estimate(value=value, method=COUNTED)) == state


def test_ticks():
    tick = next(f for f in published("tab:llm_with_human") if f.value == "yes")
    assert [state_of(tick, Estimate(value=value)) for value in (1.0, 0.0)] == ["same", "differs"]


def test_the_main_table_stands_as_in_the_paper():
    ours = {key_of(f): Estimate(value=f.number, low=f.number, high=f.number) for f in MAIN}
    compared = compare(MAIN, ours)
    assert {each.state for each in compared} == {"inside"}
    assert all(each.is_equal for each in compared)
    tables = tables_of(compared)
    assert [table.caption[:8] for table in tables] == ["Wikitext", "Wikinews", "BookCorp"]
    assert tables[0].columns[1::2] == ("Div., paper", "MAUVE, paper", "Coh., paper", "BERT-Sc., paper")
    assert [row[0] for row in tables[0].rows][::12] == ["Greedy", "Human"]
    assert tables[0].rows[0][1:3] == ("16.97", "16.97 = [16.97, 16.97]")


@pytest.mark.parametrize(
    ("label", "model", "captions", "columns", "first"),
    [
        (
            "tab:model_size_results",
            "Gemma-7B",
            ["Diversity", "MAUVE", "Coherence"],
            ("CS, paper", "ACS, paper", "GUARD, paper"),
            ("Wikitext, Gemma-7B", "68.99", "68.99 ≡", "47.99", "47.99 ≡", "96.54", "96.54 ≡"),
        ),
        (
            "tab:model_size_bertscore_results",
            "Llama-2",
            ["Paper and ours"],
            ("CS, paper", "ACS, paper", "GUARD, paper"),
            ("Wikitext, Llama-2", "81.13", "81.13 ≡", "80.59", "80.59 ≡", "81.50", "81.50 ≡"),
        ),
    ],
)
def test_tables_of_several_models(label, model, captions, columns, first):
    figures = published(label)
    ours = {key_of(f, several_models=True): Estimate(value=f.number) for f in figures if f.model == model}
    compared = compare(figures, ours, several_models=True)
    assert {each.state for each in compared if each.figure.model != model} == {"not run"}
    tables = tables_of(compared)
    assert [table.caption for table in tables] == captions
    assert (tables[0].columns[1::2], tables[0].rows[0], len(tables[0].rows)) == (columns, first, 3)


def test_the_legend_counts():
    ours = {key_of(GUARD): Estimate(value=92.861, low=92.0, high=93.0)}
    ours[key_of(MAIN[0])] = Estimate(value=50.0, low=49.0, high=51.0)
    meanings = legend(compare(MAIN, ours))
    assert "1 of 2 of the paper's figures lie within our intervals, and 1 are the same" in meanings
    assert "> ours is higher" in meanings
    assert "< " not in meanings
