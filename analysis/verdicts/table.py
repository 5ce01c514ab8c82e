"""A table of verdicts: its columns, the structure of their cells, and the roles found so far.

Headings are compared without case, spaces and signs. The heading alone is often not enough: an `id` that
differs in every row is a row number, and a column with an unknown heading may name the pair if cells repeat.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from analysis.verdicts.reading import Reading, Role
from analysis.verdicts.words import find_word_meaning, format_set_options, simplify_word
from guard_eval.bundled import read_bundled_toml
from guard_eval.errors import StudyError
from guard_eval.files.headings import (
    differ_only_in_side,
    get_last_part,
    prefer_plain_headings,
    simplify_heading,
    split_heading_words,
)
from guard_eval.records import RaterKind, record
from guard_eval.reporting.words import join_first_parts, join_with_and

HEADINGS: Mapping[str, Any] = read_bundled_toml(__file__, "headings.toml")
"""The meanings of common headings and cells, from headings.toml."""
UNKNOWN_RATER = "unknown rater"
"""The name of a rater if the table does not name raters. A number may follow."""
ITEMS = (*HEADINGS["pair"], *HEADINGS["prompt"])
"""Headings of items, which are pairs or prompts. The most common comes first."""
GROUPS = frozenset((*HEADINGS["collections"], *HEADINGS["groups"]))
"""Headings of groups of items, such as languages."""
YES = frozenset(HEADINGS["yes"])
NO = frozenset(HEADINGS["no"])

_METADATA = re.compile(f"{HEADINGS['aside']}|{HEADINGS['about_verdicts']}")
_NO_MARK = NO | {"", "none"}
_DECIMAL = re.compile(r"[+-]?\d*\.\d*[1-9]\d*")
_LIST = re.compile(r"\[.*\]|\{.*\}", re.DOTALL)

REQUIRED = ("pair_id", "dataset", "method_a", "method_b", "rater", "criterion", "verdict")
TEXTS = (*REQUIRED, "prompt_id", "rater_kind", "presentation", "slot", "shown_first", "at")
NUMBERS = ("seconds", "active_seconds", "ends_seen", "length_a", "length_b", "prompt_round")
KNOWN = frozenset((*TEXTS, *NUMBERS))
EXCLUDED = "excluded"
"""The column whose cells say why a row does not count; empty or "no" if the row counts."""
STORED = frozenset({EXCLUDED, "handed_out", "position", "revision", "role", "surplus"})
"""Further columns of a table of verdicts that a study has written."""
METHODS = ("method_a", "method_b")
SHOWN = ("left", "right")
"""Columns that name the method on the left and the method on the right, as the rater saw them."""

HEADS = "headings"
"""The name under which the setting `columns` declares what a wide table's headings mean."""
NUMBERED = frozenset({"line", "sheet row", "record", "sample", "row"})
"""The possible names of a table's index if the index has the numbers of a file's lines, rows or records."""
FEWEST_ROWS = 3
"""A column can describe raters (or comparisons) only if each has at least this number of rows on average."""
MAX_NUMBERS = 5
"""The largest number of lines that a message names. Further lines are only counted."""

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Cells = tuple[str | None, ...]


def has_named_raters(frame: pd.DataFrame) -> bool:
    """Return whether a table of verdicts says which rater gave each verdict."""
    return not any(str(name).startswith(UNKNOWN_RATER) for name in frame["rater"].unique())


def means_no_verdict(word: str) -> bool:
    """Return whether a cell means that there is no verdict."""
    return word.strip().casefold() in HEADINGS["missing"]


def is_mark(cell: str) -> bool:
    """Return whether a cell marks a row, or holds an answer: it is not no, none, a dash or an error."""
    return not means_no_verdict(cell) and simplify_word(cell) not in _NO_MARK


def name_yes_or_no(cell: str) -> str:
    """Return yes or no for a cell that means this, such as 1 or nein. Other cells only lose outer spaces."""
    text = cell.strip()
    word = text.casefold()
    if word in YES:
        return "yes"
    return "no" if word in NO else text


def is_called(heading: str, *kinds: str) -> bool:
    """Return whether a heading is in one of these lists of headings.toml."""
    return any(simplify_heading(heading) in HEADINGS[kind] for kind in kinds)


def has_word(heading: str, kind: str) -> bool:
    """Return whether a heading has a word of this list of headings.toml."""
    return not set(HEADINGS[kind]).isdisjoint(split_heading_words(heading))


