"""What models compute from texts, stored by content: a model reads a text once.

A key is a hash of everything that can change the value (the model's revision, the definition, the texts), so
nothing is ever stale. Each batch is committed; a run that is stopped continues where it was.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import content_id
from guard_eval.reporting.writing import check_database_file

BATCH_TEXTS = 256
"""Texts after which values are committed."""
TABLE = "CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID"

ScoringInput = tuple[str, ...]
"""A text, or a text with its prompt or its reference."""


class ScoreCache:
    """Values by key in an SQLite file, or in memory if there is no file: JSON or arrays of float32."""

    def __init__(self, path: Path | None = None) -> None:
        """Open or make the file.

        Raises:
            StudyError: It cannot be opened.
        """
        self._path = path
        with self._naming_the_file():
            if path is not None:
                check_database_file(path)
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path or ":memory:", timeout=60)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(TABLE)

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values that are stored, by key."""
        query = "SELECT key, value FROM scores WHERE key IN (SELECT value FROM json_each(?))"
        with self._naming_the_file():
            rows = self._connection.execute(query, [json.dumps([*keys])])
            return {key: _decode(value) for key, value in rows}

    def put(self, values: Mapping[str, Any]) -> None:
        """Store values; when this returns they outlive the process."""
        with self._naming_the_file(), self._connection:
            rows = [(key, _encode(value)) for key, value in values.items()]
            self._connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except StudyError:
            raise
        except (OSError, sqlite3.Error, ValueError) as error:
            remedy = "fix that, or remove the file to start again"
            raise StudyError(f"cannot store scores in {self._path}: {error}; {remedy}") from error


def _encode(value: Any) -> bytes | str:  # noqa: ANN401
    return value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value)


def _decode(value: bytes | str) -> Any:  # noqa: ANN401
    return np.frombuffer(value, dtype=np.float32) if isinstance(value, bytes) else json.loads(value)


def compute_once(
    definition: Sequence[object],
    items: Iterable[ScoringInput],
    compute: Callable[[Sequence[ScoringInput]], Iterable[Any]],
    cache: ScoreCache,
) -> dict[ScoringInput, Any]:
    """Return a value for each item; what is stored is not computed again.

    Args:
        definition: What is computed and how; its first part is the progress bar's.
        items: The texts. Those of about the same length are computed together.
        compute: Returns the values of a batch of items: JSON, or arrays of float32.
        cache: Where values are stored.
    """
    ordered = sorted(set(items), key=lambda item: (sum(map(len, item)), item))
    keys = {item: content_id(*definition, *item) for item in ordered}
    stored = cache.get(keys.values())
    missing = [item for item in ordered if keys[item] not in stored]
    with progress.task(str(definition[0]), total=len(keys), unit="texts") as advance:
        advance(len(keys) - len(missing))
        for start in range(0, len(missing), BATCH_TEXTS):
            batch = missing[start : start + BATCH_TEXTS]
            values = {keys[item]: value for item, value in zip(batch, compute(batch), strict=True)}
            cache.put(values)
            stored |= values
            advance(len(batch))
    return {item: stored[key] for item, key in keys.items()}
