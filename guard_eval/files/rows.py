"""Read the rows of any file of texts, prompts or verdicts, packed or not.

CSV, TSV and other separated text, JSON and JSON lines, XLSX, Parquet, Feather, and plain text. What a file is
follows from its content; the ending decides only where the content could be either.
"""

from __future__ import annotations

import codecs
import csv
import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any, Literal

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_unpacked
from guard_eval.files.parquet import FEATHER, PARQUET, read_arrow
from guard_eval.files.sheets import sheet_rows

MOST_BYTES = 2**30
"""A larger file is refused before it takes a machine's memory: a few megabytes can unpack to it."""
MOST_ROWS = 2**20
"""More rows are refused before they take a machine's memory: a text that is measured takes a kilobyte."""

LINE, SHEET_ROW, RECORD, ROW = "line", "sheet row", "record", "row"
"""What rows are counted by: in separated text, in a workbook, in JSON, and in Parquet and Feather."""

NumberedRows = Iterable[tuple[int, Any]]
Encoding = Literal["strict", "surrogateescape"]
"""Whether bytes that are not UTF-8 are refused, or become lone surrogates."""

_SIGNS = ",;\t|"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_START = 4096
"""The bytes at the start of a file that show what it is."""
_HEAD_ROWS = 20
"""Rows among which the header is looked for."""
_QUALTRICS = '{"ImportId"'
"""Every cell of Qualtrics' third header row begins so."""
_INDEX = "__index_level_0__"
"""The name that pandas gives a nameless index in Parquet and Feather."""
_WRAPPERS = (
    *("data", "records", "rows", "results", "items", "annotations", "verdicts", "judgments", "judgements"),
    *("votes", "battles", "comparisons", "ratings", "examples", "instances", "responses"),
)
"""Keys of an object whose list holds all records."""


@dataclass(frozen=True, kw_only=True)
class RowFile:
    """The rows of a file, which can be read once.

    Attributes:
        path: The file.
        unit: What its rows are counted by: line, sheet row, record or row.
        headings: The headings of a table; the first one is empty where a program wrote an index.
        rows: Each row with its number: a list of cells, or without headings a value of JSON.
    """

    path: Path
    unit: str
    headings: tuple[str, ...] | None
    rows: NumberedRows

    def records(self) -> Iterator[tuple[int, Any]]:
        """Yield rows as objects by heading, or as JSON has them."""
        for number, row in self.rows:
            yield number, row if self.headings is None else dict(zip(self.headings, row, strict=True))


def open_rows(
    path: Path,
    *,
    limit: int = MOST_BYTES,
    most_rows: int = MOST_ROWS,
    errors: Encoding = "strict",
    is_plain: bool = False,
) -> RowFile:
    """Read a file and find its format. Its rows are parsed when they are wanted.

    Text is UTF-8, or UTF-16 or UTF-32 with a byte order mark. The cells of a table are separated by commas,
    semicolons, tabs or bars, whichever gives the header most columns, or as a line `sep=;` says.

    Args:
        path: The file.
        limit: The largest number of unpacked bytes.
        most_rows: The largest number of rows of a Parquet file.
        errors: What becomes of bytes that are not UTF-8.
        is_plain: A file `.txt` has a prompt a line, and no separators.

    Raises:
        StudyError: The file cannot be read; the message names file, row, value and remedy.
    """
    content = read_unpacked(path, limit=limit)
    ending, data = Path(content.name).suffix.lower(), content.data
    if data.startswith((PARQUET, FEATHER)):
        return _arrow_file(path, read_arrow(path, data, limit=limit, most_rows=most_rows))
    if data.startswith(b"PK\x03\x04"):
        return _table(path, SHEET_ROW, sheet_rows(path, data))
    data = _as_utf8(path, data)
    if is_plain and ending == ".txt":
        lines = ((number, {"prompt": line}) for number, line in _filled_lines(path, data, errors))
        return RowFile(path=path, unit=LINE, headings=None, rows=lines)
    is_lines = ending in {".jsonl", ".ndjson"}
    if is_lines or ending == ".json" or data[:_START].lstrip()[:1] in {b"[", b"{"}:
        return _json_file(path, data, errors, is_lines=is_lines)
    return _table(path, LINE, _separated_rows(path, data, errors, is_tsv=ending == ".tsv"))


