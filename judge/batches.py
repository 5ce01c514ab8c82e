"""A judge asked by the Batch API: hours of patience, at half the price, and nothing paid twice.

A batch is a row, `creating`, before the provider is asked to make it, and the provider's name follows. So a
run may be killed anywhere: the next one finds an interrupted batch again by our name for it, and collects
what has come.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import content_id
from guard_eval.store import requests
from guard_eval.store.requests import LEASE, BatchRow, Planned, Question, Settled
from judge.answers import excerpt
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

LARGEST_FILE = 2**31
"""Bytes of a file of results."""

KEPT = timedelta(days=30)
"""How long a provider keeps a batch."""

SECOND_LOOK_SECONDS = 5.0
"""Seconds between two searches for an interrupted batch: a provider's list may be a little behind."""

POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 60.0
"""Seconds between two looks at a batch: the first pause, and the longest."""

ROWS_AT_ONCE = 500
"""Results that are written in one transaction."""

_ENDED = {"completed", "failed", "expired", "cancelled"}
_CALLS = 12
"""Attempts at one call: a batch takes hours, so an outage of minutes is borne."""

_BAD_RESPONSE = "the server's answer is not that of a Batch API; run again later, or without --batch"


class CallError(Exception):
    """The provider refuses a call for good; `missing` says that it knows no such thing."""

    def __init__(self, detail: str, *, missing: bool) -> None:
        super().__init__(detail)
        self.missing = missing


