"""The transcribed tables have exactly the figures in the TeX source of the paper."""

import re

import pytest
from paper_data import FIGURE_LABELS

from analysis.replication.paper import find_published_figures
from guard_eval.generation.strategies import parse

WINDOWS = ("_llama2", "_deepseek", "_llama3", "_mirstral", "_gemma", "_gpt2")
CELLS = {
    "tab:ablation_resultglacs": 13 * 12,
    "tab:humaneval_resultglacs": 4 * 4,
    "tab:llm_judgements": 7 * 9,
    "tab:llm_with_human": 8 * 7,
    "tab:speed_comparison": 5 * 3,
    "tab:lambda_selection": 5 * 9,
    "tab:median_selection": 6 * 3,
    "tab:human_evaluation_double_exp": 4 * 6,
    "tab:model_size_results": 12 * 9,
    "tab:model_size_bertscore_results": 15 * 3,
    "tab:different_beam_width": 7 * 9,
    "tab:different_topk": 7 * 9,
    "tab:different_topp": 6 * 9,
    **{f"tab:ablation_selectw{model}": 8 * 9 for model in ("", *WINDOWS)},
}
"""Rows × columns, counted by hand."""


def parse_cells(tex, label):
    """Return the printed figures of a table, and the number of bold figures, with an independent parser."""
    before = tex[: tex.index(f"\\label{{{label}}}")]
    body = before[before.rindex(r"\begin{tabular}") : before.rindex(r"\end{tabular}")]
    cells = [cell.strip() for cell in re.split(r"&|\\\\|\\midrule|\\hline", body)]
    ticks = {r"$\checkmark$": "yes", r"$\tikzxmark$": "no"}
    result, bold = [], 0
    for cell in cells:
        bare = re.sub(r"\\(?:colorbox|cellcolor)\{Best\}|\\textbf|\\%|[{}]", "", cell).strip()
        printed = ticks.get(bare) or (bare if re.fullmatch(r"-?\d+(\.\d+)?", bare) else None)
        if printed is not None:
            result.append(printed)
            bold += "textbf" in cell
    return result, bold


@pytest.mark.parametrize("label", CELLS)
def test_table_file_has_every_cell_of_the_paper_once(tex, label):
    figures = find_published_figures(label)
    printed, bold = parse_cells(tex, label)
    assert figures["value"].tolist() == printed
    assert (figures["mark"] == "bold").sum() == bold
    assert len(figures) == CELLS[label]
    assert not figures.duplicated(["block", "row", "group", "column"]).any()
    assert not figures.duplicated(["model", "dataset", "strategy", "versus", "metric"]).any()
    assert all(name == "human" or str(parse(name)) == name for name in figures["strategy"])


def test_every_table_of_figures_has_a_file():
    assert set(FIGURE_LABELS) == set(CELLS)


@pytest.mark.parametrize(
    ("label", "key", "value", "mark"),
    [
        ("tab:ablation_resultglacs", ("Wikitext", "guard", "diversity"), "92.86", "bold"),
        ("tab:ablation_resultglacs", ("Wikinews", "human", "coherence"), "-2.86", ""),
        ("tab:ablation_selectw_gpt2", ("Wikitext", "guard(window=3)", "mauve"), "84.21", ""),
        ("tab:lambda_selection", ("BookCorpus", "guard(decay=0.99)", "mauve"), "79.73", ""),
        ("tab:median_selection", ("Wikinews", "guard(aggregation=mean)", "mauve"), "90.34", ""),
        ("tab:speed_comparison", ("", "guard", "sec_per_story"), "4.42", "bold"),
        ("tab:llm_judgements", ("All", "acs(q=1)", "judge.factuality.win"), "10.0", "bold"),
        ("tab:llm_with_human", ("Wikinews", "guard", "both.fluency.agree"), "no", ""),
        ("tab:human_evaluation_double_exp", ("Wikitext", "guard", "people.fluency.tie"), "67", ""),
        ("tab:different_beam_width", ("Wikinews", "beam(beams=50)", "diversity"), "9.7", ""),
    ],
)
def test_figures_equal_cells_read_by_eye(label, key, value, mark):
    figures = find_published_figures(label).set_index(["dataset", "strategy", "metric"]).sort_index()
    ((our_value, its_mark),) = figures.loc[[key], ["value", "mark"]].to_numpy()
    assert (our_value, its_mark) == (value, mark)
