"""Open a file of verdicts in any format, and read it as numbered records or as a table of texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import pandas as pd

from analysis.verdicts.table import convert_to_texts
from guard_eval.errors import StudyError
from guard_eval.files.rows import LINE, open_row_file
from guard_eval.reporting.escaping import unescape_csv

MAX_ROWS = 10_000_000
"""The largest number of rows. A report on all of them needs 5 to 9 GB of memory."""

NESTED = "nested"
"""The key in a table's `attrs` that lists each column with lists or objects, and where the first one is."""

Record = Mapping[str, object]
_HALF = re.compile("[\ud800-\udfff]")


class VerdictFile:
    """A file whose format is not known yet. Its records can be read once.

    Attributes:
        path: The path of the file.
        rows: The rows of the file.
        first: The first record; empty if the file has no records.
        records: All records with their numbers.

    Raises:
        StudyError: The file is missing, unreadable or too large, or a record is not an object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = open_row_file(path, most_rows=MAX_ROWS)
        records = self._check_records()
        start = list(islice(records, 1))
        self.first: Record = start[0][1] if start else {}
        self.records = chain(start, records)

    def _check_records(self) -> Iterator[tuple[int, Record]]:
        for number, record in self.rows.records(MAX_ROWS):
            if not isinstance(record, dict):
                cut = str(record)[:40]
                raise StudyError(
                    f"{self.describe_record_place(number)}: {cut!r} is not a JSON object; write one for each "
                    "verdict"
                )
            yield number, record

    def describe_record_place(self, number: int) -> str:
        """Describe the place of a record for a message, such as `votes.csv, line 3`."""
        return f"{self.path}, {self.rows.unit} {number}"

    def read_table(self) -> pd.DataFrame:
        """Return the file's records as a table (`build_table`)."""
        frame = self.build_table(self.records, self.rows.headings or ())
        if self.rows.unit != LINE or not self.rows.headings:
            return frame
        # An export writes an apostrophe, so that spreadsheets read no formula.
        plain = {str(name): [unescape_csv(text) for text in frame[name].cat.categories] for name in frame}
        if any(len(set(texts)) < len(texts) for texts in plain.values()):
            return frame  # a real apostrophe, because an export adds it to all equal names
        return frame.assign(
            **{name: frame[name].cat.rename_categories(texts) for name, texts in plain.items()}
        )

    def build_table(self, rows: Iterable[tuple[int, Record]], headings: Iterable[str] = ()) -> pd.DataFrame:
        """Build a table of categoricals from numbered rows.

        Args:
            rows: The cells of a verdict by column.
            headings: Columns that the table has even if no row has them.

        Raises:
            StudyError: There are no rows or too many rows, or a text has a lone surrogate.
        """
        numbers: list[int] = []
        columns: dict[str, list[str | None]] = {name: [] for name in headings}
        texts: dict[str | None, str | None] = {}  # equal texts are stored once
        nested: dict[str, str] = {}
        for number, row in rows:
            for name, value in row.items():
                if isinstance(value, dict | list):
                    nested.setdefault(name, self.describe_record_place(number))
                cell = convert_json_to_cell(value)
                if (name not in columns or cell not in texts) and _HALF.search(f"{name}{cell}"):
                    raise StudyError(
                        f"{self.describe_record_place(number)}: {name!a} has half a character (a lone "
                        f"surrogate) in {cell!a}; correct the text"
                    )
                column = columns.setdefault(name, [])
                column += [None] * (len(numbers) - len(column))
                column.append(texts.setdefault(cell, cell))
            numbers.append(number)
        if not numbers:
            raise StudyError(f"{self.path} has no verdicts")
        rows_of_file = range(len(numbers))
        cells = {name: pd.Series(column, dtype=object) for name, column in columns.items()}
        frame = pd.DataFrame(
            {name: convert_to_texts(column.reindex(rows_of_file)) for name, column in cells.items()},
            pd.Index(numbers, name=self.rows.unit),
        )
        frame.attrs = {NESTED: nested}
        return frame


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Put the path of a file before the message of an error."""
    try:
        yield
    except StudyError as error:
        raise StudyError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def convert_json_to_cell(value: object) -> str | None:
    """Convert a JSON value to the text of a cell. A list or an object becomes JSON text."""
    if isinstance(value, str):
        return value or None
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return None
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
