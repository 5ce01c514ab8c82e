"""Any table or JSON whose columns have other names, whose verdicts are letters, or that is wide.

The notes say what is taken for what: a column's name, a letter's side, what a heading is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.encoding import aligned, are_strings, as_texts, text_series
from analysis.verdicts.formats.records import Source
from analysis.verdicts.formats.rows import table_of
from analysis.verdicts.formats.sides import SHOWN, SIDES, WORDS, names_field, says_sides_changed, side_of
from analysis.verdicts.layout import KNOWN, REMARKS
from analysis.verdicts.reading import LINE, Mask, where
from analysis.verdicts.remedies import PAIR_IDS, columns_of_verdicts
from guard_eval.errors import StudyError, nearest
from guard_eval.records import TIE
from guard_eval.reporting.escaping import unescape_csv
from guard_eval.reporting.words import and_list

NAME = "table"
WHAT = "a table of verdicts"

NAMES = {
    "pair_id": PAIR_IDS,
    "dataset": ("domain", "corpus", "category"),
    "prompt_id": ("source_id",),
    "rater": ("annotator", "annotator_id", "rater_id", "worker", "worker_id", "user", "user_id", "judge"),
    "criterion": ("aspect", "dimension", "attribute", "metric"),
    "verdict": ("winner", "preference", "choice", "preferred", "better"),
    "shown_first": ("first_shown",),
}
"""Other names of columns, which are read where the column itself is missing and one of them exists."""


def frame_of(source: Source) -> pd.DataFrame:
    """Return a file's cells as a table; a JSON value that is a list or an object is refused."""
    if source.table is not None:
        _check_plain(source.table, source)
        return _without_apostrophes(source.table)
    rows = (
        (index, {name: _text(value, name, source.at(index)) for name, value in record.items()})
        for index, record in source.records()
    )
    return table_of(rows, source.path, source.word, ())


def _check_plain(table: pd.DataFrame, source: Source) -> None:
    """Refuse a list or an object in a column that is read; others may hold what they like."""
    for name in [name for name in map(str, table.columns) if name in KNOWN and table[name].dtype == object]:
        for number, cell in enumerate(table[name]):
            if not pd.api.types.is_scalar(cell):
                _text(list(cell), name, source.at(number + 1))


