"""What a run in batches has claimed and settled, and the store behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from guard_eval.records import Plan
from guard_eval.store import Batch, BatchRequest, JudgeRun, Judgment, Showing, Store, Unjudged, Wanted
from judge.backend import JudgeRequest
from judge.batch.api import State
from judge.batch.results import BatchResults
from judge.journal import Journal
from judge.ledger import Ledger, Progress, Tally
from judge.lookup import look_up
from judge.parsing import JudgeError, Parsed, ParseError
from judge.request import RequestBuilder

_CLAIM = 1000
"""How many pairs are claimed at once."""

_PART = 500
"""How many answers or verdicts are written at once."""

Result = TypeVar("Result")


class BatchState:
    """The store as one run in batches needs it; every write is on disk when it returns."""

    def __init__(
        self,
        *,
        store: Store,
        run: JudgeRun,
        plan: Plan,
        journal: Journal,
        builder: RequestBuilder,
        tally: Tally,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._store = store
        self._run = run
        self._plan = plan
        self._journal = journal
        self._builder = builder
        self._tally = tally
        self._on_progress = on_progress
        self._pending: dict[int, Showing] = {}  # this run's, and not settled
        self._reported = 0
        self._total = store.judge_progress(run.rater, plan).left
        self._known = {
            (failure.presentation, failure.kind, failure.detail)
            for failure in store.failures()
            if failure.rater == run.rater.name
        }

    async def renew(self) -> None:
        """Keep what this run has claimed, for as long as it lives."""
        while True:
            await asyncio.sleep(self._run.lease.total_seconds() / 3)
            await self._call(self._store.renew, self._run)

    async def left(self) -> dict[int, JudgeRequest]:
        """Return what is to be asked, by presentation; what the journal answers is settled here."""
        while claimed := await self._call(self._store.claim, self._run, self._plan, _CLAIM):
            self._pending.update((each.blind.presentation, each) for each in claimed)
        outcomes = await self._call(look_up, self._store, self._builder, list(self._pending.values()))
        found = dict(zip(list(self._pending), outcomes, strict=True))
        judgments = [
            Judgment(presentation=number, choices=outcome.choices)
            for number, outcome in found.items()
            if isinstance(outcome, Parsed)
        ]
        await self._call(self._judge, judgments)
        for judgment in judgments:
            del self._pending[judgment.presentation]
        self._tally.verdicts += len(judgments)
        await self.fail({number: each for number, each in found.items() if isinstance(each, ParseError)})
        return {number: each for number, each in found.items() if isinstance(each, JudgeRequest)}

    def _judge(self, judgments: list[Judgment]) -> None:
        for start in range(0, len(judgments), _PART):
            self._store.record(self._run, judgments=judgments[start : start + _PART])

    def count_sent(self, requests: int) -> None:
        """Note that so many requests were sent."""
        self._tally.requests += requests

    async def fail(self, failed: Mapping[int, JudgeError]) -> None:
        """Count these pairs as failures, and write those that the journal has not."""
        self._tally.failures.update(problem.kind for problem in failed.values())
        for number in failed:
            self._pending.pop(number, None)
        unjudged = [
            Unjudged(presentation=number, kind=problem.kind, detail=problem.detail)
            for number, problem in failed.items()
            if (number, problem.kind, problem.detail) not in self._known
        ]
        if unjudged:
            await self._call(lambda: self._store.record(self._run, unjudged=unjudged))
        self.report()

    def forget(self, number: int) -> None:
        """Leave a pair alone: it is rated by now, or another run's."""
        self._pending.pop(number, None)

    async def adopt_batches(self) -> list[Batch]:
        """Return the batches of ended runs that are not done; they are this run's from now on."""
        return await self._call(self._store.adopt_batches, self._run)

    async def add(self, wanted: list[Wanted], limit_usd: float | None) -> tuple[Batch, list[object]]:
        """Make a batch in the store, and return what becomes of each request."""
        batch, outcomes = await self._call(
            lambda: self._store.add_batch(self._run, wanted, limit_usd=limit_usd)
        )
        return batch, list(outcomes)

    async def requests(self, batch: Batch) -> dict[str, BatchRequest]:
        """Return the batch's requests that are not settled, by key."""
        found = await self._call(self._store.batch_requests, batch.id)
        return {each.key: each for each in found if each.state == "open"}

    async def note(self, batch: Batch, state: State) -> Batch:
        """Store what the provider says of a batch."""
        values = {
            "provider_id": state.id,
            "status": state.status,
            "output_file": state.output_file,
            "error_file": state.error_file,
        }
        now = replace(batch, **values)  # type: ignore[arg-type]
        if now != batch:
            await self.update(batch, **values)
        return now

    async def update(self, batch: Batch, **values: str | None) -> None:
        """Store how far a batch is."""
        await self._call(lambda: self._store.update_batch(batch.id, **values))

    async def close(self, batch: Batch, *, billed: bool) -> None:
        """Note that a batch brings nothing more; unless `billed`, what it has no answer to is free."""
        await self._call(lambda: self._store.close_batch(batch.id, billed=billed))

    async def keep(self, results: BatchResults) -> None:
        """Journal what a file results."""
        await self._call(self._keep, results)
        for usage in results.usages:
            self._tally.count(usage)

    def _keep(self, results: BatchResults) -> None:
        for start in range(0, len(results.answers), _PART):
            self._store.record(self._run, answers=results.answers[start : start + _PART])
        if results.settled:
            self._store.record(self._run, settled=results.settled)

    def report(self, *more: str) -> None:
        """Say how far the run is, and what is new."""
        said = [*self._builder.notices[self._reported :], *more]
        self._reported = len(self._builder.notices)
        if self._on_progress is not None:
            self._on_progress(self._tally.progress(total=self._total, notices=said))

    def close_ledger(self) -> Ledger:
        """Return what the run took."""
        return self._tally.close(tuple(self._builder.notices))

    async def _call(self, function: Callable[..., Result], *arguments: object) -> Result:
        return await self._journal.call(function, *arguments)
