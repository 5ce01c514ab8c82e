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
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, TextIO, cast

import numpy as np
import pandas as pd

from analysis.verdicts.layout import DECIMAL_COMMA, LINE, SHEET_ROW, name_lines, number_list
from guard_eval.errors import StudyError
from guard_eval.sheets import sheet_rows

MAX_ROWS = 10_000_000
"""More rows are refused before they take a machine's memory: a report on so many takes 5 to 9 GB."""
MAX_CHARACTERS = 2**31
"""More text is refused before it takes a machine's memory: a few megabytes can unpack to it."""
MAX_HEADER_CHARACTERS = 2**24
MAX_JSON_BYTES = 2**30
"""JSON that must be in memory at once: as objects it takes ten times as much."""
MAX_LINE_BYTES = 2**28
EXTRA_COLUMNS = 16
"""Empty cells that may follow a row, as a spreadsheet makes them."""

_DELIMITERS = ",;\t|"
_SEP = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)
"""A first line that says to Excel what separates cells."""
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_GZIP, _ZIP, _OLD_EXCEL, _UTF8_BOM = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", codecs.BOM_UTF8

Record = Mapping[str, Any]
NumberedRecord = tuple[int, Record]
"""A record and its number: of the line, of the table's row, or in a JSON list from 1."""


@dataclass(frozen=True, kw_only=True)
class VerdictFile:
    """A file whose format is not known yet.

    Attributes:
        path: The file.
        word: What its records are counted by: line, record, row, sheet row.
        first: The first record; empty where there is none.
        table: The cells of a file that is a table.
        items: The records of a JSON file. Those of JSON lines are read when they are wanted.
    """

    path: Path
    word: str
    first: Record
    table: pd.DataFrame | None = None
    items: tuple[NumberedRecord, ...] | None = None

    def records(self) -> Iterator[NumberedRecord]:
        """Yield the records with their numbers."""
        if self.table is not None:
            yield from _rows(self.table)
        elif self.items is not None:
            yield from self.items
        else:
            yield from _json_lines(self.path)

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
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StudyError(
            f"{path} is no file, and cannot be read twice; save what comes through the pipe as a file first"
        )
    ending = path.suffix.lower()
    with _readable(path):
        if ending in {".parquet", ".pq"}:
            return _table_file(path, _read_parquet(path))
        with path.open("rb") as file:
            mark = file.read(4)
        if mark == _OLD_EXCEL:
            raise StudyError(f"{path} is a workbook of an old Excel; save it as XLSX or 'CSV UTF-8'")
        if mark == _ZIP:
            return _table_file(path, _read_sheet(path))
        with _open_bytes(path) as file:
            start = file.read(4096)
        text = start.removeprefix(_UTF8_BOM).lstrip()
        if text[:1] in {b"[", b"{"}:
            return _json_file(path, is_list=text[:1] == b"[")
        if text[:2] in _BOMS and text.replace(b"\0", b"")[2:].lstrip()[:1] in {b"[", b"{"}:
            name = shlex.quote(str(path))
            raise StudyError(f"{path} is JSON in UTF-16; run: iconv -f UTF-16 -t UTF-8 {name} > utf8.json")
        if ending in {".json", ".jsonl", ".ndjson"}:
            raise StudyError(f"{path} holds no JSON objects; write a list of them, or one a line")
        return _table_file(path, _read_text(path, start))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read which file it is."""
    try:
        yield
    except OSError as error:  # gzip's own errors have no strerror
        why = error.strerror or error
        raise StudyError(f"cannot read {path}: {why}; name a file of verdicts that is whole") from None
    except (EOFError, zlib.error) as error:
        raise StudyError(f"cannot read {path}: {error}; it is cut off or damaged, copy it again") from None


def _open_bytes(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    return cast("IO[bytes]", gzip.open(path)) if zipped else path.open("rb")


def _check_rows(rows: int, path: Path) -> None:
    if rows > MAX_ROWS:
        raise StudyError(
            f"{path} has more than {MAX_ROWS} rows, which are more than a report takes; give it one "
            "comparison, or a sample of the pairs"
        )


def _table_file(path: Path, table: pd.DataFrame) -> VerdictFile:
    first = next(_rows(table.head(1)), (0, {}))[1]
    return VerdictFile(path=path, word=str(table.index.name or "row"), first=first, table=table)


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
    except ValueError as error:  # also pyarrow's error for a file that is no Parquet
        raise StudyError(f"cannot read {path} as Parquet: {error}; give a whole file of verdicts") from None
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _read_sheet(path: Path) -> pd.DataFrame:
    rows = sheet_rows(path)
    _, header = next(rows, (0, []))
    filled = [(number, [*row, *[""] * (len(header) - len(row))]) for number, row in rows]
    index = pd.Index([number for number, _ in filled], dtype=np.int64, name=SHEET_ROW)
    return _named(pd.DataFrame([row for _, row in filled], index=index, dtype=object), header, path)


def _read_text(path: Path, start: bytes) -> pd.DataFrame:
    """Read cells as they stand: a method called NA or 007 keeps its name."""
    encoding = next((name for mark, name in _BOMS.items() if start.startswith(mark)), "utf-8-sig")
    with io.TextIOWrapper(_open_bytes(path), encoding=encoding, newline="") as file:
        try:
            return _read_cells(LimitedText(file, path), path)
        except UnicodeDecodeError:
            where = "damaged" if encoding != "utf-8-sig" else _undecodable(path)
    raise StudyError(
        f"{path} is not {encoding.removesuffix('-sig').upper()} ({where}); save it as 'CSV UTF-8', or run: "
        f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))} > utf8.csv"
    )


def _undecodable(path: Path) -> str:
    """Describe where a file is not UTF-8, and what the encoding may be."""
    before = 0
    with _open_bytes(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_CHARACTERS), b""), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start : error.start + 1].decode("cp1252", "replace")
                return f"line {number}, byte {before + error.start}, where Windows-1252 has {byte!r}"
            before += len(line)
    return "at its end"


class LimitedText:
    """A file of text for pandas to read, which refuses more than a machine's memory takes."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self._path, self._characters = file, path, 0

    def __iter__(self) -> Iterator[str]:
        """Yield lines."""
        return iter(self.readline, "")

    def readline(self) -> str:
        """Return a line."""
        return self._count(self._file.readline(MAX_HEADER_CHARACTERS))

    def read(self, size: int = -1) -> str:
        """Return so many characters."""
        return self._count(self._file.read(size))

    def _count(self, text: str) -> str:
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise StudyError(f"{self._path} unpacks to more than {MAX_CHARACTERS} characters; give a part")
        return text


