"""What models compute from texts, stored by content: a model reads a text once.

A key is a hash of everything that can change the value (the model's revision, the definition, the texts), so
nothing is ever stale. Each batch is committed; a run that is stopped continues where it was.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from guard_eval import progress
from guard_eval.errors import StudyError

KEYS_PER_QUERY = 500
BATCH_TEXTS = 256
"""Texts after which values are committed."""

Item = TypeVar("Item")


class ScoreCache:
    """JSON values by key in an SQLite file, or in memory if there is no file."""

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
                "CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise self._broken(error) from error

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values that are stored, by key."""
        wanted = list(dict.fromkeys(keys))
        values: dict[str, Any] = {}
        try:
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                some = wanted[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, value FROM scores WHERE key IN ({marks})"  # noqa: S608 (question marks)
                with closing(self._connection.execute(query, some)) as rows:
                    values.update((key, json.loads(value)) for key, value in rows)
        except (sqlite3.Error, ValueError) as error:
            raise self._broken(error) from error
        return values

    def put(self, values: Mapping[str, Any]) -> None:
        """Store values; when this returns they outlive the process."""
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _broken(self, error: Exception) -> StudyError:
        return StudyError(
            f"cannot store scores in {self._path}: {error}; fix that, or remove the file to start again"
        )


def compute_once(
    stage: str,
    keys: Mapping[Item, str],
    compute: Callable[[Sequence[Item]], Iterable[Any]],
    cache: ScoreCache,
) -> dict[Item, Any]:
    """Return a value for each item; what is stored is not computed again.

    Args:
        stage: What the progress bar says.
        keys: The items, with the keys of their values. Items that are alike in length should stand together.
        compute: Returns the values of a batch of items, as JSON.
        cache: Where values are stored.
    """
    stored = cache.get(keys.values())
    missing = [item for item, key in keys.items() if key not in stored]
    with progress.task(stage, total=len(keys), unit="texts") as advance:
        advance(len(keys) - len(missing))
        for start in range(0, len(missing), BATCH_TEXTS):
            batch = missing[start : start + BATCH_TEXTS]
            values = {keys[item]: value for item, value in zip(batch, compute(batch), strict=True)}
            cache.put(values)
            stored |= values
            advance(len(batch))
    return {item: stored[key] for item, key in keys.items()}
