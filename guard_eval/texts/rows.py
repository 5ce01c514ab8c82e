"""Read the rows of any table or list of objects: JSONL, JSON, CSV, TSV (also gzipped), XLSX or Parquet."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
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
        where: Its file and line, for messages.
        row: Its values by key or heading.
        flaws: What was replaced or is missing in it.
        further: The rows of the prompt's other texts, where a record holds several.
        cells: Whether it is of a table, where nothing known is an empty cell.
    """

    where: str
    row: Mapping[str, Any]
    flaws: tuple[str, ...] = ()
    further: tuple[Mapping[str, Any], ...] = ()
    cells: bool = False


def read_records(path: Path) -> list[Record]:
    """Return the records of a file, in its order, in the format that its suffix names.

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
        raise StudyError(f"there is no generations file {path}; check its name") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"cannot read {path}: {reason}; fix that and run the command again") from error
    if len(data) > MOST_BYTES:
        raise StudyError(f"{path} has more than {MOST_BYTES >> 30} GiB; split it into several files")
    return read(path, data)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _lines(path: Path, data: bytes) -> list[Record]:
    text = _decoded(data)
    if text.lstrip().startswith("["):
        return _whole_json(path, data)
    return _json_lines(path, text)


def _json_lines(path: Path, text: str) -> list[Record]:
    # Texts hold characters at which str.splitlines would break them; JSONL ends its lines with \n alone.
    lines = text.split("\n")
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and records:  # no line end after it: its writer was stopped
                records[-1] = replace(records[-1], flaws=("torn last line",))
                break
            raise StudyError(
                f"{path}, {where}: not valid JSON ({error}); write one whole object a line"
            ) from error
        records.append(_record(path, where, row))
    return records


def _record(path: Path, where: str, row: object) -> Record:
    if isinstance(row, list) and row and all(isinstance(one, dict) for one in row):
        # Contrastive decoding's authors publish a list of a prompt's texts a line.
        return Record(where=where, row=row[0], further=tuple(row[1:]))
    if not isinstance(row, dict):
        raise StudyError(f'{path}, {where}: {str(row)[:40]!r} is no JSON object; write {{"text": "…"}}')
    return Record(where=where, row=row)


def _whole_json(path: Path, data: bytes) -> list[Record]:
    text = _decoded(data)
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # JSONL under another name, or whose lines are lists
            return _json_lines(path, text)
        raise StudyError(f"{path}: not valid JSON ({error}); write a list of objects") from error
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{path}: not valid JSON ({error}); write a list of objects") from error
    if isinstance(value, dict):
        value = _only_list(path, value)
    if not isinstance(value, list):
        raise StudyError(f"{path} holds {str(value)[:40]!r}; write a list of objects")
    return [_record(path, f"record {number}", row) for number, row in enumerate(value, start=1)]


def _only_list(path: Path, value: dict[str, Any]) -> list[Any]:
    if any(key in value for key in TEXT):
        return [value]
    lists = [
        key
        for key, inner in value.items()
        if isinstance(inner, list) and all(isinstance(row, dict) for row in inner)
    ]
    if len(lists) != 1:
        names = f"{len(lists)} lists of objects ({', '.join(map(repr, lists)) or 'none'})"
        raise StudyError(f"{path} is an object with {names:.300}; leave one, or write the list alone")
    found: list[Any] = value[lists[0]]
    return found


def _csv(path: Path, data: bytes) -> list[Record]:
    text = _decoded(data)
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    try:
        # Lines end with \n alone here too: a bare carriage return outside quotes is an error, not a new row.
        # Spreadsheets write semicolons where a comma is the decimal mark; headings have neither.
        head = text.partition("\n")[0]
        mark = max("\t;," if ".tsv" in path.suffixes else ",;\t", key=head.count)
        reader = csv.reader((f"{line}\n" for line in text.split("\n")), delimiter=mark, strict=True)
        rows = [(f"ends at line {reader.line_num}", row) for row in reader if row]
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); quote texts with line breaks or quotes"
        ) from error
    finally:
        csv.field_size_limit(limit)
    return _table(path, rows)


def _xlsx(path: Path, _data: bytes) -> list[Record]:
    return _table(path, [(f"row {number}", row) for number, row in sheet_rows(path)])


def _table(path: Path, rows: Sequence[tuple[str, list[str]]]) -> list[Record]:
    """Return the records of rows of cells, with where they stand; the first has the headings."""
    if not rows:
        return []
    head = [name.strip() for name in rows[0][1]]
    if twice := [name for name in dict.fromkeys(head) if name and head.count(name) > 1]:
        raise StudyError(f"{path}: two columns are called {twice[0]!r}; rename one")
    records = []
    for number, (place, row) in enumerate(rows[1:], start=1):
        where = f"record {number} ({place})"
        if len(row) != len(head):
            raise StudyError(
                f"{path}, {where}: has {len(row)} cells under {len(head)} headings; quote texts with commas"
            )
        records.append(Record(where=where, row=dict(zip(head, row, strict=True)), cells=True))
    return records


def _parquet(path: Path, data: bytes) -> list[Record]:
    if not data:
        return []
    arrow, parquet = pyarrow()
    columns: dict[str, list[object]] = {}
    try:
        table = parquet.read_table(arrow.BufferReader(data))
        for name in table.column_names:
            try:
                columns[name] = table.column(name).to_pylist()
            except UnicodeDecodeError:
                columns[name] = table.column(name).cast(arrow.large_binary()).to_pylist()
    except (arrow.ArrowException, KeyError, OSError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(f"{path} cannot be read as Parquet: {reason}; write the file again") from error
    return [
        Record(where=f"record {place + 1}", row={name: column[place] for name, column in columns.items()})
        for place in range(table.num_rows)
    ]


_FORMATS: dict[str, Callable[[Path, bytes], list[Record]]] = {
    ".jsonl": _lines,
    ".json": _whole_json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".xlsx": _xlsx,
}


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its module of Parquet, or raise a `MissingExtraError`."""
    if find_spec("pyarrow") is None:
        raise MissingExtraError("metrics", "pyarrow")
    return import_module("pyarrow"), import_module("pyarrow.parquet")
