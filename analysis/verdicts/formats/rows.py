"""Rows of verdicts as they are read, coded at once: a million of them take less memory than their texts."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.verdicts.layout import REMARKS
from analysis.verdicts.reading import SOURCE, TextPlaces, places
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list


@dataclass(kw_only=True)
class VerdictRows:
    """Rows that a reader adds one by one.

    Attributes:
        columns: Their columns, in order.
        notes: What the reader found or took for granted.
    """

    columns: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    _left_out: dict[str, list[int]] = field(default_factory=dict)
    _places: array[int] = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        """Begin empty columns."""
        self._texts = {name: TextPlaces() for name in self.columns}
        self._codes = {name: array("i") for name in self.columns}

    def add_column(self, name: str) -> None:
        """Add a column, empty in the rows so far."""
        self.columns = (*self.columns, name)
        self._texts[name] = TextPlaces()
        self._codes[name] = array("i", [-1]) * len(self._places)

    def add(self, place: int, **values: str | None) -> None:
        """Add the verdict of record `place`; a column that is not given is empty."""
        self._places.append(place)
        for name in self.columns:
            value = values.get(name)
            self._codes[name].append(-1 if value is None else self._texts[name][value])

    def leave_out(self, place: int, why: str) -> None:
        """Count a record that holds no verdict, such as a request that failed."""
        self._left_out.setdefault(why, []).append(place)

    def table(self, source: object, word: str) -> pd.DataFrame:
        """Return the rows, columns without a value left out.

        Raises:
            StudyError: There are none, or a text has half a character, which no file can hold.
        """
        for name in self.columns:
            self._check_whole(name, source, word)
        notes = [
            f"{len(found)} left out: {why} ({places(sorted(set(found)), word)})"
            for why, found in self._left_out.items()
        ]
        if not self._places:
            raise StudyError(f"{source} holds no verdicts{'; ' + and_list(notes) if notes else ''}")
        index = pd.Index(np.frombuffer(self._places, dtype=np.int64), name=word)
        frame = pd.DataFrame(
            {
                name: pd.Categorical.from_codes(
                    np.frombuffer(self._codes[name], dtype=np.int32),
                    categories=pd.Index(list(self._texts[name]), dtype=object),
                )
                for name in self.columns
                if self._texts[name]
            },
            index=index,
        )
        frame.attrs[SOURCE] = str(source)
        frame.attrs[REMARKS] = [*self.notes, *notes]
        return frame

    def _check_whole(self, name: str, source: object, word: str) -> None:
        try:
            "".join((name, *self._texts[name])).encode()
        except UnicodeEncodeError:
            code, text = next(
                ((code, text) for text, code in self._texts[name].items() if _is_half(text)),
                (-1, name),
            )
            place = self._places[self._codes[name].index(code)] if code >= 0 else self._places[0]
            raise StudyError(
                f"{source}, {word} {place}: {name!a} has {text!a}, with half a character (a lone "
                "surrogate); fix it"
            ) from None


def _is_half(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
