"""Any table of verdicts made tidy: its columns found, its shape made long, its words replaced by methods."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.verdicts.columns import NAMES, NO, TURNS, YES, Columns, find_index, own_names, plain_heading
from analysis.verdicts.draft import METHODS, SHOWN, UNKNOWN_RATER, Draft
from analysis.verdicts.items import Items, find_items, pair_codes
from analysis.verdicts.layout import KNOWN, NESTED, name_lines
from analysis.verdicts.reading import READING, join_readings, reading_of
from analysis.verdicts.shapes import find_methods, find_verdicts, melt, refuse_texts
from analysis.verdicts.sides import Unblinder, read_first
from guard_eval.errors import StudyError, nearest
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

HEADINGS = "headings"
"""The key of `columns` that says what the headings of a wide table are."""
_HEADS = ("pair_id", "rater", "criterion")
_ROLES = (("dataset", "all"), ("criterion", "overall"))
"""Columns that a table may lack, and what their cells then say."""


def tidied(
    frame: pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    items: Mapping[str, Mapping[str, str]] | None = None,
    fields: Mapping[str, str] | None = None,
    groups: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a table with a row a verdict and the columns' own names; `attrs` says what was read.

    Args:
        frame: The table.
        columns: The user's headings by the column that they are; an empty one says that there is none.
        words: The user's verdicts: `a`, `b`, `tie`, a method, or empty for a missing one.
        items: What another file says of items, by their ids.
        fields: The fields of a known format by role; no column has to be guessed then.
        groups: Columns that name groups of pairs, and so neither pairs nor prompts.

    Raises:
        StudyError: What a column or a word is cannot be told; the message has the setting that declares it.
    """
    if isinstance(frame.columns, pd.MultiIndex) or isinstance(frame.index, pd.MultiIndex):
        raise StudyError(
            "the table has several header rows or index columns (a MultiIndex); give it one header row: "
            "frame.stack(), frame.reset_index(), or join the parts of each heading"
        )
    declared = dict(columns or {})
    named = with_columns(frame, declared)
    draft = Draft(columns=Columns(named), declared=declared, words=dict(words or {}), groups=groups)
    _use_own_names(draft, fields)
    _leave_out_votes(draft)
    find_methods(draft, items or {})
    for role in ("rater", "criterion"):
        _use_named(draft, role)
    refuse_texts(draft)
    wide = find_verdicts(draft)
    if draft.has(*METHODS) and fields is None and HEADINGS not in declared:
        _use_items(draft, wide)
    if wide or HEADINGS in declared:
        melt(draft, wide)
        find_methods(draft, items or {})
    if draft.has("verdict", *METHODS):
        _finish(draft, is_known=fields is not None)
    _refuse_nested(draft, frame)
    _refuse_incomplete(draft, items or {})
    result = draft.frame
    result.attrs = {**frame.attrs, READING: join_readings([reading_of(frame), draft.reading()])}
    return result


