"""A judge asked by the Batch API: hours of patience, at half the price, and nothing paid twice.

The rows of a batch have our name for it before the provider is asked to make it, and the provider's name
follows. So a run may be killed anywhere: the next one finds an interrupted batch again by our name, and
collects what has come. Only the first question, which is asked online, can be in flight when a run is killed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.servers.answers import excerpt, load_json, table_of
from guard_eval.servers.failures import ATTEMPTS, RequestFailure
from guard_eval.servers.refusals import read_line
from guard_eval.store import requests
from guard_eval.store.requests import (
    LEASE,
    Batch,
    Planned,
    Question,
    Reservation,
    Reserved,
    Unavailable,
)
from judge.biller import Ledger
from judge.decide import MOST_FRUITLESS, Failure, explain_useless
from judge.prompts.forms import PATHS
from judge.run import OnlineRun, Pending, settle_error

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""What a provider takes in one batch."""

LARGEST_FILE = 2**31
"""Bytes of a file of results."""

SECOND_LOOK_SECONDS = 5.0
"""Seconds between two searches for an interrupted batch: a provider's list may be a little behind."""

POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 60.0
"""Seconds between two looks at a batch: the first pause, and the longest."""

_ENDED = {"completed", "failed", "expired", "cancelled"}
_CALLS = 12
"""Attempts at one call: a batch takes hours, so an outage of minutes is borne."""

BAD_RESPONSE = "the server's answer is not that of a Batch API; run again later, or without --batch"
_NEW_NAME = 'give the judge a new name (name = "…")'

NO_ANSWER = RequestFailure(kind="server_error", detail="the batch brought neither an answer nor an error")


class CallError(Exception):
    """The provider refuses a call for good."""


