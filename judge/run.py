"""Judge all questions that have no verdict yet. Each answer is stored before it is read.

The first request goes alone until an answer can be parsed, so the form of requests, the key, the address and
the price are settled before the others follow. A run may be killed at any moment: the next one reads what was
answered and sends only the rest. A failure is counted, and is never a verdict.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from itertools import repeat
from typing import Any

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.store import Store, requests, settings
from guard_eval.store.requests import BILLION, LEASE, Answered, Planned, Question, Settled
from guard_eval.study.judge_settings import Judge
from judge.answers import read_usage
from judge.client import Client
from judge.examples import check_examples
from judge.failures import ATTEMPTS, OF_THE_SERVER, Change, ErrorKind, JudgeError
from judge.forms import PATHS
from judge.limiter import RateLimiter
from judge.parsing import Choices
from judge.price import KEYS, Price
from judge.questions import Asker, check_judge
from judge.server import Server

FAILURES_IN_A_ROW = 10
"""So many failures of the server without an answer between them end the run."""

FIRST_QUESTIONS = 10
"""Questions that are asked one after the other at most before the others follow."""

FIRST_ATTEMPTS = 3
"""Attempts before a server that has never answered counts as unreachable."""

POLL_SECONDS = 0.5
"""Seconds between two looks whether another process has an answer, or the budget has room again."""

GATHER_SECONDS = 0.01
"""Seconds in which writes are gathered that share a transaction: little beside any answer's wait."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""The pause before a second attempt, and the longest one that the server did not ask for."""

LONGEST_WAIT_SECONDS = 120.0
"""Seconds a server may ask to wait; for longer the run ends."""


@dataclass(kw_only=True)
class Ledger:
    """What one run of one judge did.

    Attributes:
        requests: HTTP requests sent, repeated ones included.
        retries: Those of them that repeated one without an answer.
        reused: Answers that were paid before.
        verdicts: Questions that have a verdict now.
        failures: Questions without a verdict, by kind and sentence.
        cost: What the answers cost, in billionths of a US dollar.
    """

    requests: int = 0
    retries: int = 0
    reused: int = 0
    verdicts: int = 0
    failures: Counter[tuple[ErrorKind, str]] = field(default_factory=Counter)
    cost: int = 0


Write = Callable[[Connection, datetime, list[Any]], Sequence[Any] | None]
"""A write of several workers at once: a result for each of their arguments, or none."""


class Journal:
    """Writes to the store: equal writes that wait at the same moment share a transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._waiting: dict[Write, list[tuple[Any, asyncio.Future[Any]]]] = defaultdict(list)
        self._flushing: asyncio.Task[None] | None = None

    def write(self, function: Write, argument: Any = None) -> asyncio.Future[Any]:  # noqa: ANN401 (any row)
        """Return the result of a write, which is on disk then."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()
        self._waiting[function].append((argument, result))
        if self._flushing is None or self._flushing.done():
            self._flushing = loop.create_task(self._flush())
        return result

    async def close(self) -> None:
        """Wait until all is written, and end."""
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(GATHER_SECONDS)
            calls, self._waiting = self._waiting, defaultdict(list)
            for function, waiting in calls.items():
                arguments = [argument for argument, _ in waiting]
                try:
                    results = await loop.run_in_executor(self._thread, self._call, function, arguments)
                except Exception as error:  # noqa: BLE001 (every waiter gets it)
                    results = [error] * len(waiting)
                for (_, future), result in zip(waiting, results or repeat(None), strict=False):
                    if not future.done():
                        failed = isinstance(result, Exception)
                        (future.set_exception if failed else future.set_result)(result)

    def _call(self, function: Write, arguments: list[Any]) -> Sequence[Any] | None:
        with self._store.write() as (db, now):
            return function(db, now, arguments)


