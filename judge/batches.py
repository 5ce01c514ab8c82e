"""Judge questions with the Batch API: half the price, up to a day, and safe to interrupt.

Our name for a batch is saved before the provider creates the batch, and the provider's id is saved later. A
run may be killed at any moment: the next run finds the batch by our name, and collects the answers. Only the
answers to the first questions, which are asked online, can be lost.

A batch that is too large for the account is halved. After that, only one batch is sent at a time.
"""

import asyncio
import secrets
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import IO

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import JsonObject
from guard_eval.servers.answers import get_object_or_empty, load_json_or_none
from guard_eval.servers.batch_api import (
    MOST_BYTES,
    MOST_REQUESTS,
    BatchApi,
    CallError,
    TooLargeError,
    is_batch_too_large,
)
from guard_eval.servers.failures import RequestFailure
from guard_eval.servers.form import PATHS
from guard_eval.servers.refusals import explain_failed_batch_line
from guard_eval.store.judging import requests
from guard_eval.store.judging.requests import (
    LEASE,
    Batch,
    PlannedRequest,
    Question,
    RequestResult,
    ReservedRequest,
    UnavailableRequest,
)
from judge.decide import MOST_USELESS_ANSWERS, Failure, stop_after_unreadable_answers
from judge.journal import RunCounts
from judge.run import OnlineRun, PendingQuestion, make_failed_request_result

REQUESTS_AT_ONCE = 200
"""While a batch is written, this number of requests is read and reserved in one step."""

POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 60.0
"""Seconds between two checks of a batch: the first pause, and the longest pause."""

LATE_FILE_POLLS = 8
"""The number of further checks of an ended batch whose files have fewer answers than are counted."""

GIVEN_UP_AFTER = timedelta(days=3)
"""The age of a batch after which answers that are counted, but in no file, are lost."""

_NEW_NAME = 'give the judge a new name (name = "…")'

NO_ANSWER = RequestFailure(kind="server_error", detail="the batch has neither an answer nor an error")


