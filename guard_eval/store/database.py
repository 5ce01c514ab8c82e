"""The database of one study: how it is opened, and what a transaction is on SQLite and on PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self
from urllib.parse import quote, quote_plus

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    inspect,
    literal,
    make_url,
    select,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from guard_eval.database_url import UNREADABLE, decode
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.store.schema import SCHEMA, metadata, setting

BUSY_SECONDS = 60
"""How long a write waits for another process: thousands of ratings, which take a few milliseconds each."""

_RECYCLE_SECONDS = 3600
_LOCK = func.pg_advisory_xact_lock(literal(0x67756172), func.hashtext(func.current_schema()))
"""PostgreSQL's lock for writers of one study; its first half keeps other programs' locks apart."""

_NOW = select(func.clock_timestamp())
_LOCK_AND_NOW = select(_LOCK, func.clock_timestamp())
_BESIDE = ("-wal", "-shm", "-journal")

_write_locks: dict[str, threading.Lock] = {}
_write_locks_guard = threading.Lock()


class Store:
    """A study's database. Threads may share it; each process opens its own.

    The functions of this package take it as their first argument, and each call is one transaction. All of
    them raise `StudyError` if the database cannot be used.

    Attributes:
        name: What messages call it: the file, or the server and the database's name there.
        declared_now: `Study.declared`, of which each part is stored with the first verdict of its raters.
        slots_made: For how many raters a pair each pool has slots, as far as this process knows.
        declared_kept: What people's part of `declared_now` was at their first verdict is known to be stored.
    """

    def __init__(
        self, url: str, *, declared: Mapping[str, str], clock: Callable[[], datetime] | None
    ) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.file = Path(str(self.url.database)) if self.is_sqlite else None
        self.declared_now = declared
        self.slots_made: dict[str, int] = {}
        self.declared_kept = False
        self._clock = clock
        try:
            self.engine = _sqlite_engine(self.url) if self.is_sqlite else _postgresql_engine(self.url)
        except (ArgumentError, TypeError, ValueError):
            raise StudyError(UNREADABLE) from None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        declared: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Open the database at `url`.

        Args:
            url: `sqlite:///file` or `postgresql+psycopg://user@host/database`.
            create: Make the file and the tables where they are missing.
            declared: `Study.declared`, of which each part is stored with the first verdict of its raters.
            clock: What says the time, with a time zone; default: this machine, or the database's server.

        Raises:
            StudyError: There is no such database, it is not a study's, another version of this package made
                it, or it cannot be read. No message holds a password.
        """
        store = cls(url, declared=declared, clock=clock)
        try:
            store._prepare(create=create)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def name(self) -> str:
        """Return what messages call the database."""
        if self.file is not None:
            return str(self.file)
        # a user's name may hold a password that was typed in the wrong place
        return str(
            URL.create("postgresql", host=self.url.host, port=self.url.port, database=self.url.database)
        )

    @property
    def study(self) -> str:
        """Return what a command calls the study: its folder if the database is in it, else STUDY."""
        return "STUDY" if self.file is None else _name_study(self.file)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database."""
        with self._begin("BEGIN", isolation_level="REPEATABLE READ") as db:
            yield db

    @contextmanager
    def write(self) -> Iterator[tuple[Connection, datetime]]:
        """Open the one transaction that writes, with the time at which it began.

        It is on disk when the block ends, and taken back if the block raises. Writers queue: in a process at
        a lock, because SQLite's own waiting is unfair, and between processes at the database.
        """
        lock = nullcontext() if self.file is None else _write_lock(self.file)
        with lock, self._begin("BEGIN IMMEDIATE", isolation_level="READ COMMITTED") as db:
            now = datetime.now(UTC) if self.is_sqlite else db.execute(_LOCK_AND_NOW).one()[1]
            yield db, self._clock() if self._clock else now

    @contextmanager
    def _begin(self, statement: str, *, isolation_level: str) -> Iterator[Connection]:
        """Open a transaction: on SQLite with the statement, on PostgreSQL at the level."""
        with self.explained(), self.engine.connect() as db:
            if not self.is_sqlite:
                db.execution_options(isolation_level=isolation_level)
            with db.begin():
                if self.is_sqlite:
                    db.exec_driver_sql(statement)
                yield db

    def time(self, db: Connection) -> datetime:
        """Return the time by the test's, the server's or this machine's clock."""
        if self._clock is not None:
            return self._clock()
        return datetime.now(UTC) if self.is_sqlite else db.execute(_NOW).scalar_one()

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

    def _reason(self, error: DatabaseError) -> str:
        # SQLAlchemy's own text carries the statement, the driver's may carry the URL's password
        reason = " ".join(hide_passwords(str(error.orig), self.url).split())
        return f"{reason}; {_remedy(reason)}"

    def _prepare(self, *, create: bool) -> None:
        """Check that the database holds this package's tables; with `create`, make what is missing."""
        if self.file is not None:
            _find_file(self.file, create=create)
        with self.read() as db:
            self._check_encoding(db)
            exists = self._has_schema(db)
        if not exists and not create:
            raise StudyError(
                f"the database {self.name} holds no study yet; run: guard-eval pair {self.study}"
            )
        if self.file is not None and is_writable(self.file):
            _keep_private(self.file)  # not before: the file may be no study's
            with self.explained(), self.engine.connect() as db:  # readers and a writer work at once
                db.exec_driver_sql("PRAGMA journal_mode = WAL")
        if not exists:
            with self.write() as (db, _):
                if not self._has_schema(db):  # another process may have made it meanwhile
                    metadata.create_all(db)
                    db.execute(insert(setting).values(key="schema", value=SCHEMA))

    def _has_schema(self, db: Connection) -> bool:
        tables = set(inspect(db).get_table_names())
        if setting.name in tables:
            columns = {column["name"] for column in inspect(db).get_columns(setting.name)}
            version = None
            if columns == {"key", "value"}:
                version = db.execute(select(setting.c.value).where(setting.c.key == "schema")).scalar()
            if version == SCHEMA:
                return True
            if version is not None:
                raise StudyError(
                    f"the database {self.name} has schema {version}, and this guard-eval needs {SCHEMA}; "
                    "read it with the version that made it, or move it away and run: "
                    f"guard-eval pair {self.study}"
                )
        if strange := tables if self.is_sqlite else tables & set(metadata.tables):
            raise StudyError(
                f"{self.name} is not a guard-eval database: it holds {min(strange)!r}; name another"
            )
        return False

    def _check_encoding(self, db: Connection) -> None:
        encoding = "UTF8" if self.is_sqlite else db.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise StudyError(
                f"the database {self.name} has the encoding {encoding}, which cannot hold every text; "
                "make one with: createdb --encoding=UTF8 --template=template0 NAME"
            )


