"""The tidy table of verdicts: one row per verdict, checked before anything is counted."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import get_args

import pandas as pd

from guard_eval.errors import StudyError
from guard_eval.records import TIE, RaterKind

REQUIRED = ("pair_id", "dataset", "method_a", "method_b", "rater", "criterion", "verdict")
TEXTS = (*REQUIRED, "rater_kind", "presentation", "slot", "shown_first", "at")
NUMBERS = ("seconds", "active_seconds", "length_a", "length_b")
KINDS: tuple[str, ...] = get_args(RaterKind)
DEFAULT_KIND = "person"
LINE = "line"
"""The index's name in a table read from a CSV: the line of the file, so that a message can point at it."""


def read(path: Path) -> pd.DataFrame:
    """Return the validated verdicts of a CSV (UTF-8) or Parquet file.

    Raises:
        StudyError: The file is missing, unreadable or not a valid table of verdicts; the message names the
            lines.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        return validate(_read_parquet(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not UTF-8 (byte {error.start}); save it as 'CSV UTF-8'") from None
    except OSError as error:
        raise StudyError(
            f"cannot read {path}: {error.strerror}; name a CSV or Parquet file of verdicts"
        ) from None
    return validate(_from_csv(text, path))


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise StudyError(f"reading {path} needs pyarrow; run: pip install pyarrow, or give a CSV") from None
    except (OSError, ValueError) as error:  # pyarrow's errors for a file that is no Parquet are ValueErrors
        raise StudyError(
            f"cannot read {path} as Parquet: {error}; give a Parquet or CSV file of verdicts"
        ) from None


def _from_csv(text: str, path: Path) -> pd.DataFrame:
    """Read cells as they stand: a method called NA or 007 keeps its name, unlike in pandas' reader."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = next(reader, [])
        start = reader.line_num + 1
        for row in reader:
            if row:
                rows.append(row)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise StudyError(f"{path}, line {reader.line_num}: {error}; mend the CSV") from None
    header = [name.strip() for name in header]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise StudyError(f"{path}: the column {repeated[0]!r} stands twice in the header; keep one")
    wrong = [line for line, row in zip(lines, rows, strict=True) if len(row) != len(header)]
    if wrong:
        raise StudyError(
            f"{path}: not {len(header)} cells, as in the header, on {_places(wrong, LINE)}; mend them"
        )
    return pd.DataFrame(rows, columns=pd.Index(header), index=pd.Index(lines, name=LINE), dtype=object)


