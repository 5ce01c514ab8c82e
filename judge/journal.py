"""The way to the disk: what a run writes at about the same time goes there in one transaction.

A request is sent only after its reservation is on disk, and an answer is read only after it is. Each of these
waits is shared with all that wait at the same moment.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

from guard_eval.store import (
    Answer,
    JudgeRun,
    Judgment,
    NotReserved,
    PlannedRequest,
    Reservation,
    Settlement,
    Store,
    Unjudged,
)

GATHER = 0.01
"""Seconds for which entries are gathered before they are written: little beside any answer's wait."""

Result = TypeVar("Result")
Entry = Answer | Settlement | Judgment | Unjudged | PlannedRequest
Outcome = Reservation | Answer | NotReserved | None

_KINDS = {
    Answer: "answers",
    Settlement: "settled",
    Judgment: "judgments",
    Unjudged: "unjudged",
    PlannedRequest: "planned",
}


class Journal:
    """Writes for one run, in one thread; an asynchronous context manager that ends with all written."""

    def __init__(self, store: Store, run: JudgeRun, *, limit_usd: float | None) -> None:
        self._store = store
        self._run = run
        self._limit_usd = limit_usd
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._waiting: list[tuple[Entry, asyncio.Future[Outcome]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writing is not None:
            await self._writing
        self._writer.shutdown()

    async def reserve(self, planned: PlannedRequest) -> Reservation | Answer | NotReserved:
        """Return the right to send a request, its answer if there is one, or why it may not be sent."""
        outcome = await self.write(planned)
        assert outcome is not None
        return outcome

    def write(self, entry: Entry) -> asyncio.Future[Outcome]:
        """Return what is done when the entry is on disk."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((entry, waiting))
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write())
        return waiting

    async def call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a call of the store in the thread that writes, so that the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)

    async def _write(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER)
            group, self._waiting = self._waiting, []
            try:
                outcomes = iter(await self.call(self._record, [entry for entry, _ in group]))
            except Exception as error:  # noqa: BLE001 (every waiter gets the error)
                paid = await self._rescue([entry for entry, _ in group])
                for entry, waiting in group:
                    if not waiting.done() and paid and isinstance(entry, Answer | Settlement):
                        waiting.set_result(None)
                    elif not waiting.done():
                        waiting.set_exception(error)
            else:
                for entry, waiting in group:
                    outcome = next(outcomes) if isinstance(entry, PlannedRequest) else None
                    if not waiting.done():
                        waiting.set_result(outcome)

    def _record(self, entries: Sequence[Entry]) -> list[Reservation | Answer | NotReserved]:
        kinds: dict[str, Any] = defaultdict(list)
        for entry in entries:
            kinds[_KINDS[type(entry)]].append(entry)
        return self._store.record(self._run, limit_usd=self._limit_usd, **kinds)

    async def _rescue(self, entries: Sequence[Entry]) -> bool:
        """Write at least what was paid, where something else in its transaction failed."""
        paid = [entry for entry in entries if isinstance(entry, Answer | Settlement)]
        if len(paid) in {0, len(entries)}:
            return False
        try:
            await self.call(self._record, paid)
        except Exception:  # noqa: BLE001 (the first error says why)
            return False
        return True
