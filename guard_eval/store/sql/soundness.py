"""Find damage that another program, a disk or a stranger has caused in a database.

The search starts after an unexpected error, so that the command can end with a reason and a remedy.
"""

import json
import sqlite3
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import get_args

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from guard_eval.records import CHOICES, JsonObject, NoteKind, RaterKind, Role
from guard_eval.store.sql.sqlite_files import SchemaColumn, read_columns, select_all

_KINDS: dict[str, type | tuple[type, ...]] = {
    "BIGINT": int,
    "BOOLEAN": int,
    "BYTEA": bytes,
    "DOUBLE PRECISION": (int, float),
    "INTEGER": int,
    "JSON": dict,
    "TEXT": str,
    "TIMESTAMPTZ": datetime,
    "VARCHAR": str,
}
"""The Python type of the values in a column of each type."""

_WORDS: dict[str, Collection[str]] = {
    "verdict.choice": CHOICES,
    "slot.first": ("a", "b"),
    "presentation.first": ("a", "b"),
    "presentation.role": get_args(Role),
    "rater.kind": get_args(RaterKind),
    "note.kind": get_args(NoteKind),
}
_TEXTS = {"comment", "problem", "skip"}
"""The kinds of notes whose detail is plain text. The other kinds contain a JSON object."""


def find_damage(engine: Engine) -> str | None:
    """Describe a value in an SQLite database that this package did not write; None if there is none."""
    try:
        with engine.connect() as db:
            answer = str(db.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one())
            if answer != "ok":
                return answer.replace("\n", ": ")
            for table, columns in read_columns().items():
                for row in select_all(table)(db):
                    if odd := _find_invalid_value(table, columns, row._asdict()):
                        return odd
            return None
    except (DBAPIError, sqlite3.Error, ValueError, TypeError, ArithmeticError) as error:
        return f"a value cannot be read ({' '.join(str(getattr(error, 'orig', error)).split())})"


def _find_invalid_value(table: str, columns: Sequence[SchemaColumn], row: JsonObject) -> str | None:
    for column in columns:
        value = row[column.name]
        name = f"{table}.{column.name}"
        if value is None and not column.is_required:
            continue
        kind = _KINDS[column.type.partition("(")[0]]
        if not isinstance(value, kind) or value not in _WORDS.get(name, [value]):
            return f"{name} holds {value!a:.60}"
    if table == "note" and row["kind"] not in _TEXTS and not isinstance(json.loads(row["detail"]), dict):
        return f"note.detail holds {row['detail']!a:.60}"
    return None
