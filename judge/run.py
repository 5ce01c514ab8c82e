"""Judge all questions that are left. Each answer is stored before it is read.

The first request goes alone until an answer can be parsed, so the form of requests, the key, the address and
the price are settled before the others follow. A run may be killed at any moment: the next one reads what was
answered and sends only the rest. A failure is counted, and is never a verdict.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.store import Store, requests, settings
from guard_eval.store.requests import BILLION, LEASE, Answered, Planned, Question, Settled
from guard_eval.study.judge_settings import Judge
from judge.answers import read_usage
from judge.client import Client, Reply
from judge.examples import check_examples
from judge.failures import ATTEMPTS, OF_THE_SERVER, RESAMPLED, SAMPLES, ErrorKind, JudgeError
from judge.forms import PATHS, describe_change
from judge.limiter import RateLimiter
from judge.parsing import Choices
from judge.price import KEYS, Price
from judge.questions import Asker, check_judge
from judge.server import Server

FAILURES_IN_A_ROW = 10
"""So many failures of the server without an answer between them end the run."""

ALONE = 10
"""Questions that are asked one after the other at most before the others follow."""

BUSY_SECONDS = 0.5
"""Seconds between two looks whether another process has the answer to the same request."""

GATHER_SECONDS = 0.01
"""Seconds in which writes are gathered that share a transaction: little beside any answer's wait."""

LONGEST_WAIT = 120.0
"""Seconds a server may ask to wait; for longer the run ends."""

