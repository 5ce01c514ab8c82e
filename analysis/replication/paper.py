"""Describe the paper: its tables and figures, their experiments, and every printed figure."""

import copy
import functools
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter

from guard_eval.bundled import read_bundled_toml
from guard_eval.errors import StudyError, suggest_nearest_word
from guard_eval.records import JsonObject, record

FOLDER = Path(__file__).parent / "tables"
_CONTENT: JsonObject = read_bundled_toml(__file__, "experiments.toml")

PROMPTS: dict[str, int] = _CONTENT["prompts"]
"""The number of prompts of each dataset of the paper."""
MARKS: dict[str, list[str]] = _CONTENT["marks"]
"""The sign and the meaning of each state. Figures without a run or from another setting have no sign."""
WHO: dict[str, str] = _CONTENT["who"]
"""For each kind of raters, its word in the names of the paper's figures: `people.coherence.win`."""
MODELS: dict[str, str] = _CONTENT["models"]
"""The Hugging Face id of each model of the paper."""
ALIASES: dict[str, list[str]] = _CONTENT["aliases"]
"""The names that files use for each dataset of the paper."""


@record
class PaperTable:
    """A table or a figure of the paper.

    Attributes:
        name: The short name on the command line.
        label: The LaTeX label of the table, or of its appendix if the table has none.
        experiment: The experiment of the table; "" if there is nothing to run.
        models: The paper's names of the models. Each model is a study.
        named: Whether the paper names the model in this table.
        asks: The raters of the pairs: `people`, `judge` or both.
        here: For a table that cannot be run: where its content can be found.
    """

    name: str
    label: str
    title: str
    experiment: str = ""
    models: tuple[str, ...] = ("Qwen2.5-7B",)
    datasets: tuple[str, ...] = tuple(PROMPTS)
    named: bool = False
    asks: tuple[str, ...] = ()
    here: str = ""

    @property
    def prompts(self) -> dict[str, int]:
        """Return the number of prompts of each dataset."""
        pairs = self.make_study_tables()["pairs"]["per_dataset"]
        return {name: pairs if self.asks else PROMPTS[name] for name in self.datasets}

    def make_study_tables(self) -> JsonObject:
        """Return the tables of a study.toml for the experiment, with the paper's first model."""
        tables = {"name": f"GUARD's paper: {self.experiment}", **copy.deepcopy(_CONTENT["base"])}
        for key, value in _CONTENT["experiments"][self.experiment].items():
            tables[key] = {**tables.get(key, {}), **value} if isinstance(value, dict) else value
        tables["model"]["name"] = MODELS[self.models[0]]
        return tables


SEARCH = PaperTable(
    name="search", label="app:G", title="strategies with one budget of settings", experiment="search"
)
"""A replication in which [tuning] chooses one of five settings of each strategy in the paper's appendix."""


def read_paper_tables() -> tuple[PaperTable, ...]:
    """Return the paper's tables and figures, in the order of the paper."""
    rows = [{"name": name, **row} for name, row in _CONTENT["tables"].items()]
    return TypeAdapter(tuple[PaperTable, ...]).validate_python(rows)


def find_paper_table(name: str) -> PaperTable:
    """Find a table by its short name or its label.

    Raises:
        StudyError: There is no such table. The message offers the most similar names, or all names.
    """
    for table in (*read_paper_tables(), SEARCH):
        if name in {table.name, table.label, table.label.rpartition(":")[2]}:
            return table
    close = suggest_nearest_word(name, [table.name for table in read_paper_tables()])
    raise StudyError(f"the paper has no table or figure {name!r}: {close} (guard-eval replicate lists them)")


@functools.cache
def find_paper_dataset(name: str) -> str:
    """Return the paper's name of a dataset. A dataset that is not in the paper keeps its own name.

    >>> find_paper_dataset("wikitext"), find_paper_dataset("book"), find_paper_dataset("tales")
    ('Wikitext', 'BookCorpus', 'tales')
    """
    plain = "".join(filter(str.isalnum, name.casefold()))
    return next((paper for paper, names in ALIASES.items() if plain in names), name)


@functools.cache
def find_published_figures(table_label: str) -> pd.DataFrame:
    """Return the figures of the table with this label, one row per figure, in the printed order.

    The columns are the position in the paper's words (`block`, `row`, `group`, `column`), the printed figure
    (`value`, `unit`, `mark`), and the meaning in our words (`model`, `dataset`, `strategy`, `versus`,
    `metric`). A metric of verdicts is who.criterion.what: who is `people` or `judge`, and what is `win`,
    `tie`, `share` (a tie counts half) or `agree`. `number` is the value as a number, with 1 for a tick and 0
    for a cross. `half_unit` is half a unit of the last digit.
    """
    path = FOLDER / f"{table_label.removeprefix('tab:')}.csv"
    figures = pd.read_csv(path, dtype=str, keep_default_na=False)
    decimals = figures["value"].str.partition(".")[2].str.len()
    number = figures["value"].replace({"yes": "1", "no": "0"}).astype(float)
    return figures.assign(number=number, decimals=decimals, half_unit=0.5 * 10.0**-decimals)
