"""Files of verdicts as they stand: cells unchanged, each column as codes of its texts, lines numbered."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import shlex
import zlib
from collections.abc import Iterator
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from guard_eval.errors import StudyError
from guard_eval.sheets import sheet_rows

LINE, SHEET_ROW = "line", "sheet row"
"""The index's name in a table read from text, or from a sheet, so that a message can point at its rows."""
SOURCE, DECIMAL_COMMA = "source", "decimal_comma"
"""In a table's `attrs`: the file it was read from, and whether a comma in its numbers is a decimal one."""

MOST_ROWS = 10_000_000
"""More rows are refused before they take a machine's memory: a report on so many takes 5 to 9 GB."""

# Rows at a time: few enough that their cells are still in the processor's cache when they are coded.
_BLOCK = 256

MOST_CHARACTERS = 2**24
"""A longer line is refused before it takes a machine's memory: a few megabytes can unpack to it."""

_DELIMITERS = ",;\t|"
_SEP = re.compile(r'^"?sep=(.)"?\s*$', re.IGNORECASE)
"""A first line that says to Excel what separates cells."""
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GZIP, _ZIP, _OLD_EXCEL = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_FORMATS = "name a CSV, TSV, Parquet or XLSX file of verdicts"


def load(path: Path | str) -> pd.DataFrame:
    """Return the cells of a file of verdicts, not yet checked.

    Text may be UTF-8, or UTF-16 or UTF-32 with a byte order mark, gzipped or not; its cells are separated by
    commas, semicolons, tabs or bars, whichever gives the header most columns, or as a line `sep=;` says.
    Beside text: Parquet (pyarrow) and XLSX (openpyxl).

    Raises:
        StudyError: The file is missing, unreadable, too long, or no table.
    """
    path = Path(path)
    if path.suffix.lower() in {".parquet", ".pq"}:
        frame = _read_parquet(path)
    else:
        try:
            with path.open("rb") as file:
                start = file.read(4)
            if start == _OLD_EXCEL:
                raise StudyError(f"{path} is a workbook of an old Excel; save it as XLSX or 'CSV UTF-8'")
            frame = _read_sheet(path) if start == _ZIP else _read_text(path)
        except OSError as error:  # gzip's own errors have no strerror
            raise StudyError(f"cannot read {path}: {error.strerror or error}; {_FORMATS}") from None
        except (EOFError, zlib.error) as error:
            raise StudyError(
                f"cannot read {path}: {error}; it is cut off or damaged, copy it again"
            ) from None
    frame.attrs[SOURCE] = str(path)
    return frame


def check_lasting(path: Path) -> None:
    """Refuse what comes through a pipe: it cannot be read again after its first bytes.

    Raises:
        StudyError: The path is neither a file nor a folder.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StudyError(
            f"{path} is no file, and cannot be read twice; save what comes through the pipe as a file first"
        )


def places(found: list[int], word: str) -> str:
    """Return the first of some lines or rows by number, and how many there are besides."""
    shown = ", ".join(str(place) for place in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{word}{'s' if len(found) > 1 else ''} {shown}{more}"


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        _check_length(import_module("pyarrow.parquet").read_metadata(path).num_rows, path)
        frame = pd.read_parquet(path)
        return frame.reset_index() if any(name is not None for name in frame.index.names) else frame
    except ImportError:
        raise StudyError(f"reading {path} needs pyarrow; run: pip install pyarrow, or give a CSV") from None
    except (OSError, ValueError) as error:  # pyarrow's errors for a file that is no Parquet are ValueErrors
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StudyError(
            f"cannot read {path} as Parquet: {why}; give a Parquet or CSV file of verdicts"
        ) from None


def _read_sheet(path: Path) -> pd.DataFrame:
    rows = sheet_rows(path)
    _, header = next(rows, (0, []))
    return _table(_named(header, path), rows, path, SHEET_ROW)


def _read_text(path: Path) -> pd.DataFrame:
    """Read cells as they stand: a method called NA or 007 keeps its name, unlike in pandas' reader."""
    with _opened(path) as binary:
        start = binary.read(4)
        binary.seek(0)
        encoding = next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8-sig")
        with io.TextIOWrapper(binary, encoding=encoding, newline="") as file:
            try:
                return _read_lines(file, path)
            except UnicodeDecodeError:
                where = _undecodable(path, encoding)
    raise StudyError(
        f"{path} is not {encoding.removesuffix('-sig').upper()} ({where}; save it as 'CSV UTF-8', or run: "
        f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))} > utf8.csv"
    ) from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path)) if zipped else path.open("rb")