class BatchRun:
    """One run of one judge in batches.

    Attributes:
        online: Asks the first questions online, and holds what both ways of asking need.
        journal: Writes to the store.
        biller: Prices requests and answers.
        server: The judge's server.
    """

    def __init__(self, online: OnlineRun) -> None:
        self.online = online
        self.journal = online.journal
        self.biller = online.biller
        self.server = online.server
        self._errors: dict[str, RequestFailure] = {}  # by the request's key

    def judge_questions(self, questions: Sequence[Question]) -> Ledger:
        """Collect the batches of earlier runs, then send what is left, until nothing is left.

        The first questions are asked online. Only after an answer could be read is a batch sent.

        Raises:
            StudyError: Only the user can mend it. What was answered until then is saved.
        """
        asyncio.run(self._ask(questions))
        return self.biller.ledger

    async def _ask(self, questions: Sequence[Question]) -> None:
        online = self.online
        async with online.open():
            online.client.largest = LARGEST_FILE
            await self._collect(await self._adopt())
            queue = deque(pending.question for pending in await online.resolve(questions))
            await online.ask_first(queue)
            unanswered = await online.resolve(queue)
            while unanswered and online.state.is_settled and not online.is_stopped:
                unanswered = await self._ask_once(unanswered)

    async def _ask_once(self, unanswered: Sequence[Pending]) -> list[Pending]:
        """Ask questions in batches; return what is left to ask.

        What came back without an answer counts as a failure, which the next run asks again.

        Raises:
            StudyError: The budget is used up, no answer could be read, or the provider takes no batch.
        """
        online = self.online
        planned = [online.plan(pending.question, pending.send, batch=True) for pending in unanswered]
        outcomes = await self._send(planned)
        verdicts = self.biller.ledger.verdicts
        left: list[Pending] = []
        for pending in await online.resolve(pending.question for pending in unanswered):
            key = online.builder.key(pending.question, pending.send.form, pending.send.sample)
            outcome = outcomes.get(key)
            if isinstance(outcome, Reserved):
                error = self._errors.get(key, NO_ANSWER)
                await online.conclude(pending.question, Failure(error))
            elif outcome == Unavailable("batch"):
                self.biller.ledger.in_batches += 1
            else:
                left.append(pending)
        useless = [pending.error for pending in left if pending.error is not None]
        if len(useless) >= MOST_FRUITLESS and self.biller.ledger.verdicts == verdicts:
            raise StudyError(explain_useless(online.state, useless[-1], len(useless)).reason)
        return left

    async def _send(self, planned: Sequence[Planned]) -> dict[str, Reservation]:
        """Send requests in batches, and collect these; return by key what became of each reservation."""
        batches: list[Batch] = []
        outcomes: dict[str, Reservation] = {}
        for part in _split(planned):
            name = secrets.token_hex(8)
            reserved = self.journal.reserve_batch(part, name)
            if Unavailable("budget") in reserved:
                raise self.biller.explain_limit(part[reserved.index(Unavailable("budget"))])
            outcomes |= {request.key: outcome for request, outcome in zip(part, reserved, strict=True)}
            if sent := [request for request in part if isinstance(outcomes[request.key], Reserved)]:
                batches.append(await self._create(name, sent))
        if not batches:  # another process asks these questions
            await self.online.pause(self.online.pace * LONGEST_POLL_SECONDS)
        await self._collect(batches)
        return outcomes

    def _change(self, batch: str, **values: str | int) -> None:
        """Change the open requests of a batch."""
        with self.journal.store.write() as (db, _):
            requests.change_batch(db, batch, **values)

    async def _adopt(self) -> list[Batch]:
        """Return the unfinished batches of ended runs; a killed run keeps its own for one lease."""
        for _ in range(int(LEASE.total_seconds()) + 2):
            with self.journal.store.write() as (db, now):
                batches, others = requests.adopt_batches(db, self.journal.rater, self.journal.run, now)
            if not others:
                break
            await asyncio.sleep(1.0)
        else:
            progress.warn(f"another run looks after {others} batches; run again when it has finished")
        recovered = [await self._recover(each) for each in batches]
        return [each for each in recovered if each is not None]

    async def _recover(self, batch: Batch) -> Batch | None:
        """Return a batch with the provider's name; None if its creation was interrupted and made none."""
        if batch.provider_id is not None:
            return batch
        try:
            provider_id = await self._find(batch.name)
            if provider_id is None:
                await asyncio.sleep(SECOND_LOOK_SECONDS * self.online.pace)
                provider_id = await self._find(batch.name)
        except CallError as error:
            raise StudyError(
                f"{self.server.url} does not list its batches ({error}), and an interrupted run may have "
                f"made one; run again later, or {_NEW_NAME}"
            ) from None
        if provider_id is None:
            self._change(batch.name, state="unbilled", cost=0)
            return None
        self._change(batch.name, provider_id=provider_id)
        return replace(batch, provider_id=provider_id)

    async def _find(self, name: str) -> str | None:
        """Return what the provider calls the batch that has our name, if there is one."""
        query: dict[str, object] = {"limit": 100}
        while True:
            page = await self._call(partial(self.online.client.get, "/batches", dict(query)))
            if not isinstance(listed := page.get("data"), list):
                raise StudyError(BAD_RESPONSE)
            for each in map(table_of, listed):
                if table_of(each.get("metadata")).get("guard-eval") == name:
                    return _id_of(each)
            if not page.get("has_more") or not listed:
                return None
            query["after"] = _id_of(table_of(listed[-1]))

    async def _create(self, name: str, planned: Sequence[Planned]) -> Batch:
        """Upload the requests and make a batch of them.

        Raises:
            StudyError: The provider refuses it, or only the user can mend it.
        """
        path = f"/v1{PATHS[self.online.state.form.interface]}"
        head = b'{"custom_id": "%s", "method": "POST", "url": "%s", "body": %s}\n'
        lines = [head % (each.key.encode(), path.encode(), each.body) for each in planned]
        try:
            upload = partial(self.online.client.upload, f"guard-eval-{name}.jsonl", b"".join(lines))
            file = await self._call(upload)
            body = {
                "input_file_id": _id_of(file),
                "endpoint": path,
                "completion_window": "24h",
                "metadata": {"guard-eval": name},
            }
            created = await self._call(
                partial(self.online.client.post, "/batches", json.dumps(body).encode()),
                recheck=partial(self._find, name),
            )
        except CallError as error:
            self._change(name, state="unbilled", cost=0)
            raise StudyError(
                f"{self.server.url} has no Batch API, or refuses the batch ({error}); run without --batch"
            ) from None
        provider_id = _id_of(created)
        self._change(name, provider_id=provider_id)
        self.biller.ledger.requests += len(planned)
        progress.notice(f"the batch {provider_id} with {len(planned)} requests is sent")
        return Batch(name=name, provider_id=provider_id, sent_at=datetime.now(UTC))

    async def _collect(self, batches: Sequence[Batch]) -> None:
        """Wait for batches, and store what they bring."""
        pause = POLL_SECONDS
        unfinished = list(batches)
        while unfinished:
            ended = await asyncio.gather(*map(self._poll, unfinished), return_exceptions=True)
            for error in ended:
                if isinstance(error, BaseException):  # after the others, which may store something
                    raise error
            unfinished = [each for each, is_over in zip(unfinished, ended, strict=True) if not is_over]
            if unfinished:
                await asyncio.sleep(self.online.pace * pause)
                pause = min(LONGEST_POLL_SECONDS, pause * 1.5)

    async def _poll(self, batch: Batch) -> bool:
        """Collect a batch if it has ended; return whether nothing more comes of it.

        Raises:
            StudyError: The provider should know it, or only the user can mend what a request met.
        """
        try:
            status = await self._call(partial(self.online.client.get, f"/batches/{batch.provider_id}"))
            state, counts = str(status.get("status")), table_of(status.get("request_counts"))
            progress.notice(f"the batch {batch.provider_id}: {state}, {counts.get('completed', 0)} answers")
            if state not in _ENDED:
                return False
            for name in filter(None, (status.get("output_file_id"), status.get("error_file_id"))):
                file = partial(self.online.client.get, f"/files/{name}/content")
                self._store_results(batch, await self._call(file, raw=True))
        except CallError as error:
            raise StudyError(
                f"{self.server.url} lacks the study's batch {batch.provider_id} or its results ({error}); "
                "set key and address to those it was sent with, run again later, or, if that batch is gone, "
                f"{_NEW_NAME}"
            ) from None
        ended: dict[str, Any] = {"failure": NO_ANSWER.kind, "detail": NO_ANSWER.detail}
        ended |= {"state": "lost"} if state == "completed" else {"state": "unbilled", "cost": 0}
        self._change(batch.name, **ended)
        fatal = next((each.fatal for each in self._errors.values() if each.fatal), None)
        if fatal is None and state == "failed":
            words = excerpt(json.dumps(status.get("errors")))
            fatal = f"the provider refused the batch {batch.provider_id}: {words}; run without --batch"
        if fatal is not None:
            raise StudyError(fatal)
        return True

    def _store_results(self, batch: Batch, content: bytes) -> None:
        """Store what stands in a file of results."""
        with self.journal.store.read() as db:
            rows = requests.read_batch(db, batch.name)
        settled = {}
        for line in content.splitlines():
            key = str(table_of(load_json(line)).get("custom_id"))
            if key not in rows:
                continue
            row, _ = rows[key]
            if (error := read_line(self.server, line)) is None:
                settled[key] = self.biller.price_answer(row, line, batch=True)
            else:
                settled[key] = settle_error(row, error)
                self._errors[key] = error
        with self.journal.store.write() as (db, now):
            requests.settle(db, now, list(settled.values()))
        for key, answer in settled.items():
            if answer.state == "answered":
                self.biller.count_cost(answer, rows[key][1])

    async def _call(
        self,
        call: Callable[[], Awaitable[bytes | RequestFailure]],
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
                table = result if raw else load_json(result)
                if not isinstance(table, bytes | dict):
                    raise StudyError(BAD_RESPONSE)
                return table
            detail = result.detail
            missing = detail.startswith(("HTTP 404", "HTTP 405", "HTTP 501"))
            if not missing and result.fatal is not None and result.kind != "transport":
                raise StudyError(result.fatal)
            if missing or result.kind not in ATTEMPTS:
                raise CallError(detail)
            if attempt < _CALLS:
                await self.online.pause(max(result.wait or 0.0, self.online.backoff(attempt)))
                if recheck is not None and result.billed:  # it may have been made
                    try:
                        batch = await recheck()
                    except CallError:
                        break
                    if batch is not None:
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
        raise StudyError(BAD_RESPONSE)
    return name