class BatchRun(Run):
    """One run of one judge in batches."""

    async def ask(self, questions: Sequence[Question]) -> None:
        """Collect the batches of earlier runs, then send what is left, until nothing is left.

        The first question is asked online, which settles the form of all others.
        """
        async with self.open():
            self.client.largest = LARGEST_FILE
            try:
                await self._collect(await self._adopt())
                queue = deque(question for question, _ in await self._resolve(questions))
                await self.settle_form(queue)
                await self._ask_in_batches(list(queue))
            except asyncio.CancelledError:
                progress.warn(
                    "stopping: batches go on at the provider; run the same command again to collect them"
                )
                raise

    async def _ask_in_batches(self, questions: list[Question]) -> None:
        rounds: Counter[Question] = Counter()
        while unanswered := await self._resolve(questions):
            await self._give_up([question for question, _ in unanswered if rounds[question] == ROUNDS])
            unanswered = [each for each in unanswered if rounds[each[0]] < ROUNDS]
            batches, sent = await self._send_batches(unanswered)
            await self._collect(batches)
            rounds.update(sent)
            questions = [question for question, _ in unanswered]

    async def _resolve(self, questions: Sequence[Question]) -> list[tuple[Question, int]]:
        """Save the verdicts of questions that are answered; return the others, with the sample to ask."""
        unanswered = []
        outcomes = self.asker.conclude_all(self.store, questions)
        for question, outcome in zip(questions, outcomes, strict=True):
            if isinstance(outcome, int):
                unanswered.append((question, outcome))
            else:
                await self.conclude(question, outcome)
        return unanswered

    async def _give_up(self, questions: Sequence[Question]) -> None:
        """Count questions that met passing failures in every round."""
        with self.store.read() as db:
            failures = requests.read_failures(db, self.judge.rater_name)
        for each in questions:
            key = (self.judge.rater_name, each.pair_id, each.number)
            _, detail = failures.get(key, ("", "the batch brought neither answer nor error"))
            await self.conclude(each, JudgeError(kind="rejected", detail=detail))

    def _write(self, function: Callable[[Connection, datetime], Any]) -> Awaitable[Any]:
        return self.journal.write(lambda db, now, _: [function(db, now)])

    async def _close(self, batch: BatchRow, *, billed: bool) -> None:
        """Note that a batch brings nothing more."""
        await self._write(lambda db, _: requests.close_batch(db, batch.id, billed=billed))

    async def _adopt(self) -> list[BatchRow]:
        """Return the unfinished batches of ended runs; a killed run keeps its own for one lease."""
        until = time.monotonic() + LEASE.total_seconds() + 2
        others = 1
        while others and time.monotonic() < until:
            batches, others = await self._write(
                lambda db, now: requests.adopt_batches(db, self.rater, self.name, now)
            )
            if others:
                await asyncio.sleep(1.0)
        if others:
            progress.warn(f"another run looks after {others} batches; run again when it has finished")
        known = [each if each.provider_id else await self._recover(each) for each in batches]
        return [each for each in known if each is not None]

    async def _recover(self, batch: BatchRow) -> BatchRow | None:
        """Return an interrupted batch with the provider's name; one that was never made costs nothing."""
        name = self._name(batch)
        try:
            provider_id = await self._find(name)
            if provider_id is None:
                await asyncio.sleep(SECOND_LOOK_SECONDS * self.pace)
                provider_id = await self._find(name)
        except CallError as error:
            if not error.missing:
                raise StudyError(f"the server does not list its batches: {error}; run again later") from None
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
        await self._write(lambda db, _: requests.note_sent(db, batch.id, provider_id))
        return replace(batch, provider_id=provider_id)

    def _name(self, batch: BatchRow) -> str:
        """Return our name for a batch: a hash of its requests, which no other study's batch has."""
        with self.store.read() as db:
            return content_id("batch", batch.id, sorted(requests.read_batch(db, batch.id)))

    async def _find(self, name: str) -> str | None:
        """Return what the provider calls the batch that has our name, if there is one."""
        query: dict[str, object] = {"limit": 100}
        while True:
            page = await self._call(lambda: self.client.get("/batches", dict(query)))
            listed = [each for each in page.get("data") or [] if isinstance(each, dict)]
            for each in listed:
                if (each.get("metadata") or {}).get("guard-eval") == name:
                    return _id_of(each)
            if not page.get("has_more") or not listed:
                return None
            query["after"] = str(listed[-1].get("id"))

    async def _send_batches(
        self, questions: Sequence[tuple[Question, int]]
    ) -> tuple[list[BatchRow], list[Question]]:
        """Make batches of the questions' requests; return them, and what is in them.

        Raises:
            StudyError: Nothing more fits into the budget, or the provider takes no batch.
        """
        planned = [self.plan(question, resample, batch=True) for question, resample in questions]
        batches: list[BatchRow] = []
        sent: list[Question] = []
        for part in _split(planned):
            batch, outcomes = await self._write(
                lambda db, now, part=part: requests.add_batch(  # type: ignore[misc]
                    db, part, judge=self.rater, run=self.name, now=now, limit=self.limit
                )
            )
            reserved = [
                each for each, outcome in zip(part, outcomes, strict=True) if isinstance(outcome, int)
            ]
            if reserved:
                batches.append(await self._create(batch, reserved))
                sent += [each.question for each in reserved]
            else:
                await self._close(batch, billed=False)
            if "budget" in outcomes:
                if not batches:
                    raise self.used_up(part[outcomes.index("budget")])
                progress.notice(
                    "the budget leaves room for a part of the pairs; the rest waits for what these cost"
                )
                break
        return batches, sent

    async def _create(self, batch: BatchRow, planned: Sequence[Planned]) -> BatchRow:
        """Upload the requests and make a batch of them.

        Raises:
            StudyError: The provider refuses it, or only the user can mend it.
        """
        path = f"/v1{PATHS[self.interface(planned[0])]}"
        frames = ({"custom_id": each.key, "method": "POST", "url": path} for each in planned)
        lines = [
            json.dumps(frame)[:-1].encode() + b', "body": ' + each.body + b"}\n"
            for frame, each in zip(frames, planned, strict=True)
        ]
        name = self._name(batch)
        try:
            file = await self._call(lambda: self.client.upload(f"guard-eval-{name}.jsonl", b"".join(lines)))
            body = {
                "input_file_id": _id_of(file),
                "endpoint": path,
                "completion_window": "24h",
                "metadata": {"guard-eval": name},
            }
            created = await self._call(
                lambda: self.client.post("/batches", json.dumps(body).encode()),
                recheck=lambda: self._find(name),
            )
        except CallError as error:
            await self._close(batch, billed=False)
            words = "has no Batch API" if error.missing else f"does not take the batch: {error}"
            raise StudyError(f"the server at {self.server.url} {words}; run without --batch") from None
        provider_id = created if isinstance(created, str) else _id_of(created)
        self.ledger.requests += len(planned)
        progress.notice(f"the batch {provider_id} with {len(planned)} requests is sent")
        return await self._note_sent(batch, provider_id)

    async def _collect(self, batches: Sequence[BatchRow]) -> None:
        """Wait for batches, and store what they bring."""
        pause = POLL_SECONDS
        unfinished = list(batches)
        while unfinished:
            ended = await asyncio.gather(*(self._poll(each) for each in unfinished))
            unfinished = [each for each, is_over in zip(unfinished, ended, strict=True) if not is_over]
            if unfinished:
                await asyncio.sleep(self.pace * pause)
                pause = min(LONGEST_POLL_SECONDS, pause * 1.5)

    async def _poll(self, batch: BatchRow) -> bool:
        """Collect a batch if it has ended; return whether nothing more comes of it.

        Raises:
            StudyError: The provider should know it, or only the user can mend what a request met.
        """
        try:
            status = await self._call(lambda: self.client.get(f"/batches/{batch.provider_id}"))
        except CallError as error:
            if not error.missing or datetime.now(UTC) - batch.created_at < KEPT:
                raise StudyError(
                    f"the server at {self.server.url} knows no batch {batch.provider_id}, which this study "
                    f"sent ({error}); set key and address to those it was sent with"
                ) from None
            await self._close(batch, billed=True)
            return True
        state, counts = str(status.get("status")), status.get("request_counts") or {}
        progress.notice(f"the batch {batch.provider_id}: {state}, {counts.get('completed', 0)} answers")
        if state not in _ENDED:
            return False
        files = [status.get(f"{each}_file_id") for each in ("output", "error")]
        fatal, lost = await self._store_results(batch, [str(each) for each in files if each])
        await self._close(batch, billed=lost or state == "completed")
        if fatal is not None:
            raise StudyError(fatal)
        if state == "failed":
            errors = (status.get("errors") or {}).get("data") or []
            words = "; ".join(excerpt(str(each.get("message"))) for each in errors if isinstance(each, dict))
            raise StudyError(
                f"the provider refused the batch {batch.provider_id}: {words or state}; run without --batch"
            )
        return True

    async def _store_results(self, batch: BatchRow, files: Sequence[str]) -> tuple[str | None, bool]:
        """Store what a batch brings; return what only the user can mend, and whether a file is lost."""
        with self.store.read() as db:
            rows = requests.read_batch(db, batch.id)
        fatal, lost = None, False
        for file in files:
            download = partial(self.client.get, f"/files/{file}/content")
            try:
                content = await self._call(download, raw=True)
            except CallError:
                lost = True
                continue
            results = self._read_results(content, rows)
            while part := list(islice(results, ROWS_AT_ONCE)):
                await self._write(
                    lambda db, _, part=part: requests.settle(db, [settled for settled, _ in part])  # type: ignore[misc]
                )
                fatal = fatal or next((error.fatal for _, error in part if error and error.fatal), None)
        return fatal, lost

    def _read_results(
        self, content: bytes, rows: dict[str, int]
    ) -> Iterator[tuple[Settled, JudgeError | None]]:
        """Yield what a file of results says about each request whose row is open, with its error, if any."""
        for line in content.splitlines():
            entry = _table(_parse(line))
            row = rows.pop(str(entry.get("custom_id")), None)
            if row is None:
                continue
            response = _table(entry.get("response"))
            body, status = response.get("body"), response.get("status_code")
            error = entry.get("error") or _table(body).get("error")
            if status == 200 and isinstance(body, dict) and not error:
                yield self.price_answer(row, self.client.redact(line), batch=True), None
            else:
                known = status if isinstance(status, int) else 500
                refusal = RefusalReader(server=self.server).read(known, {}, error or body or "no answer")
                words = {"failure": refusal.kind, "detail": refusal.detail}
                yield Settled(row=row, state="unbilled", **words), refusal  # type: ignore[arg-type]

    async def _call(
        self,
        call: Callable[[], Awaitable[Reply | JudgeError]],
        *,
        recheck: Callable[[], Awaitable[str | None]] | None = None,
        raw: bool = False,
    ) -> Any:  # noqa: ANN401 (a stranger's JSON)
        """Call until there is an answer.

        Args:
            call: The call.
            recheck: Asked before another attempt. What it returns, if anything, is the answer.
            raw: Return the bytes and not their JSON.

        Raises:
            CallError: The provider refuses it for good.
            StudyError: No answer came, or only the user can mend it.
        """
        result: Reply | JudgeError
        for attempt in range(1, _CALLS + 1):
            result = await call()
            if isinstance(result, Reply):
                value = result.body if raw else _parse(result.body)
                if not raw and not isinstance(value, dict):
                    raise StudyError(_BAD_RESPONSE)
                return value
            missing = result.detail.startswith(("HTTP 404", "HTTP 405", "HTTP 501"))
            if not missing and result.fatal is not None and result.kind != "transport":
                raise StudyError(result.fatal)
            if missing or result.kind not in ATTEMPTS:
                raise CallError(result.detail, missing=missing)
            if attempt < _CALLS:
                await self.pause(max(result.wait or 0.0, self.backoff("batch", attempt)))
                if recheck is not None and (answer := await recheck()) is not None:
                    return answer
            elif isinstance(result, JudgeError):
                raise StudyError(f"{result.detail}; run again to go on from here: batches are kept")
        raise AssertionError


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


def _parse(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _id_of(entry: dict[str, Any]) -> str:
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise StudyError(_BAD_RESPONSE)
    return name