def validate(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a checked copy of `frame`: texts as str, numbers as float, `rater_kind` filled in.

    `shown_first` may name a method or say a/b for method_a/method_b; the copy names methods.

    Raises:
        StudyError: What is wrong, on which lines (of the CSV) or rows (from 1), and the remedy.
    """
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        raise StudyError(
            f"the verdicts lack the column(s) {', '.join(missing)}; a table of verdicts has "
            f"{', '.join(REQUIRED)}"
        )
    if frame.empty:
        raise StudyError("there are no verdicts: the table has a header and no rows")
    table = frame.copy()
    if table.index.name != LINE:
        table.index = pd.RangeIndex(1, len(table) + 1, name="row")
    for name in TEXTS:
        if name in table.columns:
            table[name] = _as_text(table[name])
    for name in NUMBERS:
        if name in table.columns:
            table[name] = _as_number(table[name])
    _check_filled(table)
    _check_methods(table)
    table["rater_kind"] = _kinds(table)
    _check_consistent(table)
    if "shown_first" in table.columns:
        table["shown_first"] = _shown_first(table)
    _check_duplicates(table)
    return table


def orient(frame: pd.DataFrame, planned: tuple[tuple[str, str, str], ...] | None = None) -> pd.DataFrame:
    """Return `frame` with each comparison always the same way round.

    A comparison stands as `planned` has it; otherwise as the table has it throughout; otherwise in
    alphabetical order.
    """
    table = frame.copy()
    wanted = {(a, b) for a, b, _ in planned or ()}
    seen = set(zip(table["method_a"], table["method_b"], strict=True))
    flip = {
        (a, b) for a, b in seen if (a, b) not in wanted and ((b, a) in wanted or ((b, a) in seen and a > b))
    }
    turned = pd.Series(
        [pair in flip for pair in zip(table["method_a"], table["method_b"], strict=True)], index=table.index
    )
    for left, right in (("method_a", "method_b"), ("length_a", "length_b")):
        if left in table.columns and right in table.columns:
            first, second = table[left].copy(), table[right].copy()
            table[left] = first.where(~turned, second)
            table[right] = second.where(~turned, first)
    return table


def _as_text(column: pd.Series) -> pd.Series:
    values = [None if pd.isna(value) or str(value).strip() == "" else str(value) for value in column]
    return pd.Series(values, index=column.index, dtype=object)


def _as_number(column: pd.Series) -> pd.Series:
    filled = column.where(column.astype(str).str.strip() != "")
    numbers = pd.to_numeric(filled, errors="coerce").astype(float)
    wrong = numbers.isna() & filled.notna()
    if wrong.any():
        example = column[wrong].iloc[0]
        raise StudyError(
            f"{column.name} is not a number ({example!r}) on {_where(wrong)}; write a number or leave "
            "it empty"
        )
    return numbers


def _check_filled(table: pd.DataFrame) -> None:
    for name in REQUIRED:
        empty = table[name].isna()
        if empty.any():
            raise StudyError(f"{name} is empty on {_where(empty)}; fill it in or remove the row")


def _check_methods(table: pd.DataFrame) -> None:
    same = table["method_a"] == table["method_b"]
    if same.any():
        raise StudyError(
            f"a method is compared with itself on {_where(same)}; method_a and method_b must differ"
        )
    called_tie = (table["method_a"] == TIE) | (table["method_b"] == TIE)
    if called_tie.any():
        raise StudyError(
            f"a method is called {TIE!r} on {_where(called_tie)}; that word is the verdict; rename it"
        )
    named = (
        (table["verdict"] == table["method_a"])
        | (table["verdict"] == table["method_b"])
        | (table["verdict"] == TIE)
    )
    if not named.all():
        first = table[~named].iloc[0]
        raise StudyError(
            f"the verdict {first['verdict']!r} names no method of its pair on {_where(~named)}; "
            f"write {first['method_a']!r}, {first['method_b']!r} or {TIE!r}"
        )


def _kinds(table: pd.DataFrame) -> pd.Series:
    if "rater_kind" not in table.columns:
        return pd.Series(DEFAULT_KIND, index=table.index, dtype=object)
    kinds = table["rater_kind"].fillna(DEFAULT_KIND)
    unknown = ~kinds.isin(KINDS)
    if unknown.any():
        value = kinds[unknown].iloc[0]
        raise StudyError(
            f"rater_kind {value!r} is unknown on {_where(unknown)}; write one of: {', '.join(KINDS)}"
        )
    return kinds


def _check_consistent(table: pd.DataFrame) -> None:
    for key, value, remedy in (
        ("pair_id", "dataset", "give each pair one dataset"),
        ("rater", "rater_kind", "give each rater one kind; people and models are never counted together"),
    ):
        several = table.groupby(key)[value].transform("nunique") > 1
        if several.any():
            name = table.loc[several, key].iloc[0]
            raise StudyError(f"the {key} {name!r} has more than one {value} ({_where(several)}); {remedy}")


def _shown_first(table: pd.DataFrame) -> pd.Series:
    """Name the method shown first: a cell may say it, or say a or b."""
    named: list[str | None] = []
    wrong: list[bool] = []
    for value, a, b in zip(table["shown_first"], table["method_a"], table["method_b"], strict=True):
        method = {None: None, a: a, b: b}.get(value, {"a": a, "b": b}.get(str(value).lower()))
        named.append(method)
        wrong.append(method is None and value is not None)
    if any(wrong):
        bad = pd.Series(wrong, index=table.index)
        value = table.loc[bad, "shown_first"].iloc[0]
        raise StudyError(
            f"shown_first {value!r} names no method of its pair on {_where(bad)}; write the method, a or b"
        )
    return pd.Series(named, index=table.index, dtype=object)


def _check_duplicates(table: pd.DataFrame) -> None:
    low = table[["method_a", "method_b"]].min(axis=1)
    high = table[["method_a", "method_b"]].max(axis=1)
    key = table[["pair_id", "rater", "criterion"]].assign(low=low, high=high)
    if "presentation" in table.columns:
        key["presentation"] = table["presentation"]
    twice = key.duplicated(keep=False)
    if twice.any():
        first = table[twice].iloc[0]
        who = f"rater {first['rater']!r} judged pair {first['pair_id']!r} on {first['criterion']!r}"
        raise StudyError(
            f"{who} more than once ({_where(twice)}); keep the current verdict, or tell showings apart in a "
            "column 'presentation'"
        )


def _where(mask: pd.Series) -> str:
    return _places([int(place) for place in mask.index[mask]], str(mask.index.name))


def _places(places: list[int], word: str) -> str:
    shown = ", ".join(str(place) for place in places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return f"{word}{'s' if len(places) > 1 else ''} {shown}{more}"
