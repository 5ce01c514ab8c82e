"""How the columns of a frame are shown: a vocabulary for the tables of the page and of a paper."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from analysis.analyses.outcomes.shares import deciding_p
from analysis.evidence import ALL
from analysis.reports.results import Row
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table, table_of
from guard_eval.reporting.words import capital, number, p_value, percent, title

MAX_ROWS = 60
"""Rows of a table of the page; the CSV has them all."""
MAX_REASON = 160
"""Characters of a text from elsewhere in a cell."""

NO_WIDTH = 1e-9
"""Limits that are closer than this are those of a method whose verdicts do not vary."""

Show = Callable[[Row], Cell]
"""A column: the cell of a row."""


@cache
def page_words() -> Mapping[str, Any]:
    """Return the questions, notes, captions and columns of the page."""
    path = Path(__file__).parent / "templates" / "questions.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def plain_name(name: str) -> str:
    """Return a simulated rater's name without the word that the page already says once.

    >>> plain_name("SIMULATED judge")
    'judge'
    """
    return name.replace("SIMULATED ", "") or name


def group_name(row: Row) -> str:
    """Return who judged a row, or a cell: people together, or one judge."""
    if row.judge:
        return plain_name(row.judge)
    names = {"person": "people", "unknown": "raters of unknown kind", "model": "models"}
    return names.get(row.rater_kind, "raters")


def count_raters(count: int, kind: str) -> str:
    """Return how many raters there are, as what they are known to be."""
    names = {"person": ("person", "people"), "unknown": ("rater of unknown kind", "raters of unknown kind")}
    item, many = names.get(kind, ("rater", "raters"))
    return f"{count}\u00a0{item if count == 1 else many}"


def limits(low: float | None, high: float | None, digits: int = 1) -> str:
    """Return the limits of an interval of shares in percent."""
    if low is None or high is None or high - low < NO_WIDTH:
        return NOTHING
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}"


def coefficient(estimate: float | None, low: float | None, high: float | None) -> str:
    """Return a coefficient with its interval."""
    if estimate is None:
        return "undefined"
    return number(estimate) if low is None else f"{number(estimate)} [{number(low)}, {number(high)}]"


def dollars(amount: float) -> str:
    """Return an amount of money, a small one to a hundredth of a cent."""
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def possible_ranks(row: Row) -> str:
    """Return the ranks that a method may have."""
    if row.possible_best is None:
        return "not concluded"
    low, high = row.possible_best, row.possible_worst
    return f"{low}" if low == high else f"{low} to {high}"


def differs(row: Row, alpha: float) -> bool:
    """Return whether the deciding test rejects "no difference"."""
    p = deciding_p(row)
    return p is not None and p <= alpha


def _limits_of(row: Row, prefix: str = "") -> tuple[float | None, float | None]:
    return getattr(row, f"{prefix}low"), getattr(row, f"{prefix}high")


def _cost(row: Row) -> str:
    if row.unpriced and row.unpriced == row.requests:
        return "unknown"
    return f"{dollars(row.usd)} or more" if row.unpriced else dollars(row.usd)


SHOWN: dict[str, Callable[..., Cell]] = {
    "text": getattr,
    "excerpt": lambda row, name: getattr(row, name)[:MAX_REASON] or NOTHING,
    "words": lambda row, name: title(getattr(row, name)),
    "plain": lambda row, name: plain_name(getattr(row, name)),
    "day": lambda row, name: getattr(row, name)[:10],
    "failure": lambda row, name: page_words()["failures"].get(getattr(row, name), NOTHING),
    "share": lambda row, name, digits=1: percent(getattr(row, name), int(digits)),
    "number": lambda row, name, digits=2: number(getattr(row, name), int(digits)),
    "thousands": lambda row, name: f"{getattr(row, name):,}",
    "dollars": lambda row, name: dollars(getattr(row, name)),
    "cost": _cost,
    "p": lambda row, name: NOTHING if getattr(row, name) is None else p_value(getattr(row, name)),
    "interval": lambda row, prefix="": limits(*_limits_of(row, prefix)),
    "coefficient": lambda row, name, prefix: coefficient(getattr(row, name), *_limits_of(row, prefix)),
    "share_and_limits": lambda row, name, prefix="": (
        f"{percent(getattr(row, name))} ({limits(*_limits_of(row, prefix))})"
    ),
    "part": lambda row, part, of: (
        f"{getattr(row, part)} of {getattr(row, of)}" if getattr(row, of) else NOTHING
    ),
    "ranks": possible_ranks,
}
"""How a cell is made of a row and the words of a column's description, by its first word."""


def show(description: str) -> Show:
    """Return a column as it is described: `share win_share 0` shows a share without decimals."""
    name, *arguments = description.split()
    return lambda row: SHOWN[name](row, *arguments)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameTable:
    """What the page shows of a frame.

    Attributes:
        frame: The frame's name, which is that of its CSV file.
        caption: The caption.
        columns: The columns by heading, as `show` takes them; `{first}` in a heading is the method whose
            share is given. A column without any cell is left out.
        left: The first columns, of words, instead of `cell_columns`.
        words: How many of `columns` hold words.
        strong: The name of a column that is true in rows to set in bold.
        rows: The name of the function that selects the rows to show.
    """

    frame: str
    caption: str
    columns: Mapping[str, str]
    left: Mapping[str, str] = field(default_factory=dict)
    words: int = 0
    strong: str = ""
    rows: str = ""

    def table(self, rows: Sequence[Row], *, note: str = "") -> Table:
        """Return the first rows as a table. If there are more, a note says where they are."""
        shown = rows[:MAX_ROWS]
        remaining = {head: show(each) for head, each in self.left.items()} or cell_columns(rows)
        compared = {row.method_a for row in rows if hasattr(row, "method_a")}
        first = compared.pop() if len(compared) == 1 and "Comparison" not in remaining else "the first method"
        columns = {head.format(first=first): show(each) for head, each in self.columns.items()}
        known = {
            head: cell
            for head, cell in columns.items()
            if any(cell(row) not in {NOTHING, None} for row in shown)
        }
        more = f"The first {MAX_ROWS} of {len(rows)} rows; csv/{self.frame}.csv has all."
        return table_of(
            shown,
            remaining | known,
            caption=self.caption,
            note=" ".join(filter(None, (note, more if len(rows) > MAX_ROWS else ""))),
            text_columns=len(remaining) + self.words,
            strong=lambda row: bool(self.strong and getattr(row, self.strong)),
        )


def cell_columns(rows: Sequence[Row], criterion: Callable[[str], str] = capital) -> dict[str, Show]:
    """Return the columns that distinguish rows: the comparison, the criterion, the raters and the dataset."""

    def differ(*names: str) -> bool:
        return len({tuple(getattr(row, name, "") for name in names) for row in rows}) > 1

    columns: dict[str, Show] = {}
    if differ("method_a", "method_b"):
        columns["Comparison"] = lambda row: f"{row.method_a} against {row.method_b}"
    columns["Criterion"] = lambda row: criterion(title(row.criterion))
    if differ("rater_kind", "judge"):
        columns["Judged by"] = group_name
    if any(getattr(row, "dataset", ALL) != ALL for row in rows):
        columns["Dataset"] = show("text dataset")
    return columns
