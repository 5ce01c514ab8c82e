"""A study's database copied into another one, SQLite or PostgreSQL: every row, or none.

The source is read in one transaction, so that the copy is the database of one moment. The target is written
in one, read again row by row, and kept only if both have the same digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, Table, func, insert, inspect, select, text
from sqlalchemy.exc import DataError, IntegrityError

from guard_eval.errors import StudyError
from guard_eval.store import upgrade
from guard_eval.store.alone import see_nobody_else
from guard_eval.store.checksum import Digest, Hasher, counts, digest, stream
from guard_eval.store.connection import Database
from guard_eval.store.schema import VERSION_TABLE, metadata


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """What was copied: the digest that both databases have, and the moment the copy is of."""

    digest: Digest
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who is told how far a copy is: what is about to be done with how many rows, and that rows were done."""

    begins: Callable[[str, int], None] = lambda _deed, _rows: None
    did: Callable[[str, int], None] = lambda _table, _rows: None


def look(source: str, target: str) -> int:
    """See that the database at `source` could be copied to `target`; return how many rows it has.

    Raises:
        StudyError: It could not.
    """
    with _opened(source) as old, _opened(target) as new:
        upgrade.prepare(old, create=False)
        _check_empty(new)
        with old.snapshot() as reading:
            return sum(counts(reading).values())


def copy(
    source: str,
    target: str,
    *,
    alone: bool = False,
    then: Callable[[], None] = lambda: None,
    watch: Watch | None = None,
) -> Copied:
    """Copy all rows of the database at `source` to the one at `target`, which gets the tables where it must.

    Args:
        source: As `Store.open` takes it.
        target: Likewise; it holds no rows. An SQLite file need not be there.
        alone: See that nobody else has the source open, and let nobody write there until `then` was called.
        then: Called once the copy is there.
        watch: Told how far it is.

    Raises:
        StudyError: A database cannot be used; the target holds rows, cannot hold what the source does, or
            would not hold the same; or somebody else has the source open, and should not. Nothing is in the
            target then.
    """
    watch = watch or Watch()
    with _opened(source) as old, _opened(target) as new:
        upgrade.prepare(old, create=False)
        _check_empty(new)
        with old.snapshot(alone=alone) as reading:
            at = datetime.now(UTC)
            rows = sum(counts(reading).values())
            with _no_remains(new):
                upgrade.prepare(new, create=True)
                with new.write(lock="copy") as writing:
                    watch.begins("copying", rows)
                    before = _move(old, reading, new, writing, watch)
                    watch.begins("checking", rows)
                    _compare(before, digest(new, writing, watch.did), new.name)
                    if alone:
                        see_nobody_else(reading, old.name)
            then()
    return Copied(digest=before, at=at)


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def _file(database: Database) -> Path | None:
    return Path(str(database.url.database)) if database.is_sqlite else None


def _check_empty(database: Database) -> None:
    """See that a copy would overwrite nothing, before anything is made there.

    Raises:
        StudyError: There are rows.
    """
    file = _file(database)
    if file is not None and not file.is_file():
        return  # to look would make it
    with database.read() as connection:
        _check_no_rows(database, connection)


def _check_no_rows(database: Database, connection: Connection) -> None:
    there = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in there:
        return  # nobody's, or somebody else's, who is told by `upgrade.prepare`
    rows = 0
    for name in there & set(metadata.tables):
        rows += connection.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one()  # noqa: S608 (ours)
    if rows:
        raise StudyError(
            f"{database.name} holds {rows} rows already, and a copy overwrites nothing; "
            "name an empty database, or one that is not there yet"
        )


@contextmanager
def _no_remains(database: Database) -> Iterator[None]:
    """Remove the file of a copy that failed, if it was not there before."""
    file = _file(database)
    mine = file is not None and not file.exists()
    try:
        yield
    except BaseException:
        if mine and file is not None:
            database.close()
            for path in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        raise


def _move(old: Database, reading: Connection, new: Database, writing: Connection, watch: Watch) -> Digest:
    """Add the rows of all tables, each after those it refers to."""
    if not new.is_sqlite:
        writing.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
        writing.exec_driver_sql(f"LOCK TABLE {', '.join(metadata.tables)} IN EXCLUSIVE MODE")
    _check_no_rows(new, writing)
    found = []
    for table in metadata.sorted_tables:
        hasher = Hasher(table)
        for rows in stream(old, reading, table):
            hasher.add(rows)
            _insert(writing, table, rows, new.name)
            watch.did(table.name, len(rows))
        found.append(hasher.digest())
    if not new.is_sqlite:
        _set_up_postgresql(writing)
    return Digest(tables=tuple(sorted(found, key=lambda each: each.table)))


def _insert(connection: Connection, table: Table, rows: Sequence[Row[Any]], name: str) -> None:
    names = table.columns.keys()
    try:
        connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])
    except (DataError, IntegrityError) as error:
        # the driver's whole text may hold the row
        told = (
            getattr(getattr(error.orig, "diag", None), "message_primary", None) or type(error.orig).__name__
        )
        raise StudyError(
            f"a row of the table {table.name!r} cannot be held by {name}: {told}; nothing was copied"
        ) from None


def _set_up_postgresql(connection: Connection) -> None:
    """Let numbers go on after the highest, and the planner know how large the tables are."""
    for table in metadata.tables.values():
        counter = table.autoincrement_column
        if counter is not None:
            sequence = func.pg_get_serial_sequence(table.name, counter.name)
            highest = select(func.max(counter)).scalar_subquery()
            connection.execute(select(func.setval(sequence, func.coalesce(highest, 1), highest.is_not(None))))
        connection.exec_driver_sql(f"ANALYZE {table.name}")


def _compare(before: Digest, after: Digest, name: str) -> None:
    differ = [
        f"{old.table} ({old.rows} rows, then {new.rows})"
        for old, new in zip(before.tables, after.tables, strict=True)
        if old != new
    ]
    if differ:
        raise StudyError(
            f"{name} does not give back what was written to it, in: {', '.join(differ)}; nothing was copied. "
            "See that nothing else writes there, and report it"
        )
