"""Files of verdicts as they stand: a table's cells, or the records of a JSON file, with their numbers."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from analysis.verdicts.layout import LINE, SHEET_ROW, name_lines
from guard_eval.errors import StudyError
from guard_eval.sheets import sheet_rows

MAX_ROWS = 10_000_000
"""More rows are refused before they take a machine's memory: a report on so many takes 5 to 9 GB."""
MAX_BYTES = 2**30
"""A larger file is refused before it takes a machine's memory: a few megabytes can unpack to it."""
EXTRA_COLUMNS = 16
"""Empty cells that may follow a row, as a spreadsheet makes them."""

_DELIMITERS = ",;\t|"
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEP = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)
"""A first line that says to Excel what separates cells."""
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"

Record = Mapping[str, Any]
NumberedRecord = tuple[int, Record]
"""A record and its number: of the line, of the table's row, or in a JSON list from 1."""


@dataclass(frozen=True, kw_only=True)
class VerdictFile:
    """A file whose format is not known yet.

    Attributes:
        path: The file.
        word: What its records are counted by: line, record, row, sheet row.
        table: The cells of a file that is a table.
        items: The records of a JSON file.
        lines: JSON lines, whose records are read when they are wanted.
    """

    path: Path
    word: str
    table: pd.DataFrame | None = None
    items: tuple[NumberedRecord, ...] = ()
    lines: bytes = b""

    @cached_property
    def first(self) -> Record:
        """Return the first record; it is empty if there is none."""
        return next(iter(self.records(1)), (0, {}))[1]

    def records(self, limit: int | None = None) -> Iterable[NumberedRecord]:
        """Return the records, or the first `limit` of a table, with their numbers."""
        if self.table is not None:
            return _rows(self.table.head(limit) if limit else self.table)
        return _json_lines(self.path, self.lines) if self.lines else self.items

    def at(self, number: int) -> str:
        """Return where a record is, for a message."""
        return f"{self.path}, {self.word} {number}"


def open_file(path: Path) -> VerdictFile:
    """Return a file's cells or records, not yet checked.

    Text may be UTF-8, or UTF-16 or UTF-32 with a byte order mark, gzipped or not. The cells of a table are
    separated by commas, semicolons, tabs or bars, whichever gives the header most columns, or as a line
    `sep=;` says. JSON is a list, one object a line, or an object. XLSX and Parquet are read too.

    Raises:
        StudyError: The file is missing, unreadable, too large, or neither JSON nor a table.
    """
    ending = path.suffix.lower()
    if ending in {".parquet", ".pq"}:
        return _table_file(path, _read_parquet(path))
    data = _read_bytes(path)
    if data.startswith(_ZIP):
        return _table_file(path, _read_sheet(path))
    start = data[:4096].lstrip()[:1]
    if start in {b"[", b"{"}:
        return _json_file(path, data, is_list=start == b"[")
    if ending in {".json", ".jsonl", ".ndjson"}:
        raise StudyError(f"{path} holds no JSON objects; write a list of them, or one a line")
    return _table_file(path, _read_text(path, data))


def _read_bytes(path: Path) -> bytes:
    """Return what a file holds, unpacked; text with a byte order mark becomes UTF-8."""
    try:
        with path.open("rb") as file:
            is_packed = file.peek(2).startswith(_GZIP)
            data = (gzip.GzipFile(fileobj=file) if is_packed else file).read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:  # gzip's own errors have no strerror
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"cannot read {path}: {reason}; name a file of verdicts that is whole") from None
    if len(data) > MAX_BYTES:
        raise StudyError(f"{path} has more than {MAX_BYTES} bytes; give its parts as several files")
    encoding = next((name for mark, name in _BOMS.items() if data.startswith(mark)), "")
    try:
        return data.decode(encoding).encode() if encoding else data
    except UnicodeDecodeError:
        raise StudyError(f"{path} is damaged {encoding.upper()}; save it as 'CSV UTF-8'") from None


