"""Columns of text as categoricals: a million cells hold few different texts, compared by their codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_scalar

from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import KIND_PLACE, RATERS, and_list

NAMED = 5
"""How many pairs a finding names before it counts the rest."""
_COLUMNS = ("pair_id", "method_a", "method_b", "rater", "rater_kind", "criterion", "verdict")
_CELL = ["method_a", "method_b", "rater_kind"]


def as_texts(column: pd.Series) -> pd.Categorical:
    """Return a column as texts: what is not a string becomes one, what is blank or NaN has the code −1."""
    if isinstance(column.dtype, pd.CategoricalDtype) and are_strings(column.cat.categories):
        used = column.cat.remove_unused_categories()
        codes, values = used.cat.codes.to_numpy(), used.cat.categories
    else:
        if column.dtype == object and not are_strings(column):
            # 1, 1.0 and True are equal, and yet different texts.
            column = column.map(lambda value: None if is_scalar(value) and pd.isna(value) else str(value))
            column = column.astype(object)
        codes, values = pd.factorize(column)
    texts = [str(value) for value in values]
    filled = np.array([bool(text.strip()) for text in texts], dtype=bool)
    places = np.append(np.where(filled, filled.cumsum() - 1, -1), -1)  # the last one is for the code −1
    kept = pd.Index([text for text in texts if text.strip()], dtype=object)
    return pd.Categorical.from_codes(places[codes], categories=kept)


def aligned(*columns: pd.Categorical) -> list[pd.Categorical]:
    """Return columns with the same categories, so that equal texts have equal codes."""
    texts = dict.fromkeys(text for column in columns for text in column.categories)
    return [column.set_categories(pd.Index(list(texts), dtype=object)) for column in columns]


def text_series(texts: pd.Categorical, index: pd.Index) -> pd.Series:
    """Return texts as a series of strings, None for an empty cell."""
    values = np.array([*texts.categories, None], dtype=object)
    return pd.Series(values[texts.codes], index=index, dtype=object)


def are_strings(values: pd.Series | pd.Index) -> bool:
    """Return whether all that is not missing is text."""
    return pd.api.types.infer_dtype(values, skipna=True) == "string"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Coded:
    """The verdicts as numbers, and what the numbers stand for.

    `rows` has cell, pair, rater, criterion and showing as codes; `side` is 1 for the cell's first method,
    −1 for its second and 0 for a tie; `first` is the side shown first, or 0 where unknown;
    `ends_seen` is the table's, or NaN.
    """

    rows: pd.DataFrame
    cells: tuple[tuple[str, str, str], ...]
    pairs: tuple[str, ...]
    raters: tuple[str, ...]
    criteria: tuple[str, ...]

    def where(self, cell: int, about: str = "") -> str:
        """Return a comparison and who judged it, in words."""
        a, b, kind = self.cells[cell]
        return f"{about}{', ' if about else ''}{a} against {b}, {RATERS.get(kind, kind)}"

    def answer(self, cell: int, side: int) -> str:
        """Return the verdict that a side means."""
        return TIE if side == 0 else self.cells[cell][0 if side == 1 else 1]

    def some(self, codes: Iterable[int]) -> str:
        """Return the first of some pairs by name, and how many there are besides."""
        known = sorted(set(codes))  # codes are in the order of the names
        names = [self.pairs[code] for code in known[:NAMED]]
        more = [f"{len(known) - NAMED} more"] if len(known) > NAMED else []
        return f"pair{'' if len(known) == 1 else 's'} {and_list([*names, *more])}"


def coded(frame: pd.DataFrame) -> Coded:
    """Return a validated table (`tidy.validate`), which has each comparison one way round, as numbers.

    Raises:
        StudyError: A column is missing.
    """
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise StudyError(
            f"the verdicts lack the column(s) {', '.join(missing)}; an audit reads {', '.join(_COLUMNS)}"
        )
    known = sorted(frame[_CELL].drop_duplicates().itertuples(index=False, name=None))
    cells = [(a, b, kind) for a, b, kind in sorted(known, key=lambda cell: (KIND_PLACE[cell[2]], cell))]
    numbers = np.array([cells.index(cell) for cell in known], dtype=np.int64)
    rows = pd.DataFrame({"cell": numbers[frame.groupby(_CELL, sort=True).ngroup().to_numpy()]})
    names = {}
    for column in ("pair_id", "rater", "criterion"):
        rows[column.removesuffix("_id")], values = pd.factorize(frame[column], sort=True)
        names[column] = tuple(values)
    rows["side"] = _side(frame, "verdict")
    rows["first"] = _side(frame, "shown_first") if "shown_first" in frame.columns else 0
    shown = "presentation" in frame.columns
    rows["showing"] = pd.factorize(frame["presentation"])[0] if shown else rows["first"]
    rows["ends_seen"] = frame["ends_seen"].to_numpy() if "ends_seen" in frame.columns else np.nan
    return Coded(
        rows=rows,
        cells=tuple(cells),
        pairs=names["pair_id"],
        raters=names["rater"],
        criteria=names["criterion"],
    )


def _side(frame: pd.DataFrame, column: str) -> NDArray[np.int64]:
    """Return 1 where a column names the first method, −1 where it names the second, and 0 elsewhere."""
    first, second = (frame[column] == frame[method] for method in ("method_a", "method_b"))
    return first.to_numpy(dtype=np.int64) - second.to_numpy(dtype=np.int64)
