"""A judge asked by the Batch API: hours of patience, at half the price, and nothing paid twice.

A batch is a row, `creating`, before the provider is asked to make it, and the provider's name follows. So a
run may be killed anywhere: the next one finds an interrupted batch again by our name for it, and collects
what has come.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import content_id
from guard_eval.store import requests
from guard_eval.store.requests import LEASE, BatchRow, Planned, Question, Settled
from judge.answers import excerpt, read_usage
from judge.client import Reply
from judge.failures import ATTEMPTS, JudgeError
from judge.forms import PATHS
from judge.refusals import RefusalReader
from judge.run import Run

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""What a provider takes in one batch."""

ROUNDS = 3
"""Batches in which one question may meet a passing failure before it counts."""

TRANSFER_SECONDS = 600.0
"""Seconds that a call may take, which may carry a file."""

LARGEST_FILE = 2**31
"""Bytes of a file of results."""

KEPT = timedelta(days=30)
"""How long a provider keeps a batch."""

SECOND_LOOK_SECONDS = 5.0
"""Seconds between two searches for an interrupted batch: a provider's list may be a little behind."""

_ENDED = {"completed", "failed", "expired", "cancelled"}
_CALLS = 12
"""Attempts at one call: a batch takes hours, so an outage of minutes is borne."""

_BAD_RESPONSE = "the server's answer is not that of a Batch API; run again later, or without --batch"

Result = TypeVar("Result")


class NotFoundError(Exception):
    """The provider knows no such thing."""


