"""Rows of verdicts as a reader yields them, put into a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from analysis.verdicts.layout import REMARKS
from analysis.verdicts.reading import SOURCE, places
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list

Row = Mapping[str, str | None] | str
"""A verdict's cells by column, or why a record holds no verdict."""
Rows = Iterable[tuple[int, Row]]
"""Rows, each with the number of its record."""


def table_of(rows: Rows, source: object, word: str, notes: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table.

    Args:
        rows: The rows.
        source: The file.
        word: What its records are counted by.
        notes: What the reader took for granted; it may add to them until the last row.

    Raises:
        StudyError: There are no verdicts, or a text has half a character, which no file can hold.
    """
    numbers: list[int] = []
    columns: dict[str, list[str | None]] = {}
    left_out: dict[str, list[int]] = {}
    for number, row in rows:
        if isinstance(row, str):
            left_out.setdefault(row, []).append(number)
            continue
        for name, value in row.items():
            if value is not None:
                cells = columns.setdefault(sys.intern(name), [])
                cells.extend([None] * (len(numbers) - len(cells)))
                cells.append(sys.intern(value))  # a million cells hold few different texts
        numbers.append(number)
    remarks = [
        f"{len(result)} left out: {why} ({places(sorted(set(result)), word)})"
        for why, result in left_out.items()
    ]
    if not numbers:
        raise StudyError(f"{source} holds no verdicts{'; ' + and_list(remarks) if remarks else ''}")
    for name, cells in columns.items():
        _check_whole(name, cells, numbers, f"{source}, {word}")
        cells.extend([None] * (len(numbers) - len(cells)))
    frame = pd.DataFrame(columns, index=pd.Index(numbers, name=word), dtype=object)
    frame.attrs = {SOURCE: str(source), REMARKS: [*notes, *remarks]}
    return frame


def _check_whole(name: str, cells: Sequence[str | None], numbers: Sequence[int], where: str) -> None:
    """Refuse half a character: a lone surrogate."""
    for text in {name, *cells} - {None}:
        if any("\ud800" <= character <= "\udfff" for character in text or ""):
            number = numbers[cells.index(text)] if text in cells else numbers[0]
            raise StudyError(
                f"{where} {number}: {name!a} has {text!a}, with half a character (a lone surrogate); fix it"
            )
