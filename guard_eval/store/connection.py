"""One engine per study: how connections are opened, and what a transaction is on either database."""

from __future__ import annotations

import importlib.util
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from guard_eval.database_url import UNREADABLE
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.store import files

_COUNTER = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Counts on while a laptop sleeps, and never jumps; Linux has the first, Windows neither."""


def machine() -> datetime:
    """Return the time as this machine has it."""
    return datetime.now(UTC)


class ServerClock:
    """A database server's time: read with each new connection, and counted on from there by this machine.

    Asking in every transaction would cost a round trip each.
    """

    def __init__(self) -> None:
        self._read: tuple[datetime, float] | None = None

    def read(self, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        """Ask the server: for SQLAlchemy's event `connect`."""
        cursor = connection.cursor()
        cursor.execute("SELECT clock_timestamp()")
        (at,) = cursor.fetchone() or (machine(),)
        self._read = at.astimezone(UTC), _count()
        cursor.close()
        connection.commit()

    def __call__(self) -> datetime:
        """Return the time; before there was a connection, this machine's."""
        if self._read is None:
            return machine()
        at, since = self._read
        return at + timedelta(seconds=_count() - since)


def _count() -> float:
    return time.monotonic() if _COUNTER is None else time.clock_gettime(_COUNTER)


BUSY_SECONDS = 60
"""How long a write waits for another process: thousands of ratings, which take a few milliseconds each."""

_LOCK_SPACE = 0x67756172
"""First half of PostgreSQL's advisory lock keys, so that other programs' locks are not ours."""

_RECYCLE = 3600
"""Seconds after which a connection is closed, a new one made, and the server's time read again."""

_write_locks: dict[str, threading.Lock] = {}
_write_locks_guard = threading.Lock()


