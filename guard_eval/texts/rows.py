"""Read the rows of any file: JSONL, JSON, CSV, TSV, Parquet, plain text (also gzipped) or XLSX."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_unpacked
from guard_eval.files.parquet import read_parquet
from guard_eval.sheets import sheet_rows

TEXT = ("text", "generated_text", "generated_result", "continuation", "output", "completion", "gen_text")
"""Keys of the text, the first that holds one."""

Rows = Iterable[tuple[int, Any]]
"""The numbers of lines or records, and their values."""

MOST_BYTES = 2**30
"""A larger file is refused before it takes a machine's memory: a few megabytes can unpack to it."""
MOST_ROWS = 2**20
"""More rows are refused before they take a machine's memory: a text that is measured takes a kilobyte."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        where: The file and the row's position in it, for messages.
        number: The number of its line or record, from 1.
        row: Its values by key or heading; a cell without a value is "".
        further: How many more texts of the prompt the record holds.
    """

    where: str
    number: int
    row: Mapping[str, Any]
    further: int = 0


def read_rows(path: Path) -> Iterator[Record]:
    """Yield the rows of a file, in its order, in the format that its suffix names.

    Bytes that are not UTF-8 become lone surrogates. A line of plain text is a row with the key `prompt`.

    Raises:
        StudyError: The file cannot be read; file, record, value and remedy are named.
    """
    content = read_unpacked(path, limit=MOST_BYTES)
    suffix = Path(content.name).suffix.lower()
    if suffix not in _FORMATS:
        raise StudyError(f"{path}: name the file by its format: {', '.join(_FORMATS)}, or one with .gz")
    unit = {".json": "record", ".parquet": "record", ".xlsx": "row"}.get(suffix, "line")
    for count, record in enumerate(_records(path, unit, _FORMATS[suffix](path, content.data))):
        if count == MOST_ROWS:
            raise StudyError(f"{path} has more than {MOST_ROWS:,} rows; split it into several files")
        yield record


def read_json_lines(name: str, text: str) -> Iterator[Record]:
    """Yield the objects of JSON lines; `name` is what the text is called in messages.

    Raises:
        StudyError: A line is not a JSON object; it is named.
    """
    yield from _records(name, "line", _parse_lines(name, text.encode("utf-8", "surrogateescape")))


def _records(path: Path | str, unit: str, rows: Rows) -> Iterator[Record]:
    """Yield records; a list in place of an object holds several texts of one prompt."""
    for number, row in rows:
        where = f"{path}, {unit} {number}"
        # Contrastive decoding's authors publish such lines.
        first, *further = row if isinstance(row, list) and row else [row]
        if not isinstance(first, dict):
            raise StudyError(f'{where}: {str(row)[:40]!r} is not a JSON object; write {{"text": "…"}}')
        yield Record(where=where, number=number, row=first, further=len(further))


def _decode(path: Path | str, data: bytes) -> str:
    """Return a text without its byte order mark."""
    if data[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} or b"\0" in data[:4]:
        raise StudyError(f"{path} is not UTF-8 but UTF-16 or UTF-32; save it as UTF-8")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def _read_lines(path: Path | str, data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the filled lines. They end with a line feed alone: JSON strings may hold other line ends."""
    lines = enumerate(_decode(path, data).split("\n"), start=1)
    return ((number, line.strip("\r")) for number, line in lines if line.strip())


def _parse_lines(path: Path | str, data: bytes) -> Rows:
    """Return the values of JSON lines."""
    return ((number, _parse(f"{path}, line {number}", line)) for number, line in _read_lines(path, data))


def _parse(where: str, text: str) -> Any:  # noqa: ANN401 (a value of JSON)
    """Return a value of JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "a number or a nesting that cannot be read")
        raise StudyError(f"{where}: not valid JSON ({reason}); complete or remove it") from error


def _parse_document(path: Path, data: bytes) -> Rows:
    """Return the records of a list, or the one that is the whole document."""
    lines = [line.strip() for _, line in _read_lines(path, data)]
    if len(lines) > 1 and lines[0].startswith("{") and lines[0].endswith("}"):  # JSONL under another name
        return _parse_lines(path, data)
    value = _parse(str(path), "\n".join(lines) or "[]")
    return enumerate(value if isinstance(value, list) else [value], start=1)


def _read_csv(path: Path, data: bytes) -> Rows:
    """Yield the rows of a table, whichever of the usual separators it has."""
    csv.field_size_limit(2**31 - 1)  # a cell may hold a book
    lines = _decode(path, data).split("\n")
    # Spreadsheets write semicolons if a comma is the decimal mark; headings have neither.
    mark = max("\t;," if ".tsv" in path.name.lower() else ",;\t", key=lines[0].count)
    # A bare carriage return outside quotes is an error, not a new row.
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=mark, strict=True)
    try:
        yield from _with_headings(path, ((reader.line_num, row) for row in reader if row))
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); quote texts with line breaks or quotes"
        ) from error


def _with_headings(path: Path, rows: Iterator[tuple[int, list[str]]], unit: str = "line") -> Rows:
    """Yield rows of cells as objects; the first row has the headings."""
    head = [name.strip() for name in next(rows, (0, []))[1]]
    if twice := [name for name in head if name and head.count(name) > 1]:
        raise StudyError(f"{path} has two columns {twice[0]!r}; rename or remove one")
    for number, row in rows:
        if len(row) != len(head):
            raise StudyError(
                f"{path}, {unit} {number}: {len(row)} cells under {len(head)} headings; quote texts that "
                "hold a separator"
            )
        yield number, dict(zip(head, row, strict=True))


def _read_parquet(path: Path, data: bytes) -> Rows:
    """Return the rows of a Parquet file, whose lists and objects stay what they are."""
    rows = read_parquet(path, limit=MOST_BYTES, most_rows=MOST_ROWS).to_pylist() if data else []
    return enumerate(rows, start=1)


_FORMATS: dict[str, Callable[[Path, bytes], Rows]] = {
    ".jsonl": _parse_lines,
    ".json": _parse_document,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".xlsx": lambda path, _: _with_headings(path, sheet_rows(path), "row"),
    ".txt": lambda path, data: ((number, {"prompt": line}) for number, line in _read_lines(path, data)),
}
"""How the numbers and values of records are read, by suffix."""
