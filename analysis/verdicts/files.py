"""Files of verdicts before anything is known of them: records by number, or a table of categoricals."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.layout import NESTED, number_list
from analysis.verdicts.reading import READING, Reading
from analysis.verdicts.tables import as_cell
from guard_eval.errors import StudyError
from guard_eval.files.rows import LINE, RowFile, open_rows
from guard_eval.reporting.escaping import unescape_csv
from guard_eval.reporting.words import and_list

MAX_ROWS = 10_000_000
"""More rows are refused before they take a machine's memory: a report on so many takes 5 to 9 GB."""
MAX_BYTES = 2**30
"""A larger file is refused before it takes a machine's memory: a few megabytes can unpack to it."""

Record = Mapping[str, Any]
Row = Mapping[str, str | None] | str
"""A verdict's cells by column, or why a record holds no verdict."""


class _Codes(dict[Any, int]):
    """The number of each text, given when it is first seen."""

    def __missing__(self, text: Any) -> int:  # noqa: ANN401 (a cell)
        """Number a new text."""
        self[text] = len(self)
        return self[text]


@dataclass
class _Column:
    """The cells of a column, as numbers of its different texts."""

    texts: _Codes = field(default_factory=_Codes)
    codes: array[int] = field(default_factory=lambda: array("l"))

    def extend(self, cells: Iterable[object]) -> None:
        self.codes.extend(map(self.texts.__getitem__, cells))

    def pad(self, length: int) -> None:
        self.extend([None] * (length - len(self.codes)))

    def categorical(self) -> pd.Categorical:
        """Return the cells; empty ones are missing."""
        texts = [text for text in self.texts if text]
        new = np.full(len(self.texts) + 1, -1, dtype=np.int64)
        new[[self.texts[text] for text in texts]] = np.arange(len(texts))
        codes = new[np.frombuffer(self.codes, dtype=f"i{self.codes.itemsize}")] if self.codes else []
        return pd.Categorical.from_codes(codes, categories=pd.Index(texts, dtype=object))


@dataclass(frozen=True)
class VerdictFile:
    """A file whose format is not known yet. Its records can be read once.

    Attributes:
        rows: The file's rows.
    """

    rows: RowFile

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return self.rows.path

    @cached_property
    def _records(self) -> tuple[Record, Iterator[tuple[int, Any]]]:
        records = self.rows.records()
        start = list(islice(records, 1))
        first = self._checked(*start[0]) if start else {}
        return first, chain(start, records)

    @property
    def first(self) -> Record:
        """Return the first record; it is empty if there is none."""
        return self._records[0]

    def records(self) -> Iterator[tuple[int, Record]]:
        """Yield the records with their numbers; an empty cell is None."""
        for number, record in self._records[1]:
            yield number, self._checked(number, record)

    def _checked(self, number: int, record: object) -> Record:
        if not isinstance(record, dict):
            raise StudyError(
                f"{self.at(number)}: {str(record)[:40]!r} is not a JSON object; write one a verdict"
            )
        return {name: None if value == "" else value for name, value in record.items()}

    def at(self, number: int) -> str:
        """Return where a record is, for a message."""
        return f"{self.path}, {self.rows.unit} {number}"

    def table(self) -> pd.DataFrame:
        """Return the file's records as a table of categoricals.

        Raises:
            StudyError: There are too many rows, or a record is not an object.
        """
        nested: dict[str, str] = {}

        def cells() -> Iterator[tuple[int, Row]]:
            for number, record in self.records():
                for name, value in record.items():
                    if isinstance(value, dict | list):
                        nested.setdefault(name, self.at(number))
                yield number, {name: as_cell(value) for name, value in record.items()}

        frame = self.table_of(cells(), self.rows.headings or ())
        frame.attrs[NESTED] = nested
        return _without_apostrophes(frame) if self.rows.unit == LINE and self.rows.headings else frame

    def table_of(self, rows: Iterable[tuple[int, Row]], names: Iterable[str] = ()) -> pd.DataFrame:
        """Return numbered rows as a table of categoricals; its `attrs` count what was left out.

        The columns `names` are there even if no row has them.

        Raises:
            StudyError: There are no verdicts, too many, or a text has half a character.
        """
        numbers = array("l")
        columns: dict[str, _Column] = {name: _Column() for name in names}
        left_out: dict[str, list[int]] = {}
        for number, row in rows:
            if isinstance(row, str):
                left_out.setdefault(row, []).append(number)
                continue
            for name, cell in row.items():
                if name not in columns:
                    columns[name] = _Column()
                column = columns[name]
                if len(column.codes) < len(numbers):
                    column.pad(len(numbers))
                column.codes.append(column.texts[cell])
            numbers.append(number)
            if len(numbers) > MAX_ROWS:
                raise StudyError(
                    f"{self.path} has more than {MAX_ROWS} rows; give one comparison, or a sample"
                )
        unit = self.rows.unit
        notes = [
            f"{len(places)} left out: {why} ({number_list(sorted(set(places)), unit)})"
            for why, places in left_out.items()
        ]
        if not numbers:
            raise StudyError(f"{self.path} holds no verdicts{'; ' + and_list(notes) if notes else ''}")
        for name, column in columns.items():
            column.pad(len(numbers))
            self._check_characters(name, column, numbers)
        index = pd.Index(np.frombuffer(numbers, dtype=f"i{numbers.itemsize}").astype(np.int64), name=unit)
        frame = pd.DataFrame({name: column.categorical() for name, column in columns.items()}, index=index)
        counts = [f"{len(places)} left out: {why}" for why, places in left_out.items()]
        frame.attrs[READING] = Reading(left_out=tuple(counts), notes=tuple(notes))
        return frame

    def _check_characters(self, name: str, column: _Column, numbers: array[int]) -> None:
        for text in filter(None, (name, *column.texts)):
            if any("\ud800" <= character <= "\udfff" for character in text):
                index = column.codes.index(column.texts[text]) if text in column.texts else 0
                raise StudyError(
                    f"{self.at(numbers[index])}: {name!a} has {text!a}, with half a character; fix it"
                )


def open_file(path: Path) -> VerdictFile:
    """Return a file's records, not yet checked.

    Raises:
        StudyError: The file is missing, unreadable or too large.
    """
    return VerdictFile(open_rows(path, limit=MAX_BYTES, most_rows=MAX_ROWS))


def _without_apostrophes(table: pd.DataFrame) -> pd.DataFrame:
    """Take the apostrophe away by which a CSV keeps a spreadsheet from reading a formula (`escape_csv`)."""
    plain = {name: [unescape_csv(text) for text in table[name].cat.categories] for name in table}
    if any(len(set(texts)) < len(texts) for texts in plain.values()):
        return table  # no program wrote it so, and a name is the same in all columns
    return table.assign(**{str(name): table[name].cat.rename_categories(plain[name]) for name in table})