class BatchRun(Run):
    """One run of one judge in batches."""

    async def ask(self, questions: Sequence[Question]) -> None:
        """Collect the batches of earlier runs, then send what is left, until nothing is left.

        The first question is asked online, which settles the form of all others.
        """
        async with self.open():
            self.client.largest = LARGEST_FILE
            try:
                left = await self._collect(await self._adopt(), list(questions))
                if left:
                    queue = deque(left)
                    await self.settle_form(queue)
                    left = await self._resolve(list(queue))
                rounds: Counter[Question] = Counter()
                while left:
                    batches, sent = await self._send_batches(left)
                    left = await self._collect(batches, left)
                    rounds.update(set(left) & sent)
                    self._give_up([each for each in left if rounds[each] == ROUNDS])
                    left = [each for each in left if rounds[each] < ROUNDS]
            except asyncio.CancelledError:
                progress.warn(
                    "stopping: batches go on at the provider; run the same command again to collect them"
                )
                raise
            finally:
                await self._call_store(lambda db, now: requests.release_batches(db, self.name, now))

    async def _call_store(self, function: Callable[[Connection, datetime], Result]) -> Result:
        def call() -> Result:
            with self.store.write() as (db, now):
                return function(db, now)

        return await asyncio.to_thread(call)

    async def _close(self, batch: BatchRow, *, billed: bool) -> None:
        """Note that a batch brings nothing more."""
        await self._call_store(lambda db, _: requests.close_batch(db, batch.id, billed=billed))

    async def _adopt(self) -> list[BatchRow]:
        """Return the unfinished batches of ended runs; a killed run keeps its own for one lease."""
        until = asyncio.get_running_loop().time() + LEASE.total_seconds() + 2
        batches: dict[int, BatchRow] = {}
        while True:
            for each in await self._call_store(
                lambda db, now: requests.adopt_batches(db, self.rater, self.name, now)
            ):
                batches[each.id] = each
            with self.store.read() as db:
                waiting = requests.count_open_batches(db, self.rater) - len(batches)
            if not waiting or asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(1.0)
        if waiting:
            progress.warn(f"another run looks after {waiting} batches; run again when it has finished")
        found = [await self._find_again(each) for each in batches.values()]
        return [each for each in found if each is not None]

    async def _find_again(self, batch: BatchRow) -> BatchRow | None:
        """Return a batch with the provider's name; one that was never made costs nothing."""
        if batch.provider_id is not None:
            return batch
        name = await self._name(batch)
        try:
            provider_id = await self._find(name)
            if provider_id is None:
                await asyncio.sleep(SECOND_LOOK_SECONDS * min(1.0, self.pauses.poll))
                provider_id = await self._find(name)
        except NotFoundError:
            progress.warn(
                "a batch may have been made when a run was interrupted, and the server cannot list its "
                "batches: its requests count as lost and are sent again"
            )
            await self._close(batch, billed=True)
            return None
        if provider_id is None:
            await self._close(batch, billed=False)
            return None
        return await self._note_sent(batch, provider_id)

    async def _note_sent(self, batch: BatchRow, provider_id: str) -> BatchRow:
        await self._call_store(lambda db, _: requests.note_sent(db, batch.id, provider_id))
        return BatchRow(id=batch.id, provider_id=provider_id, created_at=batch.created_at)

    async def _name(self, batch: BatchRow) -> str:
        """Return our name for a batch: a hash of its requests, which no other study's batch has."""
        with self.store.read() as db:
            return content_id("batch", batch.id, sorted(requests.read_batch(db, batch.id)))

    async def _resolve(self, questions: Sequence[Question]) -> list[Question]:
        """Save the verdicts of questions that are answered; return those that are to be asked."""
        left, conclusions = [], self.asker.conclude_all(self.store, questions)
        for question, outcome in zip(questions, conclusions, strict=True):
            if isinstance(outcome, int):
                left.append(question)
                continue
            if not isinstance(outcome, JudgeError) and question.purpose == "study":
                await self.journal.write(self._save, (question, outcome))
            self.count(outcome)
        return left

    async def _send_batches(self, questions: Sequence[Question]) -> tuple[list[BatchRow], set[Question]]:
        """Make batches of the questions' requests; return them, and what is in them.

        Raises:
            StudyError: Nothing more fits into the budget, or the provider takes no batch.
        """
        resamples = self.asker.conclude_all(self.store, questions)
        planned = [
            self.plan(question, resample, batch=True)
            for question, resample in zip(questions, resamples, strict=True)
            if isinstance(resample, int)
        ]
        sent: list[BatchRow] = []
        questions_sent: set[Question] = set()
        for part in _split(planned):
            batch, outcomes = await self._add(part)
            chosen = [each for each, outcome in zip(part, outcomes, strict=True) if isinstance(outcome, int)]
            if chosen:
                sent.append(await self._create(batch, chosen))
                questions_sent |= {each.question for each in chosen}
            else:
                await self._close(batch, billed=False)
            if "budget" in outcomes:
                short = part[outcomes.index("budget")]
                if not sent:
                    raise self.used_up(short)
                progress.notice(
                    "the budget leaves room for a part of the pairs; the rest waits for what these cost"
                )
                break
        return sent, questions_sent

    async def _add(self, planned: Sequence[Planned]) -> tuple[BatchRow, list[requests.Reserved]]:
        """Insert a batch, before the provider is asked to make it."""
        return await self._call_store(
            lambda db, now: requests.add_batch(
                db, planned, judge=self.rater, run=self.name, now=now, limit=self.limit
            )
        )

    async def _create(self, batch: BatchRow, planned: Sequence[Planned]) -> BatchRow:
        """Upload the requests and make a batch of them.

        Raises:
            StudyError: The provider refuses it, or only the user can mend it.
        """
        path = PATHS[self.interface(planned[0])]
        frames = ({"custom_id": each.key, "method": "POST", "url": f"/v1{path}"} for each in planned)
        lines = [
            json.dumps(frame)[:-1].encode() + b', "body": ' + each.body + b"}\n"
            for frame, each in zip(frames, planned, strict=True)
        ]
        name = await self._name(batch)
        try:
            file = await self._until(lambda: self.client.upload(f"guard-eval-{name}.jsonl", b"".join(lines)))
            body = {
                "input_file_id": _name_in(file),
                "endpoint": f"/v1{path}",
                "completion_window": "24h",
                "metadata": {"guard-eval": name},
            }
            made = await self._until(
                lambda: self.client.post("/batches", json.dumps(body).encode()),
                again=lambda: self._find(name),
            )
        except NotFoundError:
            await self._close(batch, billed=False)
            raise StudyError(
                f"the server at {self.server.url} has no Batch API; run without --batch"
            ) from None
        except _RejectedError as error:
            await self._close(batch, billed=False)
            raise StudyError(f"the server does not take the batch: {error}; run without --batch") from None
        provider_id = made if isinstance(made, str) else _name_in(made)
        self.ledger.requests += len(planned)
        progress.notice(f"the batch {provider_id} with {len(planned)} requests is sent")
        return await self._note_sent(batch, provider_id)

    async def _find(self, name: str) -> str | None:
        """Return what the provider calls the batch that has our name, if there is one."""
        query: dict[str, object] = {"limit": 100}
        while True:
            page = await self._until(lambda: self.client.get("/batches", dict(query)))
            listed = [each for each in page.get("data") or [] if isinstance(each, dict)]
            for each in listed:
                if (each.get("metadata") or {}).get("guard-eval") == name:
                    return _name_in(each)
            if not page.get("has_more") or not listed:
                return None
            query["after"] = str(listed[-1].get("id"))

    async def _collect(self, batches: Sequence[BatchRow], questions: list[Question]) -> list[Question]:
        """Wait for batches, and return the questions that are still to be asked."""
        pause = self.pauses.poll
        going = list(batches)
        while going:
            ended = await asyncio.gather(*(self._poll(each) for each in going))
            going = [each for each, is_over in zip(going, ended, strict=True) if not is_over]
            if going:
                await asyncio.sleep(pause)
                pause = min(60.0, pause * 1.5)
        return await self._resolve(questions)

    async def _poll(self, batch: BatchRow) -> bool:
        """Collect a batch if it has ended; return whether nothing more comes of it.

        Raises:
            StudyError: The provider should know it, or only the user can mend what a request met.
        """
        try:
            status = await self._until(lambda: self.client.get(f"/batches/{batch.provider_id}"))
        except NotFoundError:
            if datetime.now(UTC) - batch.created_at < KEPT:
                raise StudyError(
                    f"the server at {self.server.url} knows no batch {batch.provider_id}, which this study "
                    "sent; set key and address to those it was sent with"
                ) from None
            await self._close(batch, billed=True)
            return True
        counts = status.get("request_counts") or {}
        state = str(status.get("status"))
        progress.notice(f"the batch {batch.provider_id}: {state}, {counts.get('completed', 0)} answers")
        if state not in _ENDED:
            return False
        fatal, lost = await self._read_files(
            batch, [status.get(f"{each}_file_id") for each in ("output", "error")]
        )
        billed = lost or state == "completed"
        await self._close(batch, billed=billed)
        if fatal is not None:
            raise StudyError(fatal)
        if state == "failed":
            errors = (status.get("errors") or {}).get("data") or []
            words = "; ".join(excerpt(str(each.get("message"))) for each in errors if isinstance(each, dict))
            raise StudyError(
                f"the provider refused the batch {batch.provider_id}: {words or state}; run without --batch"
            )
        return True

    async def _read_files(self, batch: BatchRow, files: Sequence[object]) -> tuple[str | None, bool]:
        """Store what a batch brings; return what only the user can mend, and whether a file is lost."""
        with self.store.read() as db:
            rows = requests.read_batch(db, batch.id)
        fatal, lost = None, False
        for file in filter(None, files):
            try:
                content = await self._download(str(file))
            except NotFoundError:
                lost = True
                continue
            for line, entry in _entries(content):
                row = rows.pop(str(entry.get("custom_id")), None)
                if row is not None:
                    settled, error = self._read_line(row, line, entry)
                    await self._settle_batched(settled)
                    fatal = fatal or (None if error is None else error.fatal)
        await self.journal.idle()
        return fatal, lost

    async def _settle_batched(self, settled: Settled) -> None:
        self._open += 1
        self._settle(settled)
        if self._open >= 500:  # some hundred answers are in memory at most
            await self.journal.idle()

    def _read_line(self, row: int, line: bytes, entry: dict[str, Any]) -> tuple[Settled, JudgeError | None]:
        """Return what a line of results says about a request, and the error that it states."""
        found = entry.get("response")
        response: dict[str, Any] = found if isinstance(found, dict) else {}
        body = response.get("body")
        status = response.get("status_code")
        error = entry.get("error") or (body.get("error") if isinstance(body, dict) else None)
        if status == 200 and isinstance(body, dict) and not error:
            line = self.client.redact(line)
            usage = read_usage(line)
            cost = None if self.price is None else self.price.cost(usage, batch=True)
            self.ledger.cost += cost or 0
            return Settled(row=row, state="answered", response=line, usage=usage, cost=cost), None
        known = status if isinstance(status, int) else 500
        refusal = RefusalReader(server=self.server).read(known, {}, error or body or "no answer")
        return Settled(row=row, state="unbilled", failure=refusal.kind, detail=refusal.detail), refusal

    async def _download(self, file: str) -> bytes:
        reply = await self._until(lambda: self.client.get(f"/files/{file}/content"), raw=True)
        assert isinstance(reply, Reply)
        return reply.body

    async def _until(
        self,
        call: Callable[[], Any],
        *,
        again: Callable[[], Any] | None = None,
        raw: bool = False,
    ) -> Any:  # noqa: ANN401
        """Call until there is an answer.

        Args:
            call: The call.
            again: Asked before another attempt. What it returns, if anything, is the answer.
            raw: Return the reply and not its JSON.

        Raises:
            NotFoundError: The provider knows no such thing.
            _RejectedError: The provider refuses it for good.
            StudyError: No answer came, or only the user can mend it.
        """
        for attempt in range(1, _CALLS + 1):
            result = await call()
            if isinstance(result, Reply):
                return result if raw else _json_of(result)
            if result.detail.startswith(("HTTP 404", "HTTP 405", "HTTP 501")):
                raise NotFoundError
            if result.fatal is not None and result.kind != "transport":
                raise StudyError(result.fatal)
            if result.kind not in ATTEMPTS:
                raise _RejectedError(result.detail)
            if attempt < _CALLS:
                await self.pause(max(result.wait or 0.0, self._backoff("batch", attempt)))
                if again is not None and (found := await again()) is not None:
                    return found
        raise StudyError(f"{result.detail}; run again to go on from here: batches are kept")

    def _give_up(self, questions: Sequence[Question]) -> None:
        """Count questions that met passing failures in every round."""
        if not questions:
            return
        with self.store.read() as db:
            failed = {
                (each.pair_id, each.number): each
                for each in requests.read_failures(db, self.judge.rater_name)
            }
        for question in questions:
            known = failed.get((question.pair_id, question.number))
            detail = known.detail if known else "the batch brought neither answer nor error"
            self.count(JudgeError(kind="rejected", detail=detail))


class _RejectedError(Exception):
    """The provider refuses for good what it was sent."""


def _split(planned: Sequence[Planned]) -> Iterator[list[Planned]]:
    """Yield parts that a provider takes in one batch."""
    part: list[Planned] = []
    size = 0
    for each in planned:
        line = len(each.body) + 200
        if part and (len(part) == MOST_REQUESTS or size + line > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += line
    if part:
        yield part


def _entries(content: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for line in content.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield line, entry


def _json_of(reply: Reply) -> dict[str, Any]:
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StudyError(_BAD_RESPONSE)
    return value


def _name_in(entry: dict[str, Any]) -> str:
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise StudyError(_BAD_RESPONSE)
    return name