FIRST_ATTEMPTS = 3
"""Attempts before a server that has never answered counts as unreachable."""


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
        in_batches: Requests in batches that go on at the provider.
    """

    requests: int = 0
    retries: int = 0
    reused: int = 0
    verdicts: int = 0
    failures: Counter[tuple[ErrorKind, str]] = field(default_factory=Counter)
    cost: int = 0
    in_batches: int = 0


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """The pauses between two attempts, in seconds.

    Attributes:
        first: The first one; each further one is twice as long.
        longest: The longest one that the server did not ask for.
        poll: The first one between two looks at a batch.
    """

    first: float = 0.5
    longest: float = 30.0
    poll: float = 1.0


def run_judge(
    store: Store,
    judge: Judge,
    questions: Sequence[Question],
    *,
    seed: int,
    server: Server,
    price: Price | None,
    budget_usd: float | None = None,
    advance: progress.Advance | None = None,
    pauses: Pauses | None = None,
    kind: type[Run] | None = None,
) -> Ledger:
    """Ask the judge the questions, and save the verdicts of the study.

    Stopped by Ctrl-C, the run receives and saves what is under way first. Several processes may judge one
    study at once.

    Args:
        store: The study's database.
        judge: The study's settings for this judge.
        questions: What is asked.
        seed: The study's seed.
        server: The judge's server, with the key that goes there.
        price: The price of the judge's tokens, if it is known.
        budget_usd: What all requests of the study may cost together, over all runs; None for no limit.
        advance: Called for each question that is done.
        pauses: The pauses between attempts.
        kind: `judge.batches.BatchRun` for batches.

    Raises:
        StudyError: Only the user can mend it. What was answered until then is saved.
    """
    run = (kind or Run)(
        store, judge, seed=seed, server=server, price=price, budget_usd=budget_usd, advance=advance,
        pauses=pauses or Pauses(),
    )  # fmt: skip
    asyncio.run(run.ask(questions))
    return run.ledger


Write = Callable[[Connection, datetime, list[Any]], list[Any]]
"""A write of several workers at once: a result for each of their arguments."""


class Journal:
    """Writes to the store. What waits at the same moment shares a transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._waiting: list[tuple[Write, Any, asyncio.Future[Any]]] = []
        self._flushing: asyncio.Task[None] | None = None

    def write(self, function: Write, argument: Any) -> asyncio.Future[Any]:  # noqa: ANN401
        """Return the result of a write, which is on disk then."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((function, argument, done))
        if self._flushing is None or self._flushing.done():
            self._flushing = loop.create_task(self._flush())
        return done

    async def idle(self) -> None:
        """Wait until all is written."""
        if self._flushing is not None:
            await self._flushing

    async def close(self) -> None:
        """Wait until all is written, and end."""
        await self.idle()
        self._thread.shutdown()

    async def _flush(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER_SECONDS)
            group, self._waiting = self._waiting, []
            # answers first, in a transaction of their own: no other write may lose them
            for wanted in (True, False):
                part = [each for each in group if (each[0] is settle_rows) == wanted]
                if part:
                    await self._commit(part)

    async def _commit(self, part: Sequence[tuple[Write, Any, asyncio.Future[Any]]]) -> None:
        calls: dict[Write, list[tuple[Any, asyncio.Future[Any]]]] = defaultdict(list)
        for function, argument, done in part:
            calls[function].append((argument, done))
        try:
            results = await asyncio.get_running_loop().run_in_executor(self._thread, self._call, calls)
        except Exception as error:  # noqa: BLE001
            for _, _, done in part:
                if not done.done():
                    done.set_exception(error)
            return
        for function, waiting in calls.items():
            for (_, done), result in zip(waiting, results[function], strict=True):
                if not done.done():
                    done.set_result(result)

    def _call(self, calls: Mapping[Write, list[tuple[Any, Any]]]) -> dict[Write, list[Any]]:
        with self._store.write() as (db, now):
            return {
                function: function(db, now, [argument for argument, _ in waiting])
                for function, waiting in calls.items()
            }


def settle_rows(db: Connection, _: datetime, settled: list[Settled]) -> list[None]:
    """Complete rows of requests."""
    requests.settle(db, settled)
    return [None] * len(settled)


def note_failures(db: Connection, _: datetime, failures: list[tuple[int, str, str]]) -> list[None]:
    """Note why answers brought no verdict."""
    requests.note_failures(db, failures)
    return [None] * len(failures)


class Run:
    """One run of one judge.

    Attributes:
        ledger: What it did.
        asker: Makes the requests.
        price: The price of the judge's tokens, if it is known.
        journal: Writes to the store.
        name: Names the run in the store.
    """

    def __init__(
        self,
        store: Store,
        judge: Judge,
        *,
        seed: int,
        server: Server,
        price: Price | None,
        budget_usd: float | None,
        advance: progress.Advance | None,
        pauses: Pauses,
    ) -> None:
        if budget_usd is not None and (price is None or price.assumed):
            raise StudyError(
                f"--budget cannot be held for {judge.model!r}, whose price is unknown: set {KEYS} in "
                "study.toml (0 if it costs nothing), or leave --budget out"
            )
        check_examples(store, judge)
        self.ledger = Ledger()
        self.store = store
        self.judge = judge
        self.rater = check_judge(store, judge)
        self.price = price
        self.limit = None if budget_usd is None else int(budget_usd * BILLION + 1e-3)
        self.name = secrets.token_hex(8)
        self.server = server
        self.pauses = pauses
        settings.set_criteria(store, {each.name: each.words for each in judge.rubric})
        with store.read() as db:
            form = requests.read_form(db, judge.rater_name)
        self.asker = Asker(judge, seed=seed, form=form)
        self._advance = advance
        self._seed = seed
        self._tried = {self.asker.form.name}
        self._parsed = False  # whether an answer could be parsed
        self._reached = False  # whether the server has answered anything
        self._in_a_row = 0
        self._open = 0  # rows that are not settled
        self._settled = asyncio.Event()
        self._stop = asyncio.Event()
        self._overcharged = False

    @property
    def stopping(self) -> bool:
        """Return whether nothing more is to be sent."""
        return self._stop.is_set()

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
            await self.journal.close()

    async def _renew(self) -> None:
        def renew(db: Connection, now: datetime, _: list[None]) -> list[None]:
            requests.renew(db, self.name, now)
            return [None]

        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            await self.journal.write(renew, None)

    async def ask(self, questions: Sequence[Question]) -> None:
        """Ask the first question alone, until an answer can be parsed, and then all others at once."""
        queue = deque(questions)
        async with self.open():
            await self.settle_form(queue)
            size = self.judge.concurrency
            await self._finish([self._work(queue) for _ in range(size + -(-size // 4))])

    async def settle_form(self, queue: deque[Question]) -> None:
        """Ask one question after the other until an answer can be parsed."""

        async def work() -> None:
            for _ in range(min(ALONE, len(queue))):
                if self._parsed or self.stopping or not await self._judge_next(queue):
                    return

        await self._finish([work()])

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
            failed = [each for each in workers if each.done() and each.exception() is not None]
            if failed or any(not each.done() for each in workers):
                self._stop.set()
                self._settled.set()
                self.limiter.open()
            await asyncio.wait(workers)
        for each in [*failed, *workers]:
            if (error := each.exception()) is not None:
                raise error

    async def _work(self, queue: deque[Question]) -> None:
        while queue and not self.stopping:
            await self._judge_next(queue)

    async def _judge_next(self, queue: deque[Question]) -> bool:
        """Judge the next question; return whether it is done. What another process asks goes last."""
        question = queue.popleft()
        outcome = await self._judge(question)
        if outcome == "busy":
            queue.append(question)
            await self.pause(BUSY_SECONDS)
        elif outcome is not None:
            if not isinstance(outcome, JudgeError) and question.purpose == "study":
                await self.journal.write(self._save, (question, outcome))
            self.count(outcome)
        return outcome not in ("busy", None)

    def _save(self, db: Connection, now: datetime, verdicts: list[Any]) -> list[None]:
        requests.save_verdicts(db, self.rater, verdicts, now=now, declared=self.store.declared_now)
        return [None] * len(verdicts)

    def count(self, outcome: Choices | JudgeError) -> None:
        """Count a question that is done.

        Raises:
            StudyError: Ten failures of the server came in a row.
        """
        if isinstance(outcome, JudgeError):
            self.ledger.failures[outcome.kind, outcome.detail] += 1
            self._in_a_row = self._in_a_row + 1 if outcome.kind in OF_THE_SERVER else 0
        else:
            self.ledger.verdicts += 1
            self._in_a_row = 0
        if self._advance is not None:
            cost = self.ledger.cost / BILLION
            failed = f"{self.ledger.failures.total()} failed" if self.ledger.failures else ""
            self._advance(1, note=" · ".join(filter(None, [f"${cost:.2f}" if cost else "", failed])))
        if isinstance(outcome, JudgeError) and self._in_a_row >= FAILURES_IN_A_ROW:
            raise StudyError(
                f"the judge {self.judge.rater_name!r} failed {FAILURES_IN_A_ROW} times in a row, last with "
                f"{outcome.kind} ({outcome.detail}); what was answered is saved: mend the server or the "
                "settings and run again"
            )

    async def _judge(self, question: Question) -> Choices | JudgeError | Literal["busy"] | None:
        """Return the verdict, why there is none, or None if the run ends first.

        An answer that no verdict can be read from is followed by another sample.
        """
        samples, resample = 0, 0
        while True:
            result = await self._answer(question, resample)
            if result is None or result == "busy" or isinstance(result, JudgeError):
                return result
            resample += 1
            outcome = self.asker.parse(question, result.response)
            if not isinstance(outcome, JudgeError):
                self._parsed = True
                return outcome
            await self.journal.write(note_failures, (result.row, outcome.kind, outcome.detail))
            self._check_output(outcome)
            if outcome.kind == "truncated" and result.max_output_tokens < self.judge.max_output_tokens:
                continue  # it was cut at a lower limit than the present one
            samples += 1
            if outcome.kind not in RESAMPLED or samples == SAMPLES:
                return outcome

    def _check_output(self, outcome: JudgeError) -> None:
        """Ask for plain text if a server takes a schema and does not hold to it."""
        form = self.asker.form
        ignored = outcome.kind in ("unparseable", "wrong_schema") and form.output == "json_schema"
        if ignored and not self._parsed and self.judge.output == "auto":
            self._change_form("output", f"the server ignores the schema ({outcome.detail})")

    def _change_form(self, change: Any, why: str) -> bool:  # noqa: ANN401
        """Ask in another form from now on; return whether there is one that was not tried."""
        before = self.asker.form
        after = before.simpler(change, self.judge, why)
        if after is None or after.name in self._tried:
            return False
        self._tried.add(after.name)
        self.asker.form = after
        progress.notice(f"{why}; it is now asked {describe_change(before, after)}")
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

    async def _answer(
        self, question: Question, resample: int
    ) -> Answered | JudgeError | Literal["busy"] | None:
        """Return the answer to a request: one that was paid before, or a new one."""
        errors: Counter[ErrorKind] = Counter()
        while True:
            planned = self.plan(question, resample)
            row = await self._reserve(planned)
            if not isinstance(row, int):
                self.ledger.reused += isinstance(row, Answered)
                return row
            result, alone = await self._send(planned, row, errors.total())
            if not isinstance(result, JudgeError):  # an answer, or None where the run ends
                return result
            guess = result.change == "guess"
            retried = result.kind != "server_error" or errors[result.kind] > 0
            why = f"the server refuses the form ({result.detail})"
            if (
                result.change
                and not self._parsed
                and (retried or not guess)
                and self._change_form(result.change, why)
            ):
                continue
            if result.fatal is not None and result.kind != "transport":
                raise StudyError(result.fatal)
            errors[result.kind] += 1
            if result.fatal is not None and not self._reached and errors.total() >= FIRST_ATTEMPTS:
                raise StudyError(result.fatal)
            slow = result.kind == "timeout" and alone
            if slow or errors[result.kind] >= ATTEMPTS.get(result.kind, 1):
                return result
            wait = result.wait or 0.0
            if wait > LONGEST_WAIT:
                raise StudyError(
                    f"{self.server.url} asks to wait {wait:.0f} seconds before the next request; run again "
                    "then: nothing that was answered is paid twice"
                )
            await self.pause(max(wait, self._backoff(planned.key, errors.total())))
            if self.stopping:
                return None

    async def _send(
        self, planned: Planned, row: int, attempt: int
    ) -> tuple[Answered | JudgeError | None, bool]:
        """Send once and store what came; return it, and whether nothing else was under way.

        The place in front of the server is held until the answer is on disk, so no more than the study's
        concurrency can be paid and lost.
        """
        async with self.limiter as sent_at:
            if self.stopping:
                self._settle(Settled(row=row, state="unbilled"))
                return None, True
            self.ledger.requests += 1
            self.ledger.retries += attempt > 0
            alone = self.limiter.in_flight == 1
            try:
                result = await self.client.post(PATHS[self.interface(planned)], planned.body)
            except BaseException as error:  # what was under way may be paid
                self._settle(Settled(row=row, state="unbilled" if isinstance(error, StudyError) else "lost"))
                raise
            if isinstance(result, Reply):
                self.limiter.answered(sent_at)
                self._reached = True
                return await self.store_answer(planned, row, result), alone
            self._reached = self._reached or result.kind != "transport"
            if result.kind == "rate_limited" or (result.kind == "timeout" and not alone) or result.wait:
                self.limiter.refused(sent_at, result.wait or 0.0)
            settled = Settled(row=row, state="lost", failure=result.kind, detail=result.detail)
            self._settle(settled if result.billed else replace(settled, state="unbilled"))
            return result, alone

    @staticmethod
    def interface(planned: Planned) -> Literal["chat", "responses"]:
        """Return the interface that a request was made for."""
        return "responses" if planned.form.startswith("responses/") else "chat"

    async def store_answer(self, planned: Planned, row: int, reply: Reply) -> Answered:
        """Store an answer; nothing has read it but for its tokens.

        Raises:
            StudyError: There is a budget, and the answer cost more than was set aside for it.
        """
        usage = read_usage(reply.body)
        cost = None if self.price is None else self.price.cost(usage)
        settled = Settled(
            row=row, state="answered", response=reply.body, usage=usage, cost=cost, seconds=reply.seconds
        )
        await self._settle(settled)
        self.ledger.cost += planned.cost or 0 if cost is None else cost
        if cost is not None and planned.cost is not None and cost > planned.cost:
            words = (
                f"a response cost ${cost / BILLION:.4f}, where at most ${planned.cost / BILLION:.4f} was "
                f"expected ({usage.output_tokens} tokens, of {planned.max_output_tokens} allowed)"
            )
            if self.limit is not None:
                raise StudyError(f"{words}, so no budget can be held there; run without --budget")
            if not self._overcharged:
                self._overcharged = True
                progress.warn(words)
        return Answered(row=row, response=reply.body, max_output_tokens=planned.max_output_tokens)

    def _settle(self, settled: Settled) -> asyncio.Future[Any]:
        """Complete a row; return what is done when it is on disk."""
        written = self.journal.write(settle_rows, settled)

        def is_settled(done: asyncio.Future[Any]) -> None:
            self._open -= 1
            self._settled.set()
            if not done.cancelled():
                done.exception()  # every waiter gets it

        written.add_done_callback(is_settled)
        return written

    async def _reserve(self, planned: Planned) -> int | Answered | Literal["busy"] | None:
        """Return the row of a request that may be sent, the answer that was paid before, or why neither.

        Raises:
            StudyError: Nothing more fits into the budget.
        """
        while not self.stopping:
            self._settled.clear()
            self._open += 1
            outcome = await self.journal.write(self._insert, planned)
            if not isinstance(outcome, int):
                self._open -= 1
            if outcome != "budget":
                return outcome  # type: ignore[no-any-return]
            if not self._open:
                raise self.used_up(planned)
            await self._settled.wait()  # what is under way mostly costs less than was set aside for it
        return None

    def _insert(self, db: Connection, now: datetime, planned: list[Planned]) -> list[requests.Reserved]:
        return requests.reserve(db, planned, judge=self.rater, run=self.name, now=now, limit=self.limit)

    def used_up(self, planned: Planned) -> StudyError:
        """Return the error that ends a run when nothing more fits into the budget."""
        return StudyError(
            f"the budget of ${(self.limit or 0) / BILLION:g} is used up: what is spent or set aside leaves "
            f"less than the ${(planned.cost or 0) / BILLION:.4f} that the next request can cost; what was "
            "answered is saved, and --budget with a larger sum goes on from here"
        )

    def _backoff(self, key: str, attempts: int) -> float:
        """Return the seconds before the next attempt, spread by the request's key."""
        digest = hashlib.sha256(f"{self._seed}:{key}:{attempts}".encode()).digest()
        spread = 0.5 + int.from_bytes(digest[:4]) / 2**33  # in [0.5, 1)
        return min(self.pauses.longest, self.pauses.first * 2.0 ** (attempts - 1)) * spread

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than the run goes on."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass
