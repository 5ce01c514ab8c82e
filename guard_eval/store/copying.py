"""A study's database copied into another one, SQLite or PostgreSQL: every row, or none.

The source is read in one transaction, so that the copy is the database of one moment. The target is written
in one, read again, and kept only if both have the same digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, String, Table, func, insert, inspect, select, text
from sqlalchemy.exc import DataError, IntegrityError

from guard_eval.errors import StudyError
from guard_eval.store import upgrade
from guard_eval.store.connection import Database, check_alone
from guard_eval.store.schema import VERSION_TABLE, ExactText, metadata

CHUNK = 250
"""Rows held in memory at a time: some texts have a million characters."""

OnRows = Callable[[str, int], None]
"""Called with a table's name and how many more of its rows were read."""


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
        """Return the number of rows of all tables."""
        return sum(each.rows for each in self.tables)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of all tables' names, counts and digests, a line each."""
        lines = "".join(f"{each.table} {each.rows} {each.sha256}\n" for each in self.tables)
        return hashlib.sha256(lines.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """What was copied: the digest that both databases have, and the moment the copy is of."""

    digest: Digest
    at: datetime


def checksum(url: str, on_rows: OnRows = lambda _table, _rows: None) -> Digest:
    """Return the digest of the database at `url` as it is at one moment; nothing is changed in it.

    Raises:
        StudyError: There is no such database, or it is not of this package's version.
    """
    with _opened(url) as database:
        upgrade.prepare(database, create=False)
        with database.snapshot() as connection:
            return _read(database, connection, on_rows)


def check(source: str, target: str) -> int:
    """See that the database at `source` can be copied to `target`; return how many rows it has.

    Raises:
        StudyError: It cannot.
    """
    with _opened(source) as old, _opened(target) as new:
        _check(old, new)
        with old.snapshot() as reading:
            counts = (select(func.count()).select_from(table) for table in metadata.sorted_tables)
            return sum(reading.execute(count).scalar_one() for count in counts)


def copy(
    source: str,
    target: str,
    *,
    alone: bool = False,
    then: Callable[[], None] = lambda: None,
    on_copied: OnRows = lambda _table, _rows: None,
    on_checked: OnRows = lambda _table, _rows: None,
) -> Copied:
    """Copy all rows of the database at `source` to the one at `target`, which gets the tables it lacks.

    Args:
        source: As `Store.open` takes it.
        target: Likewise; it holds no rows. A missing SQLite file is made.
        alone: See that nobody else has the source open, and let nobody write to it until `then` was called.
        then: Called once the copy is complete.
        on_copied: Called with a table's name and how many more of its rows were written.
        on_checked: Likewise, of those read again from the target.

    Raises:
        StudyError: A database cannot be used; the target holds rows, cannot hold what the source does, or
            would not hold the same; or `alone` is true and somebody else has the source open. Nothing is in
            the target then.
    """
    with _opened(source) as old, _opened(target) as new:
        _check(old, new)
        with old.snapshot(alone=alone) as reading:
            at = datetime.now(UTC)
            with _removed_on_failure(new):
                upgrade.prepare(new, create=True)
                with new.write(lock="copy") as writing:
                    _lock(new, writing)
                    _check_no_rows(new, writing)
                    before = _read(old, reading, on_copied, lambda *rows: _insert(new, writing, *rows))
                    after = _read(new, writing, on_checked)
                    _compare(before, after, new.name)
                    _set_numbers(new, writing)
                    if alone:
                        check_alone(reading, old.name)
            then()
    return Copied(digest=before, at=at)


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def _check(old: Database, new: Database) -> None:
    """See that `old` is a study's database and that `new` has no rows, before anything is made in it."""
    upgrade.prepare(old, create=False)
    if new.is_sqlite and not Path(str(new.url.database)).is_file():
        return  # reading it would make it
    with new.read() as connection:
        _check_no_rows(new, connection)


def _check_no_rows(database: Database, connection: Connection) -> None:
    names = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in names:
        return  # empty, or another program's, which `upgrade.prepare` refuses
    counts = (text(f'SELECT count(*) FROM "{name}"') for name in names & set(metadata.tables))  # noqa: S608
    rows = sum(connection.execute(count).scalar_one() for count in counts)
    if rows:
        raise StudyError(
            f"{database.name} holds {rows} rows already, and a copy overwrites nothing; "
            "name an empty database, or one that does not exist yet"
        )


@contextmanager
def _removed_on_failure(database: Database) -> Iterator[None]:
    """Remove a file that the block made, if the block fails."""
    file = Path(str(database.url.database))
    new = database.is_sqlite and not file.exists()
    try:
        yield
    except BaseException:
        if new:
            database.close()
            for path in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        raise


def _lock(database: Database, writing: Connection) -> None:
    if not database.is_sqlite:  # SQLite has one writer at a time
        writing.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
        writing.exec_driver_sql(f"LOCK TABLE {', '.join(metadata.tables)} IN EXCLUSIVE MODE")


def _read(
    database: Database,
    connection: Connection,
    on_rows: OnRows,
    write: Callable[[Table, Sequence[Row[Any]]], None] = lambda _table, _rows: None,
) -> Digest:
    """Return the digest of what `connection` sees; give all rows to `write`, each after those it refers to.

    A row's digest is that of its values as a list in JSON, whose text is ASCII: moments in UTC by ISO 8601 to
    the microsecond, bytes in hexadecimal.
    """
    found = []
    for table in metadata.sorted_tables:
        digest, count = hashlib.sha256(), 0
        for rows in _chunks(database, connection, table):
            write(table, rows)
            for row in rows:
                # zero has no sign in SQLite
                values = [value or 0.0 if isinstance(value, float) else value for value in row]
                digest.update(f"{_to_json(values)}\n".encode())
            count += len(rows)
            on_rows(table.name, len(rows))
        found.append(TableDigest(table=table.name, rows=count, sha256=digest.hexdigest()))
    return Digest(tables=tuple(sorted(found, key=lambda each: each.table)))


def _written(value: datetime | bytes) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.astimezone(UTC).isoformat(timespec="microseconds")


_to_json = json.JSONEncoder(default=_written).encode


def _chunks(database: Database, connection: Connection, table: Table) -> Iterator[Sequence[Row[Any]]]:
    """Read a table in the order of its primary key, a chunk at a time.

    Raises:
        StudyError: The database cannot be read, or holds what no version of this package writes.
    """
    # a server sorts text by its language; both systems can sort it by its bytes
    keys = [
        key.collate("C") if isinstance(key.type, String | ExactText) and not database.is_sqlite else key
        for key in table.primary_key
    ]
    with database.explained():
        result = connection.execute(select(table).order_by(*keys), execution_options={"yield_per": CHUNK})
        chunks = result.partitions()
    while True:
        with database.explained():
            try:
                rows = next(chunks, None)
            except ValueError as error:  # such as a moment that is none
                raise StudyError(
                    f"the table {table.name!r} of {database.name} cannot be read: {error}; "
                    "restore it from a copy"
                ) from error
        if rows is None:
            return
        yield rows


def _insert(new: Database, writing: Connection, table: Table, rows: Sequence[Row[Any]]) -> None:
    names = table.columns.keys()
    try:
        writing.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])
    except (DataError, IntegrityError) as error:
        # the driver's whole text may hold the row
        primary = getattr(getattr(error.orig, "diag", None), "message_primary", None)
        raise StudyError(
            f"a row of the table {table.name!r} cannot be held by {new.name}: "
            f"{primary or type(error.orig).__name__}; nothing was copied"
        ) from None


def _compare(before: Digest, after: Digest, name: str) -> None:
    differ = [
        f"{old.table} ({old.rows} rows, then {new.rows})"
        for old, new in zip(before.tables, after.tables, strict=True)
        if old != new
    ]
    if differ:
        raise StudyError(
            f"{name} does not give back what was written to it, in: {', '.join(differ)}; nothing was copied. "
            "See that nothing else writes to it, and report it"
        )


def _set_numbers(database: Database, writing: Connection) -> None:
    """Let a server's numbers go on after the highest, and its planner know how large the tables are."""
    if database.is_sqlite:
        return
    for table in metadata.tables.values():
        counter = table.autoincrement_column
        if counter is not None:
            sequence = func.pg_get_serial_sequence(table.name, counter.name)
            highest = select(func.max(counter)).scalar_subquery()
            writing.execute(select(func.setval(sequence, func.coalesce(highest, 1), highest.is_not(None))))
        writing.exec_driver_sql(f"ANALYZE {table.name}")
