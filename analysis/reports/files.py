"""The files of a report: written together, and those that an earlier report left are taken away."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.reports.columns import with_simulated
from analysis.reports.context import Context
from analysis.verdicts.encoding import are_strings
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import Cell, clean, csv_of_escaped, escape_csv
from guard_eval.reporting.tables import Table

LIST = "files.txt"
"""Names every file of a report, so that a later one knows what was there."""
OURS = re.compile(r"(csv|figures|paper|prompts)/[A-Za-z0-9_-]+\.(bib|csv|svg|pdf|png|tex|txt)")
"""The files that a later report may take away; whatever else a list names is not touched."""


def numbers(context: Context, summary: str, tables: Mapping[str, Table]) -> str:
    """Return every number of a report as JSON: the tables of csv/ by name, a list of objects each."""
    whole = {
        "name": context.name,
        "question": context.question,
        "answer": summary,
        "composite": None if context.composite is None else dict(context.composite.weights),
        "exploratory_because": list(context.why_exploratory),
        "seed": context.seed,
        "study_hash": context.study_hash,
        "study_hash_at_first_verdict": context.stored_hash,
        "versions": dict(context.versions),
        "tables": {name: _objects(table) for name, table in tables.items()},
    }
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _objects(table: Table) -> list[dict[str, Cell]]:
    return [{name: _value(cell) for name, cell in zip(table.columns, row, strict=True)} for row in table.rows]


def _value(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return clean(cell)
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write `files`, by path within `folder`, and remove what an earlier report left that this one has not.

    Raises:
        StudyError: The folder cannot be written.
    """
    try:
        for part in {str(Path(name).parent) for name in files}:
            (folder / part).mkdir(parents=True, exist_ok=True)
        for name in _earlier(folder) - files.keys():
            (folder / name).unlink(missing_ok=True)
        listed = "".join(f"{name}\n" for name in sorted((*files, LIST)))
        for name, content in {**files, LIST: listed}.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    except OSError as error:
        raise StudyError(
            f"cannot write the report to {folder}: {error.strerror}; name another folder"
        ) from error
    return tuple(folder / name for name in (*files, LIST))


def _earlier(folder: Path) -> set[str]:
    """Return the files that the report in this folder says it has."""
    try:
        listed = (folder / LIST).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return set()
    return {name for name in listed if OURS.fullmatch(name)}


def frame_csv(frame: pd.DataFrame, *, simulated: pd.Series | bool) -> bytes:
    """Return what `tables.to_csv` makes of `columns.frame_table`, and fast for a million rows."""
    table = with_simulated(frame, simulated=simulated)
    columns = [_cells(table[name]) for name in table.columns]
    names = [escape_csv(str(name)) for name in table.columns]
    return csv_of_escaped(chain([names], zip(*columns, strict=True))).encode()


def _cells(column: pd.Series) -> list[str]:
    """Return the column's cells escaped for CSV; each different value is escaped once."""
    if column.dtype == object and not are_strings(column):
        return [_cell(value) for value in column.tolist()]
    if column.dtype == float:
        codes, bits = pd.factorize(column.to_numpy().view(np.int64))  # as numbers, 0.0 and −0.0 would be one
        values = bits.view(np.float64).tolist()
    else:
        codes, index = pd.factorize(column)
        values = index.tolist()
    texts = [*map(_cell, values), ""]  # the last place is that of −1, an empty cell
    return [texts[code] for code in codes.tolist()]


def _cell(value: object) -> str:
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    return escape_csv(value if isinstance(value, str | int | float | bool) else str(value))
