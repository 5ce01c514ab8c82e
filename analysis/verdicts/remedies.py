"""What fixes a table that is nearly one of verdicts: lines of Python to paste, with its own names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd

from analysis.verdicts.reading import SOURCE
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

MOSTLY = 0.9
"""A column of verdicts names a method of its row, or a tie, in so many of its filled cells."""


def misnamed(missing: Sequence[str], names: Sequence[str]) -> str:
    """Say which columns look like missing ones: `Pair ID` for pair_id."""
    alike = {_plain(name): name for name in names}
    found = [f"{alike[_plain(name)]!r} to {name!r}" for name in missing if _plain(name) in alike]
    return f"; rename {and_list(found)}" if found else ""


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def wide(frame: pd.DataFrame, missing: Collection[str], known: Collection[str]) -> str:
    """Return how a table with a column of verdicts for each criterion or rater is made long, if it is one."""
    if "verdict" not in missing or {"method_a", "method_b"}.intersection(missing):
        return ""
    own = [name for name in map(str, frame.columns) if name not in known]
    holding = [name for name in own if _holds_verdicts(frame, name)]
    if not holding:
        return ""
    rows = [name for name in ("criterion", "rater") if name in missing]
    if len(holding) == 1 and len(rows) != 1:
        return f"; the column {holding[0]!r} holds verdicts: rename it to 'verdict'"
    kept = [name for name in map(str, frame.columns) if name not in holding]
    heads = rows[0] if rows else "criterion"
    melt = (
        f"melt(id_vars={kept!r}, value_vars={holding!r}, var_name={heads!r}, value_name='verdict')"
        ".replace('', None).dropna(subset=['verdict'])"
    )
    other = [f"{name}='all'" for name in rows[1:]]
    also = [f"{name}='all'" for name in ("dataset",) if name in missing]
    if added := ", ".join((*other, *also)):
        melt += f".assign({added})"
    hint = " (if each column is a rater, exchange the words criterion and rater)" if other else ""
    return (
        f"; it is wide, with verdicts in the column{'s' if holding[1:] else ''} {and_list(holding)}, one for "
        f"each {heads}{hint}. Make it long:\n{_program(frame, melt, '-long')}"
    )


def _holds_verdicts(frame: pd.DataFrame, name: str) -> bool:
    cells, a, b = (
        frame[column].astype(object).fillna("").astype(str).str.strip().str.casefold()
        for column in (name, "method_a", "method_b")
    )
    filled = cells != ""
    named = filled & ((cells == a) | (cells == b) | (cells == TIE))
    return bool(filled.any()) and float(named.sum()) >= MOSTLY * float(filled.sum())


def unique_ids(frame: pd.DataFrame) -> str:
    """Return how ids that repeat across datasets are made unique."""
    change = "assign(pair_id=lambda t: t['dataset'].astype(str) + '/' + t['pair_id'].astype(str))"
    return f"The same ids stand in several datasets; make them unique:\n{_program(frame, change, '-unique')}"


def _program(frame: pd.DataFrame, change: str, ending: str) -> str:
    """Return the lines that make `change` to a table, or to the file that it is read from."""
    source = frame.attrs.get(SOURCE)
    if source is None:
        return f"  table = table.{change}"
    stem = Path(source).name.removesuffix(".gz").rsplit(".", 1)[0]
    return (
        "  from analysis.verdicts.reading import load\n"
        f"  table = load({source!r}).astype(object).{change}\n"
        f"  table.to_csv({f'{stem}{ending}.csv'!r}, index=False)"
    )
