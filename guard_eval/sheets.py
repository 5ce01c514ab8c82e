"""The rows of an XLSX workbook's sheet, as texts."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from guard_eval.errors import MissingExtraError, StudyError

MOST_BYTES = 2**29
"""A workbook that unpacks to more is refused: a few kilobytes can hold terabytes of nothing."""


def sheet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the filled rows of the one sheet that has any, the header first, with their numbers in the sheet.

    A formula counts with the value that a spreadsheet program stored.

    Raises:
        StudyError: openpyxl is missing, or the file is no workbook with one filled sheet and without errors.
    """
    import pandas as pd  # noqa: PLC0415 (a second, for files that are rarely workbooks)

    try:
        with zipfile.ZipFile(path) as packed:
            if sum(part.file_size for part in packed.infolist()) > MOST_BYTES:
                raise ValueError("it unpacks to more than 512 MiB")  # noqa: TRY301 (reworded below)
        book = pd.read_excel(path, sheet_name=None, header=None, dtype=str, keep_default_na=False)
        sheets = [sheet for sheet in book.values() if (sheet != "").to_numpy().any()]
        if len(sheets) != 1:
            raise ValueError(f"{len(sheets)} sheets have cells")  # noqa: TRY301 (reworded below)
    except ImportError:
        raise MissingExtraError("xlsx", "openpyxl") from None
    except (KeyError, ValueError, SyntaxError, zipfile.BadZipFile) as error:
        raise StudyError(f"cannot read one sheet of {path}: {error}; save one as 'CSV UTF-8'") from None
    sheet = sheets[0].loc[:, (sheets[0] != "").any()]  # columns that have a format and nothing else
    for number, cells in enumerate(sheet.to_numpy().tolist(), start=1):
        if not all(isinstance(cell, str) for cell in cells):
            raise StudyError(f"{path}: row {number} holds an error such as #N/A; fix its formula")
        if any(cells):
            yield number, [cell.removesuffix(" 00:00:00") for cell in cells]  # a date without a time
