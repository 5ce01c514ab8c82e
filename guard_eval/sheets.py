"""The rows of an XLSX workbook's sheet, as texts."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import datetime, time
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from guard_eval.errors import StudyError

MOST_BYTES = 2**29
"""A workbook that unpacks to more is refused: a few kilobytes can hold terabytes of nothing."""


def sheet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the filled rows of the one sheet that has any, the header first, with their numbers in the sheet.

    Raises:
        StudyError: openpyxl is missing, the file is no workbook, several sheets are filled, or a formula has
            no value or an error.
    """
    try:
        openpyxl: Any = import_module("openpyxl")
    except ImportError:
        raise StudyError(
            f"reading {path} needs openpyxl; run: pip install 'guard-eval[xlsx]', or save the sheet as "
            "'CSV UTF-8'"
        ) from None
    try:
        with zipfile.ZipFile(path) as packed:
            _check_size(path, sum(part.file_size for part in packed.infolist()))
        with path.open("rb") as file:  # of a path openpyxl judges by its ending
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            yield from _rows(_filled(book, path), path)
    except StudyError:  # a ValueError, too
        raise
    except (KeyError, ValueError, ParseError, zipfile.BadZipFile) as error:
        raise StudyError(
            f"cannot read {path} as XLSX: {error}; save the sheet as XLSX or 'CSV UTF-8'"
        ) from None


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise StudyError(f"{path} unpacks to more than 512 MiB; save the sheet as 'CSV UTF-8'")


def _filled(book: Any, path: Path) -> Any:  # noqa: ANN401 (openpyxl has no types)
    sheets = [sheet for sheet in book.worksheets if any(any(row) for _, row in _texts(sheet, path))]
    if len(sheets) != 1:
        names = ", ".join(repr(sheet.title) for sheet in sheets) or "none"
        raise StudyError(
            f"{path} must have one sheet with cells, and has {len(sheets)} ({names}); save the sheet that "
            "counts as a file of its own"
        )
    return sheets[0]


def _rows(sheet: Any, path: Path) -> Iterator[tuple[int, list[str]]]:  # noqa: ANN401 (openpyxl has no types)
    header: list[str] = []
    for number, row in _texts(sheet, path):
        while len(row) > len(header) and not row[-1]:  # cells that have a format and nothing else
            row.pop()
        if any(row):
            yield number, row + [""] * (len(header) - len(row))
            header = header or row


def _texts(sheet: Any, path: Path) -> Iterator[tuple[int, list[str]]]:  # noqa: ANN401 (openpyxl has no types)
    sheet.reset_dimensions()  # what a program wrote there need not be true
    formulas: frozenset[str] | None = None
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        empty = [cell.coordinate for cell in cells if cell.value is None and hasattr(cell, "coordinate")]
        if empty and formulas is None:
            formulas = _formulas(path, sheet.title)
        if found := formulas and formulas.intersection(empty):
            raise StudyError(
                f"{path}: the cell {min(found)} holds a formula without a value; open and save the file in a "
                "spreadsheet program, or write a value"
            )
        yield number, [_text(cell, path) for cell in cells]


def _formulas(path: Path, title: str) -> frozenset[str]:
    """Return the cells of a sheet that hold formulas, which openpyxl reads only in place of their values."""
    with path.open("rb") as file:
        sheet = import_module("openpyxl").load_workbook(file, read_only=True)[title]
        sheet.reset_dimensions()
        return frozenset(
            cell.coordinate for row in sheet.iter_rows() for cell in row if cell.data_type == "f"
        )


def _text(cell: Any, path: Path) -> str:  # noqa: ANN401 (openpyxl has no types)
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        raise StudyError(
            f"{path}: the cell {cell.coordinate} holds the error {value!r}; fix its formula or write a value"
        )
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())  # nor days: 2026-05-31 is the name that a CSV of the sheet would have
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a sheet has no whole numbers
    return str(value)