class BatchRun:
    """One run of one judge in batches.

    Attributes:
        online: The online run that asks the first questions and reads all answers.
        journal: Saves requests, answers and verdicts in the study's database.
        server: The judge's server.
    """

    def __init__(self, online: OnlineRun) -> None:
        self.online = online
        self.journal = online.journal
        self.server = online.server
        self._errors: dict[str, RequestFailure] = {}  # by the request's key
        self._late_file_polls: Counter[str] = Counter()  # by our name for the batch
        self._most_requests = MOST_REQUESTS  # in one batch; lower after a batch was too large
        # Our names for batches, by the request's key; empty if the answer comes after this run.
        self._batch_of: dict[str, str] = {}

    def judge_questions(self, rounds: Iterable[Sequence[Question]]) -> RunCounts:
        """Collect the batches of earlier runs, and then ask all other questions, round by round.

        The first questions are asked online. A batch is sent only after an answer could be read.

        Raises:
            StudyError: Only the user can fix the problem. Earlier answers are saved.
        """
        asyncio.run(self._ask_questions_by_round(rounds))
        return self.journal.counts

    async def _ask_questions_by_round(self, rounds: Iterable[Sequence[Question]]) -> None:
        online = self.online
        async with online.connect_to_server():
            self._api = BatchApi(online.client, pace=online.workers.pace)
            await self._collect_batches(await self._take_over_unfinished_batches())
            for questions in rounds:
                unanswered = await online.record_outcomes_of_stored_answers(
                    await online.ask_until_first_answer(questions)
                )
                while unanswered and online.state.is_settled and not online.workers.is_stopped:
                    unanswered = await self._ask_questions_in_batches(unanswered)

    async def _ask_questions_in_batches(self, questions: Sequence[PendingQuestion]) -> list[PendingQuestion]:
        """Ask questions in batches, and return the questions that need another request.

        After the server has refused a batch as too large, batches are sent one at a time. A question without
        an answer counts as a failure. The next run of the command asks this question again.

        Raises:
            StudyError: The budget is used up, no answer could be read, or the provider refused a batch.
        """
        online = self.online
        counts = self.journal.counts
        verdicts = counts.verdicts
        most_requests = self._most_requests
        self._batch_of = {}
        queue = deque(questions)
        batches = [await self._send_batch(queue)]
        while queue and self._most_requests == MOST_REQUESTS:
            batches.append(await self._send_batch(queue))
        if not any(batches) and self._most_requests == most_requests:  # another process asks these questions
            await online.workers.pause(online.workers.pace * LONGEST_POLL_SECONDS)
        await self._collect_batches([batch for batch in batches if batch is not None])
        unsettled: list[PendingQuestion] = []
        for pending in await online.record_outcomes_of_stored_answers(
            pending.question for pending in questions
        ):
            key = online.builder.make_request_key(pending.question, pending.send.form, pending.send.sample)
            match self._batch_of.get(key):
                case None:
                    unsettled.append(pending)
                case "":
                    counts.in_batches += 1
                case _:
                    await online.record_outcome(pending.question, Failure(self._errors.get(key, NO_ANSWER)))
        useless = [pending.error for pending in unsettled if pending.error is not None]
        if len(useless) >= MOST_USELESS_ANSWERS and counts.verdicts == verdicts:
            raise StudyError(stop_after_unreadable_answers(online.state, useless[-1], len(useless)).reason)
        return unsettled

    def _halve_batch_size(self, batch_name: str, size: int, refusal: str) -> None:
        """Halve the size of all further batches, because this batch was too large.

        Raises:
            StudyError: The batch had one request.
        """
        self._batch_of = {key: batch for key, batch in self._batch_of.items() if batch != batch_name}
        if size <= 1:
            raise StudyError(
                f"{self.server.url} refuses a batch of one request ({refusal}). Run again without --batch"
            )
        self._most_requests = min(self._most_requests, -(-size // 2))
        progress.show_notice(
            f"a batch of {size} requests is too large ({refusal}); further batches have at most "
            f"{self._most_requests} requests"
        )

    async def _send_batch(self, queue: deque[PendingQuestion]) -> Batch | None:
        """Send the next requests in one batch; return None if nothing is sent or the batch is too large.

        Raises:
            StudyError: The budget is used up, or the provider refused the batch.
        """
        name = secrets.token_hex(8)
        size = 0
        requests_to_send = self._take_requests_for_batch(queue)
        with tempfile.TemporaryFile() as file:
            while planned := list(islice(requests_to_send, REQUESTS_AT_ONCE)):
                with self.journal.store.begin_write() as (db, now):
                    reserved = self.journal.reserve(db, now, planned, batch=name)
                for request, outcome in zip(planned, reserved, strict=True):
                    match outcome:
                        case ReservedRequest():
                            self._batch_of[request.key] = name
                            file.write(self._format_request_line(request))
                            size += 1
                        case UnavailableRequest("batch"):
                            self._batch_of[request.key] = ""
                        case UnavailableRequest("budget"):
                            self._release_reserved_costs(name)
                            raise self.journal.make_budget_error(request)
            return await self._create_batch(name, size, file) if size else None

    def _take_requests_for_batch(self, queue: deque[PendingQuestion]) -> Iterator[PlannedRequest]:
        """Remove questions from the queue, and yield their requests, until the batch is full."""
        size = 0
        for count in range(min(len(queue), self._most_requests)):
            request = self.online.plan_request(queue[0].question, queue[0].send, batch=True)
            size += len(self._format_request_line(request))
            if count and size > MOST_BYTES:
                return
            queue.popleft()
            yield request

    @property
    def _endpoint(self) -> str:
        return f"/v1{PATHS[self.online.state.form.interface]}"

    def _format_request_line(self, request: PlannedRequest) -> bytes:
        """Return a request as one line of a batch's file."""
        head = f'{{"custom_id": "{request.key}", "method": "POST", "url": "{self._endpoint}", "body": '
        return b"%s%s}\n" % (head.encode(), request.body)

    def _update_batch_requests(self, batch: str, **values: str | int) -> None:
        """Set the given columns in the rows of a batch's open requests."""
        with self.journal.store.begin_write() as (db, _):
            requests.update_open_requests_of_batch(db, batch, **values)

    def _release_reserved_costs(self, batch: str) -> None:
        """Release the amounts that were reserved for a batch, because the batch was not created."""
        self._update_batch_requests(batch, state="unbilled", cost=0)

    async def _take_over_unfinished_batches(self) -> list[Batch]:
        """Return the unfinished batches of earlier runs. A killed run's batches are free after one lease."""
        for _ in range(int(LEASE.total_seconds()) + 2):
            with self.journal.store.begin_write() as (db, now):
                batches, others = requests.take_over_batches_of_ended_runs(
                    db, self.journal.rater, self.journal.run, now
                )
            if not others:
                break
            await asyncio.sleep(1.0)
        else:
            progress.warn(
                f"another run is waiting for {others} batches. When that run has ended, run the command again"
            )
        recovered = [await self._recover_provider_id(batch) for batch in batches]
        return [batch for batch in recovered if batch is not None]

    async def _recover_provider_id(self, batch: Batch) -> Batch | None:
        """Return a batch with the provider's id, or None if the provider never created the batch."""
        if batch.provider_id is not None:
            return batch
        try:
            provider_id = await self._api.find_batch(batch.name)
        except CallError as error:
            raise StudyError(
                f"{self.server.url} does not list its batches ({error}), but an interrupted run may have "
                f"created one. Run the command again later, or {_NEW_NAME}"
            ) from None
        if provider_id is None:
            self._release_reserved_costs(batch.name)
            return None
        self._update_batch_requests(batch.name, provider_id=provider_id)
        return replace(batch, provider_id=provider_id)

    async def _create_batch(self, batch_name: str, size: int, file: IO[bytes]) -> Batch | None:
        """Upload the requests and create a batch; return None if the batch is too large.

        Raises:
            StudyError: The provider refuses the batch, or only the user can fix the problem.
        """
        try:
            provider_id = await self._api.create_batch(batch_name, file, self._endpoint)
        except CallError as error:
            self._release_reserved_costs(batch_name)
            if isinstance(error, TooLargeError):
                self._halve_batch_size(batch_name, size, str(error))
                return None
            raise StudyError(
                f"{self.server.url} has no Batch API, or refuses the batch ({error}). Run the command "
                "without --batch"
            ) from None
        self._update_batch_requests(batch_name, provider_id=provider_id)
        self.journal.counts.requests += size
        progress.show_notice(f"the batch {provider_id} with {size} requests was sent")
        return Batch(name=batch_name, provider_id=provider_id)

    async def _collect_batches(self, batches: Sequence[Batch]) -> None:
        """Wait until all batches have ended, and store their results."""
        pause = POLL_SECONDS
        unfinished = list(batches)
        while unfinished:
            ended = await asyncio.gather(*map(self._poll_batch, unfinished), return_exceptions=True)
            for error in ended:
                if isinstance(error, BaseException):  # only now, because the other batches may store results
                    raise error
            unfinished = [batch for batch, is_over in zip(unfinished, ended, strict=True) if not is_over]
            if unfinished:
                await asyncio.sleep(self.online.workers.pace * pause)
                pause = min(LONGEST_POLL_SECONDS, pause * 1.5)

    async def _poll_batch(self, batch: Batch) -> bool:
        """Ask the provider for a batch's status. If the batch has ended, store the results and return True.

        If results that the provider counts are in no file yet, the batch is checked some more times.

        Raises:
            StudyError: The provider does not know the batch, or only the user can fix a request's problem.
        """
        try:
            status = await self._api.read_status(str(batch.provider_id))
            progress.show_notice(f"the batch {batch.provider_id}: {status.words}")
            if status.state == "open":
                return False
            for name in status.files:
                self._store_batch_results(batch, await self._api.download_file(name))
        except CallError as error:
            raise StudyError(
                f"{self.server.url} has no batch {batch.provider_id}, or no results of this batch ({error}). "
                "Use the key and the address that sent the batch, and run the command again later. "
                f"If the batch was deleted, {_NEW_NAME}"
            ) from None
        with self.journal.store.begin_write() as (db, now):
            missing = requests.read_open_requests(db, batch.name)
        size = len(missing)
        answers_in_no_file = 0 if status.unanswered is None else size - status.unanswered
        is_recent = any(row.sent_at > now - GIVEN_UP_AFTER for row in missing.values())
        if answers_in_no_file > 0 and is_recent:  # a provider may update its files later
            self._late_file_polls[batch.name] += 1
            if self._late_file_polls[batch.name] <= LATE_FILE_POLLS:
                return False
            progress.warn(
                f"the provider has counted {answers_in_no_file} more answers to the batch "
                f"{batch.provider_id} than its result files have. Run the command again later"
            )
            self._batch_of |= dict.fromkeys(missing, "")
            return True
        ended: JsonObject = {"failure": NO_ANSWER.kind, "detail": NO_ANSWER.detail}
        ended |= {"state": "lost"} if status.state == "completed" else {"state": "unbilled", "cost": 0}
        self._update_batch_requests(batch.name, **ended)
        fatal = next((error.fatal for error in self._errors.values() if error.fatal), None)
        if fatal is not None:
            raise StudyError(fatal)
        if status.state == "failed":
            if not is_batch_too_large(status.error):
                raise StudyError(
                    f"the provider refused the batch {batch.provider_id}: {status.error}. Run the command "
                    "without --batch"
                )
            self._halve_batch_size(batch.name, size, status.error)
        return True

    def _store_batch_results(self, batch: Batch, result_file: bytes) -> None:
        """Read a result file of a batch, and store the answers and failures in the database."""
        with self.journal.store.begin_read() as db:
            rows = requests.read_open_requests(db, batch.name)
        settled: dict[str, RequestResult] = {}
        for line in result_file.splitlines():
            key = str(get_object_or_empty(load_json_or_none(line)).get("custom_id"))
            has_answer = key in settled and settled[key].state == "answered"
            if key not in rows or has_answer:  # the first answer stays
                continue
            error = explain_failed_batch_line(self.server, line)
            if error is None:
                settled[key] = self.journal.price_answer(rows[key].id, line, batch=True)
            else:
                settled[key] = make_failed_request_result(rows[key].id, error)
                self._errors[key] = error
        with self.journal.store.begin_write() as (db, now):
            requests.store_request_results(db, now, list(settled.values()))
        for key, answer in settled.items():
            if answer.state == "answered":
                self.journal.add_answer_cost(answer, rows[key].cost)