@dataclass(eq=False)
class Run:
    """One run of one judge.

    Attributes:
        store: The study's database.
        judge: The study's settings for this judge.
        seed: The study's seed.
        server: The judge's server, with the key that goes there.
        price: The price of the judge's tokens, if it is known.
        budget_usd: What all requests of the study may cost together, over all runs; None for no limit.
        advance: Called for each question that is done.
        pace: A factor of all pauses that no server asks for.
    """

    store: Store
    judge: Judge
    _: KW_ONLY
    seed: int
    server: Server
    price: Price | None
    budget_usd: float | None = None
    advance: progress.Advance | None = None
    pace: float = 1.0

    def __post_init__(self) -> None:
        """Check that the judge may be asked.

        Raises:
            StudyError: It may not, or the budget cannot be held.
        """
        if self.budget_usd is not None and (self.price is None or self.price.assumed):
            raise StudyError(
                f"--budget cannot be held for {self.judge.model!r}, whose price is unknown: set {KEYS} in "
                "study.toml (0 if it costs nothing), or leave --budget out"
            )
        if self.judge.examples is not None:
            check_examples(self.store, self.judge)
        self.rater = check_judge(self.store, self.judge)
        settings.set_criteria(self.store, {each.name: each.words for each in self.judge.rubric})
        self.ledger = Ledger()
        self.asker = Asker(self.judge, seed=self.seed)
        self.limit = None if self.budget_usd is None else int(self.budget_usd * BILLION + 1e-3)
        self.name = secrets.token_hex(8)  # of the run, in the store
        self._tried = {self.asker.form.name}
        self._parsed = False  # whether an answer could be parsed
        self._reached = False  # whether the server has answered anything
        self._in_a_row = 0
        self._open = 0  # rows that are not settled
        self._stop = asyncio.Event()

    def judge_questions(self, questions: Sequence[Question]) -> Ledger:
        """Ask the questions, save the verdicts of the study, and return what it took.

        Stopped by Ctrl-C, the run receives and saves what is under way first. Several processes may judge one
        study at once.

        Raises:
            StudyError: Only the user can mend it. What was answered until then is saved.
        """
        asyncio.run(self.ask(questions))
        return self.ledger

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect to the server, and keep the leases of what is under way."""
        self.journal = Journal(self.store)
        self.limiter = RateLimiter(self.judge.concurrency, timeout=self.server.timeout)
        renewing = asyncio.create_task(self._renew())
        try:
            async with Client(self.server, concurrency=self.judge.concurrency) as self.client:
                yield
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            await self.journal.write(lambda db, now, _: requests.renew(db, self.name, now))
            await self.journal.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            await self.journal.write(lambda db, now, _: requests.renew(db, self.name, now + LEASE))

    async def ask(self, questions: Sequence[Question]) -> None:
        """Ask the first question alone, until an answer can be parsed, and then all others at once."""
        queue = deque(questions)
        async with self.open():
            await self.settle_form(queue)
            size = -(-3 * self.judge.concurrency // 2)  # some wait for the disk, or for a retry
            await self._finish([self._work(queue) for _ in range(size)])

    async def settle_form(self, queue: deque[Question]) -> None:
        """Ask one question after the other until an answer can be parsed."""

        async def work() -> None:
            for _ in range(min(FIRST_QUESTIONS, len(queue))):
                if not (self._parsed or self._stop.is_set()):
                    await self._judge_next(queue)

        await self._finish([work()])

    async def _work(self, queue: deque[Question]) -> None:
        while queue and not self._stop.is_set():
            await self._judge_next(queue)

    async def _finish(self, works: Sequence[Awaitable[None]]) -> None:
        """Wait for workers; what is under way at any end is received, since it is paid."""
        workers = [asyncio.ensure_future(each) for each in works]
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            progress.warn(
                f"stopping: {self.limiter.in_flight} answers are under way and are waited for; Ctrl-C again "
                "gives them up; run the same command again to go on"
            )
            raise
        finally:
            if any(not each.done() or each.exception() is not None for each in workers):
                self._stop.set()
                self.limiter.open()
            await asyncio.wait(workers)
        for each in workers:
            each.result()

    async def _judge_next(self, queue: deque[Question]) -> None:
        """Judge the next question; one that cannot be asked now goes last."""
        question = queue.popleft()
        outcome = await self._judge(question)
        if outcome is None:
            queue.append(question)
            await self.pause(self.pace * POLL_SECONDS)
        else:
            await self.conclude(question, outcome)

    async def _judge(self, question: Question) -> Choices | JudgeError | None:
        """Return the verdict, why there is none, or None if the question cannot be asked now.

        An answer that no verdict can be read from is followed by another sample.
        """
        answers: list[Answered] = []
        while True:
            result = await self._answer(question, len(answers))
            if not isinstance(result, Answered):
                return result
            answers.append(result)
            outcome, is_last = self.asker.read(question, answers)
            if not isinstance(outcome, JudgeError):
                self._parsed = True
                return outcome
            ignored = outcome.kind in ("unparseable", "wrong_schema") and self.judge.output == "auto"
            if ignored and not self._parsed:
                self._change_form("output", f"the server ignores the schema ({outcome.detail})")
            if is_last:
                return outcome
            await self._note(outcome)

    async def _note(self, error: JudgeError) -> None:
        """Note why an answer brought no verdict."""
        if error.row is not None:
            await self.journal.write(_note_failures, (error.row, error.kind, error.detail))

    async def conclude(self, question: Question, outcome: Choices | JudgeError) -> None:
        """Save a verdict of the study or why there is none, and count a question that is done.

        Raises:
            StudyError: Ten failures of the server came in a row.
        """
        if isinstance(outcome, JudgeError):
            await self._note(outcome)
            self.ledger.failures[outcome.kind, outcome.detail] += 1
            self._in_a_row = self._in_a_row + 1 if outcome.kind in OF_THE_SERVER else 0
        else:
            if question.purpose == "study":
                await self.journal.write(self._save, (question, outcome))
            self.ledger.verdicts += 1
            self._in_a_row = 0
        if self.advance is not None:
            cost, count = self.ledger.cost / BILLION, self.ledger.failures.total()
            notes = [f"${cost:.2f}" if cost else "", f"{count} failed" if count else ""]
            self.advance(1, note=" · ".join(filter(None, notes)))
        if isinstance(outcome, JudgeError) and self._in_a_row >= FAILURES_IN_A_ROW:
            raise StudyError(
                f"the judge {self.judge.rater_name!r} failed {FAILURES_IN_A_ROW} times in a row, last with "
                f"{outcome.kind} ({outcome.detail}); what was answered is saved: mend the server or the "
                "settings and run again"
            )

    def _save(self, db: Connection, now: datetime, verdicts: list[Any]) -> None:
        requests.save_verdicts(db, self.rater, verdicts, now=now, declared=self.store.declared_now)

    def _change_form(self, change: Change, why: str) -> bool:
        """Ask in another form from now on; return whether there is one that was not tried."""
        form = self.asker.form.simpler(change, self.judge, why)
        if form is None or form.name in self._tried:
            return False
        self._tried.add(form.name)
        self.asker.form = form
        progress.notice(f"{why}; requests now have the form {form.name}")
        return True

    def plan(self, question: Question, resample: int, *, batch: bool = False) -> Planned:
        """Return the request for a question, with the most that it can cost."""
        body = self.asker.build(question, resample)
        tokens = self.judge.max_output_tokens
        return Planned(
            question=question,
            key=self.asker.key(question, resample),
            form=self.asker.form.name,
            body=body,
            max_output_tokens=tokens,
            cost=None if self.price is None else self.price.max_cost(body, tokens, batch=batch),
        )

    async def _answer(self, question: Question, resample: int) -> Answered | JudgeError | None:
        """Return the answer to a request: one that was paid before, or a new one; None if not now."""
        errors: Counter[ErrorKind] = Counter()
        while not self._stop.is_set():
            planned = self.plan(question, resample)
            row = await self._reserve(planned)
            if not isinstance(row, int):
                self.ledger.reused += row is not None
                return row
            result = await self._send(planned, row, errors)
            if not isinstance(result, JudgeError):
                return result
            # a fault of the server itself is met by the same request once more before its form is doubted
            passing = result.change == "guess" and errors["server_error"] == 1
            if result.change is not None and not self._parsed and not passing:
                why = f"the server refuses the form ({result.detail})"
                if self._change_form(result.change, why):
                    continue
            self._check_fatal(result, errors)
            if errors[result.kind] >= ATTEMPTS.get(result.kind, 1):
                return result
            await self.pause(max(result.wait or 0.0, self.backoff(planned.key, errors.total())))
        return None

    def _check_fatal(self, error: JudgeError, errors: Counter[ErrorKind]) -> None:
        """Check that a failure is none that only the user can mend.

        Raises:
            StudyError: It is one.
        """
        lost = error.kind == "transport" and (self._reached or errors.total() < FIRST_ATTEMPTS)
        if error.fatal is not None and not lost:
            raise StudyError(error.fatal)
        if (error.wait or 0.0) > LONGEST_WAIT_SECONDS:
            raise StudyError(
                f"{self.server.url} asks to wait {error.wait:.0f} seconds before the next request; run again "
                "then: nothing that was answered is paid twice"
            )

    async def _reserve(self, planned: Planned) -> int | Answered | None:
        """Return the row of a request that may be sent, or the answer that was paid before.

        None says that another process sends it, or that what is under way may leave more of the budget: it
        mostly costs less than was set aside for it.

        Raises:
            StudyError: Nothing more fits into the budget.
        """
        self._open += 1
        outcome: requests.Reserved = await self.journal.write(self.insert, planned)
        if isinstance(outcome, int):
            return outcome
        self._open -= 1
        if outcome == "budget" and not self._open:
            raise self.used_up(planned)
        return outcome if isinstance(outcome, Answered) else None

    def insert(
        self, db: Connection, now: datetime, planned: list[Planned], batch: str | None = None
    ) -> list[requests.Reserved]:
        """Insert the rows of requests that may be sent."""
        return requests.reserve(
            db, planned, judge=self.rater, run=self.name, now=now, limit=self.limit, batch=batch
        )

    async def _send(
        self, planned: Planned, row: int, errors: Counter[ErrorKind]
    ) -> Answered | JudgeError | None:
        """Send once, count an error, and store what came; None if the run ends.

        The limiter is held until the answer is on disk, so no more than the judge's concurrency can be paid
        and lost.
        """
        async with self.limiter as sent_at:
            if self._stop.is_set():
                self._settle(Settled(row=row, state="unbilled"))
                return None
            self.ledger.requests += 1
            self.ledger.retries += bool(errors)
            alone = self.limiter.in_flight == 1
            try:
                result = await self.client.post(PATHS[planned.form.partition("/")[0]], planned.body)
            except BaseException:  # what was under way may be paid
                self._settle(Settled(row=row, state="lost"))
                raise
            self._reached = self._reached or isinstance(result, bytes) or result.kind != "transport"
            if isinstance(result, bytes):
                self.limiter.answered(sent_at)
                return await self._store(planned, row, result)
            slow = result.kind == "timeout"
            errors[result.kind] += ATTEMPTS["timeout"] if slow and alone else 1  # it would be slow once more
            if result.kind == "rate_limited" or (slow and not alone) or result.wait:
                self.limiter.refused(sent_at, result.wait or 0.0)
            self._settle(settle_error(row, result))
            return result

    async def _store(self, planned: Planned, row: int, body: bytes) -> Answered:
        """Store an answer; nothing has read it but for its tokens.

        Raises:
            StudyError: There is a budget, and the answer cost more than was set aside for it.
        """
        settled = self.price_answer(row, body)
        await self._settle(settled)
        cost, expected = settled.cost or 0, planned.cost or 0
        if self.limit is not None and cost > expected:
            raise StudyError(
                f"a response cost ${cost / BILLION:.4f}, where at most ${expected / BILLION:.4f} was "
                f"expected ({settled.usage.output_tokens} tokens, of {planned.max_output_tokens} allowed), "
                "so no budget can be held there; run without --budget"
            )
        return Answered(row=row, response=body, max_output_tokens=planned.max_output_tokens)

    def price_answer(self, row: int, body: bytes, *, batch: bool = False) -> Settled:
        """Return what completes the row of an answer, and count its cost."""
        usage = read_usage(body)
        cost = None if self.price is None else self.price.cost(usage, batch=batch)
        self.ledger.cost += cost or 0
        return Settled(row=row, state="answered", response=body, usage=usage, cost=cost)

    def _settle(self, settled: Settled) -> asyncio.Future[Any]:
        """Complete a row; return what is done when it is on disk."""

        def close(future: asyncio.Future[Any]) -> None:
            self._open -= 1
            if not future.cancelled():
                future.exception()  # seen, where nobody waits for it

        written = self.journal.write(_settle_rows, settled)
        written.add_done_callback(close)
        return written

    def used_up(self, planned: Planned) -> StudyError:
        """Return the error that ends a run when nothing more fits into the budget."""
        return StudyError(
            f"the budget of ${(self.limit or 0) / BILLION:g} is used up: what is spent or set aside leaves "
            f"less than the ${(planned.cost or 0) / BILLION:.4f} that the next request can cost; what was "
            "answered is saved, and --budget with a larger sum goes on from here"
        )

    def backoff(self, key: str, attempts: int) -> float:
        """Return the seconds before the next attempt, spread by the request's key."""
        digest = hashlib.sha256(f"{key}:{attempts}".encode()).digest()
        spread = 0.5 + int.from_bytes(digest[:4]) / 2**33  # in [0.5, 1)
        seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
        return self.pace * seconds * spread

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than the run goes on."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass


def settle_error(row: int, error: JudgeError) -> Settled:
    """Return what completes the row of a request that was not answered."""
    lost = Settled(row=row, state="lost", failure=error.kind, detail=error.detail)
    return lost if error.billed else replace(lost, state="unbilled")


def _settle_rows(db: Connection, _: datetime, settled: list[Settled]) -> None:
    requests.settle(db, settled)


def _note_failures(db: Connection, _: datetime, failures: list[tuple[int, str, str]]) -> None:
    requests.note_failures(db, failures)
