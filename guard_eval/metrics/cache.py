"""What models compute from texts, stored by content: a model reads a text once.

A key is a hash of everything that can change the value (the model's revision, the definition, the texts), so
nothing is ever stale. Each batch is committed; a run that is stopped continues where it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from guard_eval.errors import StudyError
from guard_eval.metrics.outcomes import Outcome

if TYPE_CHECKING:  # who measures texts alone needs no torch
    from guard_eval.engines.lazy import LazyModel

_AT_ONCE = 500
"""Keys in a query."""
_BATCH = 256
"""Texts after which values are committed."""

Item = TypeVar("Item")
Stored = TypeVar("Stored")

Progress = Callable[[str, int, int], None]
"""Called with the stage, how many more of its steps are done, and how many it has."""

Found = dict[tuple[str, str, int], list[Outcome]]
"""Outcomes by dataset, strategy and run."""


class Models(Protocol):
    """Where models come from."""

    def causal(self, name: str) -> LazyModel:
        """Return a language model."""

    def encoder(self, name: str) -> LazyModel:
        """Return an encoder."""


class ScoreCache:
    """Bytes by key in an SQLite file, or in memory alone where there is no file to store them in."""

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
        """Return the values that are stored, by key."""
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
        """Store values; when this returns they outlive the process."""
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
            f"cannot store scores in {self._path}: {error}; fix that, or remove the file to start again"
        )


def in_batches(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Return items in the batches after which their values are committed."""
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]


def read_once(
    keys: Mapping[Item, str],
    work: Callable[..., Iterable[Any]],
    *,
    model: LazyModel,
    cache: ScoreCache,
    pack: Callable[[Any], bytes],
    unpack: Callable[[bytes], Stored],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    batches: Callable[[Sequence[Item]], Sequence[Sequence[Item]]] = in_batches,
) -> dict[Item, Stored]:
    """Return what `work` computes with a model for each item; what is stored is not computed again.

    Args:
        keys: The items, with the keys of their values.
        work: As `LazyModel.map` takes it; returns a value for each item of a batch.
        model: The model.
        cache: Where values are stored.
        pack: Value → bytes.
        unpack: Bytes → what is returned.
        progress: Called with how many more items are done, and how many there are.
        batches: Cuts the items that are missing.
    """
    stored = cache.get(keys.values())
    missing = [item for item in keys if keys[item] not in stored]
    progress(len(keys) - len(missing), len(keys))
    parts = batches(missing) if missing else []
    for place, made in model.map(work, parts):
        new = {keys[item]: pack(one) for item, one in zip(parts[place], made, strict=True)}
        cache.put(new)
        stored |= new
        progress(len(parts[place]), len(keys))
    return {item: unpack(stored[key]) for item, key in keys.items()}
