"""The paper's figures beside ours: how a difference is marked, and in which layout."""

import csv
from dataclasses import replace

import pytest

from guard_eval.cli.replication.compare import (
    Departures,
    Ours,
    compare,
    departures,
    key_of,
    legend,
    state_of,
)
from guard_eval.cli.replication.output import write_pages
from guard_eval.cli.replication.paper import find, published
from guard_eval.cli.replication.studies import settings_of

SAME = Departures()
MAIN = published("tab:ablation_resultglacs")
GUARD = next(f for f in MAIN if (f.dataset, f.strategy, f.metric) == ("Wikitext", "guard", "diversity"))
"""Printed: 92.86."""


def at(figure, value, low=None, high=None, **more):
    return {key_of(figure, several_models=False): Ours(value=value, low=low, high=high, **more)}


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
    assert state_of(GUARD, Ours(value=93.0, low=low, high=high), SAME) == state


def test_another_setting_says_nothing():
    ours = Ours(value=10, low=9, high=11)
    assert state_of(GUARD, ours, Departures(common=("model x",))) == "other setting"
    assert state_of(GUARD, ours, Departures(datasets={"Wikitext": "20 prompts"})) == "other setting"
    assert state_of(GUARD, ours, Departures(datasets={"Wikinews": "20 prompts"})) == "below"
    assert (
        state_of(replace(GUARD, dataset="All"), ours, Departures(datasets={"Wikinews": "…"}))
        == "other setting"
    )
    human = next(f for f in MAIN if (f.dataset, f.strategy, f.metric) == ("Wikitext", "human", "diversity"))
    assert state_of(human, ours, Departures(common=("model x",))) == "below"  # no model wrote the references


def test_what_is_recomputed_from_the_papers_counts_must_be_the_papers():
    (share,) = (
        f
        for f in published("tab:humaneval_resultglacs")
        if (f.dataset, f.strategy, f.metric[7:10]) == ("All", "guard", "coh")
    )
    assert share.value == "58.00"
    assert state_of(share, Ours(value=57.9167, recomputed=True), SAME) == "differs"
    assert state_of(share, Ours(value=58.004, recomputed=True), SAME) == "same"
    assert state_of(replace(share, value="47"), Ours(value=47.5, recomputed=True), SAME) == "same"
    assert state_of(replace(share, value="48"), Ours(value=47.5, recomputed=True), SAME) == "same"


def test_ticks():
    tick = next(f for f in published("tab:llm_with_human") if f.value == "yes")
    assert [state_of(tick, Ours(value=value), SAME) for value in (1.0, 0.0)] == ["same", "differs"]


def test_the_main_table_stands_as_in_the_paper():
    ours = {key_of(f, several_models=False): Ours(value=f.number, low=f.number, high=f.number) for f in MAIN}
    blocks = compare(MAIN, ours, SAME)
    assert [block.group[:8] for block in blocks] == ["Wikitext", "Wikinews", "BookCorp"]
    assert blocks[0].columns == ("Div.", "MAUVE", "Coh.", "BERT-Sc.")
    assert [name for name, _ in blocks[0].rows][::12] == ["Greedy", "Human"]
    cells = [cell for _, row in blocks[0].rows for cell in row]
    assert {cell.state for cell in cells} == {"inside"}
    assert all(cell.shown == cell.paper and cell.equal for cell in cells)


def test_a_table_of_models_is_told_apart_by_model():
    figures = published("tab:model_size_results")
    ours = {key_of(f, several_models=True): Ours(value=f.number) for f in figures if f.model == "Gemma-7B"}
    blocks = compare(figures, ours, SAME, several_models=True)
    assert len(blocks) == 9  # three datasets, three metrics
    (name, cells), *others = blocks[0].rows
    assert (blocks[0].title, name, blocks[0].columns) == (
        "Wikitext, Diversity",
        "Gemma-7B",
        ("CS", "ACS", "GUARD"),
    )
    assert [cell.shown for cell in cells] == ["68.99", "47.99", "96.54"]
    assert {cell.state for _, row in others for cell in row} == {"not run"}
    assert blocks[2].rows[0][1][0].shown == "-1.50"


