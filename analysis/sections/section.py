"""The parts of a report section. A section is one module: typed rows, an analysis, and its text on the page.

A module of `analysis.sections` has
- a row: a frozen dataclass whose fields are the columns of the CSV file,
- an analysis: a function from the evidence to a list of rows,
- `make_section`: a function from the evidence to a `Section`, or to None if there is nothing to show.

`analysis/sections/__init__.py` lists the sections in the order of the page, and the analyses by CSV file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_origin, get_type_hints

import pandas as pd

from analysis.evidence import Evidence
from analysis.scores.scores import ResultKey
from guard_eval.estimate import Estimate
from guard_eval.records import SIMULATED, Couple, record
from guard_eval.reporting.escaping import NOTHING, Cell, Escaped
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    capitalise,
    find_criterion_title,
    format_number,
    format_percent,
    format_share_limits,
    to_sentence,
)

MAX_ROWS = 60
"""The largest number of rows of a table on the page. The CSV file has all rows."""
MAX_NOTES = 4
"""The largest number of notes below a table. The CSV file has all notes."""
IF_DIFFERENT = ("Comparison", "Judged by", "Dataset")
"""The label columns that a table on the page leaves out if all rows have the same label."""

R = TypeVar("R")
K = TypeVar("K")
J = TypeVar("J", bound="JudgedRow | ComparisonRow")
Cells = Mapping[str, Cell]
"""The cells of a row, by column heading."""
Analyse = Callable[[Evidence], Sequence[object]]


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A row about people or about one judge.

    Attributes:
        rater_kind: The kind of raters.
        judge: The judge's name; empty for people.
    """

    rater_kind: str
    judge: str

    @property
    def rater_group(self) -> tuple[str, str]:
        """Return the kind of raters, and the judge's name. Rows of different raters are never pooled."""
        return self.rater_kind, self.judge


@dataclass(frozen=True, slots=True)
class CriterionRow(JudgedRow):
    """A row about one criterion."""

    criterion: str


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A row about two methods on one criterion.

    The fields are in the order of a `ResultKey`, so that `Row(*key, raters=4, …)` makes a row. With
    `Row(**key._asdict())`, mypy would not find a missing column.
    """

    method_a: str
    method_b: str
    rater_kind: str
    judge: str
    criterion: str

    @property
    def key(self) -> ResultKey:
        """Return the key that identifies this result in every analysis."""
        return ResultKey(self.method_a, self.method_b, self.rater_kind, self.judge, self.criterion)

    @property
    def rater_group(self) -> tuple[str, str]:
        """Return the kind of raters, and the judge's name. Rows of different raters are never pooled."""
        return self.rater_kind, self.judge

    @property
    def methods(self) -> Couple:
        """Return the two methods."""
        return self.method_a, self.method_b


@record
class Section:
    """A question with its answer, which unfolds on the page.

    Attributes:
        anchor: The anchor of the section in the page: one word, unique in a report.
        question: The question that a reader would ask.
        answer: The answer in a few words.
        tables: The tables.
        notes: Explanations of the tables.
        is_open: Whether the section is unfolded at first.
        figures: The figures below the tables.
    """

    anchor: str
    question: str
    answer: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    is_open: bool = False
    figures: tuple[Escaped, ...] = ()