def _read_cells(text: LimitedText, path: Path) -> pd.DataFrame:
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
            text,  # type: ignore[call-overload]
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
    frame = _named(cells if is_filled.all() else cells[is_filled], header, path)
    frame.attrs[DECIMAL_COMMA] = delimiter != ","
    return frame


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
    for name in names:
        if names.count(name) > 1:
            twice = [index for index, other in enumerate(names, start=1) if other == name]
            raise StudyError(
                f"{path}: the header has the column {name!r} twice ({number_list(twice, 'column')}); keep one"
            )
    _check_rows(len(cells), path)
    more = np.zeros(len(cells), dtype=bool)
    for index in list(cells)[len(names) :]:
        more |= (cells[index] != "").to_numpy()
    if more.any():
        where = name_lines(more, cells.index)
        raise StudyError(f"{path}: not {len(names)} cells, as in the header, on {where}; fix them")
    return cells[list(cells)[: len(names)]].set_axis(names, axis=1)


def _json_file(path: Path, *, is_list: bool) -> VerdictFile:
    if not is_list and _is_lines(path):
        return VerdictFile(path=path, word="line", first=next(_json_lines(path), (0, {}))[1])
    with _open_bytes(path) as file:
        data = file.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        raise StudyError(f"{path} unpacks to more than 1 GiB of JSON; save it as lines of JSON (JSONL)")
    value = parse_json(data.removeprefix(_UTF8_BOM), str(path))
    if isinstance(value, dict):
        return VerdictFile(path=path, word="record", first=value, items=((1, value),))
    items = tuple(
        (index, check_object(item, f"{path}, record {index}")) for index, item in enumerate(value, 1)
    )
    return VerdictFile(path=path, word="record", first=items[0][1] if items else {}, items=items)


def _is_lines(path: Path) -> bool:
    """Return whether the first line is an object by itself; an Inspect log alone in a line is no lines."""
    with _open_bytes(path) as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES).removeprefix(_UTF8_BOM), b"")
        line = next((line for line in lines if line.strip()), b"")
        if not line.rstrip().endswith(b"}"):
            return False
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return True  # which its reader says, with the line
        is_alone = not file.read(4096).strip()
    return isinstance(value, dict) and not (is_alone and "samples" in value)


def _json_lines(path: Path) -> Iterator[NumberedRecord]:
    count = 0
    with _readable(path), _open_bytes(path) as file:
        for index, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
            where = f"{path}, line {index}"
            if len(line) == MAX_LINE_BYTES:
                raise StudyError(f"{where}: longer than {MAX_LINE_BYTES} bytes; write one object a line")
            text = line.removeprefix(_UTF8_BOM) if index == 1 else line
            if text.strip():
                count += 1
                _check_rows(count, path)
                yield index, check_object(parse_json(text, where), where)


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