class Database:
    """An engine with two kinds of transaction: `read` and `write`.

    On SQLite the writes of one process queue at a lock, because its busy timeout is unfair and starves
    threads under load; and they take the file's write lock at once, because a reader that turns writer cannot
    wait for it.
    """

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        server = ServerClock()
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.is_writable = not self.is_sqlite or files.is_writable(Path(str(self.url.database)))
        try:
            self.engine = _engine(self.url, server, writable=self.is_writable)
        except (ArgumentError, TypeError, ValueError):
            raise StudyError(UNREADABLE) from None
        self.clock: Callable[[], datetime] = machine if self.is_sqlite else server
        self._lock: AbstractContextManager[object] = (
            _write_lock(Path(self.url.database or "")) if self.is_sqlite else nullcontext()
        )

    @property
    def name(self) -> str:
        """Return what messages call it: the file, or the URL without its password and query."""
        if self.is_sqlite:
            return str(self.url.database)
        url = self.url
        return str(
            URL.create(
                url.drivername, username=url.username, host=url.host, port=url.port, database=url.database
            )
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database.

        Raises:
            StudyError: The database cannot be used.
        """
        with self.explained(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, lock: str | None = None, *, also: str | None = None) -> Iterator[Connection]:
        """Open a transaction that is committed, and on disk, when the block ends without an exception.

        On PostgreSQL blocks with the same `lock`, or the same that they hold `also`, follow each other; on
        SQLite all writes do.

        Raises:
            StudyError: The database cannot be used.
        """
        with self.explained(), self._lock, self.engine.connect() as connection:
            connection.execution_options(guard_eval_write=True)
            with connection.begin():
                for name in (lock, also):
                    if name is not None and not self.is_sqlite:
                        number = zlib.crc32(name.encode("utf-8", "surrogatepass")) - 2**31
                        connection.execute(select(func.pg_advisory_xact_lock(_LOCK_SPACE, number)))
                yield connection

    def use_wal(self) -> None:
        """Let readers and a writer of an SQLite file work at once; the setting stays with the file."""
        with self.explained(), self._lock:
            connection = self.engine.raw_connection()
            try:
                cursor = connection.cursor()
                cursor.execute("PRAGMA journal_mode")
                if cursor.fetchone() != ("wal",):
                    cursor.execute("PRAGMA journal_mode = WAL")
            finally:
                connection.close()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the driver says of a database that cannot be used into a `StudyError`."""
        try:
            yield
        except OperationalError as error:
            raise StudyError(f"cannot use the database {self.name}: {self._reason(error)}") from None
        except DatabaseError as error:
            # a server that ended the connection may call it anything; without a statement there was none yet
            unusable = error.connection_invalidated or error.statement is None
            if unusable or (self.is_sqlite and type(error) is DatabaseError):
                raise StudyError(f"cannot use the database {self.name}: {self._reason(error)}") from None
            raise
        except sqlite3.Error as error:
            raise StudyError(f"cannot use the database {self.name}: {error}") from None

    def _reason(self, error: DatabaseError) -> str:
        # SQLAlchemy's own text carries the statement, the driver's may carry the URL's password
        text = " ".join(hide_passwords(str(error.orig), self.url).split())
        return f"{text}; {_remedy(text)}"


def parse_url(text: str) -> URL:
    """Return a database's URL with the driver the store uses.

    Raises:
        StudyError: It is no URL, names another database system, or an SQLite database without a file.
        MissingExtraError: PostgreSQL's driver is not installed.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StudyError(UNREADABLE) from None
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        if url.host or url.username or url.password:
            raise StudyError(UNREADABLE)
        if url.database in {None, "", ":memory:"}:
            raise StudyError(
                "the database's URL names no file, and verdicts must outlive the program; "
                "write sqlite:///study.db"
            )
        return url
    if "@" in (url.host or ""):
        raise StudyError(UNREADABLE)  # the end of a password with an @ in it would be taken for the host
    if url.drivername not in {"postgres", "postgresql", "postgresql+psycopg"}:
        raise StudyError(
            f"the database system {url.drivername!r} is not supported; use sqlite:/// or postgresql+psycopg://"
        )
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("postgres", "psycopg")
    return url.set(drivername="postgresql+psycopg")


def hide_passwords(text: str, url: URL) -> str:
    """Return `text` without the passwords of `url`, plain or as a URL has them."""
    passwords = [url.password]
    for key, values in url.normalized_query.items():
        passwords += values if "password" in key.lower() else ()
    for password in filter(None, passwords):
        for written in (password, quote(password, safe=""), quote(password), quote_plus(password)):
            text = text.replace(written, "***")
    return text


def _remedy(text: str) -> str:
    for symptom, remedy in (
        (
            "holds what was saved last",
            "copy all its files to a folder that can be written, and read it there",
        ),
        ("readonly", "make the file and its folder writable"),
        ("read-only", "use a server that takes writes"),
        ("unable to open", "make the file and its folder readable and writable"),
        ("disk is full", "free some space, then do it again"),
        ("locked", "another program holds it; end that program, then do it again"),
        ("not a database", "name another file, or move this one away"),
        ("malformed", "restore it from a copy"),
        ("password", "set PGPASSWORD in the environment"),
        ("does not exist", "make it with PostgreSQL's createdb or createuser"),
    ):
        if symptom in text:
            return remedy
    return "see that it is there and that nothing else holds it, then do it again"


def _write_lock(path: Path) -> threading.Lock:
    with _write_locks_guard:
        return _write_locks.setdefault(str(path.resolve()), threading.Lock())


def _engine(url: URL, server: ServerClock, *, writable: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        engine = create_engine(
            url,
            hide_parameters=True,
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
            pool_size=16,
            max_overflow=48,
            **({} if writable else {"creator": lambda: files.open_to_read(path, BUSY_SECONDS)}),
        )
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"connect_timeout": 10},
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        pool_recycle=_RECYCLE,
        pool_size=8,
        max_overflow=24,
    )
    event.listen(engine, "connect", _set_up_postgresql)
    event.listen(engine, "connect", server.read)
    return engine


def _set_up_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # sqlite3 would otherwise begin transactions by itself, late, and never IMMEDIATE
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("guard_eval_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _set_up_postgresql(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    # only `off` lets a commit return before it is on disk; the stronger settings of a replicated server stay
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()
