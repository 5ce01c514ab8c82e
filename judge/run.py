"""Judge all questions that have no verdict yet. Each answer is stored before it is read.

The first questions are asked one after the other until an answer can be read. So the form of requests, the
key, the address and the price are known to be right before many requests are sent. A run may be killed at any
moment: the next run reads the stored answers, and sends only the other requests. A failure is counted, and is
never a verdict.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Literal, NamedTuple

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import BILLION
from guard_eval.servers.client import Client
from guard_eval.servers.failures import RequestFailure
from guard_eval.servers.form import PATHS, Form
from guard_eval.servers.price import Price
from guard_eval.servers.server import Server
from guard_eval.servers.workers import Workers
from guard_eval.store import Store
from guard_eval.store.judging import calibration, requests
from guard_eval.store.judging.requests import (
    AnsweredRequest,
    PlannedRequest,
    Question,
    RequestResult,
    UnavailableRequest,
)
from guard_eval.store.schema import split_into_sql_chunks
from guard_eval.study.judge_settings import Judge
from judge.decide import (
    Failure,
    History,
    Reply,
    RetryLater,
    Send,
    Stop,
    Verdict,
    decide_next_step,
    record_reply,
    update_failure_counts,
)
from judge.journal import Journal, RunCounts
from judge.questions import RequestBuilder

POLL_SECONDS = 0.5
"""Seconds between two checks whether another process has stored an answer or the budget allows a request."""


class PendingQuestion(NamedTuple):
    """A question without a verdict, with the next request and the failure of the last stored answer."""

    question: Question
    send: Send
    error: RequestFailure | None


class OnlineRun:
    """One run of one judge without the Batch API.

    Attributes:
        judge: The study's settings for this judge.
        server: The judge's server, with the key.
        builder: Makes the requests and reads the answers.
        journal: Saves requests, answers and verdicts in the study's database.
        workers: Send the requests in parallel.
        state: The form and the token limit of requests, and the failures of this run.
    """

    def __init__(
        self,
        store: Store,
        judge: Judge,
        *,
        seed: int,
        server: Server,
        price: Price,
        budget_usd: float | None = None,
        advance: progress.Advance | None = None,
        pace: float = 1.0,
    ) -> None:
        """Prepare a judge's run. No request is sent yet.

        Args:
            store: The study's database.
            judge: The study's settings for this judge.
            seed: The study's seed.
            server: The judge's server, with the key.
            price: The price of the judge's tokens.
            budget_usd: The highest total cost of the study's requests over all runs; None for no limit.
            advance: A function that advances the progress bar after each finished question.
            pace: A factor for the length of pauses, except pauses that the server requests.

        Raises:
            StudyError: The judge may not rate, or the budget cannot be guaranteed.
        """
        self.judge = judge
        self.server = server
        self.workers = Workers(server, concurrency=judge.concurrency, pace=pace)
        self.builder = RequestBuilder(judge, seed=seed)
        self.journal = Journal(
            store, judge, settings=self.builder.settings, price=price, budget_usd=budget_usd
        )
        self.counts = self.journal.counts
        self.state = self.builder.make_initial_run_state(store)
        self._store = store
        self._advance = advance
        self._instructions: dict[Form, str] = {}
        self._has_told_to_wait = False

    def judge_questions(self, rounds: Iterable[Sequence[Question]]) -> RunCounts:
        """Ask the questions round by round, save the verdicts, and return the counts of the run.

        After Ctrl-C, the run first receives and saves the answers to requests that were already sent. Several
        processes may judge one study at the same time.

        Raises:
            StudyError: Only the user can fix the problem. Earlier answers are saved.
        """
        asyncio.run(self._ask_questions_by_round(rounds))
        return self.counts

    async def _ask_questions_by_round(self, rounds: Iterable[Sequence[Question]]) -> None:
        size = -(-3 * self.judge.concurrency // 2)  # some workers wait for the disk, or for a retry
        async with self.connect_to_server():
            for questions in rounds:
                queue = await self.ask_until_first_answer(questions)
                await self.workers.run(self._ask_queued_questions(queue) for _ in range(size))

    async def ask_until_first_answer(self, questions: Sequence[Question]) -> deque[Question]:
        """Ask one question after the other until an answer can be read; return the remaining questions."""
        queue = deque(pending.question for pending in await self.record_outcomes_of_stored_answers(questions))
        await self.workers.run([self._ask_queued_questions(queue, until_first_answer=True)])
        return queue

    @asynccontextmanager
    async def connect_to_server(self) -> AsyncIterator[None]:
        """Connect to the server, and keep renewing the lease of open requests."""
        lease = asyncio.create_task(self.journal.keep_renewing_lease())
        lease.add_done_callback(lambda _: self.workers.stop())
        try:
            async with Client(self.server, concurrency=self.judge.concurrency) as self.client:
                yield
        finally:
            lease.cancel()
            await asyncio.wait([lease])
            await self.journal.extend_lease(timedelta())
        if not lease.cancelled():
            lease.result()

    async def record_outcomes_of_stored_answers(self, questions: Iterable[Question]) -> list[PendingQuestion]:
        """Save the verdicts and failures in stored answers; return the other questions to be asked."""
        questions = list(questions)
        if any(question.check is not None for question in questions):
            with self._store.begin_write() as (db, _):
                calibration.store_calibration_questions(
                    db, self.journal.rater, self.builder.settings, questions, self.judge.criteria
                )
        concluded: list[tuple[Question, Verdict | Failure]] = []
        unanswered: list[PendingQuestion] = []
        for question, step, error in self.builder.replay_stored_answers(self._store, questions, self.state):
            if isinstance(step, Verdict | Failure):
                concluded.append((question, step))
            elif isinstance(step, Send):
                unanswered.append(PendingQuestion(question, step, error))
        for some_concluded in split_into_sql_chunks(concluded):
            await asyncio.gather(*(self.record_outcome(question, step) for question, step in some_concluded))
        return unanswered

    async def _ask_queued_questions(
        self, queue: deque[Question], *, until_first_answer: bool = False
    ) -> None:
        """Ask the questions in the queue, or with `until_first_answer` only until an answer can be read.

        A question that cannot be asked now is put back into the queue.

        Raises:
            StudyError: The run ends here.
        """
        while queue and not self.workers.is_stopped and not (until_first_answer and self.state.is_settled):
            question = queue.popleft()
            outcome = await self._ask_question(question, has_other_questions=bool(queue))
            match outcome:
                case Verdict() | Failure():
                    self.state = update_failure_counts(self.state, outcome)
                    await self.record_outcome(question, outcome)
                case UnavailableRequest("batch"):
                    self.counts.in_batches += 1
                case UnavailableRequest():
                    queue.append(question)
                    await self.wait_for_open_requests()
                case RetryLater():
                    queue.insert(1, question)

    async def wait_for_open_requests(self) -> None:
        """Pause before the next check, and tell the user once why the run waits."""
        if not self._has_told_to_wait:
            self._has_told_to_wait = True
            progress.show_notice("waiting for open requests of this run or of another run")
        await self.workers.pause(self.workers.pace * POLL_SECONDS)

    async def _ask_question(
        self, question: Question, *, has_other_questions: bool
    ) -> Verdict | Failure | UnavailableRequest | RetryLater:
        """Ask a question. Return the verdict or the failure, or why the question cannot be asked now.

        Raises:
            StudyError: The run ends here.
        """
        history = History(run=self.state, pair_id=question.pair_id, has_other_questions=has_other_questions)
        step: Send | RetryLater | Verdict | Failure | UnavailableRequest = Send(self.state.form)
        while isinstance(step, Send):
            send = step
            plan = partial(self.plan_request, question, send)
            history, step = await self.send_request_until_answered(plan, send.form, history)
            if isinstance(step, Send) and step.form != send.form:
                error = history.replies[-1].error
                if error is not None:
                    progress.show_notice(f"the next request asks for {step.form.describe()} ({error.detail})")
        return step

    async def send_request_until_answered(
        self, plan: Callable[[], PlannedRequest], form: Form, history: History
    ) -> tuple[History, Send | RetryLater | Verdict | Failure | UnavailableRequest]:
        """Repeat a request until there is an answer or a final failure. Return the history and the next step.

        If the request may not be sent now, the reason is returned as the next step.

        Raises:
            StudyError: The run ends here.
        """
        while True:
            reply = await self._send_request_unless_answered(plan, form)
            if isinstance(reply, UnavailableRequest):
                return history, reply
            history = record_reply(replace(history, run=self.state), reply)
            self.state = history.run
            step = decide_next_step(history, form)
            if reply.error is not None:
                await self.journal.store_failure_reason(reply.error)
            if isinstance(step, Stop):
                raise StudyError(step.reason)
            if not isinstance(step, RetryLater) or step.another_first:
                return history, step
            await self.workers.back_off(step.attempts, step.seconds)

    async def record_outcome(self, question: Question, outcome: Verdict | Failure) -> None:
        """Save a question's verdict or the reason for the failure, and count the finished question."""
        if isinstance(outcome, Failure):
            await self.journal.store_failure_reason(outcome.error)
            self.counts.failures[outcome.error.kind, outcome.error.detail] += 1
        else:
            await self.journal.write(self.journal.save_verdicts, (question, outcome.choices))
            self.counts.verdicts += 1
        if self._advance:
            cost = self.counts.cost / BILLION
            self._advance(1, note=f"${cost:.2f} · {self.counts.failures.total()} failed")

    def plan_request(self, question: Question, send: Send, *, batch: bool = False) -> PlannedRequest:
        """Return a request that asks a question, with the highest possible cost of the request."""
        tokens = self.state.max_output_tokens
        body = self.builder.build_request_body(question, send.form, send.sample, max_output_tokens=tokens)
        return PlannedRequest(
            question=question,
            key=self.builder.make_request_key(question, send.form, send.sample),
            instruction=self._store_instruction(send.form),
            body=body,
            max_output_tokens=tokens,
            cost=self.journal.price.compute_max_cost(body, tokens, batch=batch),
        )

    def _store_instruction(self, form: Form) -> str:
        """Store the instruction of a form before the first request, and return the instruction's id."""
        if form not in self._instructions:
            instruction = self.builder.make_instruction(form, max_output_tokens=self.state.max_output_tokens)
            with self._store.begin_write() as (db, _):
                requests.store_instruction(db, instruction)
            self._instructions[form] = instruction.id
        return self._instructions[form]

    async def _send_request_unless_answered(
        self, plan: Callable[[], PlannedRequest], form: Form
    ) -> Reply | UnavailableRequest:
        """Send a request once, unless an answer is stored already, and store the result.

        The cost is reserved only when the rate limiter allows the request, and the request occupies the
        limiter until the answer is saved. So if a process is killed, at most `concurrency` requests are open.

        Raises:
            StudyError: The budget is used up.
        """
        async with self.workers.limiter as admitted_at:
            if self.workers.is_stopped:
                return UnavailableRequest("busy")
            planned = plan()
            reservation = await self.journal.reserve_request(planned)
            match reservation:
                case AnsweredRequest():
                    return self.builder.read_answer(planned.question, form, reservation)
                case UnavailableRequest("budget"):
                    raise self.journal.make_budget_error(planned)
                case UnavailableRequest():
                    return reservation
            return await self._post_request(planned, form, reservation.row, admitted_at)

    async def _post_request(self, planned: PlannedRequest, form: Form, row: int, admitted_at: float) -> Reply:
        self.counts.requests += 1
        result = await self.workers.limiter.send(
            self.client.post(PATHS[form.interface], planned.body), admitted_at
        )
        if isinstance(result, bytes):
            settled = self.journal.price_answer(row, result)
            await self._store_result(settled)
            self.journal.add_answer_cost(settled, planned.cost)
            answer = AnsweredRequest(row=row, response=result, max_output_tokens=planned.max_output_tokens)
            return self.builder.read_answer(planned.question, form, answer, is_new=True)
        await self._store_result(make_failed_request_result(row, result))
        return Reply(
            form=form,
            result=result,
            max_output_tokens=planned.max_output_tokens,
            is_new=True,
        )

    async def _store_result(self, result: RequestResult) -> None:
        """Store the result of a request. While the database cannot be used, try again for a minute."""
        store = partial(self.journal.write, requests.store_request_results, result)
        await self.workers.store_paid_answer(store)


def make_failed_request_result(row: int, error: RequestFailure) -> RequestResult:
    """Return the result of a request without an answer, to be stored in the request's row."""
    state: Literal["lost", "unbilled"] = "lost" if error.billed else "unbilled"
    return RequestResult(row=row, state=state, failure=error.kind, detail=error.detail)
