"""A file of anybody's verdicts as records: JSON, lines of JSON, or the rows of a table."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pandas as pd

from analysis.verdicts.reading import LINE, MAX_ROWS, SHEET_ROW, load
from guard_eval.errors import StudyError

MOST_JSON = 2**30
"""JSON that must be in memory at once may have so many bytes: as objects it takes ten times as much."""
MOST_LINE = 2**28
"""A line of JSON may have so many bytes."""

NUMBERED = frozenset({LINE, SHEET_ROW, "record", "sample", "row"})
"""Names of an index that points at a file's lines, rows or records."""

_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = {".json", ".jsonl", ".ndjson"}
_SAVE = "save it as JSON in UTF-8"

Record = Mapping[str, Any]
Placed = tuple[int, Record]
"""A record and its number: of the line, of the table's row, or in a JSON list from 1."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file whose format is not known yet.

    Attributes:
        path: The file.
        word: What its records are counted by: line, record, row, sheet row.
        first: The first record; empty where there is none.
        table: The cells of a file that is a table, as `load` returns them.
        items: Records of a JSON file; those of lines are read when they are wanted.
    """

    path: Path
    word: str
    first: Record
    table: pd.DataFrame | None = None
    items: tuple[Placed, ...] | None = None

    def records(self) -> Iterator[Placed]:
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


def open_source(path: Path) -> Source:
    """Return the records of a file.

    Raises:
        StudyError: The file is missing, damaged, too large, or neither JSON nor a table.
    """
    try:
        start = _start(path)
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror or error}; name a file of verdicts") from None
    except EOFError as error:
        raise StudyError(f"cannot read {path}: {error}; it is cut off or damaged, copy it again") from None
    if start.startswith(_UTF16) and start.replace(b"\0", b"")[2:].lstrip()[:1] in {b"[", b"{"}:
        raise StudyError(
            f"{path} is JSON in UTF-16; run: iconv -f UTF-16 -t UTF-8 {shlex.quote(str(path))} > utf8.json"
        )
    ending = path.suffix.lower()
    if ending in _JSON and start[:1] not in {b"[", b"{"}:
        raise StudyError(f"{path} holds no JSON objects; write a list of them, or one a line")
    if ending in {".parquet", ".pq"} or start[:1] not in {b"[", b"{"}:
        table = load(path)
        word = str(table.index.name or "row")
        first = next(_rows(table.head(1)), (0, {}))[1]
        return Source(path=path, word=word, first=first, table=table)
    if start[:1] == b"{" and _is_lines(path):
        return Source(path=path, word="line", first=next(_json_lines(path), (0, {}))[1])
    value = _whole(path)
    if isinstance(value, dict):
        return Source(path=path, word="record", first=value, items=((1, value),))
    items = tuple((index, checked(item, f"{path}, record {index}")) for index, item in enumerate(value, 1))
    return Source(path=path, word="record", first=items[0][1] if items else {}, items=items)


def checked(value: object, where: str) -> Record:
    """Return a record that is a JSON object."""
    if not isinstance(value, dict):
        raise StudyError(f"{where}: {str(value)[:40]!r} is no JSON object; write one a verdict")
    return value


def parse(text: str | bytes, where: str) -> Any:  # noqa: ANN401 (JSON is any value)
    """Return what JSON says; a key that an object has twice is refused."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise StudyError(f"{where}: JSON nested too deeply to be read; write plain objects") from None
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{where}: not UTF-8 (byte {error.start}); {_SAVE}") from None
    except ValueError as error:
        raise StudyError(f"{where}: not valid JSON ({error}); {_SAVE}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StudyError(f"an object has the key {twice!r} twice; keep one")
    return result


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    return cast("IO[bytes]", gzip.open(path)) if zipped else path.open("rb")


def _start(path: Path) -> bytes:
    """Return a file's first bytes that are no white space."""
    with _opened(path) as file:
        return file.read(4096).removeprefix(_BOM).lstrip()


def _is_lines(path: Path) -> bool:
    """Return whether the first line is an object by itself, and something follows it."""
    with _opened(path) as file:
        line = file.readline(MOST_LINE)
        while line and not line.removeprefix(_BOM).strip():
            line = file.readline(MOST_LINE)
        if not line.rstrip().endswith(b"}"):
            return False
        try:
            result = json.loads(line.removeprefix(_BOM))
        except (ValueError, RecursionError):
            return True  # which its reader says, with the line
        alone = not file.read(4096).strip()
    return isinstance(result, dict) and not (alone and "samples" in result)


def _json_lines(path: Path) -> Iterator[Placed]:
    count = 0
    with _opened(path) as file:
        try:
            for index, line in enumerate(iter(lambda: file.readline(MOST_LINE), b""), start=1):
                where = f"{path}, line {index}"
                if len(line) == MOST_LINE:
                    raise StudyError(f"{where}: longer than {MOST_LINE} bytes; write one object a line")
                text = line.removeprefix(_BOM) if index == 1 else line
                if text.strip():
                    count += 1
                    if count > MAX_ROWS:
                        raise StudyError(f"{path} has more than {MAX_ROWS} records; give a part of them")
                    yield index, checked(parse(text, where), where)
        except (OSError, EOFError) as error:
            raise StudyError(f"cannot read {path}: {error}; it is damaged, copy it again") from None


def _whole(path: Path) -> Any:  # noqa: ANN401 (JSON is any value)
    try:
        with _opened(path) as file:
            data = file.read(MOST_JSON + 1)
    except (OSError, EOFError) as error:
        raise StudyError(f"cannot read {path}: {error}; it is damaged, copy it again") from None
    if len(data) > MOST_JSON:
        raise StudyError(f"{path} unpacks to more than 1 GiB of JSON; save it as lines of JSON (JSONL)")
    return parse(data.removeprefix(_BOM), str(path))


def _rows(table: pd.DataFrame) -> Iterator[Placed]:
    """Yield a table's rows; an empty cell is None."""
    names = [str(name) for name in table.columns]
    numbered = table.index.name is not None
    columns: list[Iterable[Any]] = [table[name].astype(object).array for name in table.columns]
    for number, cells in enumerate(zip(*columns, strict=True), start=1):
        index = int(table.index[number - 1]) if numbered else number
        yield index, {name: _cell(cell) for name, cell in zip(names, cells, strict=True)}


def _cell(cell: object) -> object:
    if isinstance(cell, np.ndarray):
        return [_cell(item) for item in cell]
    if isinstance(cell, np.generic):
        cell = cell.item()
    if cell is None or cell is pd.NaT or cell is pd.NA or (isinstance(cell, str) and not cell):
        return None
    return cell
