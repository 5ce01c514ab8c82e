"""What is wrong with a database that another program, a disk or a stranger has changed.

It is looked for when something unexpected was raised, so that a command ends with a reason and a remedy.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any, get_args

from sqlalchemy import JSON, Boolean, Column, Engine, Float, Integer, LargeBinary, String, Table, select
from sqlalchemy.exc import DBAPIError

from guard_eval.records import CHOICES, NoteKind, RaterKind, Role
from guard_eval.store.schema import Converted, metadata

_TYPES: tuple[tuple[type, tuple[type, ...]], ...] = (
    (Boolean, (bool,)),
    (Integer, (int,)),
    (Float, (int, float)),
    (String, (str,)),
    (LargeBinary, (bytes,)),
    (JSON, (dict,)),
)
"""Which values a column of a type holds. A moment, which is not listed, is checked as it is read."""

_WORDS: dict[str, Collection[str]] = {
    "verdict.choice": CHOICES,
    "slot.first": ("a", "b"),
    "presentation.first": ("a", "b"),
    "presentation.role": get_args(Role),
    "rater.kind": get_args(RaterKind),
    "note.kind": get_args(NoteKind),
}
_TEXTS = {"comment", "problem", "skip"}
"""The kinds of notes whose detail is a text; all others hold an object of JSON."""


def find_damage(engine: Engine) -> str | None:
    """Return what an SQLite database holds that this package did not write; None if nothing is found."""
    try:
        with engine.connect() as db:
            answer = str(db.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one())
            if answer != "ok":
                return answer.replace("\n", ": ")
            rows = ((table, row) for table in metadata.sorted_tables for row in db.execute(select(table)))
            return next(filter(None, (_find_odd(table, row._asdict()) for table, row in rows)), None)
    except (DBAPIError, sqlite3.Error, ValueError, TypeError, ArithmeticError) as error:
        return f"a value cannot be read ({' '.join(str(getattr(error, 'orig', error)).split())})"


def _find_odd(table: Table, row: dict[str, Any]) -> str | None:
    for column in table.columns:
        value = row[column.name]
        name = f"{table.name}.{column.name}"
        is_missing = value is None
        if is_missing and column.nullable:
            continue
        if is_missing or not _fits(column, value) or value not in _WORDS.get(name, [value]):
            return f"{name} holds {value!a:.60}"
    if table.name == "note" and row["kind"] not in _TEXTS and not isinstance(json.loads(row["detail"]), dict):
        return f"note.detail holds {row['detail']!a:.60}"
    return None


def _fits(column: Column[Any], value: object) -> bool:
    """Return whether a value has the type of its column."""
    kind = column.type.impl if isinstance(column.type, Converted) else column.type
    types = next((types for base, types in _TYPES if isinstance(kind, base)), ())
    return not types or isinstance(value, types)
