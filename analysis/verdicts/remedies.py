"""What fixes a table that is nearly one of verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from analysis.verdicts.formats.sides import SHOWN, side_of
from analysis.verdicts.layout import KNOWN
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

PAIR_IDS = ("item_id", "item", "instance_id", "example_id", "question_id", "id")
"""Other names of the column pair_id."""
MOSTLY = 0.9
"""A column of verdicts names a method of its row, or a tie, in so many of its filled cells."""


def misnamed(missing: Sequence[str], names: Sequence[str]) -> str:
    """Say which columns look like missing ones: `Pair ID` for pair_id."""
    alike = {_plain(name): name for name in names}
    result = [f"--set 'columns.{name}={alike[_plain(name)]}'" for name in missing if _plain(name) in alike]
    return f"; name yours with: {' '.join(result)}" if result else ""


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def other_headings(frame: pd.DataFrame, missing: Collection[str]) -> str:
    """Return how a table with other headings, or with a column of verdicts for each criterion, is read."""
    holding = columns_of_verdicts(frame) if "verdict" in missing else []
    if len(holding) > 1:
        heads = "rater" if "rater" in missing and "criterion" not in missing else "criterion"
        needed = [name for name in missing if name not in {"verdict", "dataset", heads}]
        more = f"; it is read once it has {and_list(needed)}" if needed else ""
        return f"; it is wide, with verdicts in the columns {and_list(holding)}, one for each {heads}{more}"
    filled = {"verdict", "dataset", "criterion"} if set(missing) - {"dataset", "criterion"} else {"verdict"}
    named = [f"columns.{name}=HEADING" for name in missing if name not in filled]
    if holding:
        named.insert(0, f"columns.verdict={holding[0]}")
    return f"; say which of your headings they are: --set {' --set '.join(named)}" if named else ""


def columns_of_verdicts(frame: pd.DataFrame) -> list[str]:
    """Return the columns besides a tidy table's own whose cells are verdicts: methods, sides or ties."""
    group = [name for name in map(str, frame.columns) if name not in KNOWN and name not in SHOWN]
    methods = {"method_a", "method_b"} <= set(map(str, frame.columns))
    return [name for name in group if _holds_verdicts(frame, name, methods=methods)]


def _holds_verdicts(frame: pd.DataFrame, name: str, *, methods: bool) -> bool:
    cells = _cells(frame, name)
    filled = cells != ""
    known = {text: side_of(text) is not None for text in cells.unique()}
    words = cells.map(known)
    if methods:
        words |= (cells == _cells(frame, "method_a")) | (cells == _cells(frame, "method_b"))
    elif TIE in known and len(known.keys() - {TIE, ""}) <= 2:  # two methods, and ties
        words |= True
    return bool(filled.any()) and float((filled & words).sum()) >= MOSTLY * float(filled.sum())


def _cells(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name].astype(object).fillna("").astype(str).str.strip().str.casefold()