def _check_rows(rows: int, path: Path) -> None:
    if rows > MAX_ROWS:
        raise StudyError(
            f"{path} has more than {MAX_ROWS} rows, which are more than a report takes; give it one "
            "comparison, or a sample of the pairs"
        )


def _table_file(path: Path, table: pd.DataFrame) -> VerdictFile:
    return VerdictFile(path=path, word=str(table.index.name or "row"), table=table)


def _rows(table: pd.DataFrame) -> Iterator[NumberedRecord]:
    """Yield a table's rows; an empty cell is None."""
    names = [str(name) for name in table.columns]
    numbers = range(1, len(table) + 1) if table.index.name is None else table.index
    columns: list[Iterable[Any]] = [table[name].astype(object).array for name in table.columns]
    for number, *cells in zip(numbers, *columns, strict=True):
        yield int(number), {name: _plain(cell) for name, cell in zip(names, cells, strict=True)}


def _plain(cell: object) -> object:
    if isinstance(cell, np.ndarray):
        return [_plain(item) for item in cell]
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if cell is None or cell is pd.NaT or cell is pd.NA or cell == "" else cell


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        _check_rows(import_module("pyarrow.parquet").read_metadata(path).num_rows, path)
        frame = pd.read_parquet(path)
    except ImportError:
        raise StudyError(f"reading {path} needs pyarrow; run: pip install pyarrow, or give a CSV") from None
    except (OSError, ValueError) as error:  # also pyarrow's error for a file that is no Parquet
        raise StudyError(f"cannot read {path} as Parquet: {error}; give a whole file of verdicts") from None
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _read_sheet(path: Path) -> pd.DataFrame:
    rows = sheet_rows(path)
    _, header = next(rows, (0, []))
    filled = [(number, [*row, *[""] * (len(header) - len(row))]) for number, row in rows]
    index = pd.Index([number for number, _ in filled], dtype=np.int64, name=SHEET_ROW)
    return _named(pd.DataFrame([row for _, row in filled], index=index, dtype=object), header, path)


def _read_text(path: Path, data: bytes) -> pd.DataFrame:
    """Read cells as they stand: a method called NA or 007 keeps its name."""
    try:
        return _read_cells(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""), path)
    except UnicodeDecodeError:
        pass
    try:
        data.decode()
    except UnicodeDecodeError as error:
        character = data[error.start : error.start + 1].decode("cp1252", "replace")
        line = data.count(b"\n", 0, error.start) + 1
        where = f"line {line}, byte {error.start}, where Windows-1252 has {character!r}"
    raise StudyError(
        f"{path} is not UTF-8 ({where}); save it as 'CSV UTF-8', or run: "
        f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))} > utf8.csv"
    )


def _read_cells(text: TextIO, path: Path) -> pd.DataFrame:
    first = text.readline()
    declared = _SEP.match(first)
    line = text.readline() if declared else first
    if "\x00" in line:
        raise StudyError(f"{path} is no UTF-8 text, and may be UTF-16 without a mark; save it as 'CSV UTF-8'")
    delimiter = declared[1] if declared else _delimiter(first)
    rows = csv.reader(chain([line], text), delimiter=delimiter)
    try:
        header = [name.strip() for name in next((row for row in rows if any(row)), [])]
    except csv.Error as error:
        raise StudyError(f"{path}, line 1: {error}; fix the CSV") from None
    begin = rows.line_num + (2 if declared else 1)
    try:
        # More columns than the header has: delimiters at the end of a line make empty cells.
        cells = pd.read_csv(
            text,
            sep=delimiter,
            header=None,
            names=range(len(header) + EXTRA_COLUMNS),
            dtype=object,
            na_filter=False,
            skip_blank_lines=False,
            nrows=MAX_ROWS + 1,
        )
    except pd.errors.EmptyDataError:
        cells = pd.DataFrame({index: pd.Categorical([]) for index in range(len(header))})
    except pd.errors.ParserError as error:
        raise StudyError(_parser_problem(str(error), path, len(header), begin)) from None
    breaks = np.zeros(len(cells), dtype=np.int64)  # a quoted cell may hold several lines
    is_filled = np.zeros(len(cells), dtype=bool)
    for column in cells:  # one by one, since texts take more memory than codes
        codes, texts = pd.factorize(cells[column])
        categories = pd.Index(texts.tolist(), dtype=object)
        cells[column] = pd.Categorical.from_codes(codes, categories)
        breaks += np.array([len(re.findall("\r\n|\r|\n", text)) for text in categories], dtype=int)[codes]
        is_filled |= (categories != "")[codes]
    lines = begin + np.arange(len(cells)) + breaks.cumsum() - breaks
    cells.index = pd.Index(lines, dtype=np.int64, name=LINE)
    return _named(cells if is_filled.all() else cells[is_filled], header, path)