def test_bertscores_columns_are_the_strategies():
    figures = published("tab:model_size_bertscore_results")
    ours = {key_of(f, several_models=True): Ours(value=f.number) for f in figures}
    blocks = compare(figures, ours, SAME, several_models=True)
    assert [(block.title, block.columns, len(block.rows)) for block in blocks] == [
        (name, ("CS", "ACS", "GUARD"), 5) for name in ("Wikitext", "Wikinews", "BookCorpus")
    ]


def test_rows_of_median_and_arctanh_have_both_names():
    figures = published("tab:median_selection")
    (block,) = compare(figures, at(figures[0], 1.0), SAME)
    assert block.rows[0][0] == "Winsorized mean, Logarithmic map"
    assert len(block.rows) == 6


def test_a_dataset_the_paper_does_not_have_stands_by_itself():
    ours = {("", "tales", "guard", "", "diversity"): Ours(value=90.0)}
    (block,) = compare(MAIN, ours, SAME)
    assert (block.title, block.only_ours, block.columns) == ("tales", True, ("Div.",))
    assert [(name, cells[0].shown) for name, cells in block.rows] == [("GUARD", "90.00")]
    assert block.rows[0][1][0].state == "not in the paper"


def test_a_model_the_paper_does_not_have_stands_by_itself():
    figures = published("tab:model_size_results")
    ours = {("tiny", "Wikitext", "guard", "", "diversity"): Ours(value=50.0)}
    blocks = compare(figures, ours, SAME, several_models=True)
    name, cells = blocks[0].rows[-1]
    assert (name, [cell and (cell.paper, cell.shown) for cell in cells][-1]) == ("tiny", ("–", "50.00"))


def test_a_table_without_datasets_has_no_place_for_them():
    figures = published("tab:llm_judgements")
    ours = {
        ("", dataset, "guard", "acs(q=1)", "judge.fluency.win"): Ours(value=40.0)
        for dataset in ("All", "Wikitext")
    }
    (block,) = compare(figures, ours, SAME)
    assert (block.title, block.only_ours) == ("ACS", False)


def test_departures_name_what_differs():
    entry = find("main")
    settings = settings_of(entry)
    whole = {"Wikitext": 1314, "Wikinews": 2000, "BookCorpus": 1947}
    assert departures(entry, settings, whole) == Departures()
    other = settings.model_copy(
        update={
            "model": settings.model.model_copy(update={"name": "../models/tiny"}),
            "generation": settings.generation.model_copy(update={"max_new_tokens": 64}),
        }
    )
    assert departures(entry, other, {"Wikitext": 20}).words == (
        "model tiny, not Qwen/Qwen2.5-7B",
        "at most 64 tokens a text, not 256",
        "20 prompts of Wikitext, not 1314",
    )
    speed = find("speed")
    found = departures(speed, settings_of(speed), {"Wikitext": 9}).words
    assert found == ("9 prompts, not 30",)


def test_files_hold_every_figure_and_escape_names(tmp_path):
    odd = [replace(figure, row="<b>&_|") if figure.row == "Greedy" else figure for figure in MAIN]
    figure = odd[2]
    assert (figure.row, figure.value) == ("<b>&_|", "-0.78")
    blocks = compare(odd, at(figure, -0.9, -1.0, -0.8), SAME)
    notes = [Departures(common=("model <x>",)).sentence("the paper"), legend(blocks)]
    page = write_pages(find("main"), tmp_path, blocks, notes)
    with page.with_suffix(".csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 13 * 4
    mine = next(row for row in rows if row["ours"])
    assert (mine["value"], mine["low"], mine["high"], mine["state"]) == ("-0.78", "-1.0", "-0.8", "below")
    text = page.read_text()
    assert "<b>&_|" not in text
    assert "&lt;b&gt;" in text
    assert "OTHER SETTING: model &lt;x&gt;" in text
    assert r"\<b\>\&\_\|" in page.with_suffix(".md").read_text()
    assert r"\textless{}b\textgreater{}\&\_" in page.with_suffix(".tex").read_text()


def test_the_legend_counts():
    ours = at(GUARD, 92.861, 92.0, 93.0) | at(MAIN[0], 50.0, 49.0, 51.0)
    meanings = legend(compare(MAIN, ours, SAME))
    assert (
        "1 of 2 of the paper's figures lie within our intervals, and 1 are the same to the last" in meanings
    )
    assert "> ours is higher" in meanings
    assert "< " not in meanings