def _refuse_incomplete(draft: Draft, items: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse a table without methods or without verdicts."""
    if not draft.has(*METHODS) and items:
        ids = and_list([*map(repr, list(items)[:2]), *(["…"] if len(items) > 2 else [])])
        raise StudyError(
            f"no column has only ids of the file that names the methods ({ids}); write the same ids in both"
        )
    if not draft.has(*METHODS):
        raise StudyError(
            "nothing says which methods were compared. Say which columns do: --set columns.method_a=HEADING "
            "--set columns.method_b=HEADING. Or give a second file with the columns item, A and B and the "
            "methods in them: guard-eval report VERDICTS ITEMS"
        )
    if not draft.has("verdict"):
        raise StudyError(
            "no column has verdicts. Say which one does, and what its words mean: --set "
            "columns.verdict=HEADING --set 'verdicts.\"WORD\"=SIDE' (a, b, tie, a method, or nothing)"
        )


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
    names = [str(name) for name in frame.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StudyError(f"the table has the column {twice[0]!r} twice; keep one")
    if columns.get(HEADINGS, "pair_id") not in _HEADS:
        raise StudyError(f"columns.headings={columns[HEADINGS]}: write {and_list(_HEADS)}")
    new = {heading: name for name, heading in columns.items() if heading and name != HEADINGS}
    for name, heading in columns.items():
        if name not in {*KNOWN, *SHOWN, HEADINGS}:
            raise StudyError(f"columns.{name}: there is no such column; {nearest(name, sorted(KNOWN))}")
        if heading and name != HEADINGS and heading not in names:
            raise StudyError(f"columns.{name}={heading}: there is no such heading; {nearest(heading, names)}")
    headings = [heading for name, heading in columns.items() if heading and name != HEADINGS]
    if len(new) < len(headings):
        raise StudyError(f"columns names a heading twice: {', '.join(headings)}; name each once")
    dropped = [name for name in columns if name in names and name not in new and name != HEADINGS]
    return frame.drop(columns=dropped).set_axis(
        [new.get(name, name) for name in names if name not in dropped], axis=1
    )


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
    declared = {name: heading for name, heading in draft.declared.items() if heading}
    for heading, name in own.items() if fields is None else ():
        why = "declared" if name in declared else "its name"
        draft.record(name, declared.get(name, heading), why)
    draft.replace(draft.frame.rename(columns=own))


def _use_named(draft: Draft, role: str) -> None:
    """Use the column that is commonly called by another name of a role.

    Raises:
        StudyError: Two different columns can have the role.
    """
    if draft.has(role) or role in draft.declared:
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


_LEFT_OUT = [
    (re.compile(heading), re.compile(cell, re.IGNORECASE), why)
    for heading, cell, why in (
        ("(is)?(anony|anonymous|blind|blinded)", "|".join(NO), "the models' names were shown"),
        (
            "(is)?unblinded|(models?|(model)?names?|identity)(were|was)?(shown|revealed)",
            "|".join(YES),
            "the models' names were shown",
        ),
        (
            "deduptag(sampled)?",
            r""".*['"]sampled['"]:\s*false.*|false""",
            "a repeated prompt, left out by the Arena (dedup_tag)",
        ),
        ("(assignment)?status", "rejected", "the assignment was rejected"),
        ("reject", ".+", "the assignment was rejected"),
        ("status|distributionchannel", "(survey )?preview", "a preview of the survey"),
    )
]
"""Columns by their plain heading, the cells of votes that do not count, and the reason."""


def _leave_out_votes(draft: Draft) -> None:
    """Leave out votes that were not blind, and answers that were rejected or are no answers."""
    for heading, cell, why in _LEFT_OUT:
        for name in draft.free():
            if heading.fullmatch(plain_heading(name)):
                words = [text for text in draft.columns.values(name) if cell.fullmatch(text.strip())]
                draft.leave_out(draft.columns.texts(name)[name].isin(words).to_numpy(), why)


def _use_items(draft: Draft, wide: Sequence[str]) -> None:
    """Give each row its pair, and its prompt if something names it."""
    columns = draft.columns
    rated = [name for name in (*METHODS, "rater", "criterion") if draft.has(name)]
    methods = {text for name in METHODS for text in columns.values(name)}
    free = [
        name
        for name in draft.free()
        if name not in wide
        and plain_heading(name) not in {*NAMES["presentation"], *TURNS}
        and not set(columns.values(name)) <= {*methods, TIE}
        and read_first(columns, name) is None
    ]
    items = find_items(
        columns, methods=METHODS, rated=rated, free=free, declared=set(draft.declared), groups=draft.groups
    )
    _write_items(draft, items)
    for name in [name for name in draft.columns.named("dataset") if name in draft.free()]:
        if not draft.has("dataset") and draft.columns.is_fixed_by(name, ["pair_id"]):
            draft.rename(name, "dataset")