def _delimiter(header: str) -> str:
    """Return what separates most cells of a header; the comma where several do so."""
    parts = {sign: len(next(csv.reader([header], delimiter=sign), [])) for sign in _DELIMITERS}
    return max(parts, key=parts.__getitem__)


def _parser_problem(error: str, path: Path, columns: int, begin: int) -> str:
    """Return what pandas found wrong with a line, as the other messages say it."""
    if match := re.search(r"in line (\d+), saw", error):
        line = int(match[1]) + begin - 1
        return f"{path}: not {columns} cells, as in the header, on line {line}; fix it"
    if match := re.search(r"starting at row (\d+)", error):
        line = int(match[1]) + begin
        return (
            f"{path}, line {line}: a quoted cell does not end (is a quotation mark left open?); fix the CSV"
        )
    return f"cannot read {path}: {error.strip()}; fix the CSV"


def _named(cells: pd.DataFrame, header: list[str], path: Path) -> pd.DataFrame:
    """Return cells with the names of their columns, without the nameless that delimiters at the end make."""
    names = list(header)
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise StudyError(
            f"{path}: column {names.index('') + 1} has no name in the header; name it, or remove it"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise StudyError(f"{path}: the header has the column {twice[0]!r} twice; keep one")
    _check_rows(len(cells), path)
    more = (cells.iloc[:, len(names) :] != "").any(axis=1).to_numpy()
    if more.any():
        where = name_lines(more, cells.index)
        raise StudyError(f"{path}: not {len(names)} cells, as in the header, on {where}; fix them")
    return cells.iloc[:, : len(names)].set_axis(names, axis=1)


def _json_file(path: Path, data: bytes, *, is_list: bool) -> VerdictFile:
    if not is_list and _is_lines(data):
        return VerdictFile(path=path, word="line", lines=data)
    value = parse_json(data, str(path))
    records = value if isinstance(value, list) else [value]
    items = [(index, check_object(item, f"{path}, record {index}")) for index, item in enumerate(records, 1)]
    return VerdictFile(path=path, word="record", items=tuple(items))


def _is_lines(data: bytes) -> bool:
    """Return whether the first line is an object by itself."""
    line = next((line for line in io.BytesIO(data) if line.strip()), b"")
    if not line.rstrip().endswith(b"}"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return True  # which its reader says, with the line


def _json_lines(path: Path, data: bytes) -> Iterator[NumberedRecord]:
    count = 0
    for index, line in enumerate(io.BytesIO(data), start=1):
        if line.strip():
            count += 1
            _check_rows(count, path)
            where = f"{path}, line {index}"
            yield index, check_object(parse_json(line, where), where)


def check_object(value: object, where: str) -> Record:
    """Return a record that is a JSON object."""
    if not isinstance(value, dict):
        raise StudyError(f"{where}: {str(value)[:40]!r} is no JSON object; write one a verdict")
    return value


def parse_json(text: str | bytes, where: str) -> Any:  # noqa: ANN401 (JSON is any value)
    """Return what JSON says; a key that an object has twice is refused."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise StudyError(f"{where}: JSON nested too deeply to be read; write plain objects") from None
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{where}: not UTF-8 (byte {error.start}); save it as JSON in UTF-8") from None
    except ValueError as error:
        raise StudyError(f"{where}: not valid JSON ({error}); save it as JSON in UTF-8") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StudyError(f"an object has the key {twice!r} twice; keep one")
    return result
