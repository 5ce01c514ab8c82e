"""The paper: its tables and figures, their experiments, and every figure that a table prints.

A line of a file in `tables/` is a printed figure: its position in the table (`block`, `row`, `group`,
`column`, in the words of the paper), what is printed (`value`, `unit`, `mark`), and its meaning in our words
(`model`, `dataset`, `strategy`, `versus`, `metric`).
"""

from __future__ import annotations

import copy
import csv
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from guard_eval.errors import StudyError, nearest
from guard_eval.study.settings import Settings

FOLDER = Path(__file__).parent / "tables"
PROMPTS = {"Wikitext": 1314, "Wikinews": 2000, "BookCorpus": 1947}
"""The number of prompts of each dataset of the paper."""
SPEED_PROMPTS = 30
NEW_TOKENS = 256
COHERENCE_MODEL = "facebook/opt-2.7b"
TRACE, SPEED = "fig:decoding_behavior", "tab:speed_comparison"

Kind = Literal["metrics", "speed", "verdicts", "cases", "trace", "shown"]
"""How it is made again: automatic metrics, time, verdicts of people and judges, texts side by side, a figure
of what GUARD adapted, or not at all because there is nothing to run."""

MODELS = {
    "Qwen2.5-7B": "Qwen/Qwen2.5-7B",
    "GPT2-XL": "openai-community/gpt2-xl",
    "Llama-2": "meta-llama/Llama-2-7b-hf",
    "Llama-3": "meta-llama/Meta-Llama-3-8B",
    "Llama-3.1": "meta-llama/Llama-3.1-8B",
    "Mistral-v0.3": "mistralai/Mistral-7B-v0.3",
    "Gemma-7B": "google/gemma-7b",
    "Deepseek-7B": "deepseek-ai/deepseek-llm-7b-base",
}
"""The Hugging Face id of each model of the paper."""


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table or a figure of the paper.

    Attributes:
        name: The short name on the command line.
        label: The label in the paper's TeX; that of the appendix if it has none.
        title: What it is about.
        kind: How it is made again.
        experiment: The experiment that it belongs to; "" if there is nothing to run.
        models: The models, by the paper's names. Each one is a study.
        datasets: The datasets that it is about.
        named: Whether the paper names the model there.
        asks: Who judges the pairs: `people`, `judge` or both.
        here: Where the program has what cannot be run.
    """

    name: str
    label: str
    title: str
    kind: Kind
    experiment: str = ""
    models: tuple[str, ...] = ("Qwen2.5-7B",)
    datasets: tuple[str, ...] = tuple(PROMPTS)
    named: bool = False
    asks: tuple[str, ...] = ()
    here: str = ""

    @property
    def prompts(self) -> dict[str, int]:
        """Return the number of prompts of each dataset ("" is any); empty if the paper gives none."""
        if self.kind == "metrics":
            return {name: PROMPTS[name] for name in self.datasets}
        if self.kind in {"verdicts", "cases"}:
            return dict.fromkeys(self.datasets, self.tables()["pairs"]["per_dataset"])
        return {"": SPEED_PROMPTS} if self.kind == "speed" else {}

    def tables(self) -> dict[str, Any]:
        """Return the study.toml of the experiment with the paper's first model, as tables.

        Raises:
            StudyError: There is nothing to run.
        """
        if not self.experiment:
            raise StudyError(f"{self.label} has nothing to run: {self.here}")
        content = _content()
        changes = {
            key: value for key, value in content["experiments"][self.experiment].items() if key != "kind"
        }
        tables = _merged(content["base"], changes)
        tables["model"]["name"] = MODELS[self.models[0]]
        return {"name": f"GUARD's paper: {self.experiment}", **tables}

    def settings(self) -> Settings:
        """Return the settings of the experiment with the paper's first model."""
        return Settings.model_validate(self.tables())


@functools.cache
def _content() -> dict[str, Any]:
    with Path(__file__).with_name("experiments.toml").open("rb") as file:
        return tomllib.load(file)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = copy.deepcopy(dict(base))
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else copy.deepcopy(value)
    return merged