def _read_lines(file: TextIO, path: Path) -> pd.DataFrame:
    lines = _limited(file, path)
    first = next(lines, "")
    declared = _SEP.match(first)
    delimiter = declared[1] if declared else _delimiter(first)
    lines = lines if declared else chain([first], lines)
    rows = _numbered(lines, path, delimiter, before=1 if declared else 0)
    _, header = next(rows, (0, []))
    header = [name.strip() for name in header]
    if "\x00" in first:
        raise StudyError(f"{path} is no UTF-8 text, and may be UTF-16 without a mark; save it as 'CSV UTF-8'")
    frame = _table(_named(header, path), rows, path, LINE)
    frame.attrs[DECIMAL_COMMA] = delimiter != ","
    return frame


def _limited(file: TextIO, path: Path) -> Iterator[str]:
    for number, line in enumerate(iter(lambda: file.readline(MOST_CHARACTERS), ""), start=1):
        if len(line) == MOST_CHARACTERS:
            raise StudyError(
                f"{path}, line {number}: longer than {MOST_CHARACTERS} characters; write one verdict a line"
            )
        yield line


def _delimiter(header: str) -> str:
    """Return what separates most cells of a header; the comma where several do so."""
    parts = {sign: len(next(csv.reader([header], delimiter=sign), [])) for sign in _DELIMITERS}
    return max(parts, key=parts.__getitem__)


def _numbered(
    lines: Iterator[str], path: Path, delimiter: str, *, before: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the lines they begin on; lines without a filled cell are no rows."""
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    start = 1
    try:
        for row in reader:
            if any(row):
                yield start + before, row
            start = reader.line_num + 1
    except csv.Error as error:
        ran_on = reader.line_num > start or "end of data" in str(error)
        hint = " (is a quotation mark left open?)" if ran_on else ""
        raise StudyError(f"{path}, line {start + before}: {error}{hint}; fix the CSV") from None


class TextPlaces(dict[str, int]):
    """The texts of a column, numbered as they come."""

    def __missing__(self, text: str) -> int:
        self[text] = place = len(self)
        return place


def _table(
    header: list[str], numbered: Iterator[tuple[int, list[str]]], path: Path, numbers: str
) -> pd.DataFrame:
    places_of = [TextPlaces() for _ in header]
    codes: list[list[NDArray[np.int32]]] = [[] for _ in header]
    all_lines: list[NDArray[np.int64]] = []
    wrong: list[int] = []
    count = 0
    while block := list(islice(numbered, _BLOCK)):
        count += len(block)
        _check_length(count, path)
        for line, row in block:
            if len(row) != len(header):
                if any(row[len(header) :]) or len(row) < len(header):
                    wrong.append(line)
                del row[len(header) :]  # delimiters at the end of a line make empty cells
        if wrong:
            continue
        lines, rows = zip(*block, strict=True)
        all_lines.append(np.array(lines, dtype=np.int64))
        for known, parts, cells in zip(places_of, codes, zip(*rows, strict=True), strict=True):
            parts.append(np.fromiter(map(known.__getitem__, cells), dtype=np.int32, count=len(cells)))
    if wrong:
        raise StudyError(
            f"{path}: not {len(header)} cells, as in the header, on {places(wrong, numbers)}; fix them"
        )
    index = pd.Index(np.concatenate(all_lines) if all_lines else [], dtype=np.int64, name=numbers)
    columns = {
        name: pd.Categorical.from_codes(_joined(parts), categories=pd.Index(list(known), dtype=object))
        for name, known, parts in zip(header, places_of, codes, strict=True)
    }
    return pd.DataFrame(columns, index=index)


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    joined = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
    parts.clear()
    return joined


def _named(header: list[str], path: Path) -> list[str]:
    """Return the names of columns, without the nameless that delimiters at the end make."""
    names = list(header)
    while names and not names[-1]:
        names.pop()
    if "" in names:
        place = names.index("") + 1
        raise StudyError(f"{path}: column {place} has no name in the header; name it, or remove it")
    for name in sorted(set(names)):
        if names.count(name) > 1:
            found = places([place for place, one in enumerate(names, start=1) if one == name], "column")
            raise StudyError(f"{path}: the header has the column {name!r} twice ({found}); keep one")
    return names


def _check_length(rows: int, path: Path) -> None:
    if rows > MOST_ROWS:
        raise StudyError(
            f"{path} has more than {MOST_ROWS} rows, which are more than a report takes; give it one "
            "comparison, or a sample of the pairs"
        )


def _undecodable(path: Path, encoding: str) -> str:
    """Say where a file is not in its encoding, and what may stand there."""
    if encoding != "utf-8-sig":
        return "it is damaged)"
    before = 0
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_CHARACTERS), b""), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start : error.start + 1].decode("cp1252", "replace")
                return f"line {number}, byte {before + error.start}), where Windows-1252 has {byte!r}"
            before += len(line)
    return "at its end)"
