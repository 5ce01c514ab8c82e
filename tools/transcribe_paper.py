"""Transcribe the tables of the paper from its TeX: `python tools/transcribe_paper.py PAPER.tex`.

Writes a CSV file for each table of figures into guard_eval/replication/tables/, a figure a line, and
cases.csv for the three tables of texts. guard_eval/replication/paper.py says what the columns mean.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from guard_eval.replication.paper import COLUMNS, FOLDER
from guard_eval.strategies import parse

W_TABLES = {
    "tab:ablation_selectw": "Qwen2.5-7B",
    "tab:ablation_selectw_llama2": "Llama-2",
    "tab:ablation_selectw_deepseek": "Deepseek-7B",
    "tab:ablation_selectw_llama3": "Llama-3",
    "tab:ablation_selectw_mirstral": "Mistral-v0.3",
    "tab:ablation_selectw_gemma": "Gemma-7B",
    "tab:ablation_selectw_gpt2": "GPT2-XL",
}
MODELS = dict.fromkeys(("tab:ablation_resultglacs", "tab:median_selection"), "Qwen2.5-7B") | W_TABLES
MODELS |= dict.fromkeys(
    ("tab:different_beam_width", "tab:different_topk", "tab:different_topp"), "Qwen2.5-7B"
) | {"tab:lambda_selection": "GPT2-XL"}

METRICS = {"div": "diversity", "mau": "mauve", "coh": "coherence", "ber": "bertscore"}
STRATEGIES = {
    "Greedy": "greedy", "Typical": "typical", "CD": "contrastive_decoding", "AD": "adaptive",
    "CS": "contrastive", "ACS": "acs", "GUARD": "guard", "GUARD (Ours)": "guard",
    "Top-k": "top_k(k=50)", "Top-p": "top_p(p=0.95)",
    "Winsorized mean": "winsorized", "Median": "median", "Mean": "mean",
    "Logarithmic map": "log", "Arctanh": "arctanh",
}  # fmt: skip
PATTERNS = {
    r"Beam \((\d+)\)": "beam(beams={})", r"B=(\d+)": "beam(beams={})",
    r"Temp\. \((.+)\)": "temperature(tau={})",
    r"Top-k \((\d+)\)": "top_k(k={})", r"k=(\d+)": "top_k(k={})",
    r"Top-p \((.+)\)": "top_p(p={})", r"p=(.+)": "top_p(p={})",
    r"CS \((\d+), ?(.+)\)": "contrastive(k={}, alpha={})",
    r"ACS \(q ?= ?(\d+)\)": "acs(q={})",
    r"GUARD \(w=(\d+)\)": "guard(window={})", r"λ=(.+)": "guard(decay={})",
}  # fmt: skip
CRITERIA = {"Sem. Coh.": "coherence", "Coherence": "coherence", "Story Development": "story_development"}
RIVALS = {"ACS": "acs(q=1)", "Top-k": "top_k(k=50)", "Top-p": "top_p(p=0.95)"}
VERDICTS = {
    "tab:humaneval_resultglacs",
    "tab:human_evaluation_double_exp",
    "tab:llm_judgements",
    "tab:llm_with_human",
}
WHERE = {"Deepseek-base-7B": "Deepseek-7B"}


class Cell(NamedTuple):
    """A cell of a table: its text, whether it is set in bold, and how many columns it spans."""

    text: str
    bold: bool
    span: int


def tables(tex: str) -> Iterator[tuple[str, str]]:
    """Yield the label and the tabular's body of each labelled table, in order."""
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    opening = r"\begin{tabular}"
    for at in re.finditer(re.escape(opening), tex):
        end = tex.index(r"\end{tabular}", at.end())
        label = re.search(r"\\label\{(tab:.+?)\}", tex[end:])
        if label:
            yield label[1], tex[_after_group(tex, at.end()) : end]


