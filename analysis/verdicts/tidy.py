"""The tidy table of verdicts: one row per verdict, checked before anything is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from analysis.verdicts import validation
from analysis.verdicts.encoding import as_texts, text_series
from analysis.verdicts.formats.recognition import load_files
from analysis.verdicts.formats.records import NUMBERED
from analysis.verdicts.formats.tables import tidied, with_columns
from analysis.verdicts.layout import NUMBERS, REMARKS, REQUIRED, TEXTS
from analysis.verdicts.reading import DECIMAL_COMMA, where
from analysis.verdicts.remedies import misnamed, other_headings
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind

Source = Path | str | pd.DataFrame
"""A file of verdicts, or a data frame with a row per verdict."""


def read(
    source: Source | Sequence[Path | str],
    *,
    rater_kind: RaterKind | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    form: str | None = None,
) -> pd.DataFrame:
    """Return the validated verdicts of a data frame or of files, in any format that docs/formats.md lists.

    Tables are CSV with any usual delimiter, gzipped or not, Parquet, XLSX and JSON. Several files are read as
    one table; a file of Potato's or Label Studio's items is read for their annotations.

    Args:
        source: A data frame, a file's path, or several paths.
        rater_kind: Who judged, where the table does not say; by default it is unknown.
        columns: The headings of tables by the column that they are: `{"method_a": "System 1"}`.
        form: The format of the files, one of `FORMATS`; by default that of their first records.

    Raises:
        StudyError: A file is missing, unreadable or not a valid table of verdicts; the message names the
            lines.
    """
    if isinstance(source, pd.DataFrame):
        return validate(tidied(with_columns(source, columns)), rater_kind=rater_kind)
    if isinstance(source, Path | str):
        source = [source]
    if not isinstance(source, Sequence) or not all(isinstance(path, Path | str) for path in source):
        kind = type(source).__name__
        raise StudyError(f"verdicts are a data frame or the path of a file, and this is a {kind}")
    tables = [
        _validated(frame, path, rater_kind)
        for path, frame in load_files([Path(path) for path in source], form=form, columns=columns)
    ]
    if len(tables) == 1:
        return tables[0]
    whole = pd.concat([table.astype(object) for table in tables], ignore_index=True)
    whole.attrs[REMARKS] = list(dict.fromkeys(note for table in tables for note in remarks(table)))
    try:
        return validate(whole)
    except StudyError as error:
        raise StudyError(f"{', '.join(map(str, source))} together: {error}") from None


def _validated(frame: pd.DataFrame, path: Path, rater_kind: RaterKind | None) -> pd.DataFrame:
    try:
        return validate(frame, rater_kind=rater_kind)
    except StudyError as error:
        text = str(error)
        raise StudyError(text if str(path) in text else f"{path}: {text}") from None


def validate(frame: pd.DataFrame, *, rater_kind: RaterKind | None = None) -> pd.DataFrame:
    """Return a checked copy of `frame`: texts as str, numbers as float, `rater_kind` filled in.

    `shown_first` may name a method or say a/b for method_a/method_b; the copy names methods. Each comparison
    has one order in it (`orient`), and `remarks` holds what a reader must be warned of.

    Args:
        frame: A row per verdict.
        rater_kind: Who judged, where the table does not say; by default it is unknown.

    Raises:
        StudyError: What is wrong, on which lines (of the CSV) or rows (from 1), and the remedy.
    """
    names = [str(name) for name in frame.columns]
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise StudyError(
            f"the verdicts lack the column(s) {', '.join(missing)}; a table of verdicts has "
            f"{', '.join(REQUIRED)}{misnamed(missing, names) or other_headings(frame, missing)}"
        )
    if frame.empty:
        raise StudyError("there are no verdicts: the table has a header and no rows")
    index = frame.index if frame.index.name in NUMBERED else pd.RangeIndex(1, len(frame) + 1, name="row")
    texts = {name: as_texts(frame[name]) for name in TEXTS if name in frame.columns}
    comma = bool(frame.attrs.get(DECIMAL_COMMA))
    numbers = {name: _as_number(frame[name], index, comma=comma) for name in NUMBERS if name in names}
    validation.check_filled(texts, REQUIRED, index)
    result = validation.spelling(texts, index)
    validation.check_methods(texts, index)
    if rater_kind is None:
        validation.refuse_unnamed_models(texts, index)
    texts["rater_kind"] = validation.kinds(texts, index, rater_kind)
    validation.check_consistent(texts, index)
    if "shown_first" in texts:
        texts["shown_first"] = validation.shown_first(texts, index)
    validation.check_duplicates(texts, index)
    result += validation.prompt_hints(texts, index)
    columns = {
        name: text_series(texts[name], index)
        if name in texts
        else numbers[name]
        if name in numbers
        else _as_it_stands(frame[name], index)
        for name in dict.fromkeys((*frame.columns, "rater_kind"))
    }
    table = orient(pd.DataFrame(columns, index=index))
    table.attrs[REMARKS] = list(dict.fromkeys((*remarks(frame), *result)))
    return table


def remarks(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what `validate` found that a reader of the table must be warned of."""
    return tuple(frame.attrs.get(REMARKS, ()))


