"""Any table or JSON whose columns have other names, whose verdicts are letters, or that is wide.

The notes say what is taken for what: a column's name, a letter's side, what a heading is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.encoding import TextCodes, are_strings, recoded, text_codes
from analysis.verdicts.formats.records import Source
from analysis.verdicts.formats.rows import VerdictRows
from analysis.verdicts.formats.sides import SHOWN, SIDES, WORDS, names_field, says_sides_changed, side_of
from analysis.verdicts.layout import KNOWN, REMARKS
from analysis.verdicts.reading import LINE, places
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
    rows = VerdictRows(columns=())
    for place, record in source.records():
        for name in [name for name in record if name not in rows.columns]:
            rows.add_column(name)
        rows.add(place, **{name: _text(value, name, source.at(place)) for name, value in record.items()})
    return rows.table(source.path, source.word)


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
    found = _unblinded(_long(_renamed(_with_winners(frame, notes), notes), notes), notes)
    if notes:
        found.attrs = {**frame.attrs, REMARKS: [*frame.attrs.get(REMARKS, ()), *notes]}
    return found


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
    found = frame.assign(**changed)
    found.attrs = {**frame.attrs, REMARKS: [*frame.attrs.get(REMARKS, ()), note]}
    return found


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
        codes = text_codes(frame[name])
        filled = codes.codes >= 0
        empty += int((~filled).sum())
        part = kept[filled].copy()
        part[heads] = name
        part["verdict"] = codes.series(frame.index)[filled]
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
    sides = {name: [side_of(text) for text in text_codes(frame[name]).texts] for name in columns}
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
        column = text_codes(kept[name])
        word = np.array([*(side_of(text) is not None for text in column.texts), False])[column.codes]
        if word.any():
            notes.append(
                f"the column {name!r} is not read, since only {word.sum()} of its "
                f"{(column.codes >= 0).sum()} cells are verdicts"
            )
    return notes


def _unblinded(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a table whose letters are methods: A is that of the column left, or else that of method_a."""
    names = {str(name) for name in frame.columns}
    if not {"method_a", "method_b", "verdict"} <= names:
        return frame
    shown = names >= set(SHOWN)
    by = SHOWN if shown else SIDES[0]
    columns = [text_codes(frame[name]) for name in ("verdict", *SIDES[0], *by)]
    (verdict, a, b, first, second), texts = recoded(columns)
    sides = np.array([2 if (side := side_of(text)) is None else side for text in (*texts, "?")])[verdict]
    tie = texts.index(TIE) if TIE in texts else -2
    lettered = (verdict >= 0) & (verdict != a) & (verdict != b) & (verdict != tie) & (sides != 2)
    if not lettered.any():
        return frame
    index = frame.index if frame.index.name else pd.RangeIndex(1, len(frame) + 1, name="row")
    word = str(index.name)
    words = {texts[code] for code in verdict[lettered]}
    odd = [text for column in columns[1:3] for text in column.texts if side_of(text) is not None]
    if shown and all(
        side_of(word) == 0 or word.casefold() in SHOWN for word in words
    ):  # which no method A is called
        odd = [text for text in odd if side_of(text) == 0 or text.casefold() in SHOWN]
    if odd:
        raise StudyError(
            f"the verdict {texts[verdict[lettered][0]]!r} on {places(list(index[lettered]), word)} may "
            f"name a side, or the method {odd[0]!r}; rename that method"
        )
    sided = lettered & (sides != 0)
    if shown:
        other = lettered & ~(((first == a) & (second == b)) | ((first == b) & (second == a)))
        if other.any():
            raise StudyError(
                f"left and right are not the row's methods on {places(list(index[other]), word)}; name the "
                "same"
            )
        named = np.array([*(names_field(text) for text in texts), False])[verdict] & sided & (first != a)
        if named.any():
            raise StudyError(
                f"the verdict {texts[verdict[named][0]]!r} on {places(list(index[named]), word)} may be the "
                "column's method, or that of the side; write the methods' names"
            )
    else:
        _check_other_sides(frame[sided], index[sided])
    if "shown_first" in names:
        _check_first(frame, sided, index, by[0])
    elif shown:
        frame = frame.assign(shown_first=frame[SHOWN[0]])
    plain = (*texts, TIE)
    codes = np.select(
        [lettered & (sides == 1), lettered & (sides == -1), lettered], [first, second, len(texts)], verdict
    )
    found = sorted({texts[code] for code in verdict[lettered]})
    notes.append(
        f"the verdicts {and_list(found)} are read by the columns {by[0]} and {by[1]} of their row"
        + ("" if sided.any() else ", as ties")
    )
    new = TextCodes(codes=codes.astype(np.int64), texts=tuple(plain))
    return frame.assign(verdict=new.series(frame.index).to_numpy())


def _check_other_sides(frame: pd.DataFrame, index: pd.Index) -> None:
    """Refuse letters where a column of another name may say that sides changed."""
    for name in [name for name in map(str, frame.columns) if name not in KNOWN]:
        column = text_codes(frame[name])
        changed = np.array([*(says_sides_changed(name, text) for text in column.texts), False])[column.codes]
        (cells, a, b), _ = recoded([column, *(text_codes(frame[side]) for side in SIDES[0])])
        if len(cells) and ((cells == a) | (cells == b)).all():  # it names a method of each row
            changed |= cells != a
        if changed.any():
            found = places(list(index[changed]), str(index.name))
            raise StudyError(
                f"the verdict on {found} is a side ({WORDS}), and the column {name!r} may say that sides "
                "changed there; write the methods' names, or columns left and right with the methods as shown"
            )


def _check_first(frame: pd.DataFrame, sided: np.ndarray, index: pd.Index, first_side: str) -> None:
    """Refuse letters in rows whose first text shown is not that of the first side: they could mean either."""
    columns = [text_codes(frame[name]) for name in ("shown_first", *SIDES[0], first_side)]
    (first, a, b, side), texts = recoded(columns)
    letters = [np.array([*(text.casefold() == one for text in texts), False])[first] for one in "ab"]
    other = sided & (first >= 0) & (np.select(letters, [a, b], first) != side)
    if other.any():
        raise StudyError(
            f"the verdict on {places(list(index[other]), str(index.name))} is a side ({WORDS}), which may "
            "be that of the text shown first or that of the column; write the methods' names"
        )
