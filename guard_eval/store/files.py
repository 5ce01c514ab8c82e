"""The files of an SQLite database: who may read them, and how they are read where nothing can be written."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

_BESIDE = ("-wal", "-shm", "-journal")


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read; SQLite gives the same mode to the files beside it.

    Raises:
        OSError: It exists, or cannot be made.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def keep_private(path: Path) -> None:
    """Take the rights of everybody but the owner from a database that was made with more."""
    for each in (path, *(path.with_name(path.name + end) for end in _BESIDE)):
        with suppress(OSError):  # missing, another user's, or on a disk that is only read
            mode = each.stat().st_mode
            if mode & 0o077:
                each.chmod(mode & 0o700)


def is_writable(path: Path) -> bool:
    """Return whether a database can be written: its file, and the folder, for what SQLite puts beside it."""
    return not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def open_to_read(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a database to read only, also where nothing can be written.

    SQLite makes files beside it, except where it may assume that it does not change. It may only if nothing
    is beside it: rows that were saved last are in the write-ahead log, and would silently be missing.

    Raises:
        sqlite3.OperationalError: It cannot be read, or cannot without the files beside it.
    """
    beside = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    kept = [each.name for each in beside if each.exists() and each.stat().st_size]
    how = "mode=ro" if kept or is_writable(path) else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{how}", uri=True, timeout=timeout, check_same_thread=False
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if not kept or is_writable(path):
            raise
        raise sqlite3.OperationalError(
            f"{kept[0]} holds what was saved last, and cannot be read where nothing can be written"
        ) from None
    return connection
