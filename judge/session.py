"""What stands around every run that asks a server: backend, journal, pace, budget, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from guard_eval.judge_settings import Judge
from guard_eval.store import JudgeRun, Store
from judge.backend import Backend
from judge.budget import Budget
from judge.cost import price
from judge.journal import Journal
from judge.ledger import Ledger, Tally
from judge.online import Online
from judge.orders import rater_name
from judge.pace import Pace
from judge.preview import located
from judge.rules import Retry
from judge.sending import Sender

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
    pace: Pace
    tally: Tally

    async def renew(self) -> None:
        """Say from time to time that this run lives, so that what it claimed stays its own."""
        while True:
            await asyncio.sleep(self.run.lease.total_seconds() / 3)
            await self.journal.call(self.store.renew, self.run)

    def close(self) -> Ledger:
        """Return what the run took."""
        return self.tally.close(
            requests=self.sender.requests, retries=self.sender.retries, notices=tuple(self.backend.notices)
        )


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
) -> Ledger:
    """Do `work` as a run of the judge, and end the run whatever happens; see `judge.run.run_judge`."""
    asking_again = retry or Retry()
    known = price(located(judge, environ))
    budget = Budget(known, budget_usd, model=judge.model)

    def online() -> Backend:
        return Online(judge, seed=seed, environ=environ, timeout=asking_again.timeout)

    async def go(run: JudgeRun) -> Ledger:
        backend = (connect or online)()
        try:
            async with Journal(store, run, limit_usd=budget_usd) as journal:
                pace = Pace(judge.concurrency)
                session = Session(
                    store=store,
                    run=run,
                    backend=backend,
                    journal=journal,
                    sender=Sender(backend, journal, budget=budget, pace=pace, retry=asking_again, seed=seed),
                    pace=pace,
                    tally=Tally(price=known),
                )
                return await work(session)
        finally:
            await backend.close()

    run = store.begin(store.rater(rater_name(judge), "model"), lease)
    try:
        return asyncio.run(go(run))
    finally:
        store.end(run)
