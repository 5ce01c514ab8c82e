"""A digest of every row that is the same on either database system, to tell whether a copy is whole.

SHA-256 over the rows of a table in the order of its primary key, each value written with its type and length:
text as UTF-8, whole numbers in digits, floats by their 64 bits (a zero has no sign, as SQLite keeps none),
moments in UTC to the microsecond.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, String, Table, func, select

from guard_eval.errors import StudyError
from guard_eval.store.columns import ExactText
from guard_eval.store.connection import Database
from guard_eval.store.schema import metadata

CHUNK = 250
"""Rows held in memory at a time: some texts have a million characters."""

_FORM = b"guard-eval rows 1"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableDigest:
    """What one table holds: how many rows, and the SHA-256 of them all in hexadecimal."""

    table: str
    rows: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """What a study's database holds, table by table in the order of their names."""

    tables: tuple[TableDigest, ...]

    @property
    def rows(self) -> int:
        """Return how many rows there are in all."""
        return sum(each.rows for each in self.tables)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of all tables' names, counts and digests, a line each."""
        lines = "".join(f"{each.table} {each.rows} {each.sha256}\n" for each in self.tables)
        return hashlib.sha256(lines.encode()).hexdigest()


class Hasher:
    """Takes in a table's rows in the order of the primary key."""

    def __init__(self, table: Table) -> None:
        self._table = table.name
        self._rows = 0
        self._hash = hashlib.sha256(_FORM)
        self._add([str(name) for name in (table.name, *table.columns.keys())])

    def add(self, rows: Sequence[Row[Any]]) -> None:
        """Take in more rows, with all columns in the table's order."""
        for row in rows:
            self._add(row)
        self._rows += len(rows)

    def digest(self) -> TableDigest:
        """Return what was taken in so far."""
        return TableDigest(table=self._table, rows=self._rows, sha256=self._hash.hexdigest())

    def _add(self, values: Sequence[Any]) -> None:
        parts = [b"%d" % len(values)]
        for value in values:
            tag, write = _FORMS[type(value)]
            written = write(value)
            parts += (b"%b%d:" % (tag, len(written)), written)
        self._hash.update(b"".join(parts))


_FORMS: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    type(None): (b"n", lambda _: b""),
    bool: (b"t", lambda value: b"1" if value else b"0"),
    int: (b"i", lambda value: b"%d" % value),
    float: (b"f", lambda value: struct.pack(">d", value + 0.0)),
    str: (b"s", lambda value: value.encode("utf-8", "surrogatepass")),
    bytes: (b"b", lambda value: value),
    datetime: (b"m", lambda value: value.astimezone(UTC).isoformat(timespec="microseconds").encode()),
}


def checksum(url: str, on_progress: Callable[[str, int], None] = lambda _table, _rows: None) -> Digest:
    """Return the digest of the database at `url` as it is at one moment; nothing is changed in it.

    Args:
        url: As `Store.open` takes it.
        on_progress: Called with a table's name and how many more of its rows were read.

    Raises:
        StudyError: There is no such database, or it is not of this package's version.
    """
    from guard_eval.store import upgrade  # noqa: PLC0415  (Alembic is slow to import)

    database = Database(url)
    try:
        upgrade.prepare(database, create=False)
        with database.snapshot() as connection:
            return digest(database, connection, on_progress)
    finally:
        database.close()


def digest(
    database: Database, connection: Connection, on_progress: Callable[[str, int], None] = lambda _t, _n: None
) -> Digest:
    """Return the digest of what `connection`'s transaction sees."""
    found = []
    for table in sorted(metadata.tables.values(), key=lambda table: table.name):
        hasher = Hasher(table)
        for rows in stream(database, connection, table):
            hasher.add(rows)
            on_progress(table.name, len(rows))
        found.append(hasher.digest())
    return Digest(tables=tuple(found))


def counts(connection: Connection) -> dict[str, int]:
    """Return how many rows each table has."""
    return {
        name: connection.execute(select(func.count()).select_from(table)).scalar_one()
        for name, table in metadata.tables.items()
    }


def stream(database: Database, connection: Connection, table: Table) -> Iterator[Sequence[Row[Any]]]:
    """Read a table in the order of its primary key, a chunk at a time.

    Raises:
        StudyError: The database cannot be read, or holds what no version of this package writes.
    """
    with database.explained():
        result = connection.execute(_in_order(database, table), execution_options={"yield_per": CHUNK})
        parts = result.partitions()
    while True:
        with database.explained():
            try:
                rows = next(parts, None)
            except ValueError as error:  # such as a moment that is none
                raise StudyError(
                    f"the table {table.name!r} of {database.name} cannot be read: {error}; "
                    "restore it from a copy"
                ) from error
        if rows is None:
            return
        yield rows


def _in_order(database: Database, table: Table) -> Select[Any]:
    # a server sorts text by its language; both systems can sort it by its bytes
    keys = []
    for column in table.primary_key:
        text = isinstance(column.type, String | ExactText) and not database.is_sqlite
        keys.append(column.collate("C") if text else column)
    return select(table).order_by(*keys)
