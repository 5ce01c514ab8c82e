"""Scores already taken, by content: what a model said of a text is asked of it once.

A key is a hash of everything that can change the value (the model's revision, the definition, the texts), so
nothing is ever stale. Each batch is committed; a run that is stopped goes on where it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from guard_eval.errors import StudyError

_AT_ONCE = 500


class ScoreCache:
    """Bytes by key in an SQLite file, or in memory alone where there is no file to keep them in."""

    def __init__(self, path: Path | None = None) -> None:
        """Open or make the file.

        Raises:
            StudyError: It cannot be opened.
        """
        self._path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path or ":memory:", timeout=60)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise self._broken(error) from error

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values that are there, by key."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, bytes] = {}
        try:
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, value FROM scores WHERE key IN ({marks})"  # noqa: S608 (question marks)
                with closing(self._connection.execute(query, some)) as rows:
                    found.update(rows)
        except sqlite3.Error as error:
            raise self._broken(error) from error
        return found

    def put(self, values: Mapping[str, bytes]) -> None:
        """Keep values; when this returns they outlive the process."""
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", values.items())
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _broken(self, error: Exception) -> StudyError:
        return StudyError(
            f"cannot keep scores in {self._path}: {error}; mend that, or remove the file to start anew"
        )
