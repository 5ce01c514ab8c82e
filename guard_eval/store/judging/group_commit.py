"""Combine the simultaneous writes of many tasks in one transaction."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.store.database import Store

GATHER_SECONDS = 0.015
"""Seconds for which writes are collected into one transaction. A judge's answer takes much longer."""

_Argument = TypeVar("_Argument")
_Write = Callable[..., Sequence[object] | None]
"""A function that writes the arguments of several tasks, and returns a result for each argument or None."""


class GroupCommit:
    """Combines simultaneous writes of asyncio tasks in one transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[_Write, object]] = []
        self._commit: asyncio.Task[dict[int, object]] | None = None

    async def write(
        self,
        function: Callable[[Connection, datetime, list[_Argument]], Sequence[object] | None],
        argument: _Argument,
    ) -> object:
        """Add a write to the next transaction. Return when this and all earlier writes are on disk.

        `function` is called once with the arguments of all tasks. The function returns a result for each
        argument, or None.
        """
        self._commit = self._commit or asyncio.create_task(self._commit_waiting_writes())
        commit = self._commit
        index = len(self._waiting)
        self._waiting.append((function, argument))
        result = (await asyncio.shield(commit)).get(index)
        if isinstance(result, StudyError):
            raise result
        return result

    async def _commit_waiting_writes(self) -> dict[int, object]:
        """Collect writes for a moment, then run all of them in one transaction."""
        await asyncio.sleep(GATHER_SECONDS)
        async with self._turn:
            groups: dict[_Write, dict[int, object]] = {}
            for index, (function, argument) in enumerate(self._waiting):
                groups.setdefault(function, {})[index] = argument
            self._waiting = []
            self._commit = None
            return await asyncio.to_thread(self._run_grouped_writes, groups)

    def _run_grouped_writes(self, groups: dict[_Write, dict[int, object]]) -> dict[int, object]:
        """Call each function for its group of writes; return the result or error of each write by number.

        If a group fails, the other groups are still written.
        """
        results: dict[int, object] = {}
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
