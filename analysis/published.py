"""A published table of percentages, audited: which cells cannot be shares of the number of verdicts stated.

What is read is a CSV with a header: words that name a row, and percentages (or shares from 0 to 1) as
printed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from analysis.core.grim import Grim, consistent, fitting_sizes
from guard_eval.errors import StudyError
from guard_eval.escaping import one_line

MOST_ROWS = 2000
"""Rows of a table as papers print them; with more it is another kind of file."""
WORDS = 2
"""Columns of words that name a row."""
LIMIT = 1000
"""The largest number of verdicts tried for a row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRow:
    """One row and what it can rest on.

    Attributes:
        line: Its line in the file.
        name: Its words.
        printed: Its percentages.
        n: Verdicts it is said to rest on.
        grim: Which of its cells, and whether all of them together, can be shares of n.
        total: The sum of its percentages.
        totals: Whether they can sum to 100 but for rounding; None where they need not.
        fits: Every number of verdicts up to the limit that fits the row.
    """

    line: int
    name: str
    printed: tuple[Decimal, ...]
    n: int
    grim: Grim
    total: Decimal
    totals: bool | None
    fits: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedTable:
    """A table's rows with how it was read.

    Attributes:
        columns: The columns of percentages.
        decimals: Decimals of a percentage, as printed.
        shares: Whether the file has shares from 0 to 1; here they are percentages.
        rows: In the file's order.
        limit: The largest number of verdicts tried.
    """

    columns: tuple[str, ...]
    decimals: int
    shares: bool
    rows: tuple[PublishedRow, ...]
    limit: int

    @property
    def impossible(self) -> tuple[PublishedRow, ...]:
        """Return the rows that cannot be what they are said to be."""
        return tuple(row for row in self.rows if not row.grim.possible)

    @property
    def fits(self) -> tuple[int, ...]:
        """Return every number of verdicts up to the limit that fits all rows."""
        common = set.intersection(*(set(row.fits) for row in self.rows))
        return tuple(sorted(common))


def read_published(
    path: Path,
    *,
    n: str,
    columns: Sequence[str] = (),
    decimals: int | None = None,
    whole: bool = True,
    half_steps: bool = False,
    limit: int = LIMIT,
) -> PublishedTable:
    """Return the audit of a CSV of percentages.

    Args:
        path: The file, UTF-8.
        n: The number of verdicts a row rests on, or the column that says it.
        columns: The columns of percentages; without any, all whose cells are numbers from 0 to 100.
        decimals: Decimals printed; None for the most that any cell shows.
        whole: A row's percentages are all there is (wins, ties, losses), so that they sum to 100.
        half_steps: A tie counts half for either method.
        limit: The largest number of verdicts to try.

    Raises:
        StudyError: The file or an argument is not what it should be.
    """
    header, lines = _read(path)
    at, fixed = _column_of_n(n, header, path)
    chosen = tuple(columns) or _found(header, lines, leave_out=n)
    for name in chosen:
        if name not in header:
            raise StudyError(f"{path} has no column {name!r}; it has {', '.join(header)}")
    if not chosen:
        raise StudyError(f"{path} has no column of numbers from 0 to 100; name them with --columns")
    places = [header.index(name) for name in chosen]
    cells = [
        [_number(row[place], chosen[i], line, path) for i, place in enumerate(places)] for line, row in lines
    ]
    shown = max(max(0, -_exponent(cell)) for row in cells for cell in row)
    shares = shown > 0 and all(cell <= 1 for row in cells for cell in row)
    if shares:
        cells, shown = [[cell.scaleb(2) for cell in row] for row in cells], shown - 2
    if shown < 0:
        raise StudyError(f"{path}: shares with one decimal are too coarse to say anything; two are needed")
    if decimals is not None and decimals < shown:
        raise StudyError(
            f"{path} shows {shown} decimal(s) and --decimals says {decimals}; give {shown} or more"
        )
    digits = shown if decimals is None else decimals
    whole = whole and len(chosen) > 1
    words = [place for place in range(len(header)) if place not in places and place != at]
    rows = tuple(
        _row(
            cells[number],
            line=line,
            name=one_line(", ".join(row[place] for place in words[:WORDS] if row[place])),
            n=fixed if at is None else _count(row[at], line, path),
            decimals=digits,
            whole=whole,
            half_steps=half_steps,
            limit=limit,
        )
        for number, (line, row) in enumerate(lines)
    )
    return PublishedTable(columns=chosen, decimals=digits, shares=shares, rows=rows, limit=limit)