def orient(frame: pd.DataFrame, planned: tuple[tuple[str, str, str], ...] | None = None) -> pd.DataFrame:
    """Return `frame` with each comparison always the same way round; itself where that is so.

    The two methods are in the order of `planned`; otherwise as in the whole table; otherwise in
    alphabetical order. Where methods change places so do all columns NAME_a and NAME_b; verdicts and the text
    shown first name methods, and stay.
    """
    wanted = {(a, b) for a, b, _ in planned or ()}
    names = ["method_a", "method_b"]
    pairs = list(frame[names].drop_duplicates().itertuples(index=False, name=None))
    seen = set(pairs)
    flip = [(a, b) not in wanted and ((b, a) in wanted or ((b, a) in seen and a > b)) for a, b in pairs]
    turned = np.array(flip, dtype=bool)[frame.groupby(names, sort=False).ngroup().to_numpy()]
    if not turned.any():
        return frame
    table = frame.copy()
    for left in [name for name in map(str, table.columns) if name.endswith("_a")]:
        right = f"{left[:-1]}b"
        if right in table.columns:
            first, second = table[left].copy(), table[right].copy()
            table[left] = first.where(~turned, second)
            table[right] = second.where(~turned, first)
    return table


def _as_number(column: pd.Series, index: pd.Index, *, comma: bool) -> pd.Series:
    """Return numbers; `comma`: where no cell has a point, a comma is a decimal one.

    Raises:
        StudyError: A cell is no number, or every comma may as well separate thousands: 1,500.
    """
    texts = as_texts(column)
    cells = pd.Series(texts.categories, dtype=object).str.strip()
    if comma and not cells.str.contains(".", regex=False).any():
        commas = cells.str.contains(",", regex=False)
        if commas.any() and cells[commas].str.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+").all():
            grouped = texts.isin(texts.categories[commas.to_numpy()])
            raise StudyError(
                f"{column.name} is {cells[commas].iloc[0]!r} on {where(grouped, index)}, whose "
                "comma may be a decimal one or separate thousands; write a point for it, or leave it out"
            )
        cells = cells.str.replace(",", ".", regex=False)
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float)
    wrong = texts.isin(texts.categories[~np.isfinite(numbers)])
    if wrong.any():
        raise StudyError(
            f"{column.name} is not a number ({texts[np.argmax(wrong)]!r}) on "
            f"{where(wrong, index)}; write a number or leave it empty"
        )
    return pd.Series(np.append(numbers, np.nan)[texts.codes], index=index)


def _as_it_stands(column: pd.Series, index: pd.Index) -> pd.Series:
    """Return a column that no analysis reads."""
    plain = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    return plain.set_axis(index)
