"""A run in batches: what is left goes out, is waited for, journalled and read, until nothing is left.

What is to be sent is in the store, its money set aside, before anything goes out; each name the provider
gives is stored before the next step. So a run may be killed anywhere: the next one takes over its batches,
and sends only what no batch and no journal has. Answers are journalled under the same keys as online ones.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from guard_eval.errors import StudyError
from guard_eval.store import (
    Answer,
    BatchRequest,
    JudgeBatch,
    PlannedRequest,
    Reservation,
    Settlement,
    Showing,
)
from judge.backend import JudgeRequest, ShapeChanged
from judge.batch.api import (
    ENDED,
    OVER,
    BatchApi,
    BatchDraft,
    BatchStatus,
    Missing,
    NotTakenError,
    ResultLine,
)
from judge.failures import ATTEMPTS, JudgeError
from judge.lookup import look_up
from judge.pricing.prices import Budget
from judge.providers.envelopes import excerpt, read_usage
from judge.providers.errors import redact
from judge.providers.online import OnlineBackend
from judge.providers.shapes import path_of
from judge.session import JudgeSession

UPLOADED = "uploaded"
"""A batch's status in the store when its file is at the provider, and it was not made of it."""

CREATING = "creating"
"""Its status from the moment before the provider is asked to make it until the provider's answer."""

ROUNDS = 3
"""In how many batches one pair may meet a passing failure before it counts."""

_CLAIM = 1000
"""How many pairs are claimed at once."""

_PART = 500
"""How many answers are written at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How often the provider is asked how far a batch is, in seconds.

    Attributes:
        first: Until it is asked again for the first time.
        growth: How much longer each further wait is.
        longest: The longest wait.
        second_look: Between two searches for a batch whose making was interrupted.
    """

    first: float = 1.0
    growth: float = 1.5
    longest: float = 60.0
    second_look: float = 5.0