def make_frame_from_rows(rows: Sequence[object], row_type: type | None = None) -> pd.DataFrame:
    """Return rows as a frame of Python objects: a column for each field.

    `Annotated[Estimate, "lead_"]` has three columns, the others with the names `lead_low` and `lead_high`.
    In a frame of objects, None stays None and an integer stays an integer. If the rows have a kind of raters,
    the first column is `simulated`.

    Args:
        rows: The rows, all of one class.
        row_type: The class of the rows, needed for the columns if there are no rows.
    """
    cls = row_type or (type(rows[0]) if rows else None)
    columns: dict[str, list[object]] = {}
    for name, hint in (get_type_hints(cls, include_extras=True) if cls else {}).items():
        values = [getattr(row, name) for row in rows]
        if get_origin(hint) is Annotated:
            (prefix,) = hint.__metadata__
            columns[name] = [estimate.value for estimate in values]
            for end in ("low", "high"):
                columns[f"{prefix}{end}"] = [getattr(estimate, end) for estimate in values]
        else:
            columns[name] = values
    if "rater_kind" in columns:
        columns = {"simulated": [row_type in SIMULATED for row_type in columns["rater_kind"]], **columns}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def group_by(rows: Iterable[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    """Group rows by a key. Groups have the order of their first rows."""
    groups: dict[K, list[R]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def make_table_of_first_rows(
    rows: Sequence[R],
    make_labels: Callable[[R], Cells],
    make_figures: Callable[[R], Cells],
    *,
    csv_name: str,
    caption: str,
    note: str = "",
    is_emphasised: Callable[[R], bool] = lambda _: False,
) -> tuple[Table, ...]:
    """Make a table of at most `MAX_ROWS` rows, as a tuple of one table. Without rows the tuple is empty.

    Args:
        rows: The rows.
        make_labels: The labels of a row. Labels in `IF_DIFFERENT` are left out if equal in all rows.
        make_figures: The numbers of a row. A column without any number is left out.
        csv_name: The name of the CSV file that has all rows.
        caption: The caption.
        note: The note below.
        is_emphasised: Returns whether a row is printed in bold.
    """
    if not rows:
        return ()
    first_rows = rows[:MAX_ROWS]
    numbers = [make_figures(row) for row in first_rows]
    filled = [head for head in numbers[0] if any(cells[head] not in {NOTHING, None} for cells in numbers)]
    if len(rows) > MAX_ROWS:
        note = f"{note} The first {MAX_ROWS} of {len(rows)} rows; csv/{csv_name}.csv has all.".strip()
    table = make_labelled_table(
        drop_labels_equal_in_all_rows([make_labels(row) for row in rows]),
        [{head: cells[head] for head in filled} for cells in numbers],
        caption=caption,
        note=note,
        emphasised_rows=frozenset(index for index, row in enumerate(first_rows) if is_emphasised(row)),
    )
    return (table,)


def make_table_section(
    rows: Sequence[R],
    make_labels: Callable[[R], Cells],
    make_figures: Callable[[R], Cells],
    *,
    csv_name: str,
    caption: str,
    question: str,
    answer: Callable[[Sequence[R]], str],
    notes: Iterable[str] = (),
    anchor: str = "",
    note: str = "",
    is_emphasised: Callable[[R], bool] = lambda _: False,
    is_open: bool = False,
) -> Section | None:
    """Make a section with one table; None if there are no rows. Default anchor: the name of the CSV file."""
    if not rows:
        return None
    return Section(
        anchor=anchor or csv_name,
        question=question,
        answer=answer(rows),
        notes=tuple(notes),
        tables=make_table_of_first_rows(
            rows,
            make_labels,
            make_figures,
            csv_name=csv_name,
            caption=caption,
            note=note,
            is_emphasised=is_emphasised,
        ),
        is_open=is_open,
    )


def make_labelled_table(
    labels: Sequence[Cells],
    figures: Sequence[Cells],
    *,
    caption: str,
    note: str = "",
    emphasised_rows: frozenset[int] = frozenset(),
) -> Table:
    """Return a table with labels on the left and numbers on the right, a row for each set of numbers."""
    lines = [{**words, **numbers} for words, numbers in zip(labels, figures, strict=False)]
    return Table(
        columns=tuple(lines[0]),
        rows=tuple(tuple(line.values()) for line in lines),
        caption=caption,
        note=note,
        text_columns=len(labels[0]),
        strong=emphasised_rows,
    )


def drop_labels_equal_in_all_rows(labels: Sequence[Cells]) -> list[Cells]:
    """Remove each label column of `IF_DIFFERENT` in which all rows of a table are equal."""
    shared = {head for head in IF_DIFFERENT if len({cells.get(head) for cells in labels}) == 1}
    return [{head: cell for head, cell in cells.items() if head not in shared} for cells in labels]


def make_criterion_labels(row: CriterionRow | ComparisonRow) -> dict[str, Cell]:
    """Return the label cells of a table row: the criterion and the raters."""
    return {"Criterion": capitalise(find_criterion_title(row.criterion)), "Judged by": name_raters(row)}


def make_result_labels(row: ComparisonRow) -> dict[str, Cell]:
    """Return the label cells of a table row: the comparison, the criterion and the raters."""
    return {"Comparison": f"{row.method_a} against {row.method_b}", **make_criterion_labels(row)}


def name_first_method(rows: Iterable[ComparisonRow]) -> str:
    """Return the name of the first method, or "the first method" if the rows have several comparisons."""
    comparisons = {row.methods for row in rows}
    return comparisons.pop()[0] if len(comparisons) == 1 else "the first method"


def select_rows_for_answer(rows: Sequence[J]) -> list[J]:
    """Return the rows of people, or of all judges if no person rated."""
    return [row for row in rows if rows[0].judge or row.rater_group == rows[0].rater_group]


def name_raters(row: JudgedRow | ComparisonRow | ResultKey) -> str:
    """Name the raters of a row: people together, or one judge."""
    if row.judge:
        return remove_word_simulated(row.judge)
    names = {"person": "people", "unknown": "raters of unknown kind", "model": "models"}
    return names.get(row.rater_kind, "raters")


def remove_word_simulated(name: str) -> str:
    """Remove the word "simulated" from a rater's name, because the page has it already.

    >>> remove_word_simulated("SIMULATED judge")
    'judge'
    """
    return name.replace("SIMULATED ", "") or name


def format_share(share: Estimate) -> str:
    """Return a share and its limits in percent."""
    return f"{format_percent(share.value)} ({format_share_limits(share)})"


def format_coefficient(estimate: Estimate) -> str:
    """Return a coefficient with its interval."""
    if estimate.value is None:
        return "undefined"
    if estimate.low is None:
        return format_number(estimate.value)
    return f"{format_number(estimate.value)} [{format_number(estimate.low)}, {format_number(estimate.high)}]"


def select_first_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the first few distinct notes as sentences."""
    return tuple(sorted({to_sentence(note) for note in notes if note})[:MAX_NOTES])
