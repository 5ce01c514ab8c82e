"""`guard-eval backup`: the study's database of one moment in another file, while raters rate."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.results import Result
from guard_eval.store.database import make_private, open_to_read, parse_url
from guard_eval.study import Study


@dataclass(frozen=True, kw_only=True)
class Copied(Result):
    """A backup.

    Attributes:
        file: Where it is.
        bytes: How large it is.
    """

    file: Path
    bytes: int


def backup(study: Study, file: Path, /) -> Copied:
    """Copy the study's database to a file while raters rate.

    The copy is the database of one moment, checked, and whole or not there at all. It is a database like the
    study's own.

    Args:
        study: The study's folder.
        file: The copy; there must be none yet.

    Raises:
        StudyError: The file exists or cannot be written, the database cannot be read, or it is PostgreSQL's,
            whose pg_dump does this.
    """
    url = parse_url(study.database)
    if url.get_backend_name() != "sqlite":
        address = url.set(drivername="postgresql", password=None).difference_update_query(["password"])
        raise StudyError(
            "PostgreSQL makes its own backups; run: pg_dump --format=custom "
            f"--file={file} --dbname={address.render_as_string()}"
        )
    if file.exists():
        raise StudyError(f"{file} exists, and a backup overwrites nothing; name another file")
    source = Path(str(url.database))
    if not source.is_file():
        raise StudyError(f"there is no database {source}; run: {study.command('pair')}")
    partial = file.with_name(f"{file.name}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        make_private(partial)
        _copy(source, partial)
        partial.replace(file)
    except (OSError, sqlite3.Error) as error:
        raise StudyError(
            f"cannot copy {source} to {file}: {error}; see that there is room and do it again"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    size = file.stat().st_size
    restore = f"To restore it: stop the server, move {source.name}* away, and copy {file} to {source}"
    return Copied(lines=(f"{file}: {size:,} bytes", restore), file=file, bytes=size)


def _copy(source: Path, target: Path) -> None:
    """Write the database of this moment to an empty file; readers and writers go on meanwhile."""
    with closing(open_to_read(source)) as original:
        original.execute("VACUUM INTO ?", (str(target),))
    with closing(sqlite3.connect(target)) as copy:
        (state,) = copy.execute("PRAGMA integrity_check").fetchone()
    if state != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged, as the database itself may be: {state}")
    with target.open("rb+") as file:
        os.fsync(file.fileno())
