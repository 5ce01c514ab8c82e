"""Columns of text as numbers: a million cells hold few different texts, and a number is compared at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_ROOM = 2**62


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
    """Return a column coded as it stands: what is not a string becomes one, what is blank or NaN is empty."""
    if isinstance(column.dtype, pd.CategoricalDtype) and are_strings(column.cat.categories):
        used = column.cat.remove_unused_categories()
        codes, values = used.cat.codes.to_numpy(), used.cat.categories
    else:
        if column.dtype == object and not are_strings(column):
            # 1, 1.0 and True are equal, and yet different texts.
            column = column.map(lambda value: None if pd.isna(value) else str(value)).astype(object)
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
