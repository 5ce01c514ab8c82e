"""Read the rows of any table or list of objects: JSONL, JSON, CSV, TSV, Parquet (also gzipped) or XLSX."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.sheets import sheet_rows

TEXT = ("text", "generated_text", "generated_result", "continuation", "output", "completion", "gen_text")
"""Keys of the text, the first that holds one."""

MOST_BYTES = 2**32
"""A larger file is refused before it takes a machine's memory: a few kilobytes can unpack to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        where: Its position in the file, for messages, such as `line 3`.
        number: The number of its line, record or row, from 1.
        row: Its values by key or heading; a cell without a value is "".
        further: The rows of the prompt's other texts, if a record holds several.
        torn: Whether the file ends in the middle of the next record.
    """

    where: str
    number: int
    row: Mapping[str, Any]
    further: tuple[Mapping[str, Any], ...] = ()
    torn: bool = False


def read_rows(path: Path) -> list[Record]:
    """Return the rows of a file, in its order, in the format that its suffix names.

    Bytes that are not UTF-8 become lone surrogates.

    Raises:
        StudyError: The file cannot be read; file, record, value and remedy are named.
    """
    zipped = path.suffix.lower() == ".gz"
    read = _FORMATS.get(Path(path.stem if zipped else path.name).suffix.lower())
    if read is None:
        have = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise StudyError(
            f"{path} has {have}; name the file by its format: {', '.join(_FORMATS)}, or one with .gz"
        )
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise StudyError(f"there is no file {path}; check its name") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"cannot read {path}: {reason}; fix that and run the command again") from error
    if len(data) > MOST_BYTES:
        raise StudyError(f"{path} has more than {MOST_BYTES >> 30} GiB; split it into several files")
    return read(path, data)


def text_lines(data: bytes) -> list[str]:
    """Return the lines of a text. They end with a line feed alone: JSON strings may hold other line ends."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    return text.split("\n")


def json_rows(path: Path | str, data: bytes) -> list[Record]:
    """Return the objects of JSON lines.

    Args:
        path: What the text is called in messages.
        data: The text.

    Raises:
        StudyError: A line is not a JSON object; it is named. A last line that is torn only marks its record.
    """
    lines = text_lines(data)
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and records:  # no line end after it: its writer was stopped
                records[-1] = replace(records[-1], torn=True)
                break
            reason = getattr(error, "msg", "a number or a nesting that cannot be read")
            raise StudyError(
                f"{path}, {where}: not valid JSON ({reason}); write one whole object a line"
            ) from error
        records.append(_record(path, where, number, row))
    return records


def _record(path: Path | str, where: str, number: int, row: object) -> Record:
    if isinstance(row, list) and row and all(isinstance(each, dict) for each in row):
        # Contrastive decoding's authors publish a list of a prompt's texts a line.
        return Record(where=where, number=number, row=row[0], further=tuple(row[1:]))
    if not isinstance(row, dict):
        raise StudyError(f'{path}, {where}: {str(row)[:40]!r} is not a JSON object; write {{"text": "…"}}')
    return Record(where=where, number=number, row=row)


def _json(path: Path, data: bytes) -> list[Record]:
    text = "\n".join(text_lines(data))
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        if getattr(error, "msg", "") == "Extra data":  # JSONL under another name
            return json_rows(path, data)
        raise StudyError(f"{path}: not valid JSON ({error}); write a list of objects") from error
    if isinstance(value, dict) and not {*TEXT} & value.keys():
        lists = {
            name: inner
            for name, inner in value.items()
            if isinstance(inner, list) and all(isinstance(row, dict) for row in inner)
        }
        if len(lists) != 1:
            names = f"{len(lists)} lists of objects ({', '.join(map(repr, lists)) or 'none'})"
            raise StudyError(f"{path} is an object with {names:.300}; leave one, or write the list alone")
        [value] = lists.values()
    if not isinstance(value, list | dict):
        raise StudyError(f"{path} holds {str(value)[:40]!r}; write a list of objects")
    rows = value if isinstance(value, list) else [value]
    return [_record(path, f"record {number}", number, row) for number, row in enumerate(rows, start=1)]


def _csv(path: Path, data: bytes) -> list[Record]:
    lines = text_lines(data)
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(data)))
    # Spreadsheets write semicolons if a comma is the decimal mark; headings have neither.
    mark = max("\t;," if ".tsv" in path.name.lower() else ",;\t", key=lines[0].count)
    try:
        # A bare carriage return outside quotes is an error, not a new row.
        reader = csv.reader((f"{line}\n" for line in lines), delimiter=mark, strict=True)
        return _table(path, "line", ((reader.line_num, row) for row in reader if row))
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); quote texts with line breaks or quotes"
        ) from error
    finally:
        csv.field_size_limit(limit)


def _table(path: Path, unit: str, rows: Iterable[tuple[int, list[str]]]) -> list[Record]:
    """Return the records of rows of cells; the first row has the headings."""
    head: list[str] | None = None
    records = []
    for number, row in rows:
        if head is None:
            head = [name.strip() for name in row]
            if twice := [name for name in head if name and head.count(name) > 1]:
                raise StudyError(f"{path}: two columns are called {twice[0]!r}; rename one")
        elif len(row) != len(head):
            raise StudyError(
                f"{path}, {unit} {number}: {len(row)} cells under {len(head)} headings; quote texts that "
                "hold a separator"
            )
        else:
            values = dict(zip(head, row, strict=True))
            records.append(Record(where=f"{unit} {number}", number=number, row=values))
    return records


def _xlsx(path: Path, _data: bytes) -> list[Record]:
    return _table(path, "row", sheet_rows(path))


def _parquet(path: Path, data: bytes) -> list[Record]:
    if find_spec("pyarrow") is None:
        raise MissingExtraError("metrics", "pyarrow")
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        rows = parquet.read_table(io.BytesIO(data)).to_pylist() if data else []
    except (pa.ArrowException, KeyError, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(f"{path} cannot be read as Parquet: {reason}; write the file again") from error
    return [Record(where=f"record {n}", number=n, row=row) for n, row in enumerate(rows, start=1)]


_FORMATS: dict[str, Callable[[Path, bytes], list[Record]]] = {
    ".jsonl": json_rows,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".xlsx": _xlsx,
}
