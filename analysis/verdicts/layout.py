"""The columns of a table of verdicts, their cells as categoricals, and the lines that a message names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_scalar

from guard_eval.errors import StudyError

REQUIRED = ("pair_id", "dataset", "method_a", "method_b", "rater", "criterion", "verdict")
TEXTS = (*REQUIRED, "prompt_id", "rater_kind", "presentation", "slot", "shown_first", "at")
NUMBERS = ("seconds", "active_seconds", "ends_seen", "length_a", "length_b", "prompt_round")
KNOWN = frozenset((*TEXTS, *NUMBERS))
STORED = frozenset({"excluded", "handed_out", "position", "revision", "role", "surplus"})
"""Further columns of a study's own table of verdicts."""
METHODS = ("method_a", "method_b")
SHOWN = ("left", "right")
"""Columns of the methods by the side on which a rater saw them."""

NUMBERED = frozenset({"line", "sheet row", "record", "sample", "row"})
"""Names of an index that points at a file's lines, rows or records."""
MAX_NUMBERS = 5
"""Lines that a message names before it counts the rest."""

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Cells = tuple[str | None, ...]


def number_list(numbers: Sequence[int], word: str) -> str:
    """List the first numbers of lines or rows, and the number of others.

    >>> number_list([4, 7], "line"), number_list([4], "line")
    ('lines 4, 7', 'line 4')
    """
    listed = ", ".join(map(str, numbers[:MAX_NUMBERS]))
    more = f" and {len(numbers) - MAX_NUMBERS} more" if len(numbers) > MAX_NUMBERS else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {listed}{more}"


def name_lines(mask: Mask, index: pd.Index) -> str:
    """List the numbers of the lines or rows of a mask."""
    return number_list(index[mask].unique().tolist(), str(index.name))


def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose index has the line numbers of its file, or row numbers from 1."""
    if frame.index.name in NUMBERED:
        return frame
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))


def as_texts(column: pd.Series) -> pd.Categorical:
    """Return a column as texts in alphabetical order of categories; blank and missing cells are missing."""
    cells = column.astype(object)
    if infer_dtype(cells, skipna=True) != "string":
        # 1, 1.0 and True are equal, and yet different texts.
        texts = [None if is_scalar(cell) and pd.isna(cell) else str(cell) for cell in cells]
        cells = pd.Series(texts, dtype=object)
    named = pd.Categorical(cells)
    return named.remove_categories([text for text in named.categories if not text.strip()])


def with_shared_texts(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return a table whose columns `names` have the same categories, so that their cells can be compared."""
    names = [name for name in names if name in table.columns]
    texts = sorted({text for name in names for text in table[name].cat.categories})
    return table.astype(dict.fromkeys(names, pd.CategoricalDtype(pd.Index(texts, dtype=object))))


def number_rows(table: pd.DataFrame, names: Sequence[str]) -> Numbers:
    """Return a number for each row. Rows with the same cells in `names` have the same number.

    The numbers begin at 0, in the order in which the rows come first.
    """
    numbers = np.zeros(len(table), dtype=np.int64)
    for name in names:
        texts = table[name].cat
        numbers = pd.factorize(numbers * (len(texts.categories) + 1) + texts.codes + 1)[0]
    return numbers


def distinct_rows(table: pd.DataFrame, names: Sequence[str]) -> tuple[Numbers, list[Cells]]:
    """Return the number of each row, and the different rows in the columns `names`; a missing cell is None.

    A million verdicts have few different rows, so what each row means can be decided in plain Python.
    """
    numbers = number_rows(table, names)
    first = np.unique(numbers, return_index=True)[1]
    rows = table[list(names)].iloc[first].astype(object)
    return numbers, list(rows.where(rows.notna(), None).itertuples(index=False, name=None))


def refuse(table: pd.DataFrame, wrong: Mask | pd.Series, message: str, **words: object) -> None:
    """Refuse a table that has wrong rows.

    Args:
        table: A table with a numbered index.
        wrong: Which rows are wrong.
        message: Filled in with the cells of the first wrong row, and the lines of all: `{rater} on {where}`.
        words: More values to fill in. Texts of users may contain braces, so they must not be part of the
            message.

    Raises:
        StudyError: There are such rows.
    """
    mask = np.asarray(wrong, dtype=bool)
    if mask.any():
        cells = dict(table.iloc[int(mask.argmax())])
        raise StudyError(message.format_map(cells | words | {"where": name_lines(mask, table.index)}))
