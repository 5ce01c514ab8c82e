"""The transcribed tables hold every figure that the paper's TeX prints, and no other."""

import re
from collections import Counter

import pytest

from guard_eval.errors import StudyError
from guard_eval.replication.paper import cases, labels, published
from guard_eval.strategies import parse

CELLS = {
    "tab:ablation_resultglacs": 13 * 12,
    "tab:humaneval_resultglacs": 4 * 4,
    "tab:llm_judgements": 7 * 9,
    "tab:llm_with_human": 8 * 7,
    "tab:speed_comparison": 5 * 3,
    "tab:lambda_selection": 5 * 9,
    "tab:median_selection": 6 * 3,
    "tab:ablation_selectw": 8 * 9,
    "tab:ablation_selectw_llama2": 8 * 9,
    "tab:ablation_selectw_deepseek": 8 * 9,
    "tab:ablation_selectw_llama3": 8 * 9,
    "tab:ablation_selectw_mirstral": 8 * 9,
    "tab:ablation_selectw_gemma": 8 * 9,
    "tab:ablation_selectw_gpt2": 8 * 9,
    "tab:human_evaluation_double_exp": 4 * 6,
    "tab:model_size_results": 12 * 9,
    "tab:model_size_bertscore_results": 15 * 3,
    "tab:different_beam_width": 7 * 9,
    "tab:different_topk": 7 * 9,
    "tab:different_topp": 6 * 9,
}
"""Rows × columns, counted by hand."""


def cells_of(tex, label):
    """Return what is printed in a table's cells of figures, and how many of them in bold: another parser."""
    before = tex[: tex.index(f"\\label{{{label}}}")]
    body = before[before.rindex(r"\begin{tabular}") : before.rindex(r"\end{tabular}")]
    cells = [cell.strip() for cell in re.split(r"&|\\\\|\\midrule|\\hline", body)]
    ticks = {r"$\checkmark$": "yes", r"$\tikzxmark$": "no"}
    result, bold = [], 0
    for cell in cells:
        bare = re.sub(r"\\(?:colorbox|cellcolor)\{Best\}|\\textbf|\\%|[{}]", "", cell).strip()
        shown = ticks.get(bare) or (bare if re.fullmatch(r"-?\d+(\.\d+)?", bare) else None)
        if shown is not None:
            result.append(shown)
            bold += "textbf" in cell
    return result, bold


@pytest.mark.parametrize("label", CELLS)
def test_a_table_is_the_papers(tex, label):
    figures = published(label)
    printed, bold = cells_of(tex, label)
    assert [figure.value for figure in figures] == printed
    assert sum(figure.mark == "bold" for figure in figures) == bold


@pytest.mark.parametrize("label", CELLS)
def test_a_table_has_its_cells_each_once(label):
    figures = published(label)
    assert len(figures) == CELLS[label]
    places = Counter((f.block, f.row, f.group, f.column) for f in figures)
    assert set(places.values()) == {1}
    keys = Counter((f.model, f.dataset, f.strategy, f.versus, f.metric) for f in figures)
    if label != "tab:llm_with_human":
        ties = {key: n for key, n in keys.items() if n > 1}
        assert not ties
    assert all(f.strategy == "human" or str(parse(f.strategy)) == f.strategy for f in figures)


def test_no_table_is_missing():
    assert set(labels()) == set(CELLS)
    with pytest.raises(StudyError, match="'tab:none'; choose from: tab:ablation_resultglacs"):
        published("tab:none")


@pytest.mark.parametrize(
    ("label", "key", "value", "mark"),
    [
        ("tab:ablation_resultglacs", ("Wikitext", "guard", "diversity"), "92.86", "bold"),
        ("tab:ablation_resultglacs", ("BookCorpus", "top_p(p=0.95)", "mauve"), "94.81", "bold"),
        ("tab:ablation_resultglacs", ("Wikinews", "human", "coherence"), "-2.86", ""),
        ("tab:ablation_selectw_gpt2", ("Wikitext", "guard(window=3)", "mauve"), "84.21", ""),
        ("tab:ablation_selectw_gpt2", ("Wikitext", "guard", "mauve"), "85.55", ""),
        ("tab:lambda_selection", ("BookCorpus", "guard(decay=0.99)", "mauve"), "79.73", ""),
        ("tab:median_selection", ("Wikinews", "guard(aggregation=mean)", "mauve"), "90.34", ""),
        ("tab:speed_comparison", ("", "guard", "sec_per_story"), "4.42", "bold"),
        ("tab:llm_judgements", ("All", "acs(q=1)", "judge.factuality.win"), "10.0", "bold"),
        ("tab:llm_with_human", ("BookCorpus", "acs(q=1)", "people.fluency.win"), "18.0", "bold"),
        ("tab:llm_with_human", ("Wikinews", "guard", "both.fluency.agree"), "no", ""),
        ("tab:human_evaluation_double_exp", ("Wikitext", "guard", "people.fluency.tie"), "67", ""),
        ("tab:different_beam_width", ("Wikinews", "beam(beams=50)", "diversity"), "9.7", ""),
    ],
)
def test_figures_read_from_the_paper_by_eye(label, key, value, mark):
    (figure,) = (f for f in published(label) if (f.dataset, f.strategy, f.metric) == key)
    assert (figure.value, figure.mark) == (value, mark)


def test_half_a_unit_of_the_last_digit():
    by_value = {f.value: f for f in published("tab:different_beam_width")}
    assert by_value["9.7"].half_unit == pytest.approx(0.05)
    assert by_value["-0.81"].half_unit == pytest.approx(0.005)
    assert published("tab:human_evaluation_double_exp")[0].half_unit == 0.5


def test_the_case_studies(tex):
    result = cases()
    assert list(result) == ["tab:case1", "tab:case2", "tab:case3", "fig:decoding_behavior"]
    assert list(result["tab:case2"]) == ["Prompt", "Reference", "CS", "ACS", "GUARD"]
    assert [sum("⟦" in text for text in each.values()) for each in result.values()] == [2, 0, 0, 0]
    flat = " ".join(tex.split())
    plain = [
        text for each in result.values() for text in each.values() if "⟦" not in text and "–" not in text
    ]
    assert len(plain) == 14
    for text in plain:
        assert text in flat
