"""Batches go out, round by round, until nothing is left to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from guard_eval.errors import StudyError
from guard_eval.store import Batch, Reservation, Wanted
from judge.backend import JudgeRequest
from judge.batch.api import BatchApi, NotTakenError
from judge.batch.collecting import Collector
from judge.batch.lines import MOST_REQUESTS, line_of, parts
from judge.batch.state import BatchState
from judge.ledger import Ledger
from judge.prices import Budget
from judge.request import RequestBuilder

UPLOADED = "uploaded"
"""A batch's status in the store when its file is at the provider, and it was not made of it."""

CREATING = "creating"
"""Its status from the moment before the provider is asked to make it until the provider's word."""


class BatchRunner:
    """Sends what is left, waits for what it brings, and so on."""

    def __init__(
        self,
        state: BatchState,
        api: BatchApi,
        collector: Collector,
        *,
        builder: RequestBuilder,
        budget: Budget,
    ) -> None:
        self._state = state
        self._api = api
        self._collector = collector
        self._builder = builder
        self._budget = budget

    async def run(self) -> Ledger:
        """Judge until nothing is left, and return what it took."""
        try:
            await self._collector.collect(await self._adopt())
            while batches := await self._send():
                await self._collector.collect(batches)
        except asyncio.CancelledError:
            self._state.report(
                "stopping: batches go on at the provider; run the same command again to collect them"
            )
            raise
        return self._state.close_ledger()

    async def _adopt(self) -> list[Batch]:
        """Return the batches of ended runs that are under way; one that never got so far is given up."""
        going = []
        for batch in await self._state.adopt_batches():
            if batch.provider_id is not None:
                going.append(batch)
            elif batch.status != CREATING or batch.input_file is None:
                await self._state.close(batch, billed=False)
            elif (found := await self._collector.find(batch)) is not None:
                going.append(found)
        for batch in going:
            self._state.report(f"going on with the batch {batch.provider_id}")
        return going

    async def _send(self) -> list[Batch]:
        """Make batches of all that is left to ask, and return them.

        Raises:
            StudyError: Nothing more fits into the budget, or the provider takes no batch.
        """
        left = await self._state.left()
        numbers = {question.key: number for number, question in left.items()}
        lines = ((each, line_of(each, self._builder.path(each))) for each in left.values())
        most = self._collector.most
        made: list[Batch] = []
        for part in parts(lines, requests=most):
            batch, short = await self._make(part, numbers)
            if batch is not None:
                made.append(batch)
            if short is not None:
                if not made:
                    raise self._budget.used_up(short)
                self._state.report(
                    "the budget leaves room for a part of the pairs; the rest waits for what these cost"
                )
                break
            if made and most < MOST_REQUESTS:
                break  # the provider takes little at once: one after the other
        return made

    async def _make(
        self, part: Sequence[tuple[JudgeRequest, bytes]], numbers: Mapping[str, int]
    ) -> tuple[Batch | None, float | None]:
        """Send one batch; return it, and the cost of a request that does not fit into the budget."""
        wanted = [
            Wanted(
                key=question.key,
                presentation=numbers[question.key],
                usd=self._budget.most(question),
                style="batch",
                shape=question.shape,
            )
            for question, _ in part
        ]
        batch, outcomes = await self._state.add(wanted, self._budget.limit_usd)
        lines = []
        short = None
        for (_, line), each, outcome in zip(part, wanted, outcomes, strict=True):
            number = numbers[each.key]
            if isinstance(outcome, Reservation):
                lines.append(line)
            elif outcome == "not_claimed":
                self._state.forget(number)
            elif outcome == "budget":
                short = each.usd
        if not lines:
            await self._state.close(batch, billed=False)
            return None, short
        return await self._start(batch, lines, self._builder.path(part[0][0])), short

    async def _start(self, batch: Batch, lines: Sequence[bytes], path: str) -> Batch:
        """Upload a file and make a batch of it, each step stored as soon as it is done."""
        label = f"batch-{batch.id}"
        try:
            name = await self._api.upload(f"guard-eval-{label}.jsonl", b"".join(lines))
        except StudyError:
            await self._state.close(batch, billed=False)
            raise
        try:
            await self._state.update(batch, input_file=name, status=UPLOADED)
            await self._state.update(batch, status=CREATING)
            state = await self._api.create(name, path, label=label)
        except NotTakenError:
            await self._state.close(batch, billed=False)
            raise
        self._state.count_sent(len(lines))
        self._state.report(f"the batch {state.id} with {len(lines)} requests is sent")
        return await self._state.note(replace(batch, input_file=name), state)
