"""Let a model rate the pairs of a study: journal first, read then, pay nothing twice.

An answer is in the journal before anything reads it, so a run may be killed at any moment: the next one reads
what was paid and sends only the rest. A failure is counted, never a verdict and never a tie.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice

from guard_eval.errors import StudyError
from guard_eval.store import JudgeRun, Showing, Store
from guard_eval.study.judge_settings import Judge, ProviderName
from judge.backend import Backend
from judge.batch.anthropic_batches import AnthropicBatches
from judge.batch.api import BatchApi
from judge.batch.gemini_batches import GeminiBatches
from judge.batch.openai_batches import OpenAIBatches
from judge.batch.runner import BatchRunner, Patience
from judge.failures import JudgeError, Retry
from judge.journal import Journal
from judge.ledger import Ledger, RunProgress
from judge.parsing import Choices
from judge.pricing.availability import check_available
from judge.pricing.prices import Budget, PriceList, price
from judge.prompts.examples import check_examples
from judge.providers.endpoint import provider_of, with_server_url
from judge.providers.online import OnlineBackend
from judge.rate_limit import RateLimiter, Stopped
from judge.rater import LEASE, check_criteria, judge_plan, rater_name
from judge.sender import ClaimLost, Sender
from judge.session import JudgeSession

__all__ = ["Ledger", "Patience", "Retry", "RunProgress", "run_judge"]

FAILURES_IN_A_ROW = 10
"""So many presentations failing without a success between them end the run: something prevents them all."""

AHEAD = 4
"""For so many places in front of the server one request more is made ready, so that none stays empty."""

LOOK = 2.0
"""Seconds between two checks whether another run has left something."""

BATCH_CALL = 120.0
"""Seconds until a call that makes or polls a batch is tried again; the batch itself takes hours."""

_BATCHES: dict[ProviderName, Callable[..., BatchApi]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
    "gemini": GeminiBatches,
}


def run_judge(
    store: Store,
    judge: Judge,
    *,
    seed: int,
    showings: Sequence[Showing] | None = None,
    lease: timedelta = LEASE,
    budget_usd: float | None = None,
    connect: Callable[[], Backend] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    retry: Retry | None = None,
    patience: Patience | None = None,
    environ: Mapping[str, str] | None = None,
    plain_http: bool = False,
    own: PriceList | None = None,
) -> Ledger:
    """Judge everything that is left for this judge, and return what it took.

    A judge of style `batch` is asked by the Batch API, any other one online. Stopped by Ctrl-C or by an
    error, a run receives and saves what is under way first; batches go on at the provider. Run again, it goes
    on from there. Several processes may do so for one judge at once.

    Args:
        store: The study's database.
        judge: The study's settings for this judge; its name, or else its model's, is the rater's.
        seed: The study's seed.
        showings: Asked online in place of the study's pairs, such as a calibration's; nothing is claimed, and
            the answers are journalled without becoming verdicts.
        lease: How long what this run claimed stays its own after it was last renewed.
        budget_usd: What all judges of the study may cost together, over all runs; None for no limit.
        connect: Opens another backend than the judge's server, in the event loop that will use it.
        on_progress: Called after each presentation, and with each message, from this thread.
        retry: When to ask again; the defaults by default.
        patience: How often to ask how far a batch is; the defaults by default.
        environ: Where the key and OPENAI_BASE_URL are read; the process's environment by default.
        plain_http: Whether a key may go over plain http to another machine.
        own: The study's own list of prices, which may give a later day of a model's shutdown.

    Raises:
        ModelShutDownError: Its maker has switched the model off.
        StudyError: Only the user can fix it; what was answered until then is saved.
    """
    if connect is None:
        check_available(with_server_url(judge, environ), own=own)
    in_batches = judge.style == "batch" and connect is None and showings is None
    prices = price(with_server_url(judge, environ))
    if in_batches and prices is not None:
        prices = prices.in_batch()
    budget = Budget(prices, budget_usd, model=judge.model)
    again = retry or Retry()
    plan = judge_plan(judge, seed=seed, lease=lease)
    rater = store.rater(rater_name(judge), "model")
    check_examples(store, judge)
    if showings is None:
        check_criteria(store, judge, rater)
        store.set_criteria({each.name: each.words for each in judge.rubric})

    def online(*, timeout: float | None = again.timeout, **changes: object) -> OnlineBackend:
        provider = provider_of(judge, environ, plain_http=plain_http)
        if timeout is not None:
            provider = replace(provider, timeout=timeout)
        server = OnlineBackend(judge.model_copy(update=changes), provider, seed=seed)
        for answer in islice(store.answers_of(rater.name), 1):
            if answer.shape:
                server.builder.answered_before(answer.shape)
        return server

    async def go(run: JudgeRun) -> Ledger:
        server = online(concurrency=1, timeout=BATCH_CALL) if in_batches else None
        backend = server or (connect or online)()
        try:
            async with Journal(store, run, limit_usd=budget_usd) as journal:
                session = JudgeSession(
                    store,
                    run,
                    plan,
                    journal=journal,
                    ledger=Ledger(price=prices),
                    notices=backend.notices,
                    total=store.judge_progress(rater, plan).left if showings is None else len(showings),
                    on_progress=on_progress,
                )
                async with session.renewing():
                    if server is not None:
                        api = _BATCHES[judge.provider](server.client, retry=again, seed=seed)
                        await BatchRunner(session, api, server, budget, patience or Patience()).run()
                    else:
                        limiter = RateLimiter(judge.concurrency, timeout=again.timeout or judge.timeout)
                        sender = Sender(
                            backend,
                            journal,
                            budget=budget,
                            limiter=limiter,
                            retry=again,
                            seed=seed,
                            ledger=session.ledger,
                        )
                        pool = WorkerPool(session, sender, limiter, size=judge.concurrency, showings=showings)
                        await pool.run()
        finally:
            await backend.close()
        session.ledger.notices = tuple(backend.notices)
        return session.ledger

    run = store.begin(rater, lease)
    try:
        return asyncio.run(go(run))
    finally:
        store.end(run)


class WorkerPool:
    """As many workers as may be under way at once; `run` lets them work until nothing is left."""

    def __init__(
        self,
        session: JudgeSession,
        sender: Sender,
        limiter: RateLimiter,
        *,
        size: int,
        showings: Sequence[Showing] | None,
    ) -> None:
        self._session = session
        self._sender = sender
        self._limiter = limiter
        self._size = size
        self._queue = deque(showings or ())
        self._exhausted = showings is not None
        self._refilling = asyncio.Lock()
        self._saving: set[asyncio.Task[None]] = set()
        self._in_a_row = 0

    async def run(self) -> None:
        """Judge until nothing is left; what is under way at any end is received."""
        needed = self._size + -(-self._size // AHEAD)
        workers = [asyncio.create_task(self._work()) for _ in range(needed)]
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            self._limiter.stop()
            self._session.report(
                f"stopping: {self._limiter.in_flight} answers are under way and are waited for; Ctrl-C again "
                "gives them up; run the same command again to go on"
            )
            raise
        finally:  # reached by Ctrl-C too: what is under way is paid, and is received
            self._limiter.stop()
            await asyncio.wait(workers)
            saved = (await asyncio.wait(self._saving))[0] if self._saving else set()
        errors = [
            task.exception() for task in [*workers, *saved] if not task.cancelled()
        ]  # retrieve them all
        for error in filter(None, errors):
            raise error

    async def _work(self) -> None:
        while (showing := await self._next()) is not None:
            try:
                outcome, sent = await self._sender.judge(showing)
            except Stopped:
                return
            except ClaimLost:
                self._session.total -= 1
                continue
            saving = asyncio.create_task(self._save(showing.blind.presentation, outcome))
            self._saving.add(saving)
            saving.add_done_callback(self._saved)
            self._check_failures(outcome, sent=sent)

    async def _next(self) -> Showing | None:
        async with self._refilling:
            while not (self._queue or self._exhausted or self._limiter.stopping):
                claimed = await self._session.claim(2 * self._size)
                self._queue.extend(claimed)
                self._exhausted = not claimed and not await self._more_was_freed()
            return self._queue.popleft() if self._queue and not self._limiter.stopping else None

    async def _more_was_freed(self) -> bool:
        """Return whether another run may have left something; a dead one's is free after its lease."""
        run, store = self._session.run, self._session.store
        until = time.monotonic() + run.lease.total_seconds() + LOOK
        before = None
        while True:
            held, going = await self._session.call(store.elsewhere, run)
            if before is not None and held < before:
                return True
            if not held or going or time.monotonic() > until:
                if held:
                    self._session.notices.append(
                        f"{held} of the pairs are another run's, which goes on; run again when it has ended"
                    )
                return False
            if before is None:
                self._session.report(
                    f"waiting whether another run on another machine goes on with its {held} pairs"
                )
            before = held
            try:
                await self._limiter.wait(LOOK)
            except Stopped:
                return False

    async def _save(self, presentation: int, outcome: Choices | JudgeError) -> None:
        if presentation:
            await self._session.save({presentation: outcome})
        else:
            self._session.count([outcome])

    def _saved(self, saving: asyncio.Task[None]) -> None:
        if saving.cancelled() or saving.exception() is None:
            self._saving.discard(saving)
        else:
            self._limiter.stop()  # its error ends the run; `run` finds it

    def _check_failures(self, outcome: Choices | JudgeError, *, sent: bool) -> None:
        """End the run when only failures come; those that the journal has already do not count."""
        if not isinstance(outcome, JudgeError):
            self._in_a_row = 0
            return
        self._in_a_row += sent
        if self._in_a_row >= FAILURES_IN_A_ROW:
            self._limiter.stop()
            raise StudyError(
                f"the judge {self._session.run.rater.name!r} failed {FAILURES_IN_A_ROW} times in a row, last "
                f"with {outcome.kind} ({outcome.detail}); what was answered is saved: fix the server or the "
                "settings and run again"
            )
