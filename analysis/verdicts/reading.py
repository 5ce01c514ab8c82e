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
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from guard_eval.errors import StudyError
from guard_eval.sheets import sheet_rows

Mask = NDArray[np.bool_]

LINE, SHEET_ROW = "line", "sheet row"
"""The index's name in a table read from text, or from a sheet, so that a message can point at its rows."""
SOURCE, DECIMAL_COMMA = "source", "decimal_comma"
"""In a table's `attrs`: the file it was read from, and whether a comma in its numbers is a decimal one."""

MAX_ROWS = 10_000_000
"""More rows are refused before they take a machine's memory: a report on so many takes 5 to 9 GB."""

_MORE_COLUMNS = 16
"""Empty cells that may follow a row, as a spreadsheet makes them."""
MAX_CHARACTERS = 2**31
"""More text is refused before it takes a machine's memory: a few megabytes can unpack to it."""
MAX_HEADER = 2**24
"""Characters of a line that is read by itself."""

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


def places(numbers: list[int], word: str) -> str:
    """Return the first of some lines or rows by number, and how many there are besides."""
    shown = ", ".join(str(number) for number in numbers[:5])
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {shown}{more}"


def where(mask: Mask, index: pd.Index) -> str:
    """Return the lines or rows of a mask by number."""
    return places([int(number) for number in index[mask]], str(index.name))


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
    numbers, cells = [], []
    for number, row in rows:
        numbers.append(number)
        cells.append([*row, *[""] * (len(header) - len(row))])
    _check_length(len(cells), path)
    index = pd.Index(numbers, dtype=np.int64, name=SHEET_ROW)
    return _named(pd.DataFrame(cells, index=index, dtype=object), header, path)


def _read_text(path: Path) -> pd.DataFrame:
    """Read cells as they stand: a method called NA or 007 keeps its name."""
    with _opened(path) as binary:
        start = binary.read(4)
        binary.seek(0)
        encoding = next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8-sig")
        with io.TextIOWrapper(binary, encoding=encoding, newline="") as file:
            try:
                return _read_cells(file, path)
            except UnicodeDecodeError:
                result = _undecodable(path, encoding)
    raise StudyError(
        f"{path} is not {encoding.removesuffix('-sig').upper()} ({result}; save it as 'CSV UTF-8', or run: "
        f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))} > utf8.csv"
    ) from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    return cast("BinaryIO", gzip.open(path)) if zipped else path.open("rb")


def _read_cells(file: TextIO, path: Path) -> pd.DataFrame:
    text = LimitedText(file, path)
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
            names=range(len(header) + _MORE_COLUMNS),
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            nrows=MAX_ROWS + 1,
        )
    except pd.errors.EmptyDataError:
        cells = pd.DataFrame({index: pd.Categorical([]) for index in range(len(header))})
    except pd.errors.ParserError as error:
        raise StudyError(_problem(str(error), path, len(header), begin)) from None
    for cell in cells:  # one by one, since texts take more memory than codes
        codes, texts = pd.factorize(cells[cell])
        cells[cell] = pd.Categorical.from_codes(codes, categories=texts.astype(object))
    cells.index = pd.Index(_line_numbers(cells, begin), dtype=np.int64, name=LINE)
    filled = np.zeros(len(cells), dtype=bool)
    for cell in cells:
        filled |= (cells[cell] != "").to_numpy()
    frame = _named(cells if filled.all() else cells[filled], header, path)
    frame.attrs[DECIMAL_COMMA] = delimiter != ","
    return frame


class LimitedText:
    """A file of text for pandas to read, which refuses more than a machine's memory takes."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file, self._path, self._characters = file, path, 0

    def __iter__(self) -> Iterator[str]:
        """Yield lines."""
        return iter(self.readline, "")

    def readline(self) -> str:
        """Return a line."""
        return self._counted(self._file.readline(MAX_HEADER))

    def read(self, size: int = -1) -> str:
        """Return so many characters."""
        return self._counted(self._file.read(size))

    def _counted(self, text: str) -> str:
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise StudyError(f"{self._path} unpacks to more than {MAX_CHARACTERS} characters; give a part")
        return text


def _delimiter(header: str) -> str:
    """Return what separates most cells of a header; the comma where several do so."""
    parts = {sign: len(next(csv.reader([header], delimiter=sign), [])) for sign in _DELIMITERS}
    return max(parts, key=parts.__getitem__)


def _line_numbers(cells: pd.DataFrame, begin: int) -> NDArray[np.int64]:
    """Return the line on which each row begins: a quoted cell may hold several lines."""
    more = np.zeros(len(cells), dtype=np.int64)
    for cell in cells:
        breaks = [len(re.findall("\r\n|\r|\n", text)) for text in cells[cell].cat.categories]
        if any(breaks):
            more += np.array(breaks)[cells[cell].cat.codes]
    return np.asarray(begin + np.arange(len(cells)) + more.cumsum() - more)


def _problem(error: str, path: Path, columns: int, begin: int) -> str:
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
    for name in sorted(set(names)):
        if names.count(name) > 1:
            twice = places([index for index, item in enumerate(names, start=1) if item == name], "column")
            raise StudyError(f"{path}: the header has the column {name!r} twice ({twice}); keep one")
    _check_length(len(cells), path)
    more = np.zeros(len(cells), dtype=bool)
    for index in list(cells)[len(names) :]:
        more |= (cells[index] != "").to_numpy()
    if more.any():
        raise StudyError(
            f"{path}: not {len(names)} cells, as in the header, on {where(more, cells.index)}; fix them"
        )
    return cells[list(cells)[: len(names)]].set_axis(names, axis=1)


def _check_length(rows: int, path: Path) -> None:
    if rows > MAX_ROWS:
        raise StudyError(
            f"{path} has more than {MAX_ROWS} rows, which are more than a report takes; give it one "
            "comparison, or a sample of the pairs"
        )


def _undecodable(path: Path, encoding: str) -> str:
    """Say where a file is not in its encoding, and what may stand there."""
    if encoding != "utf-8-sig":
        return "it is damaged)"
    before = 0
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_CHARACTERS), b""), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start : error.start + 1].decode("cp1252", "replace")
                return f"line {number}, byte {before + error.start}), where Windows-1252 has {byte!r}"
            before += len(line)
    return "at its end)"
