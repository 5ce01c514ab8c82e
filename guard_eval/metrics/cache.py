"""Store the values that models compute from texts, so that a model reads each text once.

A key is a hash of everything that can change the value: the model's revision, the definition and the texts.
So a stored value is never out of date. Each batch is committed, so a stopped run loses at most one batch.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import make_content_id
from guard_eval.reporting.writing import check_database_file

BATCH_TEXTS = 256
"""The number of texts whose values are committed together."""
TABLE = "CREATE TABLE IF NOT EXISTS scores (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID"

Value: TypeAlias = Any
"""A value that a model computes: JSON, or an array of float32."""
ScoringInput = tuple[str, ...]
"""A text, or a text with its prompt or its reference."""


class ScoreCache:
    """A cache of values by key, in an SQLite file or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, or create it if it does not exist.

        Raises:
            StudyError: The file cannot be opened.
        """
        self._path = path
        with self._name_file_in_errors():
            if path is not None:
                check_database_file(path)
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path or ":memory:", timeout=60)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(TABLE)

    def get(self, keys: Iterable[str]) -> dict[str, Value]:
        """Return the stored values, by key."""
        query = "SELECT key, value FROM scores WHERE key IN (SELECT value FROM json_each(?))"
        with self._name_file_in_errors():
            rows = self._connection.execute(query, [json.dumps([*keys])])
            return {key: _decode_value(value) for key, value in rows}

    def put(self, values: Mapping[str, Value]) -> None:
        """Store values. When this function returns, the values are saved even if the process is killed."""
        with self._name_file_in_errors(), self._connection:
            rows = [(key, _encode_value(value)) for key, value in values.items()]
            self._connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _name_file_in_errors(self) -> Iterator[None]:
        try:
            yield
        except StudyError:
            raise
        except (OSError, sqlite3.Error, ValueError) as error:
            remedy = "fix that, or remove the file to start again"
            raise StudyError(f"cannot store scores in {self._path}: {error}; {remedy}") from error


def _encode_value(value: Value) -> bytes | str:
    return value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value)


def _decode_value(value: bytes | str) -> Value:
    return np.frombuffer(value, dtype=np.float32) if isinstance(value, bytes) else json.loads(value)


def compute_once(
    definition: Sequence[object],
    items: Iterable[ScoringInput],
    compute: Callable[[Sequence[ScoringInput]], Iterable[Value]],
    cache: ScoreCache,
) -> dict[ScoringInput, Value]:
    """Return a value for each item. Stored values are not computed again.

    Args:
        definition: The name of the value, which the progress bar shows, and the settings.
        items: The texts. Texts of about the same length are computed together.
        compute: A function that returns the values of a batch of items: JSON or arrays of float32.
        cache: The stored values.
    """
    ordered = sorted(set(items), key=lambda item: (sum(map(len, item)), item))
    keys = {item: make_content_id(*definition, *item) for item in ordered}
    stored = cache.get(keys.values())
    missing = [item for item in ordered if keys[item] not in stored]
    with progress.show_task(str(definition[0]), total=len(keys), unit="texts") as advance:
        advance(len(keys) - len(missing))
        for start in range(0, len(missing), BATCH_TEXTS):
            batch = missing[start : start + BATCH_TEXTS]
            values = {keys[item]: value for item, value in zip(batch, compute(batch), strict=True)}
            cache.put(values)
            stored |= values
            advance(len(batch))
    return {item: stored[key] for item, key in keys.items()}
