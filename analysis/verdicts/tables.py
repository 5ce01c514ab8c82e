"""Any table of verdicts made tidy: its columns found, its shape made long, its words replaced by methods."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.columns import HEADINGS, NAMES, Columns, find_index, own_names, plain_heading
from analysis.verdicts.draft import METHODS, SHOWN, UNKNOWN_RATER, Declared, Draft, ItemCells
from analysis.verdicts.items import Items, find_items, pair_codes
from analysis.verdicts.layout import KNOWN, NESTED, name_lines
from analysis.verdicts.reading import READING, join_readings, reading_of
from analysis.verdicts.shapes import find_methods, find_verdicts, melt, refuse_texts
from analysis.verdicts.sides import Unblinder, read_first
from analysis.verdicts.words import is_model_name
from guard_eval.errors import StudyError, nearest
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

HEADS = "headings"
"""The key of `columns` that says what the headings of a wide table are."""
_KINDS = ("pair_id", "rater", "criterion")
_ROLES = (("dataset", "all"), ("criterion", "overall"))
"""Columns that a table may lack, and what their cells then say."""


def tidied(
    frame: pd.DataFrame,
    declared: Declared,
    items: ItemCells | None = None,
    fields: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return a table with a row a verdict and the columns' own names; `attrs` says what was read.

    Args:
        frame: The table.
        declared: What the user says of it.
        items: What another file says of items, by their ids.
        fields: The fields of a known format by role; no column has to be guessed then.

    Raises:
        StudyError: What a column or a word is cannot be told; the message has the setting that declares it.
    """
    if isinstance(frame.columns, pd.MultiIndex) or isinstance(frame.index, pd.MultiIndex):
        raise StudyError(
            "the table has several header rows or index columns (a MultiIndex); give it one header row: "
            "frame.stack(), frame.reset_index(), or join the parts of each heading"
        )
    columns = Columns(with_columns(frame, declared.columns))
    draft = Draft(columns=columns, declared=declared, items=items or {})
    is_melted = HEADS in declared.columns
    _use_own_names(draft, fields)
    _leave_out_votes(draft)
    find_methods(draft)
    for role in ("rater", "criterion"):
        _use_named(draft, role)
    _use_judges(draft)
    refuse_texts(draft)
    wide = find_verdicts(draft)
    if draft.has(*METHODS) and fields is None and not is_melted:
        _use_items(draft, wide)
    if wide or is_melted:
        melt(draft, wide)
        find_methods(draft)
    if draft.has("verdict", *METHODS):
        _finish(draft, is_known=fields is not None)
    _refuse_nested(draft, frame)
    _refuse_incomplete(draft)
    result = draft.frame
    result.attrs = {**frame.attrs, READING: join_readings([reading_of(frame), draft.reading()])}
    return result


def _refuse_incomplete(draft: Draft) -> None:
    """Refuse a table without methods or without verdicts."""
    why = ""
    if not draft.has(*METHODS) and draft.items:
        ids = and_list([*map(repr, list(draft.items)[:2]), "…"])
        why = f"no column has only ids of the file that names the methods ({ids}); write the same ids in both"
    elif not draft.has(*METHODS):
        why = (
            "nothing says which methods were compared. Say which columns do: --set columns.method_a=HEADING "
            "--set columns.method_b=HEADING. Or give a second file with the columns item, A and B and the "
            "methods in them, and name both files"
        )
    elif not draft.has("verdict"):
        why = (
            "no column has verdicts. Say which one does, and what its words mean: --set "
            "columns.verdict=HEADING --set 'verdicts.\"WORD\"=SIDE' (a, b, tie, a method, or nothing)"
        )
    if why:
        raise StudyError(why)


def _finish(draft: Draft, *, is_known: bool) -> None:
    """Replace words by methods, leave out what is no verdict, and fill in what the table lacks."""
    texts = draft.columns.texts(*METHODS).astype(object)
    is_same = (texts["method_a"] == texts["method_b"]).to_numpy()
    draft.leave_out(is_same, "a method compared with itself")
    Unblinder(draft).run()
    draft.leave_out(draft.frame["verdict"].isna().to_numpy(), "no verdict")
    if not draft.has("pair_id"):
        return
    for role, value in _ROLES:
        if not draft.has(role):
            draft.replace(draft.frame.assign(**{role: value}))
            draft.record(role, "", f"the table has none: it is called {value!r}")
    if not is_known:
        _settle_raters(draft)


