"""docs/paper_index.md: every label of the paper has a row, and all that a row names is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "paper_index.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| paper ")
]
MADE = [row for row in ROWS if row[2] != "–"]

# Every \label of the paper's TeX, in its order.
LABELS = re.findall(
    r"\S+",
    """
    sec:introduction sec:related_work fig:figure_two sec:methodology fig:decoding_behavior
    subsec:global-entropy eq:hglob ex et ex2 subsec:efficiency eq:kt eq:deltaloc eq:deltaglob eq:lanbda
    eq:q eq:rchange eq:rdiff eq:acs eq:alphat sec:exp_setup tab:ablation_resultglacs
    tab:humaneval_resultglacs tab:llm_judgements sec:results tab:llm_with_human tab:speed_comparison
    sec:conclusion sec:limitations app:A app:B tab:lambda_selection tab:median_selection
    tab:ablation_selectw tab:ablation_selectw_llama2 tab:ablation_selectw_deepseek
    tab:ablation_selectw_llama3 tab:ablation_selectw_mirstral tab:ablation_selectw_gemma
    tab:ablation_selectw_gpt2 app:C app:D app:E tab:human_evaluation_double_exp
    fig:human_evaluation_form app:F app:G tab:model_size_results tab:model_size_bertscore_results
    tab:different_beam_width tab:different_topk tab:different_topp app:H tab:case1 tab:case2 tab:case3
    """,
)


def labels(row: list[str]) -> list[str]:
    return re.findall(r"`(.+?)`", row[0])


def commands(row: list[str]) -> list[tuple[str, str]]:
    """Return what a row's last cell names: ("replicate", NAME) and ("claim", NAME)."""
    return re.findall(r"`(replicate|claim) ([\w-]+)`", row[4])


def test_every_row_is_read_whole():
    assert [row for row in ROWS if len(row) != 5 or not labels(row)] == []
    # Nothing in the last cell but commands.
    assert [row for row in ROWS if ", ".join(f"`{a} {b}`" for a, b in commands(row)) != row[4]] == []


def test_every_label_has_a_row_and_no_row_another():
    assert {label for row in ROWS for label in labels(row)} == set(LABELS)
    assert len(LABELS) == len(set(LABELS)) == 56


def test_the_labels_are_the_papers(tex):
    assert re.findall(r"\\label\{(.+?)\}", tex) == LABELS


@pytest.mark.parametrize(("function", "test"), [(row[2], row[3]) for row in ROWS if "::" in row[3]])
def test_a_row_points_somewhere(function: str, test: str):
    if function != "–":
        module, _, name = function.strip("`").rpartition(".")
        assert callable(getattr(importlib.import_module(module), name))
    file, _, case = test.strip("`").partition("::")
    assert re.search(rf"^def {case}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_what_is_no_code_says_why():
    assert len(MADE) > 40
    rest = [row[3] for row in ROWS if row[2] == "–"]
    assert [cell for cell in rest if not cell.startswith(("not code: ", "`tests/paper/"))] == []


def test_tables_and_figures_are_made_again_by_the_commands_of_their_rows():
    from guard_eval.replication.paper import find_table, paper_tables

    named = [(name, labels(row)) for row in ROWS for command, name in commands(row) if command == "replicate"]
    assert [(name, of) for name, of in named if find_table(name).label not in of] == []
    assert sorted(name for name, _ in named) == sorted(table.name for table in paper_tables())


def test_every_claim_stands_in_one_row():
    errata = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    claims = re.findall(r"`tests/paper/\w+\.py::test_(\w+)`", errata)
    named = [name.replace("-", "_") for row in ROWS for command, name in commands(row) if command == "claim"]
    assert sorted(named) == sorted(claims)
