"""The way to the disk: what a run tells the store at about the same time goes there in one transaction.

A request is sent only after its reservation is on disk, and an answer is looked at only after it is. Each of
these waits is shared with all that wait at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self, TypeVar

from guard_eval.store import (
    Answer,
    JudgeRun,
    Judgment,
    NotReserved,
    Reservation,
    Settlement,
    Store,
    Unjudged,
    Wanted,
)

GATHER = 0.01
"""Seconds for which entries are gathered before they are written: little beside any answer's wait."""

Result = TypeVar("Result")
Entry = Answer | Settlement | Judgment | Unjudged | Wanted
Outcome = Reservation | Answer | NotReserved | None


@dataclass(kw_only=True)
class _Group:
    """Entries of one transaction, by kind, and who waits for each."""

    answers: list[Answer] = field(default_factory=list)
    settled: list[Settlement] = field(default_factory=list)
    judgments: list[Judgment] = field(default_factory=list)
    unjudged: list[Unjudged] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    waiting: list[tuple[Entry, asyncio.Future[Outcome]]] = field(default_factory=list)

    def add(self, entry: Entry, waiting: asyncio.Future[Outcome]) -> None:
        """Put an entry to those of its kind."""
        match entry:
            case Answer():
                self.answers.append(entry)
            case Settlement():
                self.settled.append(entry)
            case Judgment():
                self.judgments.append(entry)
            case Unjudged():
                self.unjudged.append(entry)
            case Wanted():
                self.wanted.append(entry)
        self.waiting.append((entry, waiting))

    def done(self, outcomes: list[Reservation | Answer | NotReserved]) -> None:
        """Tell all that wait what became of their entries."""
        left = iter(outcomes)
        for entry, waiting in self.waiting:
            outcome = next(left) if isinstance(entry, Wanted) else None
            if not waiting.done():
                waiting.set_result(outcome)

    def failed(self, error: BaseException, *, kept: bool) -> None:
        """Tell all that wait that their entries are not written, but for what was `kept`."""
        for entry, waiting in self.waiting:
            if waiting.done():
                continue
            if kept and isinstance(entry, Answer | Settlement):
                waiting.set_result(None)
            else:
                waiting.set_exception(error)


class Journal:
    """Writes for one run, in one thread; an asynchronous context manager that ends with all written."""

    def __init__(self, store: Store, run: JudgeRun, *, limit_usd: float | None) -> None:
        self._store = store
        self._run = run
        self._limit_usd = limit_usd
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._group = _Group()
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writing is not None:
            await self._writing
        self._writer.shutdown()

    async def reserve(self, wanted: Wanted) -> Reservation | Answer | NotReserved:
        """Return the right to send a request, an answer that is there already, or why it may not be sent."""
        outcome = await self.write(wanted)
        assert outcome is not None
        return outcome

    def write(self, entry: Entry) -> asyncio.Future[Outcome]:
        """Return what is done when the entry is on disk."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Outcome] = loop.create_future()
        self._group.add(entry, waiting)
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write())
        return waiting

    async def call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a call of the store in the thread that writes, so that the event loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, function, *arguments)

    async def _write(self) -> None:
        while self._group.waiting:
            await asyncio.sleep(GATHER)
            group, self._group = self._group, _Group()
            try:
                outcomes = await self.call(self._record, group)
            except Exception as error:  # noqa: BLE001 (every waiter gets the error)
                group.failed(error, kept=await self._rescue(group))
            else:
                group.done(outcomes)

    def _record(self, group: _Group) -> list[Reservation | Answer | NotReserved]:
        return self._store.record(
            self._run,
            answers=group.answers,
            settled=group.settled,
            judgments=group.judgments,
            unjudged=group.unjudged,
            wanted=group.wanted,
            limit_usd=self._limit_usd,
        )

    async def _rescue(self, group: _Group) -> bool:
        """Write at least what was paid, where something else in its transaction failed."""
        paid = _Group(answers=group.answers, settled=group.settled)
        if len(paid.answers) + len(paid.settled) in {0, len(group.waiting)}:
            return False
        try:
            await self.call(self._record, paid)
        except Exception:  # noqa: BLE001 (the first error says why)
            return False
        return True