def is_metadata_heading(heading: str) -> bool:
    """Return whether a heading is about the rater, the time or the verdict, and not about an item."""
    return _METADATA.fullmatch(simplify_heading(heading)) is not None


def is_name_of_aggregate(name: str) -> bool:
    """Return whether a column, or a rater, with this name sums up the verdicts of several raters."""
    words = [word for word in split_heading_words(name) if not word.isdecimal()]
    sums = [word for word in words if word not in HEADINGS["raters"]]
    return is_called(name, "aggregates") or "".join(sums) in HEADINGS["aggregates"]


def names_worse_text(heading: str) -> bool:
    """Return whether cells name the worse text according to their heading: loser, but not less_toxic."""
    words = [word for word in split_heading_words(heading) if word in HEADINGS["worse"]]
    return len(words) % 2 == 1


def format_column_options(role: str, *names: str) -> str:
    """Write the options that give a role to a column: `--set columns.rater=X or --set columns.rater=Y`."""
    return format_set_options(*(f"columns.{role}={name}" for name in names), join=" or ")


def format_line_numbers(mask: Mask | pd.Series, index: pd.Index) -> str:
    """List the numbers of the first marked lines or rows, and count the others.

    >>> index = pd.Index([4, 7, 9], name="line")
    >>> format_line_numbers([True, True, False], index), format_line_numbers([False, False, True], index)
    ('lines 4, 7', 'line 9')
    """
    numbers = list(map(str, index[mask].unique()))
    unit = f"{index.name}s" if len(numbers) > 1 else index.name
    return f"{unit} {join_first_parts(numbers, MAX_NUMBERS, join=', ')}"


def add_line_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the line numbers of its file as the index, or with row numbers from 1."""
    if frame.index.name in NUMBERED:
        return frame
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))


def convert_json_to_cell(value: object) -> str:
    """Convert a JSON value to the text of a cell, empty for null.

    A list or an object becomes JSON text, an empty one nothing, and a list of one value this value. A whole
    number is written without decimals: an empty cell makes all numbers of a column decimal.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) == 1:
        return convert_json_to_cell(value[0])
    if isinstance(value, dict | list):
        return json.dumps(value, default=str) if value else ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    text = str(value)
    return "" if text in {"None", "nan"} else text


def convert_to_texts(column: pd.Series) -> pd.Categorical:
    """Convert a column to categorical texts in alphabetical order. Blank cells become missing."""
    if isinstance(column.dtype, pd.CategoricalDtype) and infer_dtype(column.cat.categories) == "string":
        texts: pd.Categorical = column.array.as_unordered().remove_unused_categories()
    else:
        cells = column.astype(object)
        if infer_dtype(cells, skipna=True) != "string":  # 1 and True are equal, and yet different texts
            cells = cells.map(convert_json_to_cell, na_action="ignore").astype(object)
        texts = pd.Categorical(cells)
    filled = sorted(filter(str.strip, texts.categories.tolist()))
    return texts.set_categories(pd.Index(filled, dtype=object))


def mark_cells(cells: pd.Series, has_property: Callable[[str], object]) -> pd.Series:
    """Mark the cells whose text has a property. There are far fewer texts than cells."""
    return cells.isin(list(filter(has_property, cells.dropna().unique())))


