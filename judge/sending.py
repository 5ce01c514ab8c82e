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
from guard_eval.store import Answer, NotReserved, Reservation, Settlement, Showing, Wanted
from judge.backend import Backend, JudgeRequest, Response, ShapeChanged
from judge.journal import Journal, Outcome
from judge.ledger import Tally
from judge.parsing import ErrorKind, JudgeError, Parsed, RequestError, Usage
from judge.prices import Budget
from judge.rate_limit import RateLimiter
from judge.retry import SAMPLES, SLOWS_DOWN, Retry, wants_sample

POLL = 0.5
"""Seconds until it is looked again whether another process has got the answer to the same request."""


class ClaimLost(Exception):  # noqa: N818 (an event, no error)
    """The presentation is rated by now, or another run's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """An answer that is on disk.

    Attributes:
        body: Its bytes.
        code: What a verdict block in it must carry.
        shape: In which shape was asked, where that is known.
        usage: What the server says of it; None where the journal had it already, so that it cost nothing.
    """

    body: bytes
    code: str
    shape: str | None
    usage: Usage | None


class Sender:
    """Asks one backend, within the budget and at the pace the server bears.

    Attributes:
        tally: What was sent and what it took.
    """

    def __init__(
        self,
        backend: Backend,
        journal: Journal,
        *,
        budget: Budget,
        limiter: RateLimiter,
        retry: Retry,
        seed: int,
        tally: Tally,
    ) -> None:
        self.tally = tally
        self._backend = backend
        self._journal = journal
        self._budget = budget
        self._limiter = limiter
        self._retry = retry
        self._seed = seed
        self._reached = False
        self._turns = 0  # how often the form, or the bound of the cost, was changed
        self._open = 0  # reservations that are not settled
        self._settled = asyncio.Event()
        self._alone = asyncio.Lock()
        self._builder: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def judge(self, showing: Showing) -> tuple[Parsed | JudgeError, bool]:
        """Return the verdict on a pair or why there is none, and whether anything was sent for it.

        A response that no verdict can be read from is followed by another sample. Raises as `ask` does.
        """
        sent = False
        for again in range(SAMPLES):
            answered = await self.ask(showing, again=again)
            outcome: Parsed | JudgeError
            if isinstance(answered, RequestError):
                outcome, sent = answered, True
            else:
                outcome = self._backend.parse(answered.body, code=answered.code, shape=answered.shape)
                if answered.usage is None:
                    self.tally.reused += 1
                else:
                    self.tally.count(answered.usage)
                    sent = True
            if not wants_sample(outcome, again):
                break
        return outcome, sent

    async def ask(self, showing: Showing, *, again: int = 0) -> Received | RequestError:
        """Return the response about `showing`, from the journal or the server, or why there is none.

        A pair with presentation 0 is no part of the study; its response is journalled all the same.

        Raises:
            StudyError: Only the user can fix it.
            Stopped: The run ends, and nothing was received.
            ClaimLost: The presentation is not this run's any more.
        """
        while True:
            turn = self._turns
            question = self._backend.build(showing, again=again)
            lock = self._builder.setdefault(question.key, asyncio.Lock())
            async with lock:
                try:
                    return await _OpenRequest(self, question, showing.blind.presentation or None, turn).run()
                except ShapeChanged:
                    continue

    async def reserve(self, question: JudgeRequest, presentation: int | None) -> Reservation | Answer:
        """Return the right to send, or the answer that is there already.

        Raises:
            StudyError: Nothing more fits into the budget.
            Stopped: The run ends.
            ClaimLost: The presentation is not this run's any more.
        """
        most = self._budget.most(question)
        wanted = Wanted(
            key=question.key,
            presentation=presentation,
            usd=most,
            style=self._backend.style,
            shape=question.shape,
        )
        while True:
            self._settled.clear()
            outcome = await self._reserved(wanted)
            if isinstance(outcome, Reservation | Answer):
                return outcome
            if outcome == "not_claimed":
                raise ClaimLost
            if outcome == "elsewhere":
                await self._limiter.wait(POLL)
            elif self._open:  # what is under way mostly costs less than was set aside for it
                await self._settled.wait()
            else:
                raise self._budget.used_up(most)

    async def _reserved(self, wanted: Wanted) -> Reservation | Answer | NotReserved:
        """Reserve in the journal: one at a time until a response has shown what the server charges."""
        async with self._alone:
            while self._budget.unproven and self._open:
                self._settled.clear()
                await self._settled.wait()
            if self._budget.unproven:
                return await self._counted(wanted)
        return await self._counted(wanted)

    async def _counted(self, wanted: Wanted) -> Reservation | Answer | NotReserved:
        outcome = await self._journal.reserve(wanted)
        self._open += isinstance(outcome, Reservation)
        return outcome

    async def send(
        self, question: JudgeRequest, reservation: Reservation, presentation: int | None, *, turn: int
    ) -> Received | RequestError:
        """Send once, learn from how it went what the server bears, and write what came.

        The place in front of the server is kept until the answer is on disk, so that no more than the study's
        concurrency can be paid and lost.
        """
        entered = await self._limiter.enter()
        try:
            self._check(turn)
            self.tally.requests += 1
            result = await self._backend.send(question)
            self._adapt(result, entered)
            if isinstance(result, RequestError):
                return result
            return await self._keep(question, reservation, presentation, result)
        except StudyError:
            self._limiter.stop()  # before another takes this place
            raise
        except ShapeChanged:
            self._reached = True
            self._turns += turn == self._turns
            raise
        finally:
            self._limiter.leave()

    def _check(self, turn: int) -> None:
        if turn != self._turns:
            raise ShapeChanged  # the question was made before its form or its bound was changed

    def _adapt(self, result: Response | RequestError, entered: float) -> None:
        self._limiter.read_headers(result.headers)
        if isinstance(result, Response):
            self._limiter.answered()
        elif result.kind in SLOWS_DOWN:
            self._limiter.too_much(entered)
        self._reached = self._reached or isinstance(result, Response) or result.kind != "transport"

    def settle(self, settlement: Settlement | Answer) -> asyncio.Future[Outcome]:
        """Return what is done when it is on disk what became of a reservation."""
        written = self._journal.write(settlement)
        written.add_done_callback(self._was_settled)
        return written

    def _was_settled(self, written: asyncio.Future[Outcome]) -> None:
        self._open -= 1
        self._settled.set()
        if not written.cancelled() and written.exception() is not None:
            self._limiter.stop()  # every waiter gets the error

    async def _keep(
        self, question: JudgeRequest, reservation: Reservation, presentation: int | None, reply: Response
    ) -> Received:
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
            shape=question.shape,
            seconds=reply.seconds,
            at=reply.at,
        )
        await self.settle(answer)
        times = self._budget.times
        if (notice := self._budget.overrun(question, usage)) is not None:
            self._backend.notices.append(notice)
        self._turns += self._budget.times > times  # what is ready has too little set aside: reserve again
        return Received(body=reply.body, code=question.code, shape=question.shape, usage=usage)

    async def rest(self, request_error: RequestError, question: JudgeRequest, times: int) -> None:
        """Wait before the same is sent again.

        Raises:
            StudyError: The server asks to come back much later, or was never there.
            Stopped: The run ends.
        """
        asked = request_error.wait or 0.0
        if asked > self._retry.longest_asked:
            raise StudyError(
                f"{self._backend.url} asks to wait {asked:.0f} seconds before the next request; run again "
                "then: nothing that was answered is paid twice"
            )
        if not self._reached and times >= self._retry.first:
            raise StudyError(
                f"{request_error.detail}; check base_url in study.toml or OPENAI_BASE_URL, and that the "
                "server runs"
            )
        if asked:
            self._limiter.ask_to_wait(asked)
        own = self._retry.pause(f"{self._seed}:{question.key}", times)
        await self._limiter.wait(max(asked, own))

    def allows(self, kind: ErrorKind, times: int, attempts: int) -> bool:
        """Return whether to send once more what met this kind so many times, in so many attempts."""
        return attempts < self._retry.attempts and self._retry.allows(kind, times)


class _OpenRequest:
    """One question until it is answered or given up."""

    def __init__(self, sender: Sender, question: JudgeRequest, presentation: int | None, turn: int) -> None:
        self._sender = sender
        self._turn = turn
        self._question = question
        self._presentation = presentation
        self._reservation: Reservation | None = None
        self._met: Counter[ErrorKind] = Counter()

    async def run(self) -> Received | RequestError:
        try:
            while True:
                if self._reservation is None:
                    right = await self._sender.reserve(self._question, self._presentation)
                    if isinstance(right, Answer):
                        return Received(
                            body=right.body, code=self._question.code, shape=right.shape, usage=None
                        )
                    self._reservation = right
                outcome = await self._once(self._reservation)
                if outcome is not None:
                    return outcome
        finally:  # whatever was not sent, or not billed, costs nothing
            if self._reservation is not None:
                self._free(self._reservation, "released")

    async def _once(self, reservation: Reservation) -> Received | RequestError | None:
        """Send once; return the answer, why there will be none, or None where it is to be tried again."""
        self._sender.tally.retries += self._met.total() > 0
        try:
            result = await self._sender.send(self._question, reservation, self._presentation, turn=self._turn)
        except asyncio.CancelledError:  # what was under way may be paid
            self._reservation = None
            self._free(reservation, "lost")
            raise
        if isinstance(result, Received):
            self._reservation = None
            return result
        kind = result.kind
        self._met[kind] += 1
        if result.billed == "perhaps":
            self._reservation = None
            self._free(reservation, "lost")
        if not self._sender.allows(kind, self._met[kind], self._met.total()):
            return result
        await self._sender.rest(result, self._question, self._met.total())
        return None

    def _free(self, reservation: Reservation, state: Literal["released", "lost"]) -> None:
        self._sender.settle(Settlement(key=reservation.key, attempt=reservation.attempt, state=state))