def _after_group(tex: str, at: int) -> int:
    """Return the place after the group in braces that opens at `at`."""
    depth = 0
    for place in range(at, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError("a group in braces does not close")


def rows(body: str) -> list[list[Cell]]:
    """Return the rows of a tabular's body."""
    body = re.sub(
        r"\\(toprule|midrule|bottomrule|hline|cmidrule\(\w+\)\{[\d-]+\}|rowcolors\{.*?\}\{.*?\}\{.*?\})",
        "",
        body,
    )
    found = [[cell(text) for text in re.split(r"(?<!\\)&", row)] for row in re.split(r"\\\\", body)]
    return [row for row in found if any(cell.text for cell in row)]


def cell(tex: str) -> Cell:
    """Return what a cell shows."""
    tex = tex.strip()
    spanning = re.fullmatch(r"\\multicolumn\{(\d+)\}\{.*?\}\{(.*)\}", tex, re.DOTALL)
    span, tex = (int(spanning[1]), spanning[2]) if spanning else (1, tex)
    return Cell(plain(tex), r"\textbf" in tex, span)


def plain(tex: str) -> str:
    """Return TeX as the words it prints."""
    tex = re.sub(
        r"\\multirow\{\d+\}\{\*\}|\\colorbox\{Best\}|\\cellcolor\{Best\}|\\(textbf|textit|text)\b", "", tex
    )
    tex = tex.replace(r"$\checkmark$", "yes").replace(r"$\tikzxmark$", "no").replace(r"\lambda", "λ")
    tex = tex.replace(r"\(", "").replace(r"\)", "").replace("--", "–")
    return re.sub(r"\s+", " ", re.sub(r"[{}$\\]", "", tex)).strip()


NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?: ?(%))?")


def figures(label: str, body: str) -> Iterator[dict[str, str]]:
    """Yield the figures of a table, a row of the CSV file each."""
    lines = rows(body)
    first = next(i for i, line in enumerate(lines) if sum(bool(NUMBER.fullmatch(c.text)) for c in line) > 2)
    headings = [[c.text for c in line for _ in range(c.span)] for line in lines[:first]]
    stubs = (
        2
        if label in {"tab:llm_with_human", "tab:model_size_results", "tab:model_size_bertscore_results"}
        else 1
    )
    stubs = 2 if label == "tab:median_selection" else stubs
    block = ""
    for line in lines[first:]:
        block = (line[0].text or block) if stubs == 2 else ""
        for place, shown in enumerate(line[stubs:], start=stubs):
            number = NUMBER.fullmatch(shown.text)
            if not number and shown.text not in {"yes", "no"}:
                continue
            group = headings[-2][place] if len(headings) > 1 else _compared(label, place)
            value, unit = number.groups(default="") if number else (shown.text, "")
            made = {
                "table": label, "block": block, "row": line[stubs - 1].text, "group": group,
                "column": headings[-1][place] or group, "value": value, "unit": unit,
                "mark": "bold" if shown.bold else "",
            }  # fmt: skip
            if made["column"] == group and len(headings) > 1:
                made["group"] = ""
            yield made | keys(made)