def _as_utf8(path: Path, data: bytes) -> bytes:
    """Return text without a byte order mark, in UTF-8 if it had one."""
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    if not encoding:
        if kind := _unmarked_encoding(data[:64]):
            raise StudyError(f"{path} is {kind} without a byte order mark; save it as 'CSV UTF-8'")
        if 10 * data[:_START].count(b"\0") > len(data[:_START]):
            raise StudyError(f"{path} is a program's file and no text; save it as 'CSV UTF-8'")
        return data
    if encoding == "utf-8-sig":
        return data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode(encoding).encode()
    except UnicodeDecodeError:
        raise StudyError(f"{path} is damaged {encoding.upper()}; save it as 'CSV UTF-8'") from None


def _unmarked_encoding(start: bytes) -> str:
    """Return the encoding that the places of NUL bytes show; empty if there is none."""
    places = {index % 4 for index, byte in enumerate(start) if not byte}
    if not places:
        return ""
    names = {(1, 2, 3): "UTF-32", (0, 1, 2): "UTF-32", (1, 3): "UTF-16", (0, 2): "UTF-16"}
    return names.get(tuple(sorted(places)), "")


def _decoded(path: Path, data: bytes, errors: Encoding, newline: str) -> Iterator[str]:
    """Yield the lines of a text with their ends."""
    try:
        yield from TextIOWrapper(BytesIO(data), encoding="utf-8", errors=errors, newline=newline)
    except UnicodeDecodeError:
        raise StudyError(_why_not_utf8(path, data)) from None


def _why_not_utf8(path: Path, data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        character = data[error.start : error.start + 1].decode("cp1252", "replace")
        line = data.count(b"\n", 0, error.start) + 1
        where = f"line {line}, byte {error.start}, where Windows-1252 has {character!r}"
        return (
            f"{path} is not UTF-8 ({where}); save it as 'CSV UTF-8', or run: "
            f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))} > utf8.csv"
        )
    return f"{path} is not UTF-8"


