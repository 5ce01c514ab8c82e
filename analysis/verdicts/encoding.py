"""Columns of text as numbers: a million cells hold few different texts, and a number is compared at once."""

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

_ROOM = 2**62
_COLUMNS = ("pair_id", "method_a", "method_b", "rater", "rater_kind", "criterion", "verdict")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TextCodes:
    """A column: `codes[row]` is the place of the row's text in `texts`, −1 where the cell is empty."""

    codes: NDArray[np.int64]
    texts: tuple[str, ...]

    def series(self, index: pd.Index) -> pd.Series:
        """Return the texts, `None` where empty: equal cells are one object, which keeps a column small."""
        return pd.Series(_objects((*self.texts, None))[self.codes], index=index, dtype=object)

    def ranked(self) -> TextCodes:
        """Return the same with the texts, and so the codes, in alphabetical order."""
        order = sorted(range(len(self.texts)), key=self.texts.__getitem__)
        rank = np.full(len(order) + 1, -1, dtype=np.int64)
        rank[order] = np.arange(len(order))
        return TextCodes(codes=rank[self.codes], texts=tuple(self.texts[place] for place in order))


def text_codes(column: pd.Series) -> TextCodes:
    """Return a column coded unchanged: what is not a string becomes one, what is blank or NaN is empty."""
    if isinstance(column.dtype, pd.CategoricalDtype) and are_strings(column.cat.categories):
        used = column.cat.remove_unused_categories()
        codes, values = used.cat.codes.to_numpy(), used.cat.categories
    else:
        if column.dtype == object and not are_strings(column):
            # 1, 1.0 and True are equal, and yet different texts.
            column = column.map(lambda value: None if is_scalar(value) and pd.isna(value) else str(value))
            column = column.astype(object)
        codes, values = pd.factorize(column)
    texts = [value if isinstance(value, str) else str(value) for value in values]
    blank = [place for place, text in enumerate(texts) if not text.strip()]
    if not blank:
        return TextCodes(codes=codes.astype(np.int64, copy=False), texts=tuple(texts))
    kept = np.ones(len(texts) + 1, dtype=bool)
    kept[[*blank, -1]] = False
    new = np.where(kept, np.cumsum(kept) - 1, -1)  # the last place, that of −1, is what is empty already
    return TextCodes(codes=new[codes], texts=tuple(text for text in texts if text.strip()))


def recoded(columns: list[TextCodes]) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """Return the codes of several columns, a text having one code whichever column has it, and the texts."""
    place: dict[str, int] = {}
    new = [[place.setdefault(text, len(place)) for text in column.texts] for column in columns]
    codes = [
        np.array([*own, -1], dtype=np.int64)[column.codes] for own, column in zip(new, columns, strict=True)
    ]
    return codes, tuple(place)


def combined(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one number ≥ 0 for each combination of codes ≥ −1, in the combinations' order."""
    key, room = np.zeros(len(columns[0]), dtype=np.int64), 1
    for codes in columns:
        size = int(codes.max(initial=-1)) + 2
        if room * size > _ROOM:
            values, key = np.unique(key, return_inverse=True)
            room = len(values)
        key, room = key * size + codes + 1, room * size
    return key


def are_strings(values: pd.Series | pd.Index) -> bool:
    """Return whether all that is not missing is text."""
    return pd.api.types.infer_dtype(values, skipna=True) == "string"


def _objects(values: tuple[str | None, ...]) -> NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@dataclass(frozen=True, kw_only=True, slots=True)
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
        found = sorted(set(codes))  # codes are in the order of the names
        names = [self.pairs[code] for code in found[:NAMED]]
        more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
        return f"pair{'' if len(found) == 1 else 's'} {and_list([*names, *more])}"


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
    methods = [text_codes(frame[name]) for name in ("method_a", "method_b", "rater_kind")]
    _, first, place = np.unique(
        combined(*(one.codes for one in methods)), return_index=True, return_inverse=True
    )
    given = [tuple(one.texts[one.codes[row]] for one in methods) for row in first]
    cells = [(a, b, kind) for a, b, kind in sorted(given, key=lambda cell: (KIND_PLACE[cell[2]], cell))]
    rows = pd.DataFrame({"cell": np.array([cells.index(cell) for cell in given], dtype=np.int64)[place]})
    names = {}
    for column in ("pair_id", "rater", "criterion"):
        ranked = text_codes(frame[column]).ranked()
        rows[column.removesuffix("_id")] = ranked.codes
        names[column] = ranked.texts
    rows["side"] = _side(frame, "verdict")
    rows["first"] = _side(frame, "shown_first") if "shown_first" in frame.columns else 0
    rows["showing"] = (
        text_codes(frame["presentation"]).codes if "presentation" in frame.columns else rows["first"]
    )
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