def with_columns(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a table whose headings are renamed by the user's mapping.

    Raises:
        StudyError: A column is unknown, there twice, or the table lacks a heading.
    """
    names = list(map(str, frame.columns))
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StudyError(f"the table has the column {twice[0]!r} twice; keep one")
    declared = dict(columns)
    heads = declared.pop(HEADS, _KINDS[0])
    if heads not in _KINDS:
        raise StudyError(f"columns.headings={heads}: write {and_list(_KINDS)}")
    for name, heading in declared.items():
        if name not in {*KNOWN, *SHOWN}:
            raise StudyError(f"columns.{name}: there is no such column; {nearest(name, sorted(KNOWN))}")
        if heading and heading not in names:
            raise StudyError(f"columns.{name}={heading}: there is no such heading; {nearest(heading, names)}")
    headings = list(filter(None, declared.values()))
    new = {heading: name for name, heading in declared.items() if heading}
    if len(new) < len(headings):
        raise StudyError(f"columns names a heading twice: {', '.join(headings)}; name each once")
    # A column that is declared to be another one gives way.
    dropped = [name for name in names if name in declared and name not in new]
    return frame.set_axis(names, axis=1).drop(columns=dropped).rename(columns=new)


def _use_own_names(draft: Draft, fields: Mapping[str, str] | None) -> None:
    """Give columns their own names if their headings differ only in case, spaces and signs."""
    for role, column in (fields or {}).items():
        draft.record(role, column, "the format")
    index = find_index(draft.columns)
    if index is not None:
        draft.unused.append(f"{index or 'a column without a name'} (an index)")
        draft.replace(draft.frame.drop(columns=index))
    if "" in draft.columns.names:
        raise StudyError("column 1 has no name in the header; name it, or remove it")
    own = own_names(draft.columns.names)
    if twice := [name for name in own.values() if list(own.values()).count(name) > 1]:
        both = [heading for heading, name in own.items() if name == twice[0]]
        raise StudyError(f"{and_list(both)} are both {twice[0]}; keep one")
    declared = {name: heading for name, heading in draft.declared.columns.items() if heading}
    for heading, name in own.items() if fields is None else ():
        why = "declared" if name in declared else "its name"
        draft.record(name, declared.get(name, heading), why)
    draft.replace(draft.frame.rename(columns=own))


def _use_named(draft: Draft, role: str) -> None:
    """Use the column that is commonly called by another name of a role.

    Raises:
        StudyError: Two different columns can have the role.
    """
    if draft.has(role) or role in draft.declared.columns:
        return
    named = draft.columns.named(role)
    varying = [name for name in named if draft.columns.count(name) > 1] or named
    first = varying[:1]
    others = [
        name for name in varying[1:] if draft.columns.count(first[0], name) != draft.columns.count(name)
    ]
    others += [name for name in varying[1:] if draft.columns.count(first[0]) != draft.columns.count(name)]
    if others or (len(named) > 1 and varying == named and draft.columns.count(first[0]) < 2):
        listed = and_list(named)
        raise StudyError(f"{role} could be {listed}; say which: --set 'columns.{role}={named[0]}'")
    if first:
        draft.rename(first[0], role)


def _use_judges(draft: Draft) -> None:
    """Take raters for models if their heading calls them judges, and all have names of models."""
    heading = next((role.column for role in draft.roles if role.role == "rater"), "")
    is_said = draft.has("rater_kind") or draft.declared.rater_kind is not None
    if is_said or not plain_heading(heading).startswith("judge"):
        return
    if all(map(is_model_name, draft.columns.values("rater"))):
        draft.replace(draft.frame.assign(rater_kind="model"))
        draft.record("rater_kind", heading, "judges with names of models")


def _leave_out_votes(draft: Draft) -> None:
    """Leave out votes that were not blind, and answers that were rejected or are no answers."""
    for rule in HEADINGS["left_out"]:
        is_meant = re.compile(rule["cell"], re.IGNORECASE).fullmatch
        for name in draft.free():
            if re.fullmatch(rule["heading"], plain_heading(name)):
                words = [text for text in draft.columns.values(name) if is_meant(text.strip())]
                draft.leave_out(draft.columns.texts(name)[name].isin(words).to_numpy(), rule["why"])


def _use_items(draft: Draft, wide: Sequence[str]) -> None:
    """Give each row its pair, and its prompt if something names it."""
    columns = draft.columns
    rated = [name for name in (*METHODS, "rater", "criterion") if draft.has(name)]
    methods = {text for name in METHODS for text in columns.values(name)}
    free = [
        name
        for name in draft.free()
        if name not in wide
        and plain_heading(name) not in {*NAMES["presentation"], *HEADINGS["turns"]}
        and not set(columns.values(name)) <= {*methods, TIE}
        and read_first(columns, name) is None
    ]
    _write_items(draft, find_items(columns, rated=rated, free=free, declared=draft.declared))
    for name in [name for name in draft.columns.named("dataset") if name in draft.free()]:
        if not draft.has("dataset") and draft.columns.is_fixed_by(name, ["pair_id"]):
            draft.rename(name, "dataset")


def _write_items(draft: Draft, items: Items) -> None:
    """Write the columns pair_id and prompt_id."""
    columns = draft.columns
    new: dict[str, list[str] | pd.Series] = {}
    name = items.pair[0] if items.pair else ""
    is_made = len(items.pair) != 1
    if is_made:
        codes = pair_codes(columns, [name]) if name else np.arange(len(draft.frame))
        new["pair_id"] = _numbered(codes)
    elif name != "pair_id":
        new["pair_id"] = columns.texts(name)[name]
    if new:
        draft.record("pair_id", name, items.why)
    if items.prompt and items.prompt != "prompt_id":
        cells = columns.texts(items.prompt)[items.prompt]
        new["prompt_id"] = _numbered(columns.codes(items.prompt)) if is_made else cells
        draft.record("prompt_id", items.prompt, "pairs with the same cell share a prompt")
    dropped = [used for used in {name, items.prompt} if used in draft.free()]
    draft.replace(draft.frame.drop(columns=dropped).assign(**new))


def _numbered(codes: NDArray[np.int64]) -> list[str]:
    return [str(number + 1) for number in pd.factorize(codes)[0]]


def _settle_raters(draft: Draft) -> None:
    """Say who gave each verdict, and which verdicts are of other showings of a pair.

    Raises:
        StudyError: A pair has several verdicts, and nothing says whose they are.
    """
    if draft.has("rater"):
        if not draft.has("presentation"):
            _use_showings(draft, ["pair_id", "criterion", "rater"])
        return
    names = ["pair_id", "criterion"]
    raters: str | list[str] = UNKNOWN_RATER
    why = f"the table has none: all verdicts are by {UNKNOWN_RATER!r}"
    if "rater" in draft.declared.columns:
        numbers = pd.Series(pair_codes(draft.columns, names))
        raters = [f"{UNKNOWN_RATER} {number + 1}" for number in numbers.groupby(numbers).cumcount()]
        why = "declared: each verdict on a pair is by another, unnamed rater"
    else:
        _use_showings(draft, names)
    draft.replace(draft.frame.assign(rater=raters))
    draft.record("rater", "", why)


def _repeats(draft: Draft, *names: str) -> NDArray[np.bool_]:
    """Return the rows that share their methods and the cells of some columns with another row."""
    return pd.Series(pair_codes(draft.columns, names)).duplicated(keep=False).to_numpy()


def _use_showings(draft: Draft, names: Sequence[str]) -> None:
    """Take a repeated verdict for another showing of its pair, if a column or the order of methods says so.

    Raises:
        StudyError: Nothing does.
    """
    repeated = _repeats(draft, *names)
    if not repeated.any() or (draft.has("dataset") and not _repeats(draft, *names, "dataset").any()):
        return  # ids that repeat in several datasets are refused later
    for name in draft.columns.named("presentation"):
        if not _repeats(draft, *names, name).any():
            draft.rename(name, "presentation", "it tells apart the showings of a pair")
            return
    if not _repeats(draft, *names, "method_a").any():
        first = draft.columns.texts("method_a")["method_a"].astype(object)
        draft.replace(draft.frame.assign(presentation=first + " first"))
        draft.record("presentation", "", "a rater judged both orders of the methods")
        return
    lines = name_lines(repeated, draft.frame.index)
    parting = [
        name
        for name in draft.free()
        if 1 < draft.columns.count(name) < len(draft.frame) and not _repeats(draft, *names, name).any()
    ]
    if draft.has("rater"):
        rater, pair = draft.frame[["rater", "pair_id"]].iloc[int(repeated.argmax())]
        who = f"rater {rater!r} judged pair {pair!r} more than once"
        roles = ["criterion", "presentation"]
    else:
        who = "pairs have several verdicts, and no column is known to name the rater"
        roles = ["rater"]
    offers = [
        f"--set {shlex.quote(f'columns.{role}={name}')}"
        for name in parting
        for role in (["criterion"] if plain_heading(name) in HEADINGS["turns"] else roles)
    ]
    offers += [] if draft.has("rater") else ["--set columns.rater= if the raters were not recorded"]
    remedy = f"say what tells them apart: {' or '.join(offers)}" if offers else "keep the current verdict"
    raise StudyError(f"{who} ({lines}); {remedy}")


def _refuse_nested(draft: Draft, frame: pd.DataFrame) -> None:
    """Refuse a list or an object in a column that is read."""
    for name, where in frame.attrs.get(NESTED, {}).items():
        used = [role for role in draft.roles if name in role.column.split(", ")]
        if used or name in KNOWN:
            raise StudyError(
                f"{where}: {name} is a list or an object, and a cell of a table is a text or a number; take "
                "what is in it out, or see the formats that are read: docs/formats.md"
            )


def as_cell(value: object) -> str | None:
    """Return a value of JSON or of a data frame as the text of a cell; a list or an object is JSON."""
    if isinstance(value, str):
        return value or None
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return None
    if isinstance(value, dict | list):
        return json.dumps(value, default=str)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
