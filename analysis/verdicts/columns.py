"""What a column of a table is: by its heading, and by what its cells do.

A heading is compared without case, spaces and signs. A name alone decides little: an `id` that differs in
every row is a row number, and a column of an unknown name that repeats may be what raters compared.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.layout import KNOWN, as_texts, number_rows, numbered

HEADINGS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("headings.toml").read_text("utf-8"))
"""What headings and cells commonly say."""
NAMES: Mapping[str, Sequence[str]] = HEADINGS["names"]
_ASIDE = re.compile(HEADINGS["aside"])
_SIBLINGS = (("a", "b"), ("1", "2"), ("left", "right"), ("chosen", "rejected"), ("winner", "loser"))
"""Ends or beginnings of headings that belong to one of two texts."""
YES = frozenset({"true", "yes", "y", "t", "1", "1.0"})
NO = frozenset({"false", "no", "n", "f", "0", "0.0"})
_DECIMAL = re.compile(r"[+-]?\d*\.\d*[1-9]\d*")
_INDEX = ("", "unnamed0", "rownames")


@cache
def plain_heading(heading: str) -> str:
    """Return a heading in lower case with letters and digits alone, without MTurk's prefixes.

    >>> plain_heading("Pair ID"), plain_heading("Input.model_a")
    ('pairid', 'modela')
    """
    folded = re.sub(r"^(input|answer)\.", "", heading.strip().casefold())
    return "".join(character for character in folded if character.isalnum())


_OWN = {plain_heading(name): name for name in KNOWN}


class Columns:
    """The columns of a table as texts, and what their cells do.

    Args:
        frame: A table whose columns have different names.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = numbered(frame)
        self.names = [str(name) for name in frame.columns]
        self._texts = pd.DataFrame(index=self.frame.index)

    def texts(self, *names: str) -> pd.DataFrame:
        """Return some columns as categoricals of texts."""
        for name in names:
            if name not in self._texts:
                self._texts[name] = as_texts(self.frame[name])
        return self._texts[list(names)]

    def values(self, name: str) -> list[str]:
        """Return the different texts of a column."""
        return list(map(str, self.texts(name)[name].cat.categories))

    def codes(self, *names: str) -> NDArray[np.int64]:
        """Return a number for each row, the same in rows with the same cells."""
        different = list(dict.fromkeys(names))
        return number_rows(self.texts(*different), different)

    def count(self, *names: str) -> int:
        """Return the number of different rows in some columns."""
        return int(self.codes(*names).max(initial=-1)) + 1

    def is_filled(self, name: str) -> bool:
        """Return whether a column has no empty cell."""
        return bool((self.texts(name)[name].cat.codes >= 0).all())

    def named(self, role: str) -> list[str]:
        """Return the headings that may name a role, the commonest name first."""
        return self.among(NAMES[role])

    def among(self, plain_names: Iterable[str]) -> list[str]:
        """Return the columns with one of some plain headings, in the order of these."""
        ranks = {name: rank for rank, name in enumerate(plain_names)}
        matches = [name for name in self.names if plain_heading(name) in ranks]
        return sorted(matches, key=lambda name: ranks[plain_heading(name)])

    def is_fixed_by(self, name: str, keys: Sequence[str]) -> bool:
        """Return whether rows with the same keys have the same cell in a column."""
        return self.count(*keys, name) == self.count(*keys)

    def is_boolean(self, name: str) -> bool:
        """Return whether the cells of a column say yes or no."""
        return {text.strip().casefold() for text in self.values(name)} <= YES | NO

    def is_number(self, name: str) -> bool:
        """Return whether the cells of a column are whole numbers."""
        return all(text.strip().removesuffix(".0").isdecimal() for text in self.values(name))

    def has_sibling(self, name: str) -> bool:
        """Return whether another column has the same heading for the other of two texts."""
        heading = plain_heading(name)
        others = {plain_heading(other) for other in self.names}
        swapped = set()
        for first, second in (*_SIBLINGS, *((b, a) for a, b in _SIBLINGS)):
            if heading.endswith(first):
                swapped.add(heading.removesuffix(first) + second)
            if heading.startswith(first):
                swapped.add(second + heading.removeprefix(first))
        return not swapped.isdisjoint(others)

    def may_name_item(self, name: str, rated: Sequence[str]) -> bool:
        """Return whether a column of an unknown name can say what was compared.

        It repeats and has no empty cell. A group, such as a language, can be an item only if no rater has
        judged it twice.

        Args:
            name: The column.
            rated: The columns of methods, rater and criterion, as far as they are known.
        """
        heading = plain_heading(name)
        count = self.count(name)
        is_aside = _ASIDE.fullmatch(heading) is not None or self.has_sibling(name)
        if is_aside or not 1 < count < len(self.frame) or not self.is_filled(name) or self.is_boolean(name):
            return False
        if any(_DECIMAL.fullmatch(text) for text in self.values(name)):
            return False
        is_judged_once = len(rated) > 2 and self.count(name, *rated) == len(self.frame)
        return is_judged_once or (heading not in HEADINGS["groups"] and count > 2)


def is_missing_word(word: str) -> bool:
    """Return whether a cell says that there is no verdict."""
    return word.strip().casefold() in HEADINGS["missing"]


def find_index(columns: Columns) -> str | None:
    """Return the column that a program wrote as an index: it is first, nameless and differs in every row."""
    first = columns.names[0] if columns.names else None
    if first is None or plain_heading(first) not in _INDEX:
        return None
    return first if columns.count(first) == len(columns.frame) else None


def own_names(names: Iterable[str]) -> dict[str, str]:
    """Return the headings that are a column's own name but for case, spaces and signs, with that name."""
    return {name: _OWN[plain_heading(name)] for name in names if plain_heading(name) in _OWN}