@functools.cache
def paper_tables() -> tuple[PaperTable, ...]:
    """Return the tables and figures in the order of the paper."""
    content = _content()
    tables = []
    for name, row in content["tables"].items():
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        experiment = "" if "here" in row else row.get("experiment", name)
        kind: Kind = content["experiments"][experiment]["kind"] if experiment else "shown"
        tables.append(PaperTable(name=name, kind=kind, **values | {"experiment": experiment}))
    return tuple(tables)


def find_table(name: str) -> PaperTable:
    """Return the table with a short name or a label.

    Raises:
        StudyError: There is none; the message offers the nearest, or all names.
    """
    for table in paper_tables():
        if name in {table.name, table.label, table.label.rpartition(":")[2]}:
            return table
    names = [table.name for table in paper_tables()]
    raise StudyError(
        f"the paper has no table or figure {name!r}: {nearest(name, names)} (guard-eval replicate lists them)"
    )


def paper_model(name: str, among: tuple[str, ...]) -> str | None:
    """Return the paper's name of a model, given that name or the Hugging Face id, or None."""
    spellings = {model: {model.casefold(), MODELS[model].casefold()} for model in among}
    return next((model for model, known in spellings.items() if name.casefold() in known), None)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure as a table prints it.

    Attributes:
        table: The table's label in the paper's TeX.
        block: The heading of a block of rows ("Wikitext", "Sem. Coh."), or "".
        row: The row's name ("Top-k (50)").
        group: The heading over several columns ("Wikitext", "Human Evaluation"), or "".
        column: The column's heading ("Div.").
        value: The digits as printed ("94.50"), or "yes" and "no" for a tick and a cross.
        unit: "%" if it is printed behind the figure.
        mark: "bold", or "".
        model: The model, spelt in one way for all tables; "" if the table names none.
        dataset: "Wikitext", "Wikinews", "BookCorpus", "All", or "".
        strategy: Its signature (`guard_eval.strategies`), or "human".
        versus: The other strategy of a pair, or "".
        metric: diversity, mauve, coherence, bertscore; sec_per_story, tokens_per_sec, tokens_per_story; or
            who.criterion.what with who `people` or `judge` and what `win` (the strategy's wins), `tie`,
            `share` (ties split) or `agree`.
    """

    table: str
    block: str
    row: str
    group: str
    column: str
    value: str
    unit: str
    mark: str
    model: str
    dataset: str
    strategy: str
    versus: str
    metric: str

    @property
    def number(self) -> float:
        """Return the value as a number; percentages stay percentages. A tick or a cross has none."""
        return float(self.value)

    @property
    def decimals(self) -> int:
        """Return the number of digits behind the point."""
        return len(self.value.partition(".")[2])

    @property
    def half_unit(self) -> float:
        """Return half a unit of the last digit: how far the unrounded figure may be from `number`."""
        return 0.5 * 10.0**-self.decimals


COLUMNS = tuple(field.name for field in fields(Figure))


@functools.cache
def published(label: str) -> tuple[Figure, ...]:
    """Return the figures of the table with this label, in the order of print, row by row.

    Raises:
        StudyError: There is no such table of figures.
    """
    if label not in labels():
        raise StudyError(f"the paper has no table of figures {label!r}; choose from: {', '.join(labels())}")
    with (FOLDER / f"{label.removeprefix('tab:')}.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(Figure(**line) for line in csv.DictReader(stream))


@functools.cache
def labels() -> tuple[str, ...]:
    """Return the labels of all tables of figures."""
    return tuple(f"tab:{path.stem}" for path in sorted(FOLDER.glob("*.csv")) if path.stem != "cases")


@functools.cache
def cases() -> dict[str, dict[str, str]]:
    """Return the texts of the case studies: label → Prompt, Reference, CS, ACS, GUARD → text.

    What the paper sets in red is between ⟦ and ⟧.
    """
    texts: dict[str, dict[str, str]] = {}
    with (FOLDER / "cases.csv").open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            texts.setdefault(line["table"], {})[line["row"]] = line["text"]
    return texts
