"""Read the rows of any file: JSONL, JSON, CSV, TSV, Parquet, plain text (also gzipped) or XLSX."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.sheets import sheet_rows

TEXT = ("text", "generated_text", "generated_result", "continuation", "output", "completion", "gen_text")
"""Keys of the text, the first that holds one."""

_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"

MOST_BYTES = 2**32
"""A larger file is refused before it takes a machine's memory: a few kilobytes can unpack to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        where: The file and the row's position in it, for messages.
        number: The number of its line, record or row, from 1.
        row: Its values by key or heading; a cell without a value is "".
        further: The rows of the prompt's other texts, if a record holds several.
    """

    where: str
    number: int
    row: Mapping[str, Any]
    further: tuple[Mapping[str, Any], ...] = ()


def read_rows(path: Path) -> Iterator[Record]:
    """Yield the rows of a file, in its order, in the format that its suffix names.

    Bytes that are not UTF-8 become lone surrogates. A line of plain text is a row with the key `prompt`.

    Raises:
        StudyError: The file cannot be read; file, record, value and remedy are named.
    """
    zipped = path.suffix.lower() == ".gz"
    read = _FORMATS.get(Path(path.stem if zipped else path.name).suffix.lower())
    if read is None:
        raise StudyError(f"{path}: name the file by its format: {', '.join(_FORMATS)}, or one with .gz")
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"cannot read {path}: {reason}; fix that, or name another file") from error
    if len(data) > MOST_BYTES:
        raise StudyError(f"{path} has more than {MOST_BYTES >> 30} GiB; split it into several files")
    yield from read(path, data)


def read_json_lines(path: Path | str, data: bytes) -> Iterator[Record]:
    """Yield the objects of JSON lines.

    Args:
        path: What the text is called in messages.
        data: The text.

    Raises:
        StudyError: A line is not a JSON object; it is named.
    """
    for number, line in _lines(data):
        where = f"{path}, line {number}"
        yield _record(where, number, _parse(where, line))


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield the filled lines. They end with a line feed alone: JSON strings may hold other line ends."""
    text = data.decode("utf-8", "surrogateescape").removeprefix(_BYTE_ORDER_MARK)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _parse(where: str, text: str) -> Any:  # noqa: ANN401 (a value of JSON)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "a number or a nesting that cannot be read")
        raise StudyError(f"{where}: not valid JSON ({reason}); complete or remove it") from error


def _record(where: str, number: int, row: Any) -> Record:  # noqa: ANN401
    # Contrastive decoding's authors publish a list of a prompt's texts a line.
    rows = row if isinstance(row, list) and row else [row]
    if not all(isinstance(each, dict) for each in rows):
        raise StudyError(f'{where}: {str(row)[:40]!r} is not a JSON object; write {{"text": "…"}}')
    return Record(where=where, number=number, row=rows[0], further=tuple(rows[1:]))


def _read_json(path: Path, data: bytes) -> Iterator[Record]:
    lines = list(_lines(data))
    try:
        value = _parse(str(path), "\n".join(line for _, line in lines)) if lines else []
    except StudyError:
        if len(lines) < 2 or lines[0][1].strip()[:1] != "{" or lines[0][1].strip()[-1:] != "}":
            raise
        yield from read_json_lines(path, data)  # JSONL under another name
        return
    if isinstance(value, dict) and not {*TEXT} & value.keys():
        lists = [name for name, rows in value.items() if isinstance(rows, list)]
        if len(lists) != 1:
            raise StudyError(
                f"{path} is an object with {len(lists)} lists ({', '.join(lists):.300}); leave one"
            )
        value = value[lists[0]]
    for number, row in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _record(f"{path}, record {number}", number, row)


def _read_csv(path: Path, data: bytes) -> Iterator[Record]:
    csv.field_size_limit(2**31 - 1)  # a cell may hold a book
    lines = data.decode("utf-8", "surrogateescape").removeprefix(_BYTE_ORDER_MARK).split("\n")
    # Spreadsheets write semicolons if a comma is the decimal mark; headings have neither.
    mark = max("\t;," if ".tsv" in path.name.lower() else ",;\t", key=lines[0].count)
    # A bare carriage return outside quotes is an error, not a new row.
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=mark, strict=True)
    try:
        yield from _table(path, "line", ((reader.line_num, row) for row in reader if row))
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); quote texts with line breaks or quotes"
        ) from error


def _table(path: Path, unit: str, rows: Iterable[tuple[int, list[str]]]) -> Iterator[Record]:
    """Yield the records of rows of cells; the first row has the headings."""
    head: list[str] = []
    for number, row in rows:
        where = f"{path}, {unit} {number}"
        if not head:
            head = [name.strip() for name in row]
            if twice := [name for name in head if name and head.count(name) > 1]:
                raise StudyError(f"{path}: two columns are called {twice[0]!r}; rename one")
        elif len(row) == len(head):
            yield Record(where=where, number=number, row=dict(zip(head, row, strict=True)))
        else:
            raise StudyError(
                f"{where}: {len(row)} cells under {len(head)} headings; quote texts that hold a separator"
            )


def _read_parquet(path: Path, data: bytes) -> Iterator[Record]:
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("metrics", "pyarrow") from None
    try:
        rows = parquet.read_table(io.BytesIO(data)).to_pylist() if data else []
    except (pa.ArrowException, KeyError, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(f"{path} cannot be read as Parquet: {reason}; write the file again") from error
    for number, row in enumerate(rows, start=1):
        yield Record(where=f"{path}, record {number}", number=number, row=row)


def _read_plain_text(path: Path, data: bytes) -> Iterator[Record]:
    for number, line in _lines(data):
        yield Record(where=f"{path}, line {number}", number=number, row={"prompt": line.rstrip("\r")})


_FORMATS: dict[str, Callable[[Path, bytes], Iterator[Record]]] = {
    ".jsonl": read_json_lines,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".xlsx": lambda path, _: _table(path, "row", sheet_rows(path)),
    ".txt": _read_plain_text,
}
