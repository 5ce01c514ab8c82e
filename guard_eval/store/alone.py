"""Having a database to oneself, as whoever moves a study must: nobody shall save where nobody looks again."""

from __future__ import annotations

import time

from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from guard_eval.errors import StudyError
from guard_eval.store.schema import metadata

_LEAVING = 2.0
"""Seconds in which a connection that was closed a moment ago is gone at the server too."""

_OTHERS = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


def keep_others_out(connection: Connection, name: str) -> None:
    """Begin a transaction that keeps every other process out of the file until `connection` is closed.

    In WAL mode whoever has the file open, be it idle, holds a lock that this one does not go with.

    Raises:
        StudyError: Another process has the file open.
    """
    connection.detach()  # the lock goes with the connection, which must not go back to a pool
    cursor = connection.connection.cursor()
    cursor.execute("PRAGMA busy_timeout = 0")
    cursor.execute("PRAGMA locking_mode = EXCLUSIVE")
    cursor.close()
    try:
        connection.execution_options(guard_eval_write=True).begin()
    except OperationalError as error:
        if "locked" not in str(error.orig):
            raise
        raise StudyError(f"another program has {name} open; {_REMEDY}") from None


def keep_writers_out(connection: Connection, name: str) -> None:
    """Let nobody write to the tables until `connection`'s transaction ends.

    Raises:
        StudyError: Somebody else is connected to the database.
    """
    # before the first look, which decides what the whole transaction sees
    connection.exec_driver_sql("SET LOCAL lock_timeout = '10s'")
    connection.exec_driver_sql(f"LOCK TABLE {', '.join(metadata.tables)} IN SHARE MODE")
    see_nobody_else(connection, name)


def see_nobody_else(connection: Connection, name: str) -> None:
    """See that nobody else is connected to a server's database.

    Raises:
        StudyError: Somebody is.
    """
    if connection.dialect.name == "sqlite":
        return  # its lock lasts
    end = time.monotonic() + _LEAVING
    while True:
        connection.execute(text("SELECT pg_stat_clear_snapshot()"))
        others = list(connection.execute(text(_OTHERS)).scalars())
        if not others or time.monotonic() > end:
            break
        time.sleep(0.05)
    if others:
        names = ", ".join(sorted({other for other in others if other})) or "which do not say who they are"
        raise StudyError(f"{len(others)} others are connected to {name} ({names}); {_REMEDY}")


_REMEDY = "stop guard-eval annotate and judge wherever they run, then do it again"
