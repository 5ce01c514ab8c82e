"""The same setting in two tables, and different settings with the same figures."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import DATASETS, GUARD, automatic
from guard_eval.replicate.figures import Figure

SUBJECT = "tables beside each other"
LLAMAS = ("Llama-3", "Llama-3.1")
TRIPLE = ("diversity", "mauve", "coherence")
MAIN = "tab:ablation_resultglacs"

Setting = tuple[str, str, str]
"""Model, strategy and dataset."""


def shared() -> dict[tuple[Setting, str], list[Figure]]:
    """Return the figures of each setting and metric that stands in more than one table."""
    found: dict[tuple[Setting, str], list[Figure]] = defaultdict(list)
    for figure in automatic():
        found[(figure.model, figure.strategy, figure.dataset), figure.metric].append(figure)
    return {key: figures for key, figures in found.items() if len({f.table for f in figures}) > 1}


def agree() -> Check:
    """Compare every setting that is printed more than once."""
    both = shared()
    apart = {key: figures for key, figures in both.items() if len({f.number for f in figures}) > 1}
    said = []
    for ((model, strategy, dataset), metric), figures in apart.items():
        tables: dict[str, list[str]] = defaultdict(list)
        for figure in figures:
            tables[figure.value].append(figure.table)
        values = ", ".join(f"{value} ({' '.join(places)})" for value, places in tables.items())
        said.append(f"{model} {strategy}, {metric} on {dataset}: {values}")
    return Check(
        name="tables-agree",
        subject=SUBJECT,
        where="tab:ablation_resultglacs and app:B, app:G",
        claim="one setting has one value",
        found=f"of {len(both)} values printed in two or more tables {len(apart)} differ: {'; '.join(said)}",
        holds=not apart,
        source="all tables of automatic metrics, compared by model, strategy, dataset and metric",
        detail=(
            (
                "95.69 and 96.59 are one number with two digits exchanged. With -2.52 rather than -2.53 "
                "GUARD "
                "would not be "
                "nearest to people on BookCorpus, where the main table has it in bold beside CD."
            ),
        ),
    )


def llama() -> Check:
    """Compare Llama-3 of one table with Llama-3.1 of another."""
    values: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for figure in automatic():
        if figure.model in LLAMAS and figure.strategy == GUARD and figure.metric in TRIPLE:
            values[figure.dataset, figure.metric][figure.model] = figure.value
    same = [key for key, by_model in values.items() if len({*by_model.values()}) == 1 and len(by_model) == 2]
    return Check(
        name="tables-llama",
        subject=SUBJECT,
        where="tab:ablation_selectw_llama3, tab:model_size_results",
        claim="Llama-3 is one model of the paper and Llama-3.1 another",
        found=f"their figures for GUARD are the same in {len(same)} of {len(values)} cells, to the last "
        "digit: "
        "one of the names is wrong",
        holds=len(same) < len(values) / 2,
        source="both tables",
        detail=("The text lists Llama-3 among its six models, the appendix Llama-3.1 among its own.",),
    )


def triples() -> dict[Setting, dict[str, Figure]]:
    """Return each setting's diversity, MAUVE and coherence, from the first table that prints them."""
    found: dict[Setting, dict[str, Figure]] = defaultdict(dict)
    for figure in automatic():
        if figure.metric in TRIPLE:
            found[figure.model, figure.strategy, figure.dataset].setdefault(figure.metric, figure)
    return {setting: values for setting, values in found.items() if len(values) == len(TRIPLE)}


def repeated(least: int) -> list[tuple[Setting, Setting, tuple[str, ...]]]:
    """Return pairs of different settings with at least so many equal values of three, and which are equal."""
    table = triples()
    found = []
    for one, other in combinations(table, 2):
        equal = tuple(m for m in TRIPLE if table[one][m].number == table[other][m].number)
        if len(equal) >= least and {one[0], other[0]} != set(LLAMAS):
            found.append((one, other, equal))
    return found


def identical_rows() -> Check:
    """Look for different settings with the same three values."""
    whole = repeated(3)
    rows = [f"{one[0]} {one[1]} = {other[1]} on {one[2]}" for one, other, _ in whole]
    two = [
        f"{one[0]} {one[1]} and {other[0]} {other[1]} on {one[2]} ({' and '.join(equal)})"
        for one, other, equal in repeated(2)
        if len(equal) == 2 and "mauve" in equal and one[2] == other[2]
    ]
    return Check(
        name="tables-identical-rows",
        subject=SUBJECT,
        where="tab:ablation_selectw_gpt2, tab:ablation_selectw_llama2, tab:ablation_selectw",
        claim="a row for each window",
        found=f"the same diversity, MAUVE and coherence for two windows: {'; '.join(rows)}",
        holds=not whole,
        source="all tables of diversity, MAUVE and coherence: every pair of settings",
        detail=(
            (
                "For GPT2-XL the whole rows w = 2 and w = 3 are one: all nine values on the three datasets "
                f"({', '.join(DATASETS)})."
            ),
            (
                f"Two values of three are the same in: {'; '.join(two)}. These may be chance, the first "
                "hardly: "
                "the "
                "other neighbours of that column differ by 0.5 to 1.5 points of diversity."
            ),
        ),
    )
