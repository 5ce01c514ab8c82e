"""One run of one judge while it lasts: what it claims, what it saves, and how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import TypeVar

from guard_eval.records import Plan
from guard_eval.store import JudgeRun, Judgment, Showing, Store, Unjudged
from judge.failures import JudgeError
from judge.journal import Journal
from judge.ledger import Ledger, RunProgress
from judge.parsing import Choices

_PART = 500
"""How many verdicts are written at once."""

OnProgress = Callable[[RunProgress], None]
Result = TypeVar("Result")


class JudgeSession:
    """What the loops of online runs, calibrations and batches have in common.

    Attributes:
        store: The study's database.
        run: This run.
        plan: How the pairs are shown to the judge.
        journal: The way to the disk.
        ledger: What the run took so far.
        notices: Messages for the user, in order.
        total: How many presentations were left when it began.
    """

    def __init__(
        self,
        store: Store,
        run: JudgeRun,
        plan: Plan,
        *,
        journal: Journal,
        ledger: Ledger,
        notices: list[str],
        total: int,
        on_progress: OnProgress | None,
    ) -> None:
        self.store = store
        self.run = run
        self.plan = plan
        self.journal = journal
        self.ledger = ledger
        self.notices = notices
        self.total = total
        self._on_progress = on_progress
        self._reported = 0
        self._known = {
            (failure.presentation, failure.kind, failure.detail)
            for failure in store.failures()
            if failure.rater == run.rater.name
        }

    async def call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a call of the store outside the event loop."""
        return await self.journal.call(function, *arguments)

    async def claim(self, limit: int) -> list[Showing]:
        """Return up to `limit` showings that are this run's from now on."""
        return await self.call(self.store.claim, self.run, self.plan, limit)

    async def save(self, outcomes: Mapping[int, Choices | JudgeError]) -> None:
        """Save and count verdicts and failures by presentation; what is no part of the study is only counted.

        A failure that the store has already is not written again.
        """
        entries = self._entries(outcomes)
        while part := list(islice(entries, _PART)):
            await asyncio.gather(*map(self.journal.write, part))
        self.count(outcomes.values())

    def count(self, outcomes: Iterable[Choices | JudgeError]) -> None:
        """Count verdicts and failures, and report."""
        for outcome in outcomes:
            if isinstance(outcome, JudgeError):
                self.ledger.failures[outcome.kind] += 1
                self.ledger.reasons[outcome.kind, outcome.detail] += 1
            else:
                self.ledger.verdicts += 1
        self.report()

    def report(self, *more: str) -> None:
        """Report how far the run is, with the messages that are new."""
        messages = [*self.notices[self._reported :], *more]
        self._reported = len(self.notices)
        if self._on_progress is not None:
            self._on_progress(self.ledger.progress(total=self.total, notices=messages))

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renew the lease from time to time, so that what this run claimed stays its own."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
        if not renewing.cancelled() and (error := renewing.exception()) is not None:
            raise error

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.run.lease.total_seconds() / 3)
            await self.call(self.store.renew, self.run)

    def _entries(self, outcomes: Mapping[int, Choices | JudgeError]) -> Iterator[Judgment | Unjudged]:
        for presentation, outcome in outcomes.items():
            if not isinstance(outcome, JudgeError):
                yield Judgment(presentation=presentation, choices=outcome)
            elif (presentation, outcome.kind, outcome.detail) not in self._known:
                yield Unjudged(presentation=presentation, kind=outcome.kind, detail=outcome.detail)