def _write_items(draft: Draft, items: Items) -> None:
    """Write the columns pair_id and prompt_id."""
    columns, frame = draft.columns, draft.frame
    new: dict[str, list[str] | pd.Series] = {}
    if not items.pair:
        new["pair_id"] = _numbered(np.arange(len(frame)))
        draft.record(
            "pair_id", "", items.why or "each row is a pair of its own: nothing names what was compared"
        )
    elif len(items.pair) > 1:
        new["pair_id"] = _numbered(pair_codes(columns, items.pair[:1], METHODS))
        draft.record("pair_id", items.pair[0], items.why)
    elif items.pair[0] != "pair_id":
        new["pair_id"] = columns.texts(items.pair[0])[items.pair[0]]
        draft.record("pair_id", items.pair[0], items.why)
    if items.prompt and items.prompt != "prompt_id":
        cells = columns.texts(items.prompt)[items.prompt]
        new["prompt_id"] = _numbered(columns.codes(items.prompt)) if len(items.pair) > 1 else cells
        draft.record("prompt_id", items.prompt, "pairs with the same cell share a prompt")
    dropped = [name for name in {*items.pair[:1], items.prompt} if name in draft.free()]
    draft.replace(frame.drop(columns=dropped).assign(**new))


def _numbered(codes: Sequence[int] | np.ndarray) -> list[str]:
    return [str(number + 1) for number in pd.factorize(np.asarray(codes))[0]]


def _settle_raters(draft: Draft) -> None:
    """Say who gave each verdict, and which verdicts are of other showings of a pair.

    Raises:
        StudyError: A pair has several verdicts, and nothing says whose they are.
    """
    has_rater = draft.has("rater")
    names = ["pair_id", "criterion", *(["rater"] if has_rater else [])]
    if not has_rater and draft.declared.get("rater") == "":
        codes = pair_codes(draft.columns, names[:1], METHODS) * (draft.columns.count("criterion") + 1)
        order = pd.Series(codes + draft.columns.codes("criterion")).groupby(codes).cumcount()
        raters = [f"{UNKNOWN_RATER} {number + 1}" for number in order]
        draft.replace(draft.frame.assign(rater=raters))
        draft.record("rater", "", "declared: each verdict on a pair is by another, unnamed rater")
        return
    repeated = _repeats(draft, names)
    if not has_rater:
        if repeated.any():
            _use_showings(draft, names, repeated)
        draft.replace(draft.frame.assign(rater=UNKNOWN_RATER))
        draft.record("rater", "", "the table has none: all verdicts are by 'unknown rater'")
    elif repeated.any() and not draft.has("presentation"):
        _use_showings(draft, names, repeated)


def _repeats(draft: Draft, names: Sequence[str]) -> np.ndarray:
    """Return the rows that share their pair, methods and the cells of some columns with another row."""
    codes = pair_codes(draft.columns, names[:1], METHODS)
    other = draft.columns.codes(*names[1:]) if len(names) > 1 else np.zeros(len(codes), dtype=np.int64)
    return pd.Series(codes * (int(other.max(initial=0)) + 1) + other).duplicated(keep=False).to_numpy()


def _use_showings(draft: Draft, names: Sequence[str], repeated: np.ndarray) -> None:
    """Take a repeated verdict for another showing of its pair, if a column or the order of methods says so.

    Raises:
        StudyError: Nothing does.
    """
    if draft.has("dataset") and not _repeats(draft, [*names, "dataset"]).any():
        return  # ids of their own in each dataset, which is refused later
    for name in draft.columns.named("presentation"):
        if not _repeats(draft, [*names, name]).any():
            draft.rename(name, "presentation", "it tells apart the showings of a pair")
            return
    if not _repeats(draft, [*names, "method_a"]).any():
        first = draft.columns.texts("method_a")["method_a"].astype(object)
        draft.replace(draft.frame.assign(presentation=first + " first"))
        draft.record("presentation", "", "a rater judged both orders of the methods")
        return
    lines = name_lines(repeated, draft.frame.index)
    parting = [
        name
        for name in draft.free()
        if 1 < draft.columns.count(name) < len(draft.frame) and not _repeats(draft, [*names, name]).any()
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
        for role in (["criterion"] if plain_heading(name) in TURNS else roles)
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
