"""Choose the SQLite file to read, check that it contains a study, and find damage in it.

A study may be on read-only storage, and its database may come from a stranger.
"""

import json
import shutil
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, get_args

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, JsonObject, NoteKind, RaterKind, Role
from guard_eval.store.sql.schema import TABLE_NAMES, Query, query, write_schema_statements

LONGEST_ID = 1000
"""The longest allowed id, in characters. Every verdict repeats ids, so long ids could fill the memory."""

_COLUMNS = 'SELECT name, type, dflt_value, hidden, "notnull" FROM pragma_table_xinfo(?)'

_UNWRITABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}

_LONG_NAMES = f"""
SELECT 'pair' FROM pair
WHERE max(length(id), length(dataset), length(prompt_id), length(method_a), length(method_b)) > {LONGEST_ID}
UNION ALL
SELECT 'rater' FROM rater WHERE max(length(name), ifnull(length(external_id), 0)) > {LONGEST_ID}
"""  # noqa: S608 (a constant)


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
"""The Python type of a column's values, by the column's SQL type."""

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


def is_storage_error(error: BaseException | None) -> bool:
    """Return whether SQLite could not write the files that even a reader needs beside a database."""
    code = getattr(error, "sqlite_errorcode", 0)  # the low byte is the kind of error
    return isinstance(error, sqlite3.Error) and code & 0xFF in _UNWRITABLE


def can_open_database(file: Path) -> bool:
    """Return False if SQLite cannot write its files beside the database. Other errors are ignored."""
    try:
        with closing(sqlite3.connect(file)) as probe:
            probe.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error as error:
        return not is_storage_error(error)
    return True


def make_read_only_uri(file: Path) -> str:
    """Return the URI with which SQLite reads a database without writing files beside it."""
    return f"{file.absolute().as_uri()}?immutable=1"


def find_database_logs(file: Path) -> list[Path]:
    """Return the logs beside a database. After a program was killed, the logs contain the newest changes."""
    logs = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
    return [path for path in logs if path.exists() and path.stat().st_size]


def copy_database(file: Path, logs: Sequence[Path]) -> TemporaryDirectory[str]:
    """Copy a database and its logs into a new folder, under the same name.

    Raises:
        StudyError: The database cannot be copied.
    """
    try:
        scratch = TemporaryDirectory(prefix="guard-eval-", ignore_cleanup_errors=True)
        for path in (file, *logs):
            shutil.copyfile(path, Path(scratch.name, path.name))
        with closing(sqlite3.connect(Path(scratch.name, file.name))) as database:
            database.execute("PRAGMA journal_mode = DELETE")  # moves the log's changes into the file
    except (OSError, sqlite3.Error) as error:
        raise StudyError(
            f"the folder of {file} is not writable, and copying the file failed ({error}); set TMPDIR "
            "to a folder with free space"
        ) from None
    return scratch


class SchemaColumn(NamedTuple):
    """A column of one of this package's tables, as SQLite describes it."""

    name: str
    type: str
    default: str | None
    hidden: int
    is_required: int


@cache
def read_schema_columns() -> dict[str, list[SchemaColumn]]:
    """Return the columns of this package's tables, by table."""
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in write_schema_statements(sqlite=True):
            database.execute(statement)
        return {
            table: [SchemaColumn(*row) for row in database.execute(_COLUMNS, (table,))]
            for table in TABLE_NAMES
        }


def make_select_all_query(table: str) -> Query:
    """Return the query for all rows of one of this package's tables."""
    names = ", ".join(f'"{column.name}"' for column in read_schema_columns()[table])
    return query(f"SELECT {names} FROM {table}")  # noqa: S608 (our names)


def check_tables_compute_nothing(db: Connection, name: str) -> None:
    """Check that a database's tables only store values and compute nothing.

    With views, computed columns or defaults, a file of a few kilobytes could yield gigabytes.

    Raises:
        StudyError: A table differs from this package's definition, or a name is longer than this package
            allows.
    """
    views = "SELECT name FROM sqlite_master WHERE type = 'view' OR sql LIKE 'CREATE VIRTUAL%'"
    strange = list(db.exec_driver_sql(views).scalars())
    for table, columns in read_schema_columns().items():
        stored = [tuple(row)[:4] for row in db.exec_driver_sql(_COLUMNS, (table,))]
        if stored != [column[:4] for column in columns]:
            strange.append(table)
    strange = strange or list(db.exec_driver_sql(_LONG_NAMES).scalars())
    if strange:
        raise StudyError(
            f"the database {name} was changed by another program (see {strange[0]!r}); use the original file"
        )


def describe_database_damage(engine: Engine) -> str | None:
    """Describe a value in an SQLite database that this package did not write; None if there is none.

    The search starts after an unexpected error, so that the command can end with a reason and a remedy.
    """
    try:
        with engine.connect() as db:
            answer = str(db.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one())
            if answer != "ok":
                return answer.replace("\n", ": ")
            for table, columns in read_schema_columns().items():
                for row in make_select_all_query(table)(db):
                    if odd := _describe_invalid_value(table, columns, row._asdict()):
                        return odd
            return None
    except (DBAPIError, sqlite3.Error, ValueError, TypeError, ArithmeticError) as error:
        return f"a value cannot be read ({' '.join(str(getattr(error, 'orig', error)).split())})"


def _describe_invalid_value(table: str, columns: Sequence[SchemaColumn], row: JsonObject) -> str | None:
    """Describe the first value of a row that this package did not write; None if there is none."""
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