def unify_categories(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Give the columns `names` the same categories, so that their cells can be compared."""
    names = [name for name in names if name in table.columns]
    texts = sorted({text for name in names for text in table[name].cat.categories})
    return table.astype(dict.fromkeys(names, pd.CategoricalDtype(pd.Index(texts, dtype=object))))


def number_rows(columns: Iterable[pd.Categorical], size: int) -> Numbers:
    """Return a number for each of `size` rows. Rows with the same cells in all columns have the same number.

    The numbers begin at 0 and follow the first occurrence of each row.
    """
    numbers = np.zeros(size, dtype=np.int64)
    for texts in columns:
        numbers = pd.factorize(numbers * (len(texts.categories) + 1) + texts.codes + 1)[0]
    return numbers


def find_distinct_rows(table: pd.DataFrame, names: Sequence[str]) -> tuple[Numbers, list[Cells]]:
    """Return the number of each row's distinct row, and the distinct rows. A missing cell is None.

    A million verdicts have few distinct rows, so plain Python can decide the meaning of each distinct row.
    """
    numbers = number_rows((table[name].array for name in names), len(table))
    first = np.unique(numbers, return_index=True)[1]
    rows = table[list(names)].iloc[first].astype(object)
    return numbers, list(rows.where(rows.notna(), None).itertuples(index=False, name=None))


def refuse_wrong_rows(table: pd.DataFrame, wrong: Mask | pd.Series, message: str, **words: object) -> None:
    """Refuse a table that has wrong rows.

    Args:
        table: A table with a numbered index.
        wrong: Which rows are wrong.
        message: A template such as `{rater} on {where}`. The cells of the first wrong row are filled in, and
            the lines of all wrong rows.
        words: More values to fill in. Texts of users may contain braces, so they must not be part of the
            message.

    Raises:
        StudyError: A row is wrong.
    """
    mask = np.asarray(wrong, dtype=bool)
    if mask.any():
        cells = dict(table.iloc[int(mask.argmax())])
        raise StudyError(
            message.format_map(cells | words | {"where": format_line_numbers(mask, table.index)})
        )


@record
class Declarations:
    """The user's declarations about tables.

    Attributes:
        columns: The heading of each column; an empty heading means that the table lacks this column.
        words: The meaning of words for verdicts: `a`, `b`, `first`, `second`, `tie`, a method, or empty for a
            missing verdict.
        form: The format of the files; by default that of their first records.
        rater_kind: The kind of raters if the table does not give it. Default: unknown.
        groups: Columns that name groups of pairs, and not pairs or prompts.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    form: str | None = None
    rater_kind: RaterKind | None = None
    groups: Sequence[str] = ()


class Table:
    """A table that is being read.

    Args:
        frame: The table. No two columns have the same name.
        declared: The user's declarations about the table.
        items: The rows of a file of items, by their ids.

    Attributes:
        side_options: The options that declare A as method_a, if letters were read so and nothing else says
            where the methods stood.
    """

    def __init__(
        self, frame: pd.DataFrame, declared: Declarations, items: pd.DataFrame | None = None
    ) -> None:
        self.declared = declared
        self.declared_columns = declared.columns
        self.declared_words = declared.words
        self.items = items
        self.roles: list[Role] = []
        self.notes: list[str] = []
        self.unused: list[str] = []
        self.left_out: list[str] = []
        self.joined: list[str] = []
        self.side_options = ""
        self.set_frame(add_line_numbers(frame))

    def set_frame(self, frame: pd.DataFrame) -> None:
        """Replace the data frame of this table by one with other columns or rows."""
        self.frame = frame
        self.names = list(map(str, frame.columns))
        self._texts: dict[str, pd.Categorical] = {}
        self._counts: dict[tuple[str, ...], int] = {}

    def record_role(self, role: str, column: str, why: str) -> None:
        """Record the column that has a role, and the reason."""
        self.roles.append(Role(role, column, why))

    def use_columns(self, role: str, columns: Sequence[str], why: str, **new: Any) -> None:  # noqa: ANN401 (a column)
        """Record the columns that have a role, and replace them by new columns."""
        self.record_role(role, ", ".join(columns), why)
        used = [name for name in columns if name in self.columns_without_role]
        texts = self._texts
        self.set_frame(self.frame.drop(columns=used).assign(**new))
        # The rows stay the same, so the stored texts of other columns stay valid.
        self._texts = {name: texts[name] for name in texts.keys() - {*used, *new}}

    def join_columns(self, heading: str) -> None:
        """Add a column that joins the cells of several columns, whose headings are separated by commas."""
        parts = list(map(str.strip, heading.split(",")))
        self.joined += parts
        self.set_frame(self.frame.assign(**{heading: self.join_cells(*parts)}))

    def join_cells(self, *names: str) -> pd.Series:
        """Join the cells of columns in each row. Two texts are joined in the same order on any sides."""
        cells = self.get_texts(*names).astype(object)
        if len(names) == len(METHODS) and differ_only_in_side(*names):
            cells[:] = np.sort(cells.fillna(""), axis=1)
        return cells[names[0]].str.cat(cells.iloc[:, 1:], sep=", ")

    def leave_out_rows(self, is_left_out: pd.Series, why: str) -> None:
        """Leave out rows, and record their number and the reason."""
        if is_left_out.any():
            text = f"{is_left_out.sum()} left out: {why}"
            self.left_out.append(text)
            self.notes.append(f"{text} ({format_line_numbers(is_left_out, self.frame.index)})")
            self.set_frame(self.frame[~is_left_out])
        if self.frame.empty:
            reasons = "; ".join(self.notes) or "it has a header and no rows"
            raise StudyError(f"the table has no verdicts; {reasons}")

    def make_reading(self) -> Reading:
        """Return the description of how the table was read."""
        groups = [name for name in self.declared.groups if name in self.columns_without_role]
        by = [Role("by", name, "declared") for name in groups]
        used = {*groups, *self.joined, *(role.column for role in self.roles if role.role == "filter")}
        return Reading(
            roles=(*self.roles, *by),
            unused=(*self.unused, *(name for name in self.columns_without_role if name not in used)),
            left_out=tuple(self.left_out),
            notes=tuple(dict.fromkeys(self.notes)),
        )

    @property
    def columns_without_role(self) -> list[str]:
        """Return the columns that have no role. A column `left` alone is one of them, without `right`."""
        standard = KNOWN.union(SHOWN) if self.shows_sides else KNOWN
        return [name for name in self.names if name not in standard]

    def __contains__(self, name: str) -> bool:
        """Return whether the table has a column."""
        return name in self.names

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return len(self.frame)

    @property
    def has_methods(self) -> bool:
        """Return whether the table has both columns of methods."""
        return set(METHODS) <= set(self.names)

    @property
    def shows_sides(self) -> bool:
        """Return whether columns name the methods on the left and on the right."""
        return set(SHOWN) <= set(self.names)

    @property
    def is_survey(self) -> bool:
        """Return whether the user has declared that the headings of a wide table are pairs."""
        return self.declared_columns.get(HEADS) == "pair_id"

    @property
    def has_rater_kinds(self) -> bool:
        """Return whether a column or the user says which raters are models."""
        return "rater_kind" in self or self.declared.rater_kind is not None

    def list_existing(self, *names: str) -> list[str]:
        """Return those columns that the table has."""
        return [name for name in dict.fromkeys(names) if name in self.names]

    def get_heading(self, role: str, default: str = "") -> str:
        """Return the heading of the column with this role."""
        return next((used.column for used in self.roles if used.role == role), default)

    def find_common_headings(self, role: str) -> list[str]:
        """Return the headings that are common names of a role, the most common first, or the only nested one.

        `user.annotator` ends with a common name, but `coder1.label` and `coder2.label` are two raters.
        """
        common = HEADINGS["names"][role]
        nested = [name for name in self.names if simplify_heading(get_last_part(name)) in common]
        return self.find_headings(common) or nested * (len(nested) == 1)

    def find_headings(self, plain_names: Iterable[str]) -> list[str]:
        """Return the columns whose simplified headings are among these names, in the order of the names."""
        headings = [name for plain in plain_names for name in self.names if simplify_heading(name) == plain]
        return prefer_plain_headings(headings)

    def choose_column(self, role: str, names: Sequence[str], *, are_same: bool) -> None:
        """Use the first of several columns for a role.

        Raises:
            StudyError: There are several columns, and they are not the same.
        """
        if len(names) > 1 and not are_same:
            raise StudyError(
                f"{role} could be {join_with_and(names)}; say which: {format_column_options(role, *names)}"
            )
        self.use_columns(role, names[:1], "its name", **{role: self.frame[names[0]]})

    def _get_text_column(self, name: str) -> pd.Categorical:
        """Return a column as a categorical of texts. Each column is converted once."""
        if name not in self._texts:
            self._texts[name] = convert_to_texts(self.frame[name])
        return self._texts[name]

    def get_texts(self, *names: str) -> pd.DataFrame:
        """Return columns as categoricals of texts."""
        return pd.DataFrame({name: self._get_text_column(name) for name in names}, self.frame.index)

    def __getitem__(self, name: str) -> pd.Series:
        """Return the texts of a column. A missing cell is NaN."""
        return self.get_texts(name)[name].astype(object)

    def list_values(self, *names: str) -> list[str]:
        """Return the different texts of columns. Columns that the table lacks are ignored."""
        columns = map(self._get_text_column, self.list_existing(*names))
        return [text for column in columns for text in column.categories]

    def find_distinct_rows(self, *names: str) -> tuple[Numbers, list[Cells]]:
        """Return the number of each row's distinct row, and the distinct rows (`find_distinct_rows`)."""
        return find_distinct_rows(self.get_texts(*names), names)

    def number_rows(self, *names: str) -> Numbers:
        """Return a number for each row. Rows with the same cells have the same number (`number_rows`)."""
        return number_rows(map(self._get_text_column, names), self.size)

    def number_pairs(self, *names: str) -> Numbers:
        """Return a number for each row. Rows with the same cells and methods have the same number.

        The order of the two methods does not matter.
        """
        methods = unify_categories(self.get_texts(*METHODS), METHODS)
        first, second = np.sort([methods[name].cat.codes for name in METHODS], axis=0)
        columns = [*map(self._get_text_column, names), pd.Categorical(first), pd.Categorical(second)]
        return number_rows(columns, self.size)

    def count_distinct_rows(self, *names: str) -> int:
        """Return the number of different rows in these columns."""
        if names not in self._counts:
            self._counts[names] = int(self.number_rows(*names).max(initial=-1)) + 1
        return self._counts[names]

    def is_varying(self, name: str) -> bool:
        """Return whether a column has more than one value."""
        return self.count_distinct_rows(name) > 1

    def has_repeats(self, name: str) -> bool:
        """Return whether a column has the same value in several rows."""
        return self.count_distinct_rows(name) < self.size

    def count_pairs(self, *names: str) -> int:
        """Return the number of different rows in these columns and the two methods, in either order."""
        return int(self.number_pairs(*names).max(initial=-1)) + 1

    def separates_verdicts(self, *names: str) -> bool:
        """Return whether all rows differ in the two methods, in either order, or in these columns."""
        return self.count_pairs(*names) == self.size

    def is_judged_once(self, *names: str) -> bool:
        """Return whether no rater has judged the same methods twice under one value of these columns."""
        rated = self.list_existing("rater", "criterion")
        return self.count_distinct_rows(*names, *METHODS, *rated) == self.size

    def list_groupings(self, names: Sequence[str]) -> list[str]:
        """Return the first of all columns that group the rows in the same way."""
        return list({self.number_rows(name).tobytes(): name for name in reversed(names)}.values())[::-1]

    def is_determined_by(self, name: str, *keys: str) -> bool:
        """Return whether rows that are equal in `keys` always have the same cell in a column."""
        return self.count_distinct_rows(*keys, name) == self.count_distinct_rows(*keys)

    def groups_rows_more_coarsely(self, name: str, *keys: str) -> bool:
        """Return whether a column has fewer values than `keys`, and one value in rows with equal `keys`."""
        is_coarser = self.count_distinct_rows(name) < self.count_distinct_rows(*keys)
        return is_coarser and self.is_determined_by(name, *keys)

    def is_property_of(self, name: str, *keys: str) -> bool:
        """Return whether a column is a property of `keys`: for `rater`, equal in all rows of the same rater.

        With fewer than `FEWEST_ROWS` rows on average for each value of `keys`, equal cells may be chance, so
        the answer is no.
        """
        is_many = 1 < self.count_distinct_rows(*keys) <= self.size / FEWEST_ROWS
        return is_many and self.is_determined_by(name, *keys)

    def has_heading_of_other_side(self, name: str) -> bool:
        """Return whether a column about text A has a counterpart about text B, or the other way round."""
        return any(differ_only_in_side(name, other) for other in self.names)

    def find_empty_cells(self, name: str) -> pd.Series:
        """Return which cells of a column are empty, or say NA or the like beside other cells."""
        cells = self.get_texts(name)[name]
        is_word = mark_cells(cells, lambda text: text.strip().casefold() in HEADINGS["empty"])
        return cells.isna() if is_word.all() else cells.isna() | is_word

    def is_filled(self, name: str) -> bool:
        """Return whether a column has no empty cell."""
        return not self.find_empty_cells(name).any()

    def has_only_verdicts(self, name: str, words: Iterable[str] = ()) -> bool:
        """Return whether all answers in a column are methods, common words for verdicts, or `words`."""
        words = {*self.list_values(*METHODS), *words}
        answers = map(str.strip, filter(is_mark, self.list_values(name)))
        # A column of texts is left after the first text.
        are_known = (text in words or find_word_meaning(text) is not None for text in answers)
        return next(are_known, False) and all(are_known)

    def has_only_lists(self, name: str) -> bool:
        """Return whether all cells of a column are lists or objects, which name nothing."""
        texts = self.list_values(name)
        return bool(texts) and all(map(_LIST.fullmatch, texts))

    def has_decimals(self, name: str) -> bool:
        """Return whether a column has a number, such as seconds, that is not whole. 2.0 may be a code."""
        return any(map(_DECIMAL.fullmatch, self.list_values(name)))

    def is_boolean(self, name: str) -> bool:
        """Return whether all cells of a column mean yes or no."""
        return {"yes", "no"}.issuperset(map(name_yes_or_no, self.list_values(name)))