def parse_url(address: str) -> URL:
    """Return a database's URL with the driver the store uses.

    Raises:
        StudyError: It is no URL, names another database system, or an SQLite database without a file.
        MissingExtraError: PostgreSQL's driver is not installed.
    """
    try:
        url = make_url(address)
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
    # what stands in the wrong place may be a part of a password
    user = " ".join([url.username or "", *url.normalized_query.get("user", ())])
    if ":" in decode(user) or "@" in decode(f"{url.host or ''}{url.database or ''}"):
        raise StudyError(UNREADABLE)
    if url.drivername not in {"postgres", "postgresql", "postgresql+psycopg"}:
        raise StudyError(
            f"the database system {url.drivername!r} is not supported; use sqlite:/// or postgresql+psycopg://"
        )
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("postgres", "psycopg")
    return url.set(drivername="postgresql+psycopg")


def hide_passwords(message: str, url: URL) -> str:
    """Return `message` without the passwords of `url`, plain or as a URL has them."""
    passwords = [url.password]
    for key, values in url.normalized_query.items():
        passwords += values if "password" in key.lower() else ()
    for password in filter(None, passwords):
        for form in (password, quote(password, safe=""), quote(password), quote_plus(password)):
            message = message.replace(form, "***")
    return message


def is_writable(file: Path) -> bool:
    """Return whether a database can be written: its file, and the folder, for what SQLite puts beside it."""
    return not file.is_file() or (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))