class BatchRunner:
    """Sends what is left in batches, and waits for what they bring; see `judge.run.run_judge`."""

    def __init__(
        self,
        session: JudgeSession,
        api: BatchApi,
        server: OnlineBackend,
        budget: Budget,
        patience: Patience,
    ) -> None:
        self._session = session
        self._store = session.store
        self._api = api
        self._builder = server.builder
        self._client = server.client
        self._budget = budget
        self._patience = patience
        self._pending: dict[int, Showing] = {}  # this run's, and not settled
        self._most = api.most_requests  # what the provider takes in one batch, as far as is known
        self._rounds: Counter[int] = Counter()
        self._reported: dict[int, str] = {}
        self._foreign: set[str] = set()  # batches at the provider that are not this study's

    async def run(self) -> None:
        """Judge until nothing is left."""
        try:
            await self._collect(await self._adopt())
            while batches := await self._send():
                await self._collect(batches)
        except asyncio.CancelledError:
            self._session.report(
                "stopping: batches go on at the provider; run the same command again to collect them"
            )
            raise

    async def _adopt(self) -> list[JudgeBatch]:
        """Return the batches of ended runs that are under way; one that never got so far is given up."""
        going = []
        for batch in await self._session.call(self._store.adopt_batches, self._session.run):
            if batch.provider_id is not None:
                going.append(batch)
            elif batch.status != CREATING or batch.input_file is None:
                await self._close(batch, billed=False)
            elif (found := await self._find(batch)) is not None:
                going.append(found)
        for batch in going:
            self._session.report(f"going on with the batch {batch.provider_id}")
        return going

    async def _find(self, batch: JudgeBatch) -> JudgeBatch | None:
        """Return a batch whose making was interrupted, if the provider has it; else it costs nothing."""
        draft = BatchDraft(
            input_file=str(batch.input_file),
            keys=await self._session.call(self._store.batch_keys, batch.id),
            others=self._foreign | await self._session.call(self._store.batch_names),
            since=batch.made_at,
        )
        try:
            status = await self._api.find(draft)
            if status is None:  # a provider's list may be a little behind
                await asyncio.sleep(self._patience.second_look)
                status = await self._api.find(draft)
        except Missing:
            self._session.report(
                "a batch may have been made when a run was interrupted, and the server cannot list its "
                "batches: its requests count as lost and are sent again"
            )
            await self._close(batch, billed=True)
            return None
        if status is None:
            await self._close(batch, billed=False)
            return None
        return await self._note(batch, status)

    async def _left(self) -> dict[int, JudgeRequest]:
        """Return what is to be asked, by presentation; what the journal answers is saved here."""
        while claimed := await self._session.claim(_CLAIM):
            self._pending.update((each.blind.presentation, each) for each in claimed)
        found = await self._session.call(look_up, self._store, self._builder, list(self._pending.values()))
        outcomes = dict(zip(list(self._pending), found, strict=True))
        left = {number: each for number, each in outcomes.items() if isinstance(each, JudgeRequest)}
        done = {number: each for number, each in outcomes.items() if not isinstance(each, JudgeRequest)}
        if done:
            await self._session.save(done)
        self._pending = {number: each for number, each in self._pending.items() if number in left}
        return left

    async def _send(self) -> list[JudgeBatch]:
        """Make batches of all that is left to ask, and return them.

        Raises:
            StudyError: Nothing more fits into the budget, or the provider takes no batch.
        """
        left = await self._left()
        numbers = {request.key: number for number, request in left.items()}
        lines = ((each, self._api.line_of(each)) for each in left.values())
        most = self._most
        made: list[JudgeBatch] = []
        for part in parts(lines, requests=most, size=self._api.most_bytes):
            batch, short = await self._make(part, numbers)
            if batch is not None:
                made.append(batch)
            if short is not None:
                if not made:
                    raise self._budget.used_up(short)
                self._session.report(
                    "the budget leaves room for a part of the pairs; the rest waits for what these cost"
                )
                break
            if made and most < self._api.most_requests:
                break  # the provider takes little at once: one after the other
        return made

    async def _make(
        self, part: Sequence[tuple[JudgeRequest, bytes]], numbers: Mapping[str, int]
    ) -> tuple[JudgeBatch | None, float | None]:
        """Send one batch; return it, and the cost of a request that does not fit into the budget."""
        planned = [
            PlannedRequest(
                key=request.key,
                presentation=numbers[request.key],
                usd=self._budget.most(request),
                style="batch",
                shape=request.shape,
                body=request.body,
            )
            for request, _ in part
        ]
        batch, outcomes = await self._session.call(
            lambda: self._store.add_batch(self._session.run, planned, limit_usd=self._budget.limit_usd)
        )
        lines, short = [], None
        for (_, line), each, outcome in zip(part, planned, outcomes, strict=True):
            if isinstance(outcome, Reservation):
                lines.append(line)
            elif outcome == "not_claimed":
                self._pending.pop(numbers[each.key], None)
            elif outcome == "budget":
                short = each.usd
        if not lines:
            await self._close(batch, billed=False)
            return None, short
        return await self._start(batch, lines, path_of(part[0][0].shape)), short

    async def _start(self, batch: JudgeBatch, lines: Sequence[bytes], path: str) -> JudgeBatch:
        """Upload a file and make a batch of it, each step stored as soon as it is done."""
        label, content = f"batch-{batch.id}", b"".join(lines)
        try:
            name = await self._api.upload(f"guard-eval-{label}.jsonl", content)
        except StudyError:
            await self._close(batch, billed=False)
            raise
        try:
            await self._update(batch, input_file=name, status=UPLOADED)
            await self._update(batch, status=CREATING)
            draft = BatchDraft(
                input_file=name,
                keys=await self._session.call(self._store.batch_keys, batch.id),
                others=self._foreign | await self._session.call(self._store.batch_names),
                since=batch.made_at,
                path=path,
                label=label,
                content=content,
            )
            status = await self._api.create(draft)
        except NotTakenError:
            await self._close(batch, billed=False)
            raise
        self._session.ledger.requests += len(lines)
        self._session.report(f"the batch {status.id} with {len(lines)} requests is sent")
        return await self._note(replace(batch, input_file=name), status)

    async def _collect(self, batches: Sequence[JudgeBatch]) -> None:
        """Wait for the batches and journal what they bring.

        Raises:
            StudyError: A batch or a request met something that only the user can fix; all that had come
                until then is journalled.
        """
        pause = self._patience.first
        while batches:
            polled = [await self._poll(batch) for batch in batches]
            going = [batch for batch in polled if batch is not None]
            if going and len(going) == len(batches):
                await asyncio.sleep(pause)
                pause = min(self._patience.longest, pause * self._patience.growth)
            batches = going

    async def _poll(self, batch: JudgeBatch) -> JudgeBatch | None:
        """Ask how far a batch is; collect it when it has ended, and return it otherwise."""
        try:
            status = await self._api.poll(str(batch.provider_id))
        except Missing:
            await self._forgotten(batch)
            return None
        batch = await self._note(batch, status)
        done = "" if status.done is None or not status.total else f", {status.done} of {status.total}"
        message = f"the batch {status.id}: {status.status}{done}"
        if self._reported.get(batch.id) != message:
            self._reported[batch.id] = message
            self._session.report(message)
        if status.status not in ENDED:
            return batch
        return await self._settle(batch, status)

    async def _forgotten(self, batch: JudgeBatch) -> None:
        """Give up a batch that the provider does not know any more.

        Raises:
            StudyError: It should know it: the key may be another's.
        """
        if datetime.now(UTC) - batch.made_at < self._api.stored:
            raise StudyError(
                f"the server at {self._api.url} knows no batch {batch.provider_id}, which this study sent; "
                "set key and address to those it was sent with"
            )
        self._session.report(
            f"the server no longer has the batch {batch.provider_id}: its requests count as lost and are "
            "sent again"
        )
        await self._close(batch, billed=True)

    async def _settle(self, batch: JudgeBatch, status: BatchStatus) -> JudgeBatch | None:
        """Journal a batch that has ended: answers first, then what brought none.

        Return the batch that it is in truth, where this one turns out to be another study's.

        Raises:
            StudyError: The batch or a request met something that only the user can fix.
        """
        listed = await self._session.call(self._store.batch_requests, batch.id)
        requests = {each.key: each for each in listed}
        errors: dict[int, JudgeError] = {}
        fatal: list[StudyError] = []
        lost = False
        results: list[ResultLine] = []
        for file in (status.output_file, status.error_file):
            try:
                content = b"" if file is None else await self._api.download(file)
            except Missing:
                lost = True
                continue
            found = list(self._api.read_results(content))
            results += found
            lines = [(line, requests.pop(line.key)) for line in found if line.key in requests]
            await self._store_answers(lines, seconds=status.seconds)
            errors |= self._errors(lines, fatal)
        keys = await self._session.call(self._store.batch_keys, batch.id)
        if results and not any(line.key in keys for line in results):
            self._foreign.add(status.id)
            return await self._find(batch)
        await self._close(batch, billed=lost or status.status == "completed")
        if status.status != "failed":
            silent = JudgeError(kind="server_error", detail="the batch brought neither answer nor error")
            errors.update((each.presentation, silent) for each in requests.values() if each.presentation)
        await self._count(status, errors)
        if fatal:
            raise fatal[0]
        if status.status == "failed":
            self._refused(status, len(listed))
        return None

    def _errors(
        self, lines: Sequence[tuple[ResultLine, BatchRequest]], fatal: list[StudyError]
    ) -> dict[int, JudgeError]:
        """Return what went wrong, by presentation; what only the user can fix is added to `fatal`."""
        errors = {}
        for line, request in lines:
            if line.error is None or request.presentation is None:
                continue
            try:
                errors[request.presentation] = self._error(line, request.shape)
            except ShapeChanged:
                continue  # the next batch asks in another shape
            except StudyError as error:
                fatal.append(error)
        return errors

    async def _store_answers(
        self, lines: Sequence[tuple[ResultLine, BatchRequest]], *, seconds: float
    ) -> None:
        """Journal whole answers, read but for their usage, and that the rest is not billed."""
        for line, request in lines:
            if line.error is None:
                self._builder.answered(request.shape)
        answers = [self._answer(line, request, seconds) for line, request in lines if line.error is None]
        released = [
            Settlement(key=request.key, attempt=request.attempt, state="released")
            for line, request in lines
            if line.error is not None
        ]
        record, run = self._store.record, self._session.run
        for start in range(0, len(answers), _PART):
            part = answers[start : start + _PART]
            await self._session.call(lambda part=part: record(run, answers=part))
        if released:
            await self._session.call(lambda: record(run, settled=released))
        for answer in answers:
            self._session.ledger.count(answer.usage)

    def _answer(self, line: ResultLine, request: BatchRequest, seconds: float) -> Answer:
        key = self._client.provider.key
        body = redact(line.line, key)
        usage = read_usage(body)
        return Answer(
            key=request.key,
            attempt=request.attempt,
            presentation=request.presentation,
            status=200,
            body=body,
            request_id=line.request_id and excerpt(redact(line.request_id, key)),
            usage=usage,
            usd=self._budget.cost(usage),
            backend="batch",
            shape=request.shape,
            seconds=seconds,
            at=datetime.now(UTC),
        )

    def _error(self, line: ResultLine, shape: str | None) -> JudgeError:
        """Return what a line's error counts as.

        Raises:
            ShapeChanged: The shape was refused, and another one is chosen.
            StudyError: Only the user can fix it.
        """
        if line.code in OVER:
            return JudgeError(kind="server_error", detail="the batch ended before the request had its turn")
        status = line.status or 500
        return self._client.errors.status(
            500 if status == 200 else status,
            {},
            line.error,
            on_error=lambda error: self._builder.refused(line.key, shape, error),
        )

    async def _count(self, status: BatchStatus, errors: Mapping[int, JudgeError]) -> None:
        """Count as failures what will not pass, or has not passed in so many batches."""
        if not errors:
            return
        kinds = Counter(error.kind for error in errors.values())
        counts = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
        self._session.report(f"the batch {status.id} brought no answer for some: {counts}")
        self._rounds.update(errors.keys())
        failed = {
            number: error
            for number, error in errors.items()
            if error.kind not in ATTEMPTS or self._rounds[number] >= ROUNDS
        }
        for number in failed:
            self._pending.pop(number, None)
        await self._session.save(failed)

    def _refused(self, status: BatchStatus, count: int) -> None:
        """Decide about a batch of so many requests that the provider did not begin.

        Raises:
            StudyError: Only the user can do something.
        """
        why = "; ".join(status.errors) or "it does not say why"
        if "token_limit_exceeded" not in status.codes or count < 2:
            raise StudyError(f"the provider refused the batch {status.id}: {why}; nothing of it is paid")
        self._most = max(1, count // 2)
        self._session.report(f"the provider takes less at once ({why}); sending {self._most} at a time")

    async def _note(self, batch: JudgeBatch, status: BatchStatus) -> JudgeBatch:
        """Store what the provider says of a batch."""
        values = {
            "provider_id": status.id,
            "status": status.status,
            "output_file": status.output_file,
            "error_file": status.error_file,
        }
        now = replace(batch, **values)  # type: ignore[arg-type]
        if now != batch:
            await self._update(batch, **values)
        return now

    async def _update(self, batch: JudgeBatch, **values: str | None) -> None:
        """Store how far a batch is."""
        await self._session.call(lambda: self._store.update_batch(batch.id, **values))

    async def _close(self, batch: JudgeBatch, *, billed: bool) -> None:
        """Store that a batch brings nothing more; unless `billed`, what it has no answer to is free."""
        await self._session.call(lambda: self._store.close_batch(batch.id, billed=billed))


def parts(
    lines: Iterable[tuple[JudgeRequest, bytes]], *, requests: int, size: int
) -> Iterator[list[tuple[JudgeRequest, bytes]]]:
    """Yield the lines in parts that fit into one batch each, at most so many and so many bytes."""
    part: list[tuple[JudgeRequest, bytes]] = []
    taken = 0
    for request, line in lines:
        if part and (len(part) == requests or taken + len(line) > size):
            yield part
            part, taken = [], 0
        part.append((request, line))
        taken += len(line)
    if part:
        yield part
