"""Let a model rate what the store workers_needed out: journal first, read then, pay nothing twice.

An answer is in the journal before anything looks at it, so a run may be killed at any moment: the next one
reads what was paid and sends only the rest. A failure is counted, never a verdict and never a tie.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from guard_eval.errors import StudyError
from guard_eval.records import Plan
from guard_eval.store import JudgeRun, Judgment, Showing, Store, Style, Unjudged
from guard_eval.study.judge_settings import Judge
from judge.backend import Backend, JudgeRequest, Response
from judge.checks import check_criteria
from judge.client import Client, probe
from judge.cost import price
from judge.errors import ServerError
from judge.journal import Journal
from judge.ledger import Ledger, Progress, Tally
from judge.orders import LEASE, judge_plan, rater_name
from judge.parsing import JudgeError, Parsed, ParseError, RequestError, Usage
from judge.preview import DryRun, dry_run, with_server_url
from judge.prices import Budget
from judge.rate_limit import RateLimiter, Stopped
from judge.request import RequestBuilder
from judge.retry import Retry
from judge.sending import ClaimLost, Sender


class OnlineBackend:
    """Asks as strictly as the server allows; see `judge.backend.Backend`.

    Attributes:
        style: The dialect spoken at present.
        url: The server.
        notices: Messages for the user, in order.
    """

    style: Style

    def __init__(
        self,
        judge: Judge,
        *,
        seed: int,
        environ: Mapping[str, str] | None = None,
        timeout: float | None = None,
        plain_http: bool = False,
    ) -> None:
        self._builder = RequestBuilder(judge, seed=seed)
        self._client = Client(judge, environ=environ, timeout=timeout, plain_http=plain_http)
        self._model = judge.model
        self._probing: asyncio.Task[None] | None = None
        self.url = self._client.url
        self.style = self._builder.shape.dialect
        self.notices = self._builder.notices

    def build(self, showing: Showing, *, again: int = 0) -> JudgeRequest:
        """Return the request about `showing`, in the present shape."""
        return self._builder.build(showing, again=again)

    async def send(self, question: JudgeRequest) -> Response | RequestError:
        """Send it once; before the first, begin to ask the server what it is."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe())
        return await self._client.post(
            self._builder.path(question),
            question.body,
            on_error=lambda refusal: self._look(question, refusal),
        )

    def _look(self, question: JudgeRequest, refusal: ServerError) -> None:
        """Raise where the refusal is of the question's shape; see `RequestBuilder.refused`."""
        try:
            self._builder.refused(question.shape, refusal)
        finally:
            self.style = self._builder.shape.dialect

    def parse(self, body: bytes, *, code: str, shape: str | None) -> Parsed | ParseError:
        """Return the verdict in a response, or why there is none."""
        return self._builder.parse(body, code=code, shape=shape)

    def usage(self, body: bytes) -> Usage:
        """Return what the server says of an answer."""
        return self._builder.usage(body)

    async def close(self) -> None:
        """Close the connections."""
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
        await self._client.close()

    async def _probe(self) -> None:
        self.notices.extend((await probe(self._client.sdk, self._model)).notices)


Connect = Callable[[], Backend]
"""Opens a backend; called in the event loop that will use it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What a run works with while it lasts."""

    store: Store
    run: JudgeRun
    backend: Backend
    journal: Journal
    sender: Sender
    limiter: RateLimiter
    tally: Tally

    async def renew(self) -> None:
        """Say from time to time that this run lives, so that what it claimed stays its own."""
        while True:
            await asyncio.sleep(self.run.lease.total_seconds() / 3)
            await self.journal.call(self.store.renew, self.run)

    def close(self) -> Ledger:
        """Return what the run took."""
        return self.tally.close(tuple(self.backend.notices))


