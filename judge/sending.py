"""From a question to an answer on disk: money first, then the request, then the journal, and again where due.

One request is under way at most once: equal questions wait for each other, here by a lock and between
processes by the store. Whatever was sent is settled: answered, not billed, or lost with its money held.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Literal
from weakref import WeakValueDictionary

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair
from guard_eval.store import Answer, Reservation, Settlement, Wanted
from judge.backend import AskAnew, Backend, Question, Reply, Trouble
from judge.budget import Budget
from judge.journal import Journal, Outcome
from judge.pace import Pace
from judge.parsing import Problem, ProblemKind, Usage
from judge.rules import SLOWS_DOWN, Retry

POLL = 0.5
"""Seconds until it is looked again whether another process has got the answer to the same request."""


class Gone(Exception):  # noqa: N818 (an event, no error)
    """The presentation is rated by now, or another run's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """An answer that is on disk.

    Attributes:
        body: Its bytes.
        form: How its form was asked for.
        usage: What the server says of it; None where the journal had it already, so that it cost nothing.
    """

    body: bytes
    form: str
    usage: Usage | None


class Sender:
    """Asks one backend, within the budget and at the pace the server bears.

    Attributes:
        requests: Requests sent so far.
        retries: Those of them that repeated another.
    """

    def __init__(
        self, backend: Backend, journal: Journal, *, budget: Budget, pace: Pace, retry: Retry, seed: int
    ) -> None:
        self.requests = 0
        self.retries = 0
        self._backend = backend
        self._journal = journal
        self._budget = budget
        self._pace = pace
        self._retry = retry
        self._seed = seed
        self._reached = False
        self._turns = 0  # how often the form was changed
        self._open = 0  # reservations that are not settled
        self._settled = asyncio.Event()
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def ask(self, blind: BlindPair, *, sample: int) -> Answered | Problem:
        """Return the answer about `blind`, from the journal or the server, or why there is none.

        A blind pair with presentation 0 is no part of the study; its answer is journalled all the same.

        Raises:
            StudyError: Only the user can mend it.
            Stopped: The run ends, and nothing was received.
            Gone: The presentation is not this run's any more.
        """
        while True:
            turn = self._turns
            question = self._backend.question(blind, sample=sample)
            lock = self._asking.setdefault(question.key, asyncio.Lock())
            async with lock:
                try:
                    return await _Asking(self, question, blind.presentation or None, turn).go()
                except AskAnew:
                    continue

    async def reserve(self, question: Question, presentation: int | None) -> Reservation | Answer:
        """Return the right to send, or the answer that is there already.

        Raises:
            StudyError: Nothing more fits into the budget.
            Stopped: The run ends.
            Gone: The presentation is not this run's any more.
        """
        most = self._budget.most(question)
        wanted = Wanted(key=question.key, presentation=presentation, usd=most, style=self._backend.style)
        while True:
            self._settled.clear()
            outcome = await self._journal.reserve(wanted)
            if isinstance(outcome, Reservation):
                self._open += 1
                return outcome
            if isinstance(outcome, Answer):
                return outcome
            if outcome == "gone":
                raise Gone
            if outcome == "elsewhere":
                await self._pace.wait(POLL)
            elif self._open:  # what is under way mostly costs less than was set aside for it
                await self._settled.wait()
            else:
                raise self._budget.used_up(most)

    async def send(
        self, question: Question, reservation: Reservation, presentation: int | None, *, turn: int
    ) -> Answered | Trouble:
        """Send once, learn from how it went what the server bears, and write what came.

        The place in front of the server is kept until the answer is on disk, so that no more than the study's
        concurrency can be paid and lost.
        """
        entered = await self._pace.enter()
        try:
            self._check(turn)
            self.requests += 1
            result = await self._backend.send(question)
            self._heed(result, entered)
            if isinstance(result, Trouble):
                return result
            return await self._keep(question, reservation, presentation, result)
        except StudyError:
            self._pace.stop()  # before another takes this place
            raise
        except AskAnew:
            self._reached = True
            self._turns += turn == self._turns
            raise
        finally:
            self._pace.leave()

    def _check(self, turn: int) -> None:
        if turn != self._turns:
            raise AskAnew  # the question was made before the server refused its form

    def _heed(self, result: Reply | Trouble, entered: float) -> None:
        self._pace.heed(result.headers)
        if isinstance(result, Reply):
            self._pace.answered()
        elif result.problem.kind in SLOWS_DOWN:
            self._pace.too_much(entered)
        self._reached = self._reached or isinstance(result, Reply) or result.problem.kind != "transport"

    def settle(self, settlement: Settlement | Answer) -> asyncio.Future[Outcome]:
        """Return what is done when it is on disk what became of a reservation."""
        written = self._journal.write(settlement)
        written.add_done_callback(self._was_settled)
        return written

    def _was_settled(self, written: asyncio.Future[Outcome]) -> None:
        self._open -= 1
        self._settled.set()
        if not written.cancelled() and written.exception() is not None:
            self._pace.stop()  # whoever waits for what cannot be written is told why

    async def _keep(
        self, question: Question, reservation: Reservation, presentation: int | None, reply: Reply
    ) -> Answered:
        """Write an answer; nothing has looked into it but for its usage."""
        usage = self._backend.usage(reply.body)
        answer = Answer(
            key=question.key,
            attempt=reservation.attempt,
            presentation=presentation,
            status=reply.status,
            body=reply.body,
            request_id=reply.request_id,
            model=usage.model,
            fingerprint=usage.fingerprint,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            usd=self._budget.cost(usage),
            backend=self._backend.style,
            seconds=reply.seconds,
            at=reply.at,
        )
        await self.settle(answer)
        return Answered(body=reply.body, form=question.form, usage=usage)

    async def rest(self, trouble: Trouble, question: Question, times: int) -> None:
        """Wait before the same is sent again.

        Raises:
            StudyError: The server asks to come back much later, or was never there.
            Stopped: The run ends.
        """
        asked = trouble.wait or 0.0
        if asked > self._retry.longest_asked:
            raise StudyError(
                f"{self._backend.url} asks to wait {asked:.0f} seconds before the next request; run again "
                "then: nothing that was answered is paid twice"
            )
        if not self._reached and times >= self._retry.first:
            raise StudyError(
                f"{trouble.problem.detail}; check base_url in study.toml or OPENAI_BASE_URL, and that the "
                "server runs"
            )
        if asked:
            self._pace.ask_to_wait(asked)
        own = self._retry.pause(f"{self._seed}:{question.key}", times)
        await self._pace.wait(max(asked, own))

    def allows(self, kind: ProblemKind, times: int, attempts: int) -> bool:
        """Return whether to send once more what met this kind so many times, in so many attempts."""
        return attempts < self._retry.attempts and self._retry.allows(kind, times)


class _Asking:
    """One question until it is answered or given up."""

    def __init__(self, sender: Sender, question: Question, presentation: int | None, turn: int) -> None:
        self._sender = sender
        self._turn = turn
        self._question = question
        self._presentation = presentation
        self._reservation: Reservation | None = None
        self._met: Counter[ProblemKind] = Counter()

    async def go(self) -> Answered | Problem:
        try:
            while True:
                if self._reservation is None:
                    right = await self._sender.reserve(self._question, self._presentation)
                    if isinstance(right, Answer):
                        return Answered(body=right.body, form=self._question.form, usage=None)
                    self._reservation = right
                outcome = await self._once(self._reservation)
                if outcome is not None:
                    return outcome
        finally:  # whatever was not sent, or not billed, costs nothing
            if self._reservation is not None:
                self._free(self._reservation, "released")

    async def _once(self, reservation: Reservation) -> Answered | Problem | None:
        """Send once; return the answer, why there will be none, or None where it is to be tried again."""
        self._sender.retries += self._met.total() > 0
        try:
            result = await self._sender.send(self._question, reservation, self._presentation, turn=self._turn)
        except asyncio.CancelledError:  # what was under way may be paid
            self._reservation = None
            self._free(reservation, "lost")
            raise
        if isinstance(result, Answered):
            self._reservation = None
            return result
        kind = result.problem.kind
        self._met[kind] += 1
        if result.billed == "perhaps":
            self._reservation = None
            self._free(reservation, "lost")
        if not self._sender.allows(kind, self._met[kind], self._met.total()):
            return result.problem
        await self._sender.rest(result, self._question, self._met.total())
        return None

    def _free(self, reservation: Reservation, state: Literal["released", "lost"]) -> None:
        self._sender.settle(Settlement(key=reservation.key, attempt=reservation.attempt, state=state))
