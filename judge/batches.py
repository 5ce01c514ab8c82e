"""A judge asked by the Batch API: hours of patience, at half the price, and nothing paid twice.

The rows of a batch have our name for it before the provider is asked to make it, and the provider's name
follows. So a run may be killed anywhere: the next one finds an interrupted batch again by our name, and
collects what has come. Only the first question, which is asked online, can be in flight when a run is killed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.store import requests
from guard_eval.store.requests import LEASE, Batch, Planned, Question
from judge.answers import excerpt, load_json, table_of
from judge.failures import ATTEMPTS, JudgeError
from judge.forms import PATHS
from judge.refusals import read_refusal
from judge.run import Run, settle_error

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""What a provider takes in one batch."""

LARGEST_FILE = 2**31
"""Bytes of a file of results."""

KEPT = timedelta(days=30)
"""How long a provider keeps a batch."""

SECOND_LOOK_SECONDS = 5.0
"""Seconds between two searches for an interrupted batch: a provider's list may be a little behind."""

POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 60.0
"""Seconds between two looks at a batch: the first pause, and the longest."""

_ENDED = {"completed", "failed", "expired", "cancelled"}
_CALLS = 12
"""Attempts at one call: a batch takes hours, so an outage of minutes is borne."""


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
                unanswered = await self._resolve(queue)
                while unanswered:
                    unanswered = await self._ask_once(unanswered)
            except asyncio.CancelledError:
                progress.warn(
                    "stopping: batches go on at the provider; run the same command again to collect them"
                )
                raise

    async def _ask_once(self, unanswered: Sequence[tuple[Question, int]]) -> list[tuple[Question, int]]:
        """Ask questions in batches; return what is left to ask, with the sample to ask.

        What came back without an answer counts as a failure, which the next run asks again.

        Raises:
            StudyError: Nothing more fits into the budget, or the provider takes no batch.
        """
        batches: list[Batch] = []
        sent: set[str] = set()
        for part in _split([self.plan(*each, batch=True) for each in unanswered]):
            name = secrets.token_hex(8)
            outcomes = await self._write(partial(self.insert, planned=part, batch=name))
            reserved = [
                each for each, outcome in zip(part, outcomes, strict=True) if isinstance(outcome, int)
            ]
            if reserved:
                batches.append(await self._create(name, reserved))
                sent |= {each.key for each in reserved}
            if "budget" in outcomes:
                if not batches:
                    raise self.used_up(part[outcomes.index("budget")])
                progress.notice("the budget leaves room for a part of the pairs; the rest waits for its cost")
                break
        if not batches:  # another process asks these questions
            await asyncio.sleep(self.pace * LONGEST_POLL_SECONDS)
        await self._collect(batches)
        with self.store.read() as db:
            failures = requests.read_failures(db)
        left = []
        for question, resample in await self._resolve([question for question, _ in unanswered]):
            if self.asker.key(question, resample) not in sent:
                left.append((question, resample))
                continue
            key = (self.judge.rater_name, question.pair_id, question.number)
            _, detail = failures.get(key, ("", "the batch brought neither answer nor error"))
            await self.conclude(question, JudgeError(kind="rejected", detail=detail))
        return left

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

    def _write(self, function: Callable[[Connection, datetime], Any]) -> Awaitable[Any]:
        return self.journal.write(lambda db, now, _: [function(db, now)])

    async def _close(self, batch: str, *, billed: bool) -> None:
        """Note that a batch brings nothing more: its requests without an answer are lost, or cost nothing."""
        values: dict[str, str | int] = {"state": "lost"} if billed else {"state": "unbilled", "cost": 0}
        await self._write(lambda db, _: requests.change_batch(db, batch, **values))

    async def _adopt(self) -> list[Batch]:
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

    async def _recover(self, batch: Batch) -> Batch | None:
        """Return an interrupted batch with the provider's name; one that was never made costs nothing."""
        try:
            provider_id = await self._find(batch.name)
            if provider_id is None:
                await asyncio.sleep(SECOND_LOOK_SECONDS * self.pace)
                provider_id = await self._find(batch.name)
        except CallError as error:
            if not error.missing:
                raise StudyError(f"the server does not list its batches: {error}; run again later") from None
            progress.warn(
                "a batch may have been made when a run was interrupted, and the server cannot list its "
                "batches: its requests count as lost and are sent again"
            )
            await self._close(batch.name, billed=True)
            return None
        if provider_id is None:
            await self._close(batch.name, billed=False)
            return None
        await self._write(lambda db, _: requests.change_batch(db, batch.name, provider_id=provider_id))
        return replace(batch, provider_id=provider_id)

    async def _find(self, name: str) -> str | None:
        """Return what the provider calls the batch that has our name, if there is one."""
        query: dict[str, object] = {"limit": 100}
        while True:
            page = await self._call(lambda: self.client.get("/batches", dict(query)))
            listed = [each for each in page.get("data") or [] if isinstance(each, dict)]
            for each in listed:
                if table_of(each.get("metadata")).get("guard-eval") == name:
                    return _id_of(each)
            if not page.get("has_more") or not listed:
                return None
            query["after"] = str(listed[-1].get("id"))

    async def _create(self, name: str, planned: Sequence[Planned]) -> Batch:
        """Upload the requests and make a batch of them.

        Raises:
            StudyError: The provider refuses it, or only the user can mend it.
        """
        path = f"/v1{PATHS[planned[0].form.partition('/')[0]]}"
        frames = ({"custom_id": each.key, "method": "POST", "url": path} for each in planned)
        lines = [
            json.dumps(frame)[:-1].encode() + b', "body": ' + each.body + b"}\n"
            for frame, each in zip(frames, planned, strict=True)
        ]
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
            await self._close(name, billed=False)
            words = "has no Batch API" if error.missing else f"does not take the batch: {error}"
            raise StudyError(f"the server at {self.server.url} {words}; run without --batch") from None
        batch = Batch(name=name, provider_id=_id_of(created), sent_at=datetime.now(UTC))
        self.ledger.requests += len(planned)
        progress.notice(f"the batch {batch.provider_id} with {len(planned)} requests is sent")
        await self._write(lambda db, _: requests.change_batch(db, name, provider_id=str(batch.provider_id)))
        return batch

    async def _collect(self, batches: Sequence[Batch]) -> None:
        """Wait for batches, and store what they bring."""
        pause = POLL_SECONDS
        unfinished = list(batches)
        while unfinished:
            ended = await asyncio.gather(*(self._poll(each) for each in unfinished))
            unfinished = [each for each, is_over in zip(unfinished, ended, strict=True) if not is_over]
            if unfinished:
                await asyncio.sleep(self.pace * pause)
                pause = min(LONGEST_POLL_SECONDS, pause * 1.5)

    async def _poll(self, batch: Batch) -> bool:
        """Collect a batch if it has ended; return whether nothing more comes of it.

        Raises:
            StudyError: The provider should know it, or only the user can mend what a request met.
        """
        try:
            status = await self._call(lambda: self.client.get(f"/batches/{batch.provider_id}"))
        except CallError as error:
            if not error.missing or datetime.now(UTC) - batch.sent_at < KEPT:
                raise StudyError(
                    f"the server at {self.server.url} knows no batch {batch.provider_id}, which this study "
                    f"sent ({error}); set key and address to those it was sent with"
                ) from None
            await self._close(batch.name, billed=True)
            return True
        state, counts = str(status.get("status")), table_of(status.get("request_counts"))
        progress.notice(f"the batch {batch.provider_id}: {state}, {counts.get('completed', 0)} answers")
        if state not in _ENDED:
            return False
        fatal, lost = await self._store_results(batch, status)
        await self._close(batch.name, billed=lost or state == "completed")
        if fatal is None and state == "failed":
            errors = table_of(status.get("errors")).get("data") or []
            words = "; ".join(excerpt(str(table_of(each).get("message"))) for each in errors)
            fatal = (
                f"the provider refused the batch {batch.provider_id}: {words or state}; run without --batch"
            )
        if fatal is not None:
            raise StudyError(fatal)
        return True

    async def _store_results(self, batch: Batch, status: dict[str, Any]) -> tuple[str | None, bool]:
        """Store what a batch brings; return what only the user can mend, and whether a file is lost."""
        with self.store.read() as db:
            rows = requests.read_batch(db, batch.name)
        fatal, lost = None, False
        for file in filter(None, (status.get("output_file_id"), status.get("error_file_id"))):
            try:
                content = await self._call(partial(self.client.get, f"/files/{file}/content"), raw=True)
            except CallError:
                lost = True
                continue
            settled = []
            for line in content.splitlines():
                entry = table_of(load_json(line))
                row = rows.pop(str(entry.get("custom_id")), None)
                if row is None:
                    continue
                if (error := self._read_error(entry)) is None:
                    settled.append(self.price_answer(row, self.client.redact(line), batch=True))
                else:
                    settled.append(settle_error(row, error))
                    fatal = fatal or error.fatal
            await self._write(lambda db, _, settled=settled: requests.settle(db, settled))  # type: ignore[misc]
        return fatal, lost

    def _read_error(self, entry: dict[str, Any]) -> JudgeError | None:
        """Return why a line of a file of results has no answer; None if it has one."""
        response = table_of(entry.get("response"))
        body, status = response.get("body"), response.get("status_code")
        error = entry.get("error") or table_of(body).get("error")
        if status == 200 and isinstance(body, dict) and not error:
            return None
        known = status if isinstance(status, int) else 500
        refusal = read_refusal(self.server, known, {}, error or body or "no answer")
        return replace(refusal, billed=False)

    async def _call(
        self,
        call: Callable[[], Awaitable[bytes | JudgeError]],
        *,
        recheck: Callable[[], Awaitable[str | None]] | None = None,
        raw: bool = False,
    ) -> Any:  # noqa: ANN401 (a stranger's JSON)
        """Call until there is an answer.

        Args:
            call: The call.
            recheck: Asked before another attempt for the id of what the last one may have made.
            raw: Return the bytes and not their JSON.

        Raises:
            CallError: The provider refuses it for good.
            StudyError: No answer came, or only the user can mend it.
        """
        for attempt in range(1, _CALLS + 1):
            result = await call()
            if isinstance(result, bytes):
                return result if raw else table_of(load_json(result))
            detail = result.detail
            missing = detail.startswith(("HTTP 404", "HTTP 405", "HTTP 501"))
            if not missing and result.fatal is not None and result.kind != "transport":
                raise StudyError(result.fatal)
            if missing or result.kind not in ATTEMPTS:
                raise CallError(detail, missing=missing)
            if attempt < _CALLS:
                await self.pause(max(result.wait or 0.0, self.backoff("batch", attempt)))
                if recheck is not None and (batch := await recheck()) is not None:
                    return {"id": batch}
        raise StudyError(f"{detail}; run again to go on from here: batches are kept")


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


def _id_of(entry: dict[str, Any]) -> str:
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise StudyError(
            "the server's answer is not that of a Batch API; run again later, or without --batch"
        )
    return name
