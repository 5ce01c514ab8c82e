"""Read the rows of an XLSX workbook as texts."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.files.opening import LARGEST_RATIO, UNPACKED_FREELY

LARGEST_WORKBOOK = 2**27
"""The largest unpacked size of a workbook, in bytes."""
_LARGEST_FORMATS = 2**22
"""The largest size in bytes of a workbook's part without cells, such as formats, names or relations."""
_MOST_ROWS = 2**20
_MOST_CELLS = 2**24

Row = tuple[int, list[str]]
"""The number of a row, and the cells of the row."""


def read_sheet_rows(path: Path, data: bytes) -> Iterator[Row]:
    """Yield the filled rows of a workbook's only filled sheet, with their row numbers in the sheet.

    For a formula, use the value that a spreadsheet program stored.

    Raises:
        StudyError: openpyxl is missing, the file is not a workbook, several or no sheets have filled rows, or
            a cell has an error.
    """
    try:
        _check_sizes(data)
        options = {"read_only": True, "data_only": True, "keep_links": False}
        book: Any = import_module("openpyxl").load_workbook(BytesIO(data), **options)
        filled = [rows for sheet in book.worksheets if (rows := _read_filled_rows(sheet))]
        if len(filled) != 1:
            raise ValueError(f"{len(filled)} sheets have filled cells, and one sheet is needed")  # noqa: TRY301 (reworded below)
    except ImportError:
        raise MissingExtraError("xlsx", "openpyxl") from None
    except (KeyError, ValueError, TypeError, SyntaxError, EOFError, zipfile.BadZipFile) as error:
        raise StudyError(f"cannot read one sheet of {path}: {error}; save one as 'CSV UTF-8'") from None
    rows = filled[0]
    used = sorted({column for _, cells in rows for column, cell in enumerate(cells) if cell})
    for number, cells in rows:
        if None in cells:
            raise StudyError(f"{path}: row {number} has an error such as #N/A; fix the formula of that cell")
        width = len(cells)
        yield number, [str(cells[column]) if column < width else "" for column in used]


def _check_sizes(data: bytes) -> None:
    """Check the unpacked size of a workbook. A few kilobytes can unpack to gigabytes."""
    with zipfile.ZipFile(BytesIO(data)) as packed:
        parts = packed.infolist()
    allowed = min(LARGEST_WORKBOOK, max(UNPACKED_FREELY, LARGEST_RATIO * len(data)))
    if sum(member.file_size for member in parts) > allowed:
        raise ValueError(f"the file unpacks to more than {allowed >> 20} MiB")
    for member in parts:
        holds_cells = member.filename.startswith(("xl/worksheets/", "xl/sharedStrings", "xl/media/"))
        if member.file_size > _LARGEST_FORMATS and not holds_cells:
            raise ValueError(f"{member.filename} unpacks to more than {_LARGEST_FORMATS >> 20} MiB")


def _read_filled_rows(sheet: Any) -> list[tuple[int, list[str | None]]]:  # noqa: ANN401 (openpyxl has no types)
    """Return the rows of a sheet that have a filled cell. A cell with an error becomes None."""
    sheet.reset_dimensions()  # the size that a file declares may be wrong
    rows, count = [], 0
    for number, cells in enumerate(sheet.rows, start=1):
        count += len(cells)
        if number > _MOST_ROWS or count > _MOST_CELLS:
            raise ValueError(f"a sheet has more than {_MOST_ROWS:,} rows or {_MOST_CELLS:,} cells")
        words = [_format_cell(cell) for cell in cells]
        if any(word != "" for word in words):
            rows.append((number, words))
    return rows


def _format_cell(cell: Any) -> str | None:  # noqa: ANN401 (openpyxl has no types)
    """Return the text of a cell as a spreadsheet shows it, or None for an error."""
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).removesuffix(" 00:00:00")  # a date without a time