def _row(
    cells: Sequence[Decimal],
    *,
    line: int,
    name: str,
    n: int,
    decimals: int,
    whole: bool,
    half_steps: bool,
    limit: int,
) -> PublishedRow:
    total = sum(cells, Decimal(0))
    # Each cell may be off by half a unit of its last place.
    rounding = Decimal(len(cells)).scaleb(-decimals) / 2
    totals = abs(total - 100) <= rounding if whole else None
    return PublishedRow(
        line=line,
        name=name,
        printed=tuple(cells),
        n=n,
        grim=consistent(cells, n, decimals, half_steps=half_steps, whole=whole),
        total=total,
        totals=totals,
        fits=fitting_sizes(cells, decimals, limit=limit, half_steps=half_steps, whole=whole),
    )


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not UTF-8 (byte {error.start}); save it as 'CSV UTF-8'") from None
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}; name a CSV of percentages") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise StudyError(f"{path}, line {reader.line_num}: {error}; mend the CSV") from None
    if {"pair_id", "verdict"} <= set(header):
        raise StudyError(
            f"{path} is a table of verdicts, not of percentages; audit it with: guard-eval report {path}"
        )
    if len(set(header)) < len(header):
        raise StudyError(f"{path}: a column stands twice in the header ({', '.join(header)}); keep one")
    if not lines:
        raise StudyError(f"{path} has no rows; give a header and a row of percentages for each result")
    if len(lines) > MOST_ROWS:
        raise StudyError(f"{path} has {len(lines)} rows; a published table has at most {MOST_ROWS}: split it")
    for line, row in lines:
        if len(row) != len(header):
            raise StudyError(
                f"{path}, line {line}: {len(row)} cells, and the header has {len(header)}; mend it"
            )
    return header, lines


def _column_of_n(n: str, header: Sequence[str], path: Path) -> tuple[int | None, int]:
    """Return the column that holds n, or None and n itself."""
    if n in header:
        return header.index(n), 0
    if n.isascii() and n.isdigit() and int(n) > 0:
        return None, int(n)
    raise StudyError(
        f"--n {n!r} is no positive whole number and no column of {path}; give the number of verdicts a row "
        f"rests on, or a column: {', '.join(header)}"
    )


def _count(text: str, line: int, path: Path) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise StudyError(f"{path}, line {line}: n is {text!r}; write a positive whole number")


def _found(
    header: Sequence[str], lines: Sequence[tuple[int, list[str]]], *, leave_out: str
) -> tuple[str, ...]:
    """Return the columns whose cells are all numbers from 0 to 100."""
    return tuple(
        name
        for place, name in enumerate(header)
        if name != leave_out and all(_is_percentage(row[place]) for _, row in lines)
    )


def _is_percentage(text: str) -> bool:
    value = _parsed(text)
    return value is not None and 0 <= value <= 100


def _parsed(text: str) -> Decimal | None:
    try:
        value = Decimal(text.removesuffix("%").strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _number(text: str, column: str, line: int, path: Path) -> Decimal:
    value = _parsed(text)
    if value is None or not 0 <= value <= 100:
        raise StudyError(
            f"{path}, line {line}: {column} is {text!r}; write a percentage from 0 to 100, with a decimal "
            "point"
        )
    if -_exponent(value) > 12:
        raise StudyError(f"{path}, line {line}: {column} is {text!r}, with more than 12 decimals; round it")
    return value


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)  # finite
    return exponent
