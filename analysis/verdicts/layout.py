"""The columns of a table of verdicts, their cells as categoricals, and the lines that a message names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_scalar

from guard_eval.errors import StudyError

REQUIRED = ("pair_id", "dataset", "method_a", "method_b", "rater", "criterion", "verdict")
TEXTS = (*REQUIRED, "prompt_id", "rater_kind", "presentation", "slot", "shown_first", "at")
NUMBERS = ("seconds", "active_seconds", "ends_seen", "length_a", "length_b", "prompt_round")
KNOWN = frozenset((*TEXTS, *NUMBERS))
METHODS = ("method_a", "method_b", "verdict", "shown_first")
"""Columns that name methods; in a validated table they have the same categories."""

NESTED = "nested"
"""In a table's `attrs`: columns with lists or objects, and where the first of these is."""
LINE, SHEET_ROW = "line", "sheet row"
"""The index's name in a table read from text, or from a sheet, so that a message can point at its rows."""
NUMBERED = frozenset({LINE, SHEET_ROW, "record", "sample", "row"})
"""Names of an index that points at a file's lines, rows or records."""
MAX_NUMBERS = 5
"""Lines that a message names before it counts the rest."""


def number_list(numbers: Sequence[int], word: str) -> str:
    """Return the first of some lines or rows by number, and how many there are besides.

    >>> number_list([4, 7], "line"), number_list([4], "line")
    ('lines 4, 7', 'line 4')
    """
    shown = ", ".join(str(number) for number in numbers[:MAX_NUMBERS])
    more = f" and {len(numbers) - MAX_NUMBERS} more" if len(numbers) > MAX_NUMBERS else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {shown}{more}"


def name_lines(mask: NDArray[np.bool_], index: pd.Index) -> str:
    """Return the lines or rows of a mask by number."""
    return number_list([int(number) for number in index[mask].unique()], str(index.name))


def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose index holds the line numbers of its file, or else row numbers from 1."""
    if frame.index.name in NUMBERED:
        return frame
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))


def as_texts(column: pd.Series) -> pd.Categorical:
    """Return a column as texts in alphabetical order of categories; blank and missing cells are missing."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        if infer_dtype(column, skipna=True) != "string":
            # 1, 1.0 and True are equal, and yet different texts.
            cells = [None if is_scalar(cell) and pd.isna(cell) else str(cell) for cell in column.tolist()]
            column = pd.Series(cells, dtype=object)
        column = column.astype("category")
    codes = column.cat.codes.to_numpy()
    used = np.bincount(codes + 1, minlength=len(column.cat.categories) + 1)[1:] > 0
    texts = [str(text) if is_used else "" for text, is_used in zip(column.cat.categories, used, strict=True)]
    filled = sorted({text for text in texts if text.strip()})
    number = {text: index for index, text in enumerate(filled)}
    new = np.array([*(number.get(text, -1) for text in texts), -1])
    return pd.Categorical.from_codes(new[codes], categories=pd.Index(filled, dtype=object))


def with_shared_texts(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return a table whose columns `names` have the same categories, so that their cells can be compared."""
    names = [name for name in names if name in table.columns]
    texts = sorted({text for name in names for text in table[name].cat.categories})
    kind = pd.CategoricalDtype(pd.Index(texts, dtype=object))
    return table.assign(**{name: table[name].astype(kind) for name in names})


def number_rows(table: pd.DataFrame, names: Sequence[str]) -> NDArray[np.int64]:
    """Return a number from 0 for each row, the same in rows whose cells in `names` are the same."""
    numbers = np.zeros(len(table), dtype=np.int64)
    for name in names:
        texts = table[name].cat
        numbers = pd.factorize(numbers * (len(texts.categories) + 1) + texts.codes + 1)[0]
    return numbers


Cells = tuple[str | None, ...]


def distinct_rows(table: pd.DataFrame, names: Sequence[str]) -> tuple[NDArray[np.int64], list[Cells]]:
    """Return the number of each row, and the different rows in the columns `names`; a missing cell is None.

    A million verdicts have few different rows, so what each row means can be decided in plain Python.
    """
    numbers = number_rows(table, names)
    _, first = np.unique(numbers, return_index=True)
    columns = []
    for name in names:
        texts = [*table[name].cat.categories, None]
        columns.append([texts[code] for code in table[name].cat.codes.to_numpy()[first]])
    return numbers, list(zip(*columns, strict=True))


def refuse_rows(
    table: pd.DataFrame,
    names: Sequence[str],
    is_wrong: Callable[..., bool],
    message: str,
    **words: object,
) -> None:
    """Refuse a table that has rows whose cells in the columns `names` are wrong.

    Args:
        table: A table of categoricals, with a numbered index.
        names: The columns.
        is_wrong: A function of the cells.
        message: Filled in with the first wrong cells, and with the lines of all: `{0!r} on {where}`.
        words: More to fill in; texts from elsewhere may have braces, and so are no part of the message.

    Raises:
        StudyError: There are such rows.
    """
    numbers, rows = distinct_rows(table, names)
    wrong = np.array([is_wrong(*row) for row in rows], dtype=bool)[numbers]
    if wrong.any():
        first = rows[numbers[wrong.argmax()]]
        raise StudyError(message.format(*first, where=name_lines(wrong, table.index), **words))
