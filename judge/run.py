"""Judge all questions that have no verdict yet. Each answer is stored before it is read.

The first request goes alone until an answer can be parsed, so the form of requests, the key, the address and
the price are settled before the others follow. A run may be killed at any moment: the next one reads what was
answered and sends only the rest. A failure is counted, and is never a verdict.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.store import Store, raters, requests, settings
from guard_eval.store.requests import BILLION, LEASE, Answered, Planned, Question, Settled
from guard_eval.store.schema import chunks
from guard_eval.store.verdicts import save_judged
from guard_eval.study.judge_settings import Judge
from judge.failures import ATTEMPTS, OF_THE_SERVER, ErrorKind, JudgeError
from judge.prompts.answers import read_usage
from judge.prompts.forms import PATHS
from judge.prompts.parsing import Choices
from judge.providers.client import Client
from judge.providers.limiter import RateLimiter
from judge.providers.price import KEYS, Price
from judge.providers.server import Server
from judge.questions import Asker

FAILURES_IN_A_ROW = 10
"""So many failures of the server without an answer between them end the run."""

FIRST_QUESTIONS = 10
"""Questions that are asked one after the other at most before the others follow."""

POLL_SECONDS = 0.5
"""Seconds between two looks whether another process has an answer, or the budget has room again."""

GATHER_SECONDS = 0.015
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
        verdicts: Questions that have a verdict now.
        in_batches: Questions whose request is in a batch that another run sent.
        failures: Questions without a verdict, by kind and sentence.
        cost: What the answers cost, in billionths of a US dollar.
    """

    requests: int = 0
    verdicts: int = 0
    in_batches: int = 0
    failures: Counter[tuple[ErrorKind, str]] = field(default_factory=Counter)
    cost: int = 0


Write = Callable[[Connection, datetime, list[Any]], Sequence[Any] | None]
"""A write of several workers at once: a result for each of their arguments, or none."""