def in_session(
    work: Callable[[Session], Awaitable[Ledger]],
    store: Store,
    judge: Judge,
    *,
    seed: int,
    lease: timedelta,
    budget_usd: float | None,
    connect: Connect | None,
    retry: Retry | None,
    environ: Mapping[str, str] | None,
    plain_http: bool,
) -> Ledger:
    """Do `work` as a run of the judge, and end the run whatever happens; see `judge.run.run_judge`."""
    asking_again = retry or Retry()
    known = price(with_server_url(judge, environ))
    budget = Budget(known, budget_usd, model=judge.model)

    def online() -> Backend:
        return OnlineBackend(
            judge, seed=seed, environ=environ, timeout=asking_again.timeout, plain_http=plain_http
        )

    async def go(run: JudgeRun) -> Ledger:
        backend = (connect or online)()
        try:
            async with Journal(store, run, limit_usd=budget_usd) as journal:
                limiter = RateLimiter(judge.concurrency)
                tally = Tally(price=known)
                sender = Sender(
                    backend,
                    journal,
                    budget=budget,
                    limiter=limiter,
                    retry=asking_again,
                    seed=seed,
                    tally=tally,
                )
                session = Session(
                    store=store,
                    run=run,
                    backend=backend,
                    journal=journal,
                    sender=sender,
                    limiter=limiter,
                    tally=tally,
                )
                return await work(session)
        finally:
            await backend.close()

    run = store.begin(store.rater(rater_name(judge), "model"), lease)
    try:
        return asyncio.run(go(run))
    finally:
        store.end(run)


FAILURES_IN_A_ROW = 10
"""So many presentations failing without a success between them end the run: something stands in the way."""

AHEAD = 4
"""For so many places in front of the server one request more is made ready, so that none stands empty."""

LOOK = 2.0
"""Seconds between two looks at whether another run has left something."""


class WorkerPool:
    """As many workers as may be under way at once; `run` lets them work until nothing is left."""

    def __init__(
        self, session: Session, plan: Plan, size: int, *, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._session = session
        self._store, self._run = session.store, session.run
        self._backend, self._sender, self._journal = session.backend, session.sender, session.journal
        self._limiter, self._tally = session.limiter, session.tally
        self._plan = plan
        self._size = size
        self._on_progress = on_progress
        run, store = session.run, session.store
        self._known = {
            (failure.presentation, failure.kind, failure.detail)
            for failure in store.failures()
            if failure.rater == run.rater.name
        }
        self._total = store.judge_progress(run.rater, plan).left
        self._queue: deque[Showing] = deque()
        self._exhausted = False
        self._refilling = asyncio.Lock()
        self._saving: set[asyncio.Task[None]] = set()
        self._in_a_row = 0
        self._reported = 0

    async def run(self) -> Ledger:
        """Judge until nothing is left, and return what it took; what is under way at any end is received."""
        renewing = asyncio.create_task(self._session.renew())
        workers_needed = self._size + -(-self._size // AHEAD)
        workers = [asyncio.create_task(self._work()) for _ in range(workers_needed)]
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            self._limiter.stop()
            self._report(
                f"stopping: {self._limiter.in_flight} answers are under way and are waited for; Ctrl-C again "
                "gives them up; run the same command again to go on"
            )
            raise
        finally:  # reached by Ctrl-C too: what is under way is paid, and is received
            self._limiter.stop()
            renewing.cancel()
            tasks = [renewing, *workers]
            await asyncio.wait(tasks)
            if self._saving:
                tasks += (await asyncio.wait(self._saving))[0]
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception())]
        if errors:
            raise errors[0]
        return self._session.close()

    async def _work(self) -> None:
        while (showing := await self._next()) is not None:
            try:
                outcome, sent = await self._sender.judge(showing)
            except Stopped:
                return
            except ClaimLost:
                self._total -= 1
                continue
            saving = asyncio.create_task(self._save(showing.blind.presentation, outcome))
            self._saving.add(saving)
            saving.add_done_callback(self._saved)
            self._check_failures(outcome, sent=sent)

    async def _next(self) -> Showing | None:
        async with self._refilling:
            while not (self._queue or self._exhausted or self._limiter.stopping):
                claimed = await self._journal.call(self._store.claim, self._run, self._plan, 2 * self._size)
                self._queue.extend(claimed)
                self._exhausted = not claimed and not await self._more_was_freed()
            return self._queue.popleft() if self._queue and not self._limiter.stopping else None

    async def _more_was_freed(self) -> bool:
        """Return whether to look again for what other runs held; a dead one's is free after its lease."""
        until = time.monotonic() + self._run.lease.total_seconds() + LOOK
        before = None
        while True:
            held, going = await self._journal.call(self._store.elsewhere, self._run)
            if before is not None and held < before:
                return True
            if not held or going or time.monotonic() > until:
                if held:
                    self._backend.notices.append(
                        f"{held} of the pairs are another run's, which goes on; run again when it has ended"
                    )
                return False
            if before is None:
                self._report(f"waiting whether another run on another machine goes on with its {held} pairs")
            before = held
            try:
                await self._limiter.wait(LOOK)
            except Stopped:
                return False

    async def _save(self, presentation: int, outcome: Parsed | JudgeError) -> None:
        if isinstance(outcome, Parsed):
            await self._journal.write(Judgment(presentation=presentation, choices=outcome.choices))
            self._tally.verdicts += 1
        else:
            if (presentation, outcome.kind, outcome.detail) not in self._known:
                await self._journal.write(
                    Unjudged(presentation=presentation, kind=outcome.kind, detail=outcome.detail)
                )
            self._tally.failures[outcome.kind] += 1
        self._report()

    def _saved(self, saving: asyncio.Task[None]) -> None:
        if saving.cancelled() or saving.exception() is None:
            self._saving.discard(saving)
        else:
            self._limiter.stop()  # its error ends the run; `run` finds it

    def _check_failures(self, outcome: Parsed | JudgeError, *, sent: bool) -> None:
        """End the run when only failures come; those that the journal has already do not count."""
        if isinstance(outcome, Parsed):
            self._in_a_row = 0
            return
        self._in_a_row += sent
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self._limiter.stop()
            raise StudyError(
                f"the judge {self._run.rater.name!r} failed {FAILURES_IN_A_ROW} times in a row, last with "
                f"{outcome.kind} ({outcome.detail}); what was answered is saved: fix the server or the "
                "settings and run again"
            )

    def _report(self, *more: str) -> None:
        if self._on_progress is None:
            return
        said = [*self._backend.notices[self._reported :], *more]
        self._reported = len(self._backend.notices)
        self._on_progress(self._tally.progress(total=self._total, notices=said))


