"""The files of a report: written together, and those that an earlier report left are taken away."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import clean, csv_of_escaped, escape_csv
from guard_eval.reporting.writing import write_whole

LIST = "files.txt"
"""Names every file of a report, so that a later one knows what was there."""
OURS = re.compile(r"(csv|figures|paper|prompts)/[A-Za-z0-9_-]+\.(bib|csv|svg|pdf|png|md|tex|txt)|report\.tex")
"""The files that a later report may take away; whatever else a list names is not touched."""


def as_json(facts: Mapping[str, Any], frames: Mapping[str, pd.DataFrame]) -> str:
    """Return every number of a report as JSON: the frames by name, a list of objects each."""
    tables = {name: [_plain(row) for row in frame.to_dict("records")] for name, frame in frames.items()}
    return json.dumps({**facts, "tables": tables}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:  # noqa: ANN401  any cell
    item = value.item() if isinstance(value, np.generic) else value
    if isinstance(item, str):
        return clean(item)
    if item is None or item is pd.NaT or (isinstance(item, float) and not math.isfinite(item)):
        return None
    return item if isinstance(item, int | float | bool) else clean(str(item))


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write `files`, by path within `folder`, and remove what an earlier report left that this one has not.

    Raises:
        StudyError: The folder cannot be written.
    """
    for name in reversed(list(files)):  # the page comes first: who sees a new one sees what it links to
        content = files[name]
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        write_whole(folder / name, data, make_folder=True)
    for name in _earlier(folder) - files.keys():
        (folder / name).unlink(missing_ok=True)
    listed = "".join(f"{name}\n" for name in sorted((*files, LIST)))
    write_whole(folder / LIST, listed.encode())
    return tuple(folder / name for name in (*files, LIST))


def _earlier(folder: Path) -> set[str]:
    """Return the files that the report in this folder says it has."""
    try:
        listed = (folder / LIST).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return set()
    return {name for name in listed if OURS.fullmatch(name)}


def verdicts_csv(frame: pd.DataFrame) -> bytes:
    """Return the verdicts as CSV, with the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")
    table.insert(0, "simulated", frame["rater_kind"].isin(SIMULATED))
    return frame_csv(table)


def frame_csv(frame: pd.DataFrame) -> bytes:
    """Return a frame as CSV that a spreadsheet takes for data throughout, and fast for a million rows."""
    columns = [_cells(frame[name]) for name in frame.columns]
    names = [escape_csv(str(name)) for name in frame.columns]
    return csv_of_escaped(chain([names], zip(*columns, strict=True))).encode()


def _cells(column: pd.Series) -> list[str]:
    """Return the column's cells escaped for CSV; each different value is escaped once."""
    if column.dtype == object and infer_dtype(column, skipna=True) != "string":
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
    item = value.item() if isinstance(value, np.generic) else value
    if item is None or item is pd.NA or item is pd.NaT or (isinstance(item, float) and math.isnan(item)):
        return ""
    return escape_csv(item if isinstance(item, str | int | float | bool) else str(item))
