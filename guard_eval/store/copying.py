"""A study's database copied into another one, SQLite or PostgreSQL: every row, or none.

The source is read in one transaction, so that the copy is the database of one moment. The target is written
in one, read again, and kept only if both have the same digest.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, String, Table, func, insert, inspect, select, text
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from guard_eval.errors import StudyError
from guard_eval.store import upgrade
from guard_eval.store.connection import Database
from guard_eval.store.schema import VERSION_TABLE, ExactText, metadata

CHUNK = 250
"""Rows held in memory at a time: some texts have a million characters."""

OnRows = Callable[[str, int], None]
"""Called with a table's name and how many more of its rows were read."""

_LEAVING = 2.0
"""Seconds in which a server notices that a connection was closed a moment ago."""

_OTHERS = text(
    "SELECT application_name FROM pg_stat_activity "
    "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
_STOP = "stop guard-eval annotate and judge wherever they run, then do it again"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableDigest:
    """What one table holds: how many rows, and the SHA-256 of them all in hexadecimal."""

    table: str
    rows: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """What a study's database held at a moment, table by table in the order of their names."""

    tables: tuple[TableDigest, ...]
    at: datetime = field(compare=False)

    @property
    def rows(self) -> int:
        """Return the number of rows of all tables."""
        return sum(each.rows for each in self.tables)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of all tables' names, counts and digests, a line each."""
        lines = "".join(f"{each.table} {each.rows} {each.sha256}\n" for each in self.tables)
        return hashlib.sha256(lines.encode()).hexdigest()


def checksum(url: str, on_rows: OnRows = lambda _table, _rows: None) -> Digest:
    """Return the digest of the database at `url` as it is at one moment; nothing is changed in it.

    Raises:
        StudyError: There is no such database, or it is not of this package's version.
    """
    with closing(Database(url)) as database:
        upgrade.prepare(database, create=False)
        with _snapshot(database) as connection:
            return _read(database, connection, on_rows)


def check(source: str, target: str) -> int:
    """Check that the database at `source` can be copied to `target`; return how many rows it has.

    Raises:
        StudyError: It cannot.
    """
    with closing(Database(source)) as old, closing(Database(target)) as new:
        _check(old, new)
        with _snapshot(old) as reading:
            return _count(reading)


def copy(
    source: str,
    target: str,
    *,
    alone: bool = False,
    then: Callable[[], None] = lambda: None,
    on_copied: OnRows = lambda _table, _rows: None,
    on_checked: OnRows = lambda _table, _rows: None,
) -> Digest:
    """Copy all rows of the database at `source` to the one at `target`, which gets the tables it lacks.

    Args:
        source: As `Store.open` takes it.
        target: Likewise; it holds no rows. A missing SQLite file is made.
        alone: Refuse if another process has the source open; none writes to it until `then` was called.
        then: Called once the copy is complete.
        on_copied: Called with a table's name and how many more of its rows were written.
        on_checked: Likewise, of those read again from the target.

    Returns:
        The digest of both, and the moment the copy is of.

    Raises:
        StudyError: A database cannot be used; the target holds rows, cannot hold what the source does, or
            would not hold the same; or `alone` is true and another process has the source open. Nothing is in
            the target then.
    """
    with closing(Database(source)) as old, closing(Database(target)) as new:
        _check(old, new)
        with _snapshot(old, alone=alone) as reading:
            with _removed_on_failure(new):
                upgrade.prepare(new, create=True)
                with new.write(lock="copy") as writing:
                    _use_utc(new, writing)
                    _check_no_rows(new, writing)
                    before = _read(old, reading, on_copied, lambda *rows: _insert(new, writing, *rows))
                    after = _read(new, writing, on_checked)
                    _compare(before, after, new.name)
                    _set_numbers(new, writing)
                    if alone:
                        _check_alone(old, reading)
            then()
    return before


@contextmanager
def _snapshot(database: Database, *, alone: bool = False) -> Iterator[Connection]:
    """Open a transaction that only reads, all of it as it is now, while others go on writing.

    With `alone` no other process may have the database open, and none writes to it until the block ends.
    """
    with database.explained(), database.engine.connect() as connection:
        if not database.is_sqlite:
            connection.execution_options(isolation_level="REPEATABLE READ")
        elif alone:
            connection.detach()  # the lock goes with the connection, which must not go back to a pool
            connection.connection.execute("PRAGMA busy_timeout = 0")
            # in WAL mode a process that has the file open, even idle, holds a lock that forbids this one
            connection.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execution_options(guard_eval_write=True)
        try:
            connection.begin()
        except OperationalError as error:
            if alone and "locked" in str(error.orig):
                raise StudyError(f"another program has {database.name} open; {_STOP}") from None
            raise
        _use_utc(database, connection)
        if alone and not database.is_sqlite:
            # before the first statement that reads, which decides what the whole transaction sees
            connection.exec_driver_sql("SET LOCAL lock_timeout = '10s'")
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(metadata.tables)} IN SHARE MODE")
            _check_alone(database, connection)
        yield connection


def _use_utc(database: Database, connection: Connection) -> None:
    """Let a server speak in UTC: else years 1 and 9999 may lie beyond what Python's datetime can hold."""
    if not database.is_sqlite:
        connection.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")


def _check_alone(database: Database, connection: Connection) -> None:
    """Check that no other process is connected to a server's database; SQLite's lock forbids it anyway."""
    if database.is_sqlite:
        return
    end = time.monotonic() + _LEAVING
    while True:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        others = connection.execute(_OTHERS).scalars().all()
        if not others:
            return
        if time.monotonic() > end:
            names = ", ".join(sorted(set(filter(None, others)))) or "which do not say who they are"
            raise StudyError(f"{len(others)} others are connected to {database.name} ({names}); {_STOP}")
        time.sleep(0.05)


def _check(old: Database, new: Database) -> None:
    """Check that `old` is a study's database and that `new` has no rows, before anything is made in it."""
    upgrade.prepare(old, create=False)
    if new.is_sqlite and not Path(str(new.url.database)).is_file():
        return  # reading it would make it
    with new.read() as connection:
        _check_no_rows(new, connection)


def _check_no_rows(database: Database, connection: Connection) -> None:
    # without the table of versions it is empty, or another program's, which `upgrade.prepare` refuses
    rows = _count(connection) if inspect(connection).has_table(VERSION_TABLE) else 0
    if rows:
        raise StudyError(
            f"{database.name} holds {rows} rows already, and a copy overwrites nothing; "
            "name an empty database, or one that does not exist yet"
        )


def _count(connection: Connection) -> int:
    counts = (select(func.count()).select_from(table) for table in metadata.tables.values())
    return sum(connection.execute(count).scalar_one() for count in counts)


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
    found, at = [], datetime.now(UTC)
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
    return Digest(tables=tuple(sorted(found, key=lambda each: each.table)), at=at)


def _written(value: datetime | bytes) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.astimezone(UTC).isoformat(timespec="microseconds")


_to_json = json.JSONEncoder(default=_written).encode


def _chunks(database: Database, connection: Connection, table: Table) -> Iterator[Sequence[Row[Any]]]:
    """Read a table in the order of its primary key, a chunk at a time."""
    # a server sorts text by its language; both systems can sort it by its bytes
    keys = [
        key.collate("C") if isinstance(key.type, String | ExactText) and not database.is_sqlite else key
        for key in table.primary_key
    ]
    statement = select(table).order_by(*keys)
    with database.explained():
        yield from connection.execute(statement, execution_options={"yield_per": CHUNK}).partitions()


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