def _text(value: object, name: str, where: str) -> str | None:
    if isinstance(value, dict | list):
        raise StudyError(
            f"{where}: {name} is {str(value)[:40]!r}, and a cell of a table is a text or a number; take what "
            "is in it out, or see the formats that are read: docs/formats.md"
        )
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def tidied(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns' own names, long, and its verdicts un-blinded; itself where it is so.

    Raises:
        StudyError: Two columns could be one that is missing, or a letter could mean two methods.
    """
    notes: list[str] = []
    result = _unblinded(_long(_renamed(_with_winners(frame, notes), notes), notes), notes)
    if notes:
        result.attrs = {**frame.attrs, REMARKS: [*frame.attrs.get(REMARKS, ()), *notes]}
    return result


def with_columns(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a table whose headings are renamed as the user says.

    Args:
        frame: The table.
        columns: Headings by the column that they are: `{"method_a": "System 1"}`.

    Raises:
        StudyError: A column is unknown, or the table lacks a heading.
    """
    names = [str(name) for name in frame.columns]
    for name, heading in columns.items():
        if name not in KNOWN and name not in SHOWN:
            raise StudyError(f"columns.{name}: there is no such column; {nearest(name, sorted(KNOWN))}")
        if heading not in names:
            raise StudyError(f"columns.{name}={heading}: there is no such heading; {nearest(heading, names)}")
    new = {heading: name for name, heading in columns.items()}
    if len(new) < len(columns):
        raise StudyError(f"columns names a heading twice: {', '.join(columns.values())}; name each once")
    kept = frame.drop(columns=[name for name in new.values() if name in names and name not in new])
    return kept.rename(columns=new)


WINNER = "winner"
"""The heading of the verdict in the field's plainest tables: model_a,model_b,winner and left,right,winner."""
PROMPTS = ("prompt_id", "prompt", "question", "instruction", "source_id")
"""Headings of the prompt in such tables, the first that there is."""


def _with_winners(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a table of winners with what such tables leave out: ids, the rater, sides as methods."""
    names = [str(name) for name in frame.columns]
    methods = [pair for pair in (*SIDES, SHOWN) if set(pair) <= set(names)]
    if WINNER not in names or {"verdict", "criterion", *SIDES[0]} & set(names) or len(methods) != 1:
        return frame
    (pair,) = methods
    new: dict[str, Any] = {}
    if pair == SHOWN:
        new |= {"method_a": frame["left"], "method_b": frame["right"]}
        notes.append("read as columns: 'left' as method_a, 'right' as method_b, the sides as shown")
    couples = [frame[name].astype(object).fillna("").astype(str) for name in pair]
    ids = [name for name in ("pair_id", *PAIR_IDS) if name in names]
    if len(ids) < 2:
        new |= _pairs_of(frame, ids, couples, notes)
    raters = [name for name in ("rater", *NAMES["rater"]) if name in names]
    if not raters:
        new["rater"] = ["unknown rater"] * len(frame)
        notes.append("there is no column rater: all verdicts are by 'unknown rater'")
    if "presentation" not in names and len(raters) < 2 and len(ids) < 2:
        who = frame[raters[0]] if raters else pd.Series(new["rater"])
        pairs = pd.Series(new.get("pair_id", frame[ids[0]] if ids else ""))
        seen = pd.MultiIndex.from_arrays([pairs.astype(str).to_numpy(), who.astype(str).to_numpy()])
        if seen.has_duplicates:
            new["presentation"] = (
                (couples[0] + " first").to_numpy() if raters else [str(n + 1) for n in range(len(frame))]
            )
    return frame.assign(**new) if new else frame


def _pairs_of(
    frame: pd.DataFrame, ids: Sequence[str], couples: Sequence[pd.Series], notes: list[str]
) -> dict[str, Any]:
    """Return the columns pair_id and prompt_id of a table that lacks them.

    An id that is one couple of methods' alone is that of the pair; else it is a prompt's.
    """
    first, second = couples
    kept = first <= second
    couple = [first.where(kept, second), second.where(kept, first)]

    def numbered(*keys: pd.Series) -> list[str]:
        texts = [key.astype(object).fillna("").astype(str).to_numpy() for key in keys]
        codes, _ = (
            pd.factorize(pd.MultiIndex.from_arrays(texts)) if len(texts) > 1 else pd.factorize(texts[0])
        )
        return [str(code + 1) for code in codes]

    if ids and len(set(numbered(frame[ids[0]], *couple))) == frame[ids[0]].nunique(dropna=False):
        return {}
    prompt = ids[0] if ids else next((name for name in PROMPTS if name in map(str, frame.columns)), None)
    if prompt is None:
        notes.append("there is no column pair_id or prompt_id: each row counts as a pair of its own")
        return {"pair_id": [str(number) for number in range(1, len(frame) + 1)]}
    notes.append(f"rows with the same {prompt} and the same two methods are one pair")
    named = {} if "prompt_id" in frame.columns else {"prompt_id": numbered(frame[prompt])}
    return {"pair_id": numbered(frame[prompt], *couple), **named}


def _without_apostrophes(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the apostrophe away by which a CSV keeps a spreadsheet from reading a formula (`escape_csv`)."""
    if frame.index.name != LINE:
        return frame
    changed = {}
    for name in frame.columns:
        column = frame[name]
        if not isinstance(column.dtype, pd.CategoricalDtype) or not are_strings(column.cat.categories):
            continue
        texts = list(column.cat.categories)
        plain = [unescape_csv(text) for text in texts]
        if len(set(plain)) < len(plain):
            return frame  # no program wrote it so, and a name is the same in all columns
        if plain != texts:
            changed[name] = column.cat.rename_categories(plain)
    if not changed:
        return frame
    names = and_list([repr(name) for name in sorted(changed)])
    note = f"an apostrophe before =, +, -, @ or white space is none of the text, in {names}"
    result = frame.assign(**changed)
    result.attrs = {**frame.attrs, REMARKS: [*frame.attrs.get(REMARKS, ()), note]}
    return result


def _renamed(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    names = [str(name) for name in frame.columns]
    new: dict[str, str] = {}
    if not {"method_a", "method_b"} & set(names):
        pairs = [pair for pair in SIDES if set(pair) <= set(names)]
        if len(pairs) > 1:
            listed = and_list([f"{a} and {b}" for a, b in pairs])
            raise StudyError(f"the methods could be {listed}; rename one of them to method_a and method_b")
        new.update({old: name for pair in pairs for old, name in zip(pair, SIDES[0], strict=True)})
    for name, others in NAMES.items():
        present = [] if name in names else [other for other in others if other in names]
        if len(present) > 1:
            raise StudyError(f"{name} could be {and_list(present)}; rename the column that is it to {name}")
        new.update(dict.fromkeys(present, name))
    # Without methods it is no table of verdicts, and what its columns mean would be a guess.
    if not new or not {"method_a", "method_b"} <= {*names, *new.values()}:
        return frame
    notes.append("read as columns: " + ", ".join(f"{old!r} as {name}" for old, name in new.items()))
    return frame.rename(columns=new)


def _long(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a wide table long, and a missing dataset or criterion filled in, where there are methods."""
    names = {str(name) for name in frame.columns}
    if not {"pair_id", "method_a", "method_b"} <= names:
        return frame
    missing = [name for name in ("criterion", "rater") if name not in names]
    if "verdict" not in names:
        columns = columns_of_verdicts(frame)
        if len(missing) != 1 or not columns:
            return frame
        frame = _melted(frame, columns, missing[0], notes)
    elif missing == ["criterion"]:
        notes.append("there is no column criterion: it is called 'overall'")
        frame = frame.assign(criterion=pd.Categorical(["overall"] * len(frame)))
    if "dataset" not in names and {"rater", "criterion"} <= set(frame.columns):
        notes.append("there is no column dataset: it is called 'all'")
        frame = frame.assign(dataset=pd.Categorical(["all"] * len(frame)))
    return frame


def _melted(frame: pd.DataFrame, columns: list[str], heads: str, notes: list[str]) -> pd.DataFrame:
    kept = frame.drop(columns=columns)
    parts, empty = [], 0
    _check_alike(frame, columns)
    notes += _left_aside(kept)
    for name in columns:
        verdicts = as_texts(frame[name])
        filled = verdicts.notna()
        empty += int((~filled).sum())
        part = kept[filled].copy()
        part[heads] = name
        part["verdict"] = text_series(verdicts, frame.index)[filled]
        parts.append(part)
    long = pd.concat(parts)
    if long.index.name is None:
        long.index = long.index + 1
        long.index.name = "row"
    notes.append(
        f"it is wide: the heading{'s' if columns[1:] else ''} {and_list([repr(name) for name in columns])} "
        f"{'are' if columns[1:] else 'is'} read as {heads}"
        + (f", {empty} empty cells as no verdicts" if empty else "")
    )
    return long


def _check_alike(frame: pd.DataFrame, columns: list[str]) -> None:
    """Refuse sides under some headings and methods under others: the latter may say who was on which side."""
    sides = {name: [side_of(text) for text in as_texts(frame[name]).categories] for name in columns}
    lettered = [name for name in columns if any(sides[name])]
    other = [name for name in columns if set(sides[name]) == {None}]
    if lettered and other:
        raise StudyError(
            f"the column {lettered[0]!r} has sides ({WORDS}), and {other[0]!r} has methods: if it says which "
            "text was first, call it shown_first, or left and right; if not, write methods in both"
        )


def _left_aside(kept: pd.DataFrame) -> list[str]:
    """Return which columns hold some verdicts, and yet too much else to be read as such."""
    notes = []
    for name in [name for name in map(str, kept.columns) if name not in KNOWN and name not in SHOWN]:
        column = as_texts(kept[name])
        words = column.isin([text for text in column.categories if side_of(text) is not None])
        if words.any():
            notes.append(
                f"the column {name!r} is not read, since only {words.sum()} of its {column.notna().sum()} "
                "cells are verdicts"
            )
    return notes


def _unblinded(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a table whose letters are methods: A is that of the column left, or else that of method_a."""
    names = {str(name) for name in frame.columns}
    if not {"method_a", "method_b", "verdict"} <= names:
        return frame
    shown = names >= set(SHOWN)
    by = SHOWN if shown else SIDES[0]
    verdict, a, b, first, second = aligned(*(as_texts(frame[name]) for name in ("verdict", *SIDES[0], *by)))
    side_by_text = {text: side for text in verdict.categories if (side := side_of(text)) is not None}
    lettered = verdict.isin(list(side_by_text)) & (verdict != a) & (verdict != b) & ~verdict.isin([TIE])
    if not lettered.any():
        return frame
    index = frame.index if frame.index.name else pd.RangeIndex(1, len(frame) + 1, name="row")
    words = sorted(verdict[lettered].unique())
    odd = [text for methods in (a, b) for text in methods.unique() if text in side_by_text]
    if shown and all(side_by_text[word] == 0 or word.casefold() in SHOWN for word in words):
        odd = [text for text in odd if side_by_text[text] == 0 or text.casefold() in SHOWN]  # no method A
    if odd:
        raise StudyError(
            f"the verdict {verdict[lettered][0]!r} on {where(lettered, index)} may name a side, or the "
            f"method {odd[0]!r}; rename that method"
        )
    sided = lettered & ~verdict.isin([text for text, side in side_by_text.items() if side == 0])
    if shown:
        other = lettered & a.notna() & b.notna()
        other &= ~(((first == a) & (second == b)) | ((first == b) & (second == a)))
        if other.any():
            raise StudyError(
                f"left and right are not the row's methods on {where(other, index)}; name the same"
            )
        fields = verdict.isin([text for text in verdict.categories if names_field(text)])
        _check_fields(verdict, fields & sided & (first != a), index)
    else:
        _check_other_sides(frame[sided], index[sided])
    if "shown_first" in names:
        _check_first(frame, sided, index, by[0])
    elif shown:
        frame = frame.assign(shown_first=frame[SHOWN[0]])
    notes.append(
        f"the verdicts {and_list(words)} are read by the columns {by[0]} and {by[1]} of their row"
        + ("" if sided.any() else ", as ties")
    )
    means = [
        sided & verdict.isin([text for text, side in side_by_text.items() if side == wanted])
        for wanted in (1, -1)
    ]
    texts = [text_series(column, frame.index).to_numpy() for column in (first, second, verdict)]
    return frame.assign(verdict=np.select([*means, lettered], [texts[0], texts[1], TIE], texts[2]))


def _check_fields(verdict: pd.Categorical, named: Mask, index: pd.Index) -> None:
    """Refuse verdicts such as model_a in rows whose left text is the other method's."""
    if named.any():
        raise StudyError(
            f"the verdict {verdict[named][0]!r} on {where(named, index)} may be the column's method, or that "
            "of the side; write the methods' names"
        )


def _check_other_sides(frame: pd.DataFrame, index: pd.Index) -> None:
    """Refuse letters if a column of another name may say that sides changed."""
    for name in [name for name in map(str, frame.columns) if name not in KNOWN]:
        cells, a, b = aligned(*(as_texts(frame[column]) for column in (name, *SIDES[0])))
        changed = cells.isin([text for text in cells.categories if says_sides_changed(name, text)])
        if len(cells) and ((cells == a) | (cells == b)).all():  # it names a method of each row
            changed |= cells != a
        if changed.any():
            raise StudyError(
                f"the verdict on {where(changed, index)} is a side ({WORDS}), and the column {name!r} may "
                "say that sides changed there; write the methods' names, or columns left and right with the "
                "methods as shown"
            )


def _check_first(frame: pd.DataFrame, sided: Mask, index: pd.Index, first_side: str) -> None:
    """Refuse letters in rows whose first text shown is not that of the first side: they could mean either."""
    columns = ("shown_first", *SIDES[0], first_side)
    first, a, b, side = aligned(*(as_texts(frame[name]) for name in columns))
    letters = [first.isin([text for text in first.categories if text.casefold() == item]) for item in "ab"]
    named = np.select(letters, [a.codes, b.codes], first.codes)
    other = sided & first.notna() & (named != side.codes)
    if other.any():
        raise StudyError(
            f"the verdict on {where(other, index)} is a side ({WORDS}), which may be that of the text shown "
            "first or that of the column; write the methods' names"
        )