def make_private(file: Path) -> None:
    """Make an empty file that only its owner can read; SQLite gives the same mode to the files beside it.

    Raises:
        OSError: It exists, or cannot be made.
    """
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _keep_private(file: Path) -> None:
    """Take the rights of everybody but the owner from a database that was made with more."""
    for path in (file, *(file.with_name(file.name + end) for end in _BESIDE)):
        with suppress(OSError):  # missing, another user's, or on a disk that is only read
            mode = path.stat().st_mode
            if mode & 0o077:
                path.chmod(mode & 0o700)


def _find_file(file: Path, *, create: bool) -> None:
    if file.is_dir():
        raise StudyError(f"the database {file} is a folder; name a file in it, such as {file / 'study.db'}")
    if file.is_file():
        return
    if not create:
        raise StudyError(f"there is no database {file}; run: guard-eval pair {_name_study(file)}")
    if not file.parent.is_dir():
        raise StudyError(
            f"the database {file} cannot be made: there is no folder {file.parent}; make it first"
        )
    with suppress(OSError):  # another process made it meanwhile, or SQLite will say why it cannot be made
        make_private(file)


def _name_study(file: Path) -> str:
    if not (file.parent / "study.toml").is_file():
        return "STUDY"
    folder = file.parent.resolve()
    return shlex.quote(str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder))


def _remedy(reason: str) -> str:
    for symptom, remedy in (
        (
            "holds what was saved last",
            "copy all its files to a folder that can be written, and read it there",
        ),
        ("readonly", "make the file and its folder writable"),
        ("read-only", "use a server that takes writes"),
        ("unable to open", "make the file and its folder readable and writable"),
        ("disk is full", "free some space, then do it again"),
        ("not a database", "name another file, or move this one away"),
        ("malformed", "restore it from a copy"),
        ("password", "set PGPASSWORD in the environment"),
        ("does not exist", "make it with PostgreSQL's createdb or createuser"),
    ):
        if symptom in reason:
            return remedy
    return "see that it is there and that no other program holds it, then do it again"


def _write_lock(file: Path) -> threading.Lock:
    with _write_locks_guard:
        return _write_locks.setdefault(str(file.resolve()), threading.Lock())


def _sqlite_engine(url: URL) -> Engine:
    file = Path(str(url.database))
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        pool_size=16,
        max_overflow=48,
        **({} if is_writable(file) else {"creator": lambda: open_to_read(file)}),
    )
    event.listen(engine, "connect", set_up_sqlite)
    return engine


def _postgresql_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"connect_timeout": 10},
        pool_pre_ping=True,
        pool_recycle=_RECYCLE_SECONDS,
        pool_size=8,
        max_overflow=24,
    )
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def set_up_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Set what a new connection to a file needs."""
    # sqlite3 would otherwise begin transactions by itself, late, and never IMMEDIATE
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _set_up_postgresql(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    # only `off` lets a commit return before it is on disk; the stronger settings of a replicated server stay
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()


def open_to_read(file: Path) -> sqlite3.Connection:
    """Open a file to read only, also where nothing can be written.

    SQLite makes files beside it, except where it may assume that it does not change. It may only if nothing
    is beside it: rows that were saved last are in the write-ahead log, and would silently be missing.
    """
    logs = [path for end in ("-wal", "-journal") if (path := file.with_name(file.name + end)).exists()]
    pending = [path.name for path in logs if path.stat().st_size]
    mode = "mode=ro" if pending or is_writable(file) else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{file.resolve().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if not pending or is_writable(file):
            raise
        raise sqlite3.OperationalError(
            f"{pending[0]} holds what was saved last, and cannot be read where nothing can be written"
        ) from None
    return connection
