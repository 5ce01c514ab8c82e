"""The schema's version: what a database has, what this package knows, and the way from one to the other."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, inspect, select, table, text

from guard_eval.errors import StudyError
from guard_eval.store import files
from guard_eval.store.connection import Database
from guard_eval.store.schema import VERSION_TABLE, metadata

MIGRATIONS = Path(__file__).parent / "migrations"


def prepare(database: Database, *, create: bool) -> None:
    """Check that `database` holds this package's schema; with `create`, make it or bring it up to date.

    Raises:
        StudyError: There is no such database, it is not a study's, its schema is unknown to this package, or
            it is missing or older and `create` is false.
    """
    _find_file(database, create=create)
    newest = _known(MIGRATIONS)[-1]
    with database.read() as connection:
        _check_encoding(database, connection)
        version = _version(database, connection)
        if version == newest:
            _check_columns(database, connection)
    if version != newest and not create:
        found = (
            "holds no study yet; run: guard-eval pair STUDY"
            if version is None
            else f"has schema version {version}, this package {newest}; run: guard-eval db STUDY upgrade"
        )
        raise StudyError(f"the database {database.name} {found}")
    if database.is_sqlite and database.is_writable:
        files.keep_private(Path(str(database.url.database)))  # not before: the file may be no study's
        database.use_wal()
    if version != newest:
        with database.write(lock="schema") as connection:
            # another process may have made it meanwhile
            if _version(database, connection) != newest:
                _upgrade(connection)


def _find_file(database: Database, *, create: bool) -> None:
    if not database.is_sqlite:
        return
    path = Path(str(database.url.database))
    if path.is_dir():
        raise StudyError(f"the database {path} is a folder; name a file in it, such as {path / 'study.db'}")
    if path.is_file():
        return
    if not create:
        raise StudyError(f"there is no database {path}; run: guard-eval pair STUDY")
    if not path.parent.is_dir():
        raise StudyError(
            f"the database {path} cannot be made: there is no folder {path.parent}; make it first"
        )
    with suppress(OSError):  # another process made it meanwhile, or SQLite will say why it cannot be made
        files.make_private(path)


def _check_encoding(database: Database, connection: Connection) -> None:
    if database.is_sqlite:
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise StudyError(
            f"the database {database.name} has the encoding {encoding}, which cannot hold every text; "
            "make one with: createdb --encoding=UTF8 --template=template0 NAME"
        )


def _version(database: Database, connection: Connection) -> str | None:
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        strange = tables if database.is_sqlite else tables & set(metadata.tables)
        if strange:
            raise StudyError(
                f"{database.name} is not a guard-eval database: it holds {min(strange)!r}; name another"
            )
        return None
    versions = connection.execute(select(table(VERSION_TABLE, column("version_num")))).scalars().all()
    version = " and ".join(map(str, versions)) or "none"
    known = _known(MIGRATIONS)
    if version not in known:
        raise StudyError(
            f"the database {database.name} has schema version {version}, which this package does not know: "
            f"its newest is {known[-1]}; run: pip install --upgrade guard-eval"
        )
    return version


def _check_columns(database: Database, connection: Connection) -> None:
    """Check that no column is missing: until the first release the schema changes under one version."""
    found = inspect(connection).get_multi_columns()
    present = {(name, column["name"]) for (_, name), columns in found.items() for column in columns}
    for known in metadata.sorted_tables:
        for each in known.columns:
            if (known.name, each.name) not in present:
                raise StudyError(
                    f"the database {database.name} was made by an earlier guard-eval, of before the first "
                    f"release: it lacks {known.name}.{each.name}; read it with the version that made it, or "
                    "move it away and run: guard-eval pair STUDY"
                )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@cache
def _known(migrations: Path) -> tuple[str, ...]:
    """Return the versions of the schema, oldest first."""
    script = ScriptDirectory(str(migrations))
    return tuple(revision.revision for revision in script.walk_revisions())[::-1]


def _upgrade(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