def _filled_lines(path: Path, data: bytes, errors: Encoding) -> Iterator[tuple[int, str]]:
    """Yield the filled lines. They end with a line feed alone: JSON strings may hold other line ends."""
    for number, line in enumerate(_decoded(path, data, errors, "\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r\n")


def _separated_rows(
    path: Path, data: bytes, errors: Encoding, *, is_tsv: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each filled row, with the number of its first line."""
    csv.field_size_limit(2**31 - 1)  # a cell may hold a book
    # A lone carriage return outside quotes is an error, unless it ends all lines.
    lines = _decoded(path, data, errors, "\n" if b"\n" in data else "\r")
    begin, head = 0, ""
    while not head.strip() and (head := next(lines, "")):
        begin += 1
    sign = _separator(head, is_tsv=is_tsv)
    lines = chain([head], lines)
    if head.strip().strip('"').casefold().startswith("sep=") and len(head.strip().strip('"')) <= len("sep=;"):
        sign = head.strip("\r\n").strip('"')[len("sep=") :] or "\t"
        next(lines)
        begin += 1
    reader = csv.reader(lines, delimiter=sign, strict=True)
    number = begin
    try:
        for row in reader:
            if row and (any(row) or len(row) == 1):
                yield number, row
            number = begin + reader.line_num
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {number}: not valid CSV ({error}; is a quotation mark left open?); fix the CSV: "
            "quote cells with line breaks or quotation marks"
        ) from None


def _separator(head: str, *, is_tsv: bool) -> str:
    """Return the sign that gives the header most columns; the first of several that do."""
    signs = "\t,;|" if is_tsv else _SIGNS
    return max(signs, key=lambda sign: len(next(csv.reader([head], delimiter=sign), [])))


def _table(path: Path, unit: str, rows: Iterator[tuple[int, list[str]]]) -> RowFile:
    """Return a table whose first row has the headings."""
    first = list(islice(rows, _HEAD_ROWS))
    if not first:
        return RowFile(path=path, unit=unit, headings=(), rows=())
    filled = [sum(map(bool, row)) for _, row in first]
    usual = median(filled[1:] or filled)
    header = next(index for index, count in enumerate(filled) if 2 * count >= usual)
    if header:
        raise StudyError(
            f"{path}: {unit} {first[0][0]} is a title, and the header seems to be {unit} {first[header][0]}; "
            "remove what is above it"
        )
    headings = [name.strip() for name in first[0][1]]
    while headings and not headings[-1]:
        headings.pop()
    # R writes names of rows, and no heading over them.
    numbers = [str(number) for number in range(1, len(first))]
    if numbers and [row[0] for _, row in first[1:] if len(row) == len(headings) + 1] == numbers:
        headings.insert(0, "")
    if "" in headings[1:]:
        raise StudyError(
            f"{path}: column {headings.index('', 1) + 1} has no name in the header; name it, or remove it. A "
            "table has one header row: join the parts of a MultiIndex"
        )
    if twice := [name for name in headings if headings.count(name) > 1]:
        raise StudyError(f"{path} has two columns {twice[0]!r}; rename or remove one")
    if len(first) > 2 and all(cell.startswith(_QUALTRICS) for cell in first[2][1] if cell):
        first = [first[0], *first[3:]]
    cells = _fitted(path, unit, chain(first[1:], rows), len(headings))
    return RowFile(path=path, unit=unit, headings=tuple(headings), rows=cells)


def _fitted(path: Path, unit: str, rows: NumberedRows, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with as many cells as headings; spreadsheets write more or fewer empty ones."""
    for number, row in rows:
        if len(row) != width:
            if any(row[width:]):
                raise StudyError(
                    f"{path}, {unit} {number}: {len(row)} cells under {width} headings; quote cells that "
                    "hold a separator, or remove what is above the header"
                )
            row = [*row[:width], *[""] * (width - len(row))]  # noqa: PLW2901
        if width == 1 or any(row):
            yield number, row


def _arrow_file(path: Path, table: Any) -> RowFile:  # noqa: ANN401 (pyarrow has no types)
    """Return the rows of a Parquet or Feather file, whose lists and objects stay what they are."""
    columns = {name: table[name].to_pylist() for name in table.column_names if name != _INDEX}
    rows = enumerate(map(list, zip(*columns.values(), strict=True)), start=1)
    return RowFile(path=path, unit=ROW, headings=tuple(columns), rows=rows)


def _json_file(path: Path, data: bytes, errors: Encoding, *, is_lines: bool) -> RowFile:
    """Return the values of JSON lines, of a list, or of one of the other shapes of a table."""
    if is_lines or _has_json_lines(data):
        lines = _filled_lines(path, data, errors)
        values = ((number, parse_json(f"{path}, line {number}", line)) for number, line in lines)
        return RowFile(path=path, unit=LINE, headings=None, rows=values)
    try:
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 (byte {error.start}); save it as JSON in UTF-8") from None
    value = parse_json(str(path), text) if text.strip() else []
    return RowFile(path=path, unit=RECORD, headings=None, rows=enumerate(_json_records(value), start=1))


def _has_json_lines(data: bytes) -> bool:
    """Return whether the first of several lines is a value by itself."""
    lines = (line for line in BytesIO(data) if line.strip())
    first, second = next(lines, b""), next(lines, b"")
    try:
        json.loads(first)
    except UnicodeDecodeError:
        return bool(second)  # the reader of lines names the line
    except (ValueError, RecursionError):
        return False
    return bool(second)


def _json_records(value: Any) -> list[Any]:  # noqa: ANN401 (a value of JSON)
    """Return the records of a document: of a list, of a list in an object, or of pandas' shapes."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    columns, rows = value.get("columns"), value.get("data")
    if isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return [dict(zip(map(str, columns), row, strict=False)) for row in rows]
    if isinstance(rows, dict):  # a task of Label Studio
        return [value]
    for records in map(value.get, _WRAPPERS):
        if isinstance(records, list) and records and isinstance(records[0], dict):
            return records
    return _nested_records(value) or [value]


def _nested_records(value: dict[str, Any]) -> list[Any]:
    """Return the rows of {column: {index: cell}}, {index: {column: cell}} or {column: [cell, …]}."""
    inner = list(value.values())
    if len(inner) > 1 and all(isinstance(cells, list) and len(cells) == len(inner[0]) for cells in inner):
        return [dict(zip(value, cells, strict=True)) for cells in zip(*inner, strict=True)]
    if not inner or not all(isinstance(cells, dict) and cells.keys() == inner[0].keys() for cells in inner):
        return []
    # An index has numbers, or more keys than there are columns.
    is_by_row = all(map(str.isdecimal, value)) or len(value) >= len(inner[0])
    if is_by_row and not all(map(str.isdecimal, inner[0])):
        return inner
    return [{name: cells[key] for name, cells in value.items()} for key in inner[0]]


def parse_json(where: str, text: str) -> Any:  # noqa: ANN401 (a value of JSON)
    """Return a value of JSON; a key that an object has twice is refused."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "a number or a nesting that cannot be read")
        raise StudyError(f"{where}: not valid JSON ({reason}); complete or remove it") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StudyError(f"an object has the key {twice!r} twice; keep one")
    return result
