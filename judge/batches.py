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
from guard_eval.store import requests
from guard_eval.store.requests import LEASE, Batch, Planned, Question, Reserved
from judge.failures import ATTEMPTS, JudgeError
from judge.prompts.answers import excerpt, load_json, table_of
from judge.prompts.forms import PATHS
from judge.providers.refusals import read_line
from judge.run import Run, settle_error

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

NO_ANSWER = JudgeError(kind="server_error", detail="the batch brought neither an answer nor an error")


class CallError(Exception):
    """The provider refuses a call for good."""


class BatchRun(Run):
    """One run of one judge in batches."""

    async def ask(self, questions: Sequence[Question]) -> None:
        """Collect the batches of earlier runs, then send what is left, until nothing is left.

        The first question is asked online, which settles the form of all others.
        """
        self._errors: dict[str, JudgeError] = {}  # by the request's key
        async with self.open():
            self.client.largest = LARGEST_FILE
            await self._collect(await self._adopt())
            queue = deque(question for question, _ in await self.resolve(questions))
            await self.run_workers([self.ask_queue(queue, first=True)])
            unanswered = await self.resolve(queue)
            while unanswered and not self._stop.is_set():
                unanswered = await self._ask_once(unanswered)

    async def _ask_once(self, unanswered: Sequence[tuple[Question, int]]) -> list[tuple[Question, int]]:
        """Ask questions in batches; return what is left to ask, with the sample to ask.

        What came back without an answer counts as a failure, which the next run asks again.

        Raises:
            StudyError: The budget is used up, or the provider takes no batch.
        """
        batches: list[Batch] = []
        outcomes: dict[str, Reserved] = {}
        for part in _split([self.plan(*each, batch=True) for each in unanswered]):
            name = secrets.token_hex(8)
            with self.store.write() as (db, now):
                reserved = self.insert(db, now, part, name)
            if "budget" in reserved:
                raise self.used_up(part[reserved.index("budget")])
            outcomes |= {each.key: outcome for each, outcome in zip(part, reserved, strict=True)}
            if sent := [each for each in part if isinstance(outcomes[each.key], int)]:
                batches.append(await self._create(name, sent))
        if not batches:  # another process asks these questions
            await self.pause(self.pace * LONGEST_POLL_SECONDS)
        await self._collect(batches)
        left = []
        for question, resample in await self.resolve([question for question, _ in unanswered]):
            key = self.asker.key(question, resample)
            outcome = outcomes.get(key)
            if isinstance(outcome, int):
                await self.conclude(question, self._errors.get(key, NO_ANSWER))
            elif outcome == "batch":
                self.ledger.in_batches += 1
            else:
                left.append((question, resample))
        return left

    def _change(self, batch: str, **values: str | int) -> None:
        """Change the open requests of a batch."""
        with self.store.write() as (db, _):
            requests.change_batch(db, batch, **values)

    async def _adopt(self) -> list[Batch]:
        """Return the unfinished batches of ended runs; a killed run keeps its own for one lease."""
        for _ in range(int(LEASE.total_seconds()) + 2):
            with self.store.write() as (db, now):
                batches, others = requests.adopt_batches(db, self.rater, self.name, now)
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
                await asyncio.sleep(SECOND_LOOK_SECONDS * self.pace)
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
            page = await self._call(partial(self.client.get, "/batches", dict(query)))
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
        path = f"/v1{PATHS[self.asker.form.interface]}"
        head = b'{"custom_id": "%s", "method": "POST", "url": "%s", "body": %s}\n'
        lines = [head % (each.key.encode(), path.encode(), each.body) for each in planned]
        try:
            file = await self._call(partial(self.client.upload, f"guard-eval-{name}.jsonl", b"".join(lines)))
            body = {
                "input_file_id": _id_of(file),
                "endpoint": path,
                "completion_window": "24h",
                "metadata": {"guard-eval": name},
            }
            created = await self._call(
                partial(self.client.post, "/batches", json.dumps(body).encode()),
                recheck=partial(self._find, name),
            )
        except CallError as error:
            self._change(name, state="unbilled", cost=0)
            raise StudyError(
                f"{self.server.url} has no Batch API, or refuses the batch ({error}); run without --batch"
            ) from None
        provider_id = _id_of(created)
        self._change(name, provider_id=provider_id)
        self.ledger.requests += len(planned)
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
                await asyncio.sleep(self.pace * pause)
                pause = min(LONGEST_POLL_SECONDS, pause * 1.5)

    async def _poll(self, batch: Batch) -> bool:
        """Collect a batch if it has ended; return whether nothing more comes of it.

        Raises:
            StudyError: The provider should know it, or only the user can mend what a request met.
        """
        try:
            status = await self._call(partial(self.client.get, f"/batches/{batch.provider_id}"))
            state, counts = str(status.get("status")), table_of(status.get("request_counts"))
            progress.notice(f"the batch {batch.provider_id}: {state}, {counts.get('completed', 0)} answers")
            if state not in _ENDED:
                return False
            for name in filter(None, (status.get("output_file_id"), status.get("error_file_id"))):
                file = partial(self.client.get, f"/files/{name}/content")
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
        with self.store.read() as db:
            rows = requests.read_batch(db, batch.name)
        settled = {}
        for line in content.splitlines():
            key = str(table_of(load_json(line)).get("custom_id"))
            if key not in rows:
                continue
            row, _ = rows[key]
            if (error := read_line(self.server, line)) is None:
                settled[key] = self.price_answer(row, line, batch=True)
            else:
                settled[key] = settle_error(row, error)
                self._errors[key] = error
        with self.store.write() as (db, now):
            requests.settle(db, now, list(settled.values()))
        for key, answer in settled.items():
            if answer.state == "answered":
                self.count_cost(answer, rows[key][1])

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
                await self.pause(max(result.wait or 0.0, self.backoff(attempt)))
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