__all__ = ["DryRun", "Ledger", "Progress", "Retry", "dry_run", "run_judge"]


def run_judge(
    store: Store,
    judge: Judge,
    *,
    seed: int,
    lease: timedelta = LEASE,
    budget_usd: float | None = None,
    connect: Connect | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    retry: Retry | None = None,
    environ: Mapping[str, str] | None = None,
    plain_http: bool = False,
) -> Ledger:
    """Judge everything that is left for this judge, and return what it took.

    Stopped by Ctrl-C or by an error, it receives and saves what is under way first; run again, it goes on
    from there. Several processes may do so for one judge at once.

    Args:
        store: The study's database.
        judge: The study's settings for this judge; its name, or else its model's, is the rater's.
        seed: The study's seed.
        lease: How long what this run claimed stays its own after it was last heard of.
        budget_usd: What all judges of the study may cost together, over all runs; None for no limit.
        connect: Opens another backend than the judge's server.
        on_progress: Called after each presentation, from this thread.
        retry: When to ask again; the defaults by default.
        environ: Where the key and OPENAI_BASE_URL are read; the process's environment by default.
        plain_http: Whether a key may go over plain http to another machine.

    Raises:
        StudyError: Only the user can fix it; what was answered until then is saved.
    """
    check_criteria(store, judge, store.rater(rater_name(judge), "model"))
    plan = judge_plan(judge, seed=seed, lease=lease)

    def work(session: Session) -> Awaitable[Ledger]:
        return WorkerPool(session, plan, judge.concurrency, on_progress=on_progress).run()

    return in_session(
        work,
        store,
        judge,
        seed=seed,
        lease=lease,
        budget_usd=budget_usd,
        connect=connect,
        retry=retry,
        environ=environ,
        plain_http=plain_http,
    )
