"""Files of verdicts as they stand: cells unchanged, each column as codes of its texts, lines numbered."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from guard_eval.errors import StudyError

LINE = "line"
"""The index's name in a table read from a CSV: the line of the file, so that a message can point at it."""

MOST_ROWS = 10_000_000
"""More rows are refused before they take a machine's memory: a report on so many takes 5 to 9 GB."""

# Rows at a time: few enough that their cells are still in the processor's cache when they are coded.
_BLOCK = 256


def load(path: Path) -> pd.DataFrame:
    """Return the cells of a CSV (UTF-8) or Parquet file of verdicts, not yet checked.

    Raises:
        StudyError: The file is missing, unreadable, too long, or no table.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        return _read_parquet(path)
    try:
        return _read_csv(path)
    except UnicodeDecodeError:
        raise StudyError(f"{path} is not UTF-8 ({_undecodable(path)}); save it as 'CSV UTF-8'") from None
    except OSError as error:
        raise StudyError(
            f"cannot read {path}: {error.strerror}; name a CSV or Parquet file of verdicts"
        ) from None


def places(found: list[int], word: str) -> str:
    """Return the first of some lines or rows by number, and how many there are besides."""
    shown = ", ".join(str(place) for place in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{word}{'s' if len(found) > 1 else ''} {shown}{more}"


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        _check_length(import_module("pyarrow.parquet").read_metadata(path).num_rows, path)
        return pd.read_parquet(path)
    except ImportError:
        raise StudyError(f"reading {path} needs pyarrow; run: pip install pyarrow, or give a CSV") from None
    except (OSError, ValueError) as error:  # pyarrow's errors for a file that is no Parquet are ValueErrors
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StudyError(
            f"cannot read {path} as Parquet: {why}; give a Parquet or CSV file of verdicts"
        ) from None


def _read_csv(path: Path) -> pd.DataFrame:
    """Read cells as they stand: a method called NA or 007 keeps its name, unlike in pandas' reader."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = _numbered(file, path)
        _, header = next(rows, (0, []))
        header = [name.strip() for name in header]
        _check_header(header, path)
        return _table(header, rows, path)


def _numbered(file: TextIO, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the lines they begin on; empty lines are no rows."""
    reader = csv.reader(file, strict=True)
    start = 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        ran_on = reader.line_num > start or "end of data" in str(error)
        hint = " (is a quotation mark left open?)" if ran_on else ""
        raise StudyError(f"{path}, line {start}: {error}{hint}; fix the CSV") from None


class _Places(dict[str, int]):
    """The texts of a column, numbered as they come."""

    def __missing__(self, text: str) -> int:
        self[text] = place = len(self)
        return place


def _table(header: list[str], numbered: Iterator[tuple[int, list[str]]], path: Path) -> pd.DataFrame:
    places_of = [_Places() for _ in header]
    codes: list[list[NDArray[np.int32]]] = [[] for _ in header]
    all_lines: list[NDArray[np.int64]] = []
    wrong: list[int] = []
    count = 0
    while block := list(islice(numbered, _BLOCK)):
        count += len(block)
        _check_length(count, path)
        wrong += [line for line, row in block if len(row) != len(header)]
        if wrong:
            continue
        lines, rows = zip(*block, strict=True)
        all_lines.append(np.array(lines, dtype=np.int64))
        for known, parts, cells in zip(places_of, codes, zip(*rows, strict=True), strict=True):
            parts.append(np.fromiter(map(known.__getitem__, cells), dtype=np.int32, count=len(cells)))
    if wrong:
        raise StudyError(
            f"{path}: not {len(header)} cells, as in the header, on {places(wrong, LINE)}; fix them"
        )
    index = pd.Index(np.concatenate(all_lines) if all_lines else [], dtype=np.int64, name=LINE)
    columns = {
        name: pd.Categorical.from_codes(_joined(parts), categories=pd.Index(list(known), dtype=object))
        for name, known, parts in zip(header, places_of, codes, strict=True)
    }
    return pd.DataFrame(columns, index=index)


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    joined = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
    parts.clear()
    return joined


def _check_header(header: list[str], path: Path) -> None:
    if len(header) == 1:
        for sign, name in ((";", "semicolons"), ("\t", "tabs")):
            if sign in header[0]:
                raise StudyError(f"{path}: its cells are separated by {name}; save it with commas")
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise StudyError(f"{path}: the column {repeated[0]!r} stands twice in the header; keep one")


def _check_length(rows: int, path: Path) -> None:
    if rows > MOST_ROWS:
        raise StudyError(
            f"{path} has more than {MOST_ROWS} rows, which are more than a report takes; give it one "
            "comparison, or a sample of the pairs"
        )


def _undecodable(path: Path) -> str:
    """Say where a file is no UTF-8."""
    before = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f"line {number}, byte {before + error.start}"
            before += len(line)
    return "at its end"
