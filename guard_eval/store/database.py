"""Open the database of one study, and run transactions on SQLite or PostgreSQL."""

import importlib.util
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Self

from sqlalchemy import URL, Connection, create_engine, func, inspect, literal, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError

from guard_eval.database_url import UNREADABLE, check_database_url
from guard_eval.errors import MissingExtraError, StudyError, get_first_line
from guard_eval.reporting.writing import check_database_file
from guard_eval.store.schema import SCHEMA, TABLE_NAMES, query, write_schema_statements
from guard_eval.study.folder import Study

BUSY_SECONDS = 60
"""Seconds that a write waits for other processes. A rating takes only a few milliseconds."""

_LOCK = func.pg_advisory_xact_lock(literal(0x67756172), func.hashtext(func.current_schema()))
"""PostgreSQL's lock for the writers of one study. Its first number differs from other programs' locks."""

_DURABLE = func.set_config(
    "synchronous_commit", func.replace(func.current_setting("synchronous_commit"), "off", "on"), True
)
"""Makes PostgreSQL's commits wait for the disk: `synchronous_commit = off` becomes `on`."""

_READ_SCHEMA = query("SELECT value FROM setting WHERE key = 'schema'")
_KEEP_SCHEMA = query("INSERT INTO setting (key, value) VALUES ('schema', :value)")

_READ_SQLITE_STATEMENTS = """
SELECT sql FROM sqlite_master
WHERE sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'sqlite_*') -- a table of SQLite itself
"""

LONGEST_ID = 1000
"""The longest allowed id, in characters. Every verdict repeats ids, so long ids could fill the memory."""

_FIND_ODD_ROWS = f"""
WITH fact AS MATERIALIZED (
    SELECT kind, CASE WHEN json_valid(detail) THEN detail END AS detail FROM note
    WHERE kind NOT IN ('comment', 'problem', 'skip', 'conduct')
)
SELECT 1 FROM pair
WHERE max(length(id), length(dataset), length(prompt_id), length(method_a), length(method_b)) > {LONGEST_ID}
UNION ALL
SELECT 1 FROM rater WHERE max(length(name), ifnull(length(external_id), 0)) > {LONGEST_ID}
UNION ALL
SELECT 1 FROM (
    SELECT 'consent' AS kind, '$.agreed' AS path, 'true false' AS types
    UNION ALL VALUES ('check', '$.passed', 'true false'), ('check', '$.wrong', 'array'),
        ('practice', '$.pair', 'text'), ('exclude', '$.reason', 'text'),
        ('exclude', '$.results_seen', 'true false'), ('include', '$.results_seen', 'true false')
) AS needed JOIN fact ON fact.kind = needed.kind
WHERE instr(types, ifnull(json_type(detail, path), 'missing')) = 0
UNION ALL
SELECT 1 FROM fact, json_each(detail) AS answer WHERE kind = 'background' AND answer.type != 'text'
UNION ALL
SELECT 1 FROM pair, json_each(expected) AS side WHERE ifnull(side.value, '') NOT IN ('a', 'b')
UNION ALL
SELECT 1 FROM calibration, json_each(choices) AS choice
WHERE choice.type != 'null' AND choice.value NOT IN ('A', 'tie', 'B')
UNION ALL
SELECT 1 FROM verdict WHERE choice NOT IN ('A', 'tie', 'B')
UNION ALL
SELECT 1 FROM setting
WHERE key LIKE 'slots %' AND (value GLOB '*[^0-9]*' OR length(value) NOT BETWEEN 1 AND 4)
    OR key GLOB 'declared *' AND json_type(value) != 'object'
UNION ALL
SELECT 1 FROM closed_round
WHERE (
    json_type(grounds, '$.plan.design'), json_type(grounds, '$.plan.criterion'),
    json_type(grounds, '$.plan.alpha'), json_type(grounds, '$.plan.showings'),
    (SELECT count(*) FROM json_each(grounds, '$.plan'))
) IS NOT ('text', 'text', 'real', 'integer', 4)
"""  # noqa: S608 (a constant)
"""Finds ids that are too long, unknown choices and numbers, and JSON without a value that is read."""

_UNWRITABLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
"""SQLite's error codes if the files that even a reader needs beside a database cannot be written."""

_REMEDIES = {
    "readonly": "make the file and its folder writable, or free some space on the disk",
    "unable to open": "make the file and its folder readable and writable, or free some space on the disk",
    "disk is full": "free some space, then try again",
    "disk I/O": "free some space on its disk, and lift limits on the size of files (ulimit -f)",
    "not a database": "name another file, or move this one away",
    "malformed": "restore it from a copy",
    "password": "set PGPASSWORD in the environment",
    "read-only transaction": "connect to the primary server, or free space on its disk",
    "permission denied": "let the owner give this role all rights (createdb --owner=ROLE)",
    "": "check that it exists and that no other program locks it, then try again",
}
"""The remedy for an error, by a part of the database driver's message."""


_REFUSED = {"25006", "42501"}
"""PostgreSQL's error codes for a read-only server, and for a role without the necessary rights."""


class Store:
    """A study's database. Threads may share it; each process opens its own.

    The functions of this package take a store as their first argument. Each call is one transaction. A write
    belongs to the write transaction that the same thread has open, if there is one; a read sees only what is
    on disk. All functions raise a `StudyError` if the database cannot be used.

    Attributes:
        name: The name in messages: the file, or the server and the database's name there.
        declared_now: The current settings (`Study.declared`). Each part is stored with its raters' first
            verdict.
    """

    def __init__(
        self, url: str, *, declared: Mapping[str, str], clock: Callable[[], datetime] | None
    ) -> None:
        address = parse_url(url)
        self.is_sqlite = address.drivername == "sqlite"
        self.file = Path(str(address.database)) if self.is_sqlite else None
        server = URL.create("postgresql", host=address.host, port=address.port, database=address.database)
        self.name = str(self.file or server)
        self.declared_now = declared
        self._clock = clock
        self._lock = threading.RLock()
        self._transaction: tuple[Connection, datetime] | None = None
        self._uri: str | None = None
        self._scratch: TemporaryDirectory[str] | None = None
        options: dict[str, Any] = {"creator": self._connect_to_sqlite}
        if not self.is_sqlite:
            connect_args = {"connect_timeout": 10, "client_encoding": "utf8"}
            options = {"connect_args": connect_args, "pool_pre_ping": True}
        try:
            self.engine = create_engine(
                address, hide_parameters=True, pool_size=8, max_overflow=24, **options
            )
        except (ArgumentError, TypeError, ValueError):
            raise StudyError(UNREADABLE) from None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        to_write: bool = False,
        declared: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Open the database at `url`.

        Args:
            url: `sqlite:///file` or `postgresql+psycopg://user@host/database`.
            create: Make the file and the tables if they are missing.
            to_write: Raise an error at once if the database is read-only. By default, a read-only database
                is only read.
            declared: The current settings (`Study.declared`). Each part is stored with its raters' first
                verdict.
            clock: The source of the time, with a time zone. Default: this machine or the database's server.

        Raises:
            StudyError: The database does not exist, does not belong to a study, was made by another version
                of this package, or cannot be read. No message contains a password.
        """
        store = cls(url, declared=declared, clock=clock)
        try:
            store._check_or_make_tables(create=create, read_only=not (create or to_write))
        except BaseException as error:
            store.__exit__(type(error), error, None)
            raise
        return store

    @classmethod
    def open_study(cls, study: Study, *, create: bool = False, to_write: bool = False) -> Self:
        """Open the database of a study, with the study's current settings. See `open`."""
        return cls.open(study.database, create=create, to_write=to_write, declared=study.declared)

    def _connect_to_sqlite(self) -> sqlite3.Connection:
        """Connect to the SQLite file, or to its temporary copy, with foreign keys and full durability."""
        connection = sqlite3.connect(
            self._uri or str(self.file),
            uri=self._uri is not None,
            timeout=BUSY_SECONDS,
            # otherwise, sqlite3 would begin transactions by itself, too late and never as IMMEDIATE
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close all connections, and remove the temporary copy of the database."""
        self.engine.dispose()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            if isinstance(error, Exception) and not isinstance(error, (StudyError, OSError)):
                self._raise_error_if_damaged(error)
        finally:
            self.close()

    def _raise_error_if_damaged(self, error: Exception) -> None:
        """Raise a `StudyError` instead of an unexpected error if an SQLite database is damaged."""
        if not self.is_sqlite:
            return
        try:
            with self.engine.connect() as db:
                damage = str(db.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one())
        except (DBAPIError, UnicodeDecodeError) as failure:
            damage = get_first_line(failure)
        if damage == "ok" and isinstance(error, sqlite3.Error):
            damage = str(error)
        if damage != "ok":
            damage = " ".join(damage.split())
            raise StudyError(
                f"the database {self.name} is damaged: {damage}; restore it from a copy"
            ) from error

    def begin_read(self) -> AbstractContextManager[Connection]:
        """Open a transaction that sees one state of the database."""
        return self._begin_transaction("BEGIN", isolation_level="REPEATABLE READ")

    @contextmanager
    def begin_write(self) -> Iterator[tuple[Connection, datetime]]:
        """Open a write transaction and yield it with its start time. Only one can be open at a time.

        All changes are on disk when the block ends, and are undone if the block raises an error. Writers wait
        for their turn: in one process at a lock, because SQLite's own waiting is unfair, and between
        processes at the database. A block inside another block belongs to the outer transaction.
        """
        with self._lock:
            if self._transaction is not None:
                yield self._transaction
                return
            with self._begin_transaction("BEGIN IMMEDIATE", isolation_level="READ COMMITTED") as db:
                now = datetime.now(UTC)
                if not self.is_sqlite:
                    now = db.execute(select(_LOCK, func.clock_timestamp(), _DURABLE)).one()[1]
                self._transaction = (db, self._clock() if self._clock else now)
                try:
                    yield self._transaction
                finally:
                    self._transaction = None

    @contextmanager
    def _begin_transaction(self, statement: str, *, isolation_level: str) -> Iterator[Connection]:
        """Open a transaction: with this statement on SQLite, at this isolation level on PostgreSQL."""
        with self.explain_database_errors(), self.engine.connect() as db:
            if not self.is_sqlite:
                db.execution_options(isolation_level=isolation_level)
            with db.begin():
                if self.is_sqlite:
                    db.exec_driver_sql(statement)
                yield db

    @contextmanager
    def explain_database_errors(self) -> Iterator[None]:
        """Convert a driver's error about an unusable database to a `StudyError`."""
        try:
            yield
        except DatabaseError as error:
            # a closed connection has many names; an error without a statement came before the connection
            is_refused = getattr(error.orig, "sqlstate", None) in _REFUSED
            unusable = isinstance(error, OperationalError) or error.connection_invalidated or is_refused
            damaged = self.is_sqlite and type(error) is DatabaseError
            if not (unusable or damaged or error.statement is None):
                raise
            reason = " ".join(str(error.orig).split())  # SQLAlchemy's own text contains the statement
            remedy = next(remedy for words, remedy in _REMEDIES.items() if words in reason)
            raise StudyError(f"cannot use the database {self.name}: {reason}; {remedy}") from None

    def _check_or_make_tables(self, *, create: bool, read_only: bool) -> None:
        """Check that the database contains this package's tables. With `create`, make missing tables."""
        if self.file is not None:
            check_database_file(self.file)
            if not self.file.exists():
                if not create:
                    raise StudyError(f"there is no database {self.file}; run: guard-eval pair STUDY")
                with suppress(OSError):  # another process made it meanwhile, or SQLite will say what is wrong
                    # the files that SQLite puts beside the database get the same mode
                    self.file.touch(mode=0o600, exist_ok=False)
            elif read_only:
                self._choose_way_to_read(self.file)
        with self.begin_read() as db:
            exists = self._contains_study(db)
        if not exists and not create:
            raise StudyError(f"the database {self.name} has no study yet; run: guard-eval pair STUDY")
        if self.is_sqlite and not read_only:
            with self.explain_database_errors(), self.engine.connect() as db:
                db.exec_driver_sql("PRAGMA journal_mode = WAL")  # readers need not wait for writers
        if exists:
            return
        with self.begin_write() as (db, _):
            if self._contains_study(db):  # another process has made the tables meanwhile
                return
            for statement in write_schema_statements(sqlite=self.is_sqlite):
                db.exec_driver_sql(statement)
            _KEEP_SCHEMA(db, value=SCHEMA)

    def _choose_way_to_read(self, file: Path) -> None:
        """Read the file alone, or a copy if it has a log, if SQLite cannot write beside the file.

        In WAL mode, even a reader makes two files. After a program was killed, its log contains the newest
        changes.
        """
        try:
            with closing(sqlite3.connect(file)) as probe:
                probe.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.Error as error:
            if error.sqlite_errorcode & 0xFF not in _UNWRITABLE:  # the low byte is the kind of error
                return
            logs = [file.with_name(file.name + ending) for ending in ("-wal", "-journal")]
            if any(log.exists() and log.stat().st_size for log in logs):
                self._scratch = copy_database(file, [log for log in logs if log.exists()])
                file = Path(self._scratch.name, file.name)
            self._uri = f"{file.absolute().as_uri()}?immutable=1"

    def _contains_study(self, db: Connection) -> bool:
        """Return whether the database contains a study. Refuse the database of another program."""
        tables = set(inspect(db).get_table_names())
        version = None
        if {"setting", "presentation"} <= tables:
            version = _READ_SCHEMA(db).scalar()
        if version is None:
            strange = tables if self.is_sqlite else tables & set(TABLE_NAMES)
            if strange:
                raise StudyError(
                    f"{self.name} is not a study's database, because it has the table {min(strange)!r}; name "
                    "another database"
                )
        elif version != SCHEMA:
            raise StudyError(
                f"the database {self.name} has schema {version}, and this guard-eval needs {SCHEMA}; use the "
                "version of guard-eval that made the database"
            )
        elif self.is_sqlite:
            self._check_tables_unchanged(db)
        if not self.is_sqlite and db.exec_driver_sql("SHOW server_encoding").scalar_one() != "UTF8":
            raise StudyError(
                f"the database {self.name} is not in UTF-8, so it cannot store all characters; create one "
                "with: createdb -E UTF8 -T template0 NAME"
            )
        return version is not None

    def _check_tables_unchanged(self, db: Connection) -> None:
        """Check that an SQLite file has exactly this package's tables, indexes and triggers.

        With views, computed columns, triggers or long ids, a stranger's file could change or multiply rows.
        No code checks again what a row's JSON contains.
        """
        stored = set(db.exec_driver_sql(_READ_SQLITE_STATEMENTS).scalars())
        is_changed = stored != set(write_schema_statements(sqlite=True))
        if is_changed or db.exec_driver_sql(_FIND_ODD_ROWS).first() is not None:
            raise StudyError(f"{self.name} was changed by another program; restore the original file")


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
            f"SQLite cannot write beside {file}, and copying this file to a temporary folder failed: "
            f"{error}; set TMPDIR to a folder with free space"
        ) from None
    return scratch


def parse_url(address: str) -> URL:
    """Return a database's URL with the driver that the store uses.

    Raises:
        StudyError: The URL cannot be used, or means an SQLite database without a file.
        MissingExtraError: PostgreSQL's driver is not installed.
    """
    url = make_url(check_database_url(address))
    if url.drivername.lower().startswith("sqlite"):
        if url.database in {None, "", ":memory:"}:
            raise StudyError(f"{UNREADABLE}; name a file, because a database in memory is not kept")
        return url.set(drivername="sqlite")
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("postgres", "psycopg")
    return url.set(drivername="postgresql+psycopg")
