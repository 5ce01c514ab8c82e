"""Combine the simultaneous writes of many tasks in one transaction."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.store.sql.database import Store

GATHER_SECONDS = 0.015
"""Seconds in which writes are collected for one transaction: short, compared with the wait for an answer."""

Write = Callable[[Connection, datetime, list[Any]], Sequence[Any] | None]
"""A function that writes for several workers at once. It returns a result for each argument, or None."""


class GroupCommit:
    """Combines the writes of one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[Write, Any]] = []
        self._commit: asyncio.Task[dict[int, Any]] | None = None

    async def write(self, function: Write, argument: object = None) -> Any:  # noqa: ANN401 (any row)
        """Write, and return the result once this write and all earlier ones are on disk."""
        self._commit = self._commit or asyncio.create_task(self._commit_waiting_writes())
        commit = self._commit
        index = len(self._waiting)
        self._waiting.append((function, argument))
        result = (await asyncio.shield(commit)).get(index)
        if isinstance(result, StudyError):
            raise result
        return result

    async def _commit_waiting_writes(self) -> dict[int, Any]:
        await asyncio.sleep(GATHER_SECONDS)
        async with self._turn:
            writes = self._waiting
            self._waiting = []
            self._commit = None
            return await asyncio.to_thread(self._run_writes, writes)

    def _run_writes(self, writes: list[tuple[Write, Any]]) -> dict[int, Any]:
        """Run the writes; return results and errors by number. A failed write does not affect the others."""
        results: dict[int, Any] = {}
        groups: dict[Write, dict[int, Any]] = {}
        for index, (function, argument) in enumerate(writes):
            groups.setdefault(function, {})[index] = argument
        with self._store.begin_write() as (db, now):
            for function, arguments in groups.items():
                savepoint = db.begin_nested()
                try:
                    values = function(db, now, list(arguments.values())) or ()
                    savepoint.commit()
                except StudyError as error:  # an error of the database itself ends the whole transaction
                    savepoint.rollback()
                    values = [error] * len(arguments)
                results.update(zip(arguments, values, strict=False))
        return results
