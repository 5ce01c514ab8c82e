"""The tables of automatic metrics are compared with each other and with the text."""

from collections import Counter, defaultdict
from itertools import combinations

import pytest
from paper_data import DATASETS, FIGURE_LABELS, GUARD, MAIN, find_figures, measure_distance_from_people

pytestmark = pytest.mark.slow

BEAM = "tab:different_beam_width"
LLAMAS = {"Llama-3", "Llama-3.1"}
TRIPLE = ("diversity", "mauve", "coherence")
AUTOMATIC = [f for label in FIGURE_LABELS for f in find_figures(label) if f.metric in (*TRIPLE, "bertscore")]
STRATEGIES = [f for f in find_figures(MAIN) if f.strategy != "human"]


def group_figures(every, *fields):
    """Return figures in lists by the values of these fields."""
    result = defaultdict(list)
    for figure_row in every:
        result[tuple(getattr(figure_row, field) for field in fields)].append(figure_row)
    return result


def test_values_of_one_setting_differ_between_tables(claim):
    """one setting has one value (tab:ablation_resultglacs and app:B, app:G)"""
    settings = group_figures(AUTOMATIC, "model", "strategy", "dataset", "metric")
    shared = {key: result for key, result in settings.items() if len({f.table for f in result}) > 1}
    apart = {key: result for key, result in shared.items() if len({f.number for f in result}) > 1}
    words = []
    for (model, strategy, dataset, metric), result in apart.items():
        values = group_figures(result, "value").items()
        printed = ", ".join(f"{value} ({' '.join(f.table for f in where)})" for (value,), where in values)
        words.append(f"{model} {strategy}, {metric} on {dataset}: {printed}")
    claim.fails(
        f"of {len(shared)} values printed in two or more tables {len(apart)} differ: {'; '.join(words)}"
    )
    assert (len(shared), len(apart)) == (72, 4)
    # The row w = 7 of Qwen's windows stands in the main table and beneath three tables of baselines.
    assert [f.value for f in shared["Qwen2.5-7B", "guard", "Wikitext", "diversity"]] == ["92.86"] * 5


def test_two_llama_models_have_the_same_figures(claim):
    """Llama-3 is one model of the paper and Llama-3.1 another
    (tab:ablation_selectw_llama3, tab:model_size_results)"""
    cells = [f for f in AUTOMATIC if f.model in LLAMAS and f.strategy == GUARD and f.metric in TRIPLE]
    values = group_figures(cells, "dataset", "metric").values()
    same = [
        result
        for result in values
        if len({f.model for f in result}) == 2 and len({f.value for f in result}) == 1
    ]
    claim.fails(
        f"their figures for GUARD are the same in {len(same)} of {len(values)} cells, to the last digit: "
        "one of the names is wrong"
    )
    assert len(same) == len(values) == 9


def test_rows_of_different_windows_are_identical(claim):
    """a row for each window (tab:ablation_selectw_gpt2, tab:ablation_selectw_llama2, tab:ablation_selectw)"""
    triples = defaultdict(dict)
    for f in AUTOMATIC:
        if f.metric in TRIPLE:
            triples[f.model, f.strategy, f.dataset].setdefault(f.metric, f.number)
    whole = [setting for setting, values in triples.items() if len(values) == len(TRIPLE)]
    alike = [
        (first, other, [m for m in TRIPLE if triples[first][m] == triples[other][m]])
        for first, other in combinations(whole, 2)
        if {first[0], other[0]} != LLAMAS
    ]
    rows = [
        f"{first[0]} {first[1]} = {other[1]} on {first[2]}"
        for first, other, equal in alike
        if len(equal) == 3
    ]
    two = [
        f"{first[0]} {first[1]} and {other[0]} {other[1]} on {first[2]} ({' and '.join(equal)})"
        for first, other, equal in alike
        if len(equal) == 2 and "mauve" in equal and first[2] == other[2]
    ]
    claim.fails(
        f"the same diversity, MAUVE and coherence for two windows: {'; '.join(rows)}",
        f"For GPT2-XL the whole rows w = 2 and w = 3 are one: all nine values on the three datasets "
        f"({', '.join(DATASETS)}).",
        f"Two values of three are the same in: {'; '.join(two)}. These may be chance, the first hardly: the "
        "other neighbours of that column differ by 0.5 to 1.5 points of diversity.",
    )
    assert len(rows) == 4
    assert "Llama-2 guard(window=2) = guard on BookCorpus" in rows


def find_nearest(group):
    """Return the figures of a group that are nearest to people's."""
    least = min(map(measure_distance_from_people, group))
    return [f for f in group if measure_distance_from_people(f) == least]


def test_two_bold_figures_are_not_closest_to_people(claim):
    """“Scores closest to human highlighted in bold” (tab:ablation_resultglacs)"""
    columns, wrong = group_figures(STRATEGIES, "dataset", "metric"), []
    for (dataset, metric), column in columns.items():
        groups = [f for f in column if f.mark == "bold"], find_nearest(column)
        bold, best = (" and ".join(f"{f.value} ({f.strategy})" for f in group) for group in groups)
        if bold != best:
            wrong.append(f"{metric}, {dataset}: {bold}, where {best} should be")
    claim.fails(
        f"{len(columns) - len(wrong)} of {len(columns)} columns follow the rule; bold is {'; '.join(wrong)}"
    )
    assert (len(wrong), len(columns)) == (2, 12)


def test_guard_is_closest_to_people_in_most_columns(claim):
    """GUARD “achieves results closest to human references” (sec:results)"""
    columns = group_figures(STRATEGIES, "metric", "dataset").values()
    first = Counter(f.strategy for column in columns for f in find_nearest(column)).most_common()
    claim.holds(
        f"nearest to people in how many of {len(columns)} columns, ties counted for each: "
        + ", ".join(f"{name} {times}" for name, times in first)
    )
    assert [first[0], first[1][1]] == [(GUARD, 5), 4]


def test_five_beams_are_not_the_best_beam_width(claim):
    """“Hyperparameters for competing strategies chosen based on experimental evaluation”: beam search with
    B = 5 (tab:ablation_resultglacs, tab:different_beam_width)"""
    cells = [f for f in find_figures(BEAM) if f.metric in TRIPLE and f.strategy != GUARD]
    columns = group_figures(cells, "metric", "dataset").values()
    first = [f.strategy for column in columns for f in find_nearest(column)]
    claim.fails(
        f"B = 3 is nearest to people of all six widths in {first.count('beam(beams=3)')} of 9 columns, B = 5 "
        "in none"
    )
    assert first == ["beam(beams=3)"] * 9
