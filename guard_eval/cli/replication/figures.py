"""What the paper's tables print, figure by figure, as `tools/transcribe_paper.py` transcribed it.

A line of a file in `tables/` is a printed figure: where it stands in the table (`block`, `row`, `group`,
`column`: the words of the paper), what is printed (`value`, `unit`, `mark`), and what it is of in our words
(`model`, `dataset`, `strategy`, `versus`, `metric`).
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass, fields
from pathlib import Path

from guard_eval.errors import StudyError

FOLDER = Path(__file__).parent / "tables"


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
        unit: "%" where it is printed behind the figure.
        mark: "bold", or "".
        model: Of which model, spelt one way for all tables; "" where the table names none.
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
        """The value as a number; percentages stay percentages. A tick or a cross has none."""
        return float(self.value)

    @property
    def decimals(self) -> int:
        """How many digits stand behind the point."""
        return len(self.value.partition(".")[2])

    @property
    def half_unit(self) -> float:
        """Half a unit of the last digit printed: how far the unrounded figure may lie from `number`."""
        return 0.5 * 10.0**-self.decimals


COLUMNS = tuple(field.name for field in fields(Figure))


@functools.cache
def published(label: str) -> tuple[Figure, ...]:
    """Return the figures of the table with this label, in the order of print, row by row.

    Raises:
        StudyError: There is no such table of figures.
    """
    path = FOLDER / f"{label.removeprefix('tab:')}.csv"
    if not label.startswith("tab:") or label not in labels():
        raise StudyError(f"the paper has no table of figures {label!r}; choose from: {', '.join(labels())}")
    with path.open(encoding="utf-8", newline="") as stream:
        return tuple(Figure(**line) for line in csv.DictReader(stream))


@functools.cache
def labels() -> tuple[str, ...]:
    """Return the labels of all tables of figures."""
    return tuple(f"tab:{path.stem}" for path in sorted(FOLDER.glob("*.csv")) if path.stem != "cases")


@functools.cache
def cases() -> dict[str, dict[str, str]]:
    """Return the texts of the case studies: label → Prompt, Reference, CS, ACS, GUARD → text.

    What the paper sets in red stands between ⟦ and ⟧.
    """
    found: dict[str, dict[str, str]] = {}
    with (FOLDER / "cases.csv").open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            found.setdefault(line["table"], {})[line["row"]] = line["text"]
    return found