def _compared(label: str, place: int) -> str:
    """Return the other strategy of a pair, which this table's only line of headings does not set apart."""
    return ("ACS", "Top-k", "Top-p")[(place - 1) // 3] if label == "tab:llm_judgements" else ""


def keys(made: dict[str, str]) -> dict[str, str]:
    """Return what a figure is of: model, dataset, strategy, versus, metric, in this program's words."""
    found = _verdict(made) if made["table"] in VERDICTS else _measured(made)
    return found | {"model": WHERE.get(found["model"], found["model"])}


def _measured(made: dict[str, str]) -> dict[str, str]:
    label, row, group, column = (made[key] for key in ("table", "row", "group", "column"))
    model, dataset, strategy = MODELS.get(label, ""), group.split(" (")[0], row
    if label == "tab:speed_comparison":
        dataset, metric = "", column.lstrip("#").replace("/", "_per_")
    elif label == "tab:median_selection":
        strategy = f"guard(aggregation={STRATEGIES[made['block']]}, mapping={STRATEGIES[row]})"
        dataset, metric = "Wikinews", METRICS[column[:3].lower()]
    elif label == "tab:model_size_results":
        model, dataset, strategy, metric = row, made["block"], column, METRICS[group[:3].lower()]
    elif label == "tab:model_size_bertscore_results":
        model, dataset, strategy, metric = row, made["block"], group, "bertscore"
    else:
        metric = METRICS[column[:3].lower()]
    strategy = "human" if row == "Human" else canonical(strategy)
    return {"model": model, "dataset": dataset, "strategy": strategy, "versus": "", "metric": metric}


def _verdict(made: dict[str, str]) -> dict[str, str]:
    label, row, group, column = (made[key] for key in ("table", "row", "group", "column"))
    dataset, what = row, "share" if label == "tab:humaneval_resultglacs" else "win"
    if label == "tab:llm_judgements":
        dataset, who, criterion = "All", "judge", CRITERIA.get(row, row.lower())
    elif label == "tab:llm_with_human":
        dataset = row.split(" (")[0].replace("Overall", "All")
        who = {"H": "people", "L": "judge"}.get(group[:1], "both")
        criterion = CRITERIA.get(made["block"], "fluency")
        what = "agree" if who == "both" else what
    else:
        who, criterion = "people", CRITERIA.get(group.split("*")[0], "fluency")
    other = RIVALS[group if label == "tab:llm_judgements" else "ACS"]
    if "similar" in column or "Tie" in column:
        what = "tie"
    theirs = what in {"win", "share"} and "GUARD" not in column
    strategy, versus = (other, "guard") if theirs else ("guard", other)
    metric = f"{who}.{criterion}.{what}"
    return {"model": "", "dataset": dataset, "strategy": strategy, "versus": versus, "metric": metric}


def canonical(name: str) -> str:
    """Return the signature of the strategy that a table calls `name`."""
    for pattern, signature in PATTERNS.items():
        if match := re.fullmatch(pattern, name):
            return str(parse(signature.format(*match.groups())))
    return str(parse(STRATEGIES.get(name, name)))


def cases(label: str, body: str) -> Iterator[dict[str, str]]:
    """Yield the texts of a case study's table, what is set in red between ⟦ and ⟧."""
    for name, text in rows(re.sub(r"\\textcolor\{red\}\{(.*?)\}", "⟦\\1⟧", body)):
        yield {"table": label, "row": name.text, "text": text.text}


def caption(tex: str) -> Iterator[dict[str, str]]:
    """Yield prompt and text that stand under the figure of entropies."""
    figure = tex[: tex.index(r"\label{fig:decoding_behavior}")].rpartition(r"\begin{figure*}")[2]
    for name, row in (("Prompt", "Prompt"), ("Generated story", "GUARD")):
        found = re.search(rf"textbf\{{{name}:\}} \\textit\{{(.*?)\}}", figure, re.DOTALL)
        assert found is not None
        yield {"table": "fig:decoding_behavior", "row": row, "text": plain(found[1])}


def write(path: Path, columns: tuple[str, ...], lines: list[dict[str, str]]) -> None:
    """Write `lines` as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(f"{path.name}: {len(lines)} lines")


def main() -> None:
    """Transcribe the file named on the command line."""
    FOLDER.mkdir(exist_ok=True)
    texts: list[dict[str, str]] = []
    for label, body in tables(Path(sys.argv[1]).read_text(encoding="utf-8")):
        if label.startswith("tab:case"):
            texts += cases(label, body)
        else:
            write(FOLDER / f"{label.removeprefix('tab:')}.csv", COLUMNS, list(figures(label, body)))
    texts += caption(Path(sys.argv[1]).read_text(encoding="utf-8"))
    write(FOLDER / "cases.csv", ("table", "row", "text"), texts)


if __name__ == "__main__":
    main()