class Journal:
    """Writes to the store: those that wait at the same moment share a transaction, and equal ones a call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[Write, Any]] = []
        self._commit: asyncio.Task[dict[int, Any]] | None = None

    async def write(self, function: Write, argument: Any = None) -> Any:  # noqa: ANN401 (any row)
        """Write, and return the result when it is on disk, and so is every write that began before."""
        self._commit = self._commit or asyncio.create_task(self._gather())
        commit, index = self._commit, len(self._waiting)
        self._waiting.append((function, argument))
        result = (await asyncio.shield(commit)).get(index)
        if isinstance(result, StudyError):
            raise result
        return result

    async def _gather(self) -> dict[int, Any]:
        await asyncio.sleep(GATHER_SECONDS)
        async with self._turn:
            writes, self._waiting, self._commit = self._waiting, [], None
            return await asyncio.to_thread(self._call, writes)

    def _call(self, writes: list[tuple[Write, Any]]) -> dict[int, Any]:
        """Return results and errors by the number of the write; one that fails leaves the others alone."""
        results: dict[int, Any] = {}
        groups: dict[Write, dict[int, Any]] = {}
        for index, (function, argument) in enumerate(writes):
            groups.setdefault(function, {})[index] = argument
        with self._store.write() as (db, now):
            for function, arguments in groups.items():
                savepoint = db.begin_nested()
                try:
                    values = function(db, now, list(arguments.values())) or ()
                    savepoint.commit()
                except StudyError as error:  # an error of the database itself ends all of the transaction
                    savepoint.rollback()
                    values = [error] * len(arguments)
                results.update(zip(arguments, values, strict=False))
        return results


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
        """Check that the judge may be asked, as far as its preview has not.

        Raises:
            StudyError: It may not, or the budget cannot be held.
        """
        if self.budget_usd is not None and (self.price is None or self.price.assumed):
            raise StudyError(
                f"--budget cannot be held for {self.judge.model!r}, whose price is unknown: set {KEYS} in "
                "study.toml (0 if it costs nothing), or leave --budget out"
            )
        self.rater = raters.get_or_add(self.store, self.judge.rater_name, "model")
        with self.store.read() as db:
            requests.check_judge(db, self.rater)
        settings.set_criteria(self.store, {each.name: str(each) for each in self.judge.rubric})
        self.ledger = Ledger()
        self.asker = Asker(self.judge, seed=self.seed)
        self.limit = None if self.budget_usd is None else int(self.budget_usd * BILLION + 1e-3)
        self.name = secrets.token_hex(8)  # of the run, in the store
        self._tried = {self.asker.form}
        self._parsed = False  # whether an answer could be parsed
        self._in_a_row = 0
        self._overcharged = False  # whether an answer cost more than was reserved for it
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

    async def ask(self, questions: Sequence[Question]) -> None:
        """Ask the first question alone, until an answer can be parsed, and then all others at once."""
        async with self.open():
            queue = deque(question for question, _ in await self.resolve(questions))
            await self.run_workers([self.ask_queue(queue, first=True)])
            size = -(-3 * self.judge.concurrency // 2)  # some wait for the disk, or for a retry
            await self.run_workers([self.ask_queue(queue) for _ in range(size)])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect to the server, and keep the lease of what is under way."""
        self.journal = Journal(self.store)
        self.limiter = RateLimiter(self.judge.concurrency, timeout=self.server.timeout)
        lease = asyncio.create_task(self._keep_lease())
        lease.add_done_callback(lambda _: self._end())
        try:
            async with Client(self.server, concurrency=self.judge.concurrency) as self.client:
                yield
        finally:
            lease.cancel()
            await asyncio.wait([lease])
            await self._renew(timedelta())
        if not lease.cancelled():
            lease.result()

    async def _keep_lease(self) -> None:
        """Renew the lease of what is under way in time.

        Raises:
            StudyError: It cannot be renewed; when it ends, another run may send the same requests.
        """
        seconds = LEASE.total_seconds()
        while True:
            await asyncio.sleep(seconds / 3)
            try:
                async with asyncio.timeout(seconds / 2):
                    await self._renew(LEASE)
            except TimeoutError:
                raise StudyError(
                    f"another program has kept {self.store.name} locked for {seconds / 2:g} seconds, so no "
                    "more is sent; what was answered is saved: end that program, and run this command again"
                ) from None

    async def _renew(self, lease: timedelta) -> None:
        await self.journal.write(lambda db, now, _: requests.renew(db, self.name, now + lease))

    async def resolve(self, questions: Sequence[Question]) -> list[tuple[Question, int]]:
        """Conclude the questions whose answers are stored; return the others, with the sample to ask."""
        outcomes = list(zip(questions, self.asker.conclude_all(self.store, questions), strict=True))
        concluded = [(question, outcome) for question, outcome in outcomes if not isinstance(outcome, int)]
        for part in chunks(concluded):
            await asyncio.gather(*(self.conclude(*each) for each in part))
        return [(question, outcome) for question, outcome in outcomes if isinstance(outcome, int)]

    async def run_workers(self, works: Sequence[Awaitable[None]]) -> None:
        """Wait for workers; what is under way at any end is received, since it is paid."""
        workers = [asyncio.ensure_future(each) for each in works]
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:
            self._end()
            progress.warn(
                f"stopping: {self.limiter.in_flight} answers are under way and are waited for; Ctrl-C again "
                "gives them up; run the same command again to go on"
            )
            await asyncio.wait(workers)
            raise
        for error in [each.exception() for each in workers]:
            if error is not None:
                raise error

    async def ask_queue(self, queue: deque[Question], *, first: bool = False) -> None:
        """Ask the next question until there is none, or until the first answer that can be parsed."""
        asked = 0
        while queue and not self._stop.is_set():
            if first and (self._parsed or asked >= FIRST_QUESTIONS):
                break
            try:
                asked += await self._judge_next(queue)
            except BaseException:
                self._end()
                raise

    def _end(self) -> None:
        """Send nothing more, and wait for no pause."""
        self._stop.set()
        self.limiter.open()

    async def _judge_next(self, queue: deque[Question]) -> bool:
        """Judge the next question and return True; one that cannot be asked now goes last.

        Raises:
            StudyError: Ten failures of the server came in a row.
        """
        question = queue.popleft()
        outcome = await self._judge(question)
        if outcome == "busy":
            queue.append(question)
            await self.pause(self.pace * POLL_SECONDS)
            return False
        if outcome == "batch":
            self.ledger.in_batches += 1
            return False
        await self.conclude(question, outcome)
        if not isinstance(outcome, JudgeError) or outcome.kind not in OF_THE_SERVER:
            self._in_a_row = 0
            return True
        self._in_a_row += 1
        if self._in_a_row >= FAILURES_IN_A_ROW:
            raise StudyError(
                f"the judge {self.judge.rater_name!r} failed {FAILURES_IN_A_ROW} times in a row, last with "
                f"{outcome.kind} ({outcome.detail}); what was answered is saved: mend the server or the "
                "settings and run again"
            )
        return True

    async def _judge(self, question: Question) -> Choices | JudgeError | Literal["busy", "batch"]:
        """Return the verdict on a question, why there is none, or why it cannot be asked now.

        An answer that no verdict can be read from is followed by another sample. A request without an answer
        is sent again. A form that the server refuses or ignores gives way to a simpler one.
        """
        answers: list[Answered] = []
        errors: Counter[ErrorKind] = Counter()  # of the present sample
        while not self._stop.is_set():
            planned = self.plan(question, len(answers))
            result: requests.Reserved | JudgeError = await self.journal.write(self.insert, planned)
            if isinstance(result, int):
                result = await self._send(planned, result, errors)
            if isinstance(result, Answered):
                answers.append(result)
                errors.clear()
                outcome, is_last = self.asker.read(question, answers)
                if not isinstance(outcome, JudgeError):
                    self._parsed = True
                    return outcome
                self._change_form(outcome)
                if is_last:
                    return outcome
                await self._note(outcome)
            elif isinstance(result, JudgeError):
                # a fault of the server itself is met by the same request once more before its form is doubted
                passing = result.kind == "server_error" and result.change == "guess" and errors.total() == 1
                if passing or not self._change_form(result):
                    if self._is_final(result, errors):
                        return result
                    await self.pause(max(result.wait or 0.0, self.backoff(errors.total())))
            elif result == "budget":
                raise self.used_up(planned)
            else:
                return result
        return "busy"

    def _change_form(self, error: JudgeError) -> bool:
        """Ask in another form from now on, if the form may be to blame and another one was not tried."""
        if error.change is None or self._parsed:
            return False
        form = self.asker.form.simpler(error.change, self.judge, error.detail)
        if form is None or form in self._tried:
            return False
        self._tried.add(form)
        self.asker.form = form
        progress.notice(f"requests now have the form {form.name} ({error.detail})")
        return True

    def _is_final(self, error: JudgeError, errors: Counter[ErrorKind]) -> bool:
        """Return whether a request is not sent again after this failure.

        Raises:
            StudyError: Only the user can mend it.
        """
        if (error.wait or 0.0) > LONGEST_WAIT_SECONDS:
            raise StudyError(
                f"{self.server.url} asks to wait {error.wait:.0f} seconds before the next request; run again "
                "then: nothing that was answered is paid twice"
            )
        is_final = errors[error.kind] >= ATTEMPTS.get(error.kind, 1)
        is_passing = error.kind == "transport" and self._parsed
        if is_final and error.fatal and not is_passing:
            raise StudyError(error.fatal)
        return is_final

    async def conclude(self, question: Question, outcome: Choices | JudgeError) -> None:
        """Save a verdict of the study or why there is none, and count a question that is done."""
        if isinstance(outcome, JudgeError):
            await self._note(outcome)
            self.ledger.failures[outcome.kind, outcome.detail] += 1
        else:
            if question.purpose == "study":
                await self.journal.write(self._save, (question, outcome))
            self.ledger.verdicts += 1
        if self.advance:
            cost, failed = self.ledger.cost / BILLION, self.ledger.failures.total()
            self.advance(1, note=f"${cost:.2f} · {failed} failed")

    async def _note(self, error: JudgeError) -> None:
        """Note why an answer brought no verdict."""
        if error.row:
            await self.journal.write(requests.note_failures, (error.row, error.kind, error.detail))

    def _save(self, db: Connection, now: datetime, verdicts: list[Any]) -> None:
        save_judged(db, self.rater, verdicts, now=now, declared=self.store.declared_now)

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

    def insert(
        self, db: Connection, now: datetime, planned: list[Planned], batch: str | None = None
    ) -> list[requests.Reserved]:
        """Insert the rows of requests that may be sent."""
        return requests.reserve(
            db, planned, judge=self.rater, run=self.name, now=now, limit=self.limit, batch=batch
        )

    def used_up(self, planned: Planned) -> StudyError:
        """Return the error that ends a run when nothing more fits into the budget."""
        return StudyError(
            f"the budget of ${(self.limit or 0) / BILLION:g} is used up: what is spent or set aside leaves "
            f"less than the ${(planned.cost or 0) / BILLION:.4f} that the next request can cost; what was "
            "answered is saved, and --budget with a larger sum goes on from here"
        )

    async def _send(
        self, planned: Planned, row: int, errors: Counter[ErrorKind]
    ) -> Answered | JudgeError | Literal["busy"]:
        """Send once, and store what came; count an error.

        The limiter is held until the answer is on disk, so no more than the judge's concurrency can be paid
        and lost.
        """
        async with self.limiter as sent_at:
            if self._stop.is_set():
                await self.journal.write(requests.settle, Settled(row=row, state="unbilled"))
                return "busy"
            self.ledger.requests += 1
            alone = self.limiter.in_flight == 1
            result = await self.client.post(PATHS[planned.form.partition("/")[0]], planned.body)
            if isinstance(result, bytes):
                self.limiter.answered(sent_at)
                settled = self.price_answer(row, result)
                await self.journal.write(requests.settle, settled)
                self.count_cost(settled, planned.cost)
                return Answered(row=row, response=result, max_output_tokens=planned.max_output_tokens)
            slow = result.kind == "timeout"
            errors[result.kind] += ATTEMPTS["timeout"] if slow and alone else 1  # it would be slow once more
            if result.kind == "rate_limited" or (slow and not alone) or result.wait:
                self.limiter.refused(sent_at, result.wait or 0.0)
            await self.journal.write(requests.settle, settle_error(row, result))
            return result

    def price_answer(self, row: int, body: bytes, *, batch: bool = False) -> Settled:
        """Return what completes the row of an answer; nothing has read it yet but for its tokens."""
        usage = read_usage(body)
        cost = None if self.price is None else self.price.cost(usage, batch=batch)
        return Settled(row=row, state="answered", response=body, usage=usage, cost=cost)

    def count_cost(self, settled: Settled, reserved: int | None) -> None:
        """Count what a stored answer cost, or else what was reserved for it, in billionths of a US dollar.

        Raises:
            StudyError: There is a budget, and the answer cost more.
        """
        expected = reserved or 0
        cost = expected if settled.cost is None else settled.cost
        self.ledger.cost += cost
        if cost <= expected or self._overcharged:
            return
        self._overcharged = True
        words = (
            f"a response cost ${cost / BILLION:.4f}, where at most ${expected / BILLION:.4f} was expected "
            f"({settled.usage.output_tokens} tokens, of {self.judge.max_output_tokens} allowed)"
        )
        if self.limit is not None:
            raise StudyError(f"{words}, so no budget can be held there; run without --budget")
        progress.warn(words)

    def backoff(self, attempts: int) -> float:
        """Return the seconds before the next attempt, spread by chance."""
        seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
        return self.pace * seconds * secrets.SystemRandom().uniform(0.5, 1)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than the run goes on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()


def settle_error(row: int, error: JudgeError) -> Settled:
    """Return what completes the row of a request that was not answered."""
    lost = Settled(row=row, state="lost", failure=error.kind, detail=error.detail)
    return lost if error.billed else replace(lost, state="unbilled")
