"""A copy of a study's database in one file, taken while raters rate: `guard-eval db STUDY backup`."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.engine import make_url

from guard_eval.cli.console import say
from guard_eval.errors import StudyError
from guard_eval.store.database import make_private, open_to_read


def backup(database: str, file: Path) -> None:
    """Copy a database to `file` while it is in use.

    Raises:
        StudyError: The file exists or cannot be written, or the database cannot be read.
    """
    if file.exists():
        raise StudyError(f"{file} exists, and a backup overwrites nothing; name another file")
    url = make_url(database)
    partial = file.with_name(f"{file.name}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        make_private(partial)
        if url.get_backend_name() == "sqlite":
            _copy(Path(str(url.database)), partial)
            restore = f"stop the server, move study.db* away, and copy {file} to where study.db was"
        else:
            _dump(url, partial)
            restore = f"stop the servers, then: pg_restore --clean --if-exists --dbname=… {file}"
        partial.replace(file)
    except OSError as error:
        raise StudyError(
            f"cannot write {file}: {error.strerror}; fix that and run the command again"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    say(f"{file}: {file.stat().st_size:,} bytes".replace(",", "\u202f"))
    say(f"To restore it: {restore}")


def _copy(source: Path, target: Path) -> None:
    """Copy an SQLite database in one step of its online backup: readers and writers go on meanwhile."""
    if not source.is_file():
        raise StudyError(f"there is no database {source}; guard-eval pair makes it")
    try:
        with (
            closing(open_to_read(source)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
            # a copy is one file: nothing of it is in a journal beside it
            copy.execute("PRAGMA journal_mode = DELETE")
            (found,) = copy.execute("PRAGMA integrity_check").fetchone()
    except sqlite3.Error as error:
        raise StudyError(
            f"cannot copy {source}: {error}; see that there is room, then do it again"
        ) from error
    if found != "ok":
        raise StudyError(f"the copy of {source} is damaged, as the database itself may be: {found}")
    with target.open("rb+") as file:
        os.fsync(file.fileno())


def _dump(url: URL, target: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise StudyError("the copy of a PostgreSQL database is made by pg_dump, which is missing; install it")
    # everybody on the machine can read a command's arguments
    password = url.password or url.query.get("password")
    plain = url._replace(drivername="postgresql", password=None).difference_update_query(["password"])
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    done = subprocess.run(  # noqa: S603  (pg_dump, at the study's own database)
        [program, "--format=custom", "--no-password", f"--file={target}", f"--dbname={plain}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        message = " ".join(done.stderr.split())
        raise StudyError(f"pg_dump failed: {message}; fix that and run the command again")
