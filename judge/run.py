"""Let a model rate what the store hands out: journal first, read then, pay nothing twice.

An answer is in the journal before anything looks at it, so a run may be killed at any moment: the next one
reads what was paid and sends only the rest. A failure is counted, never a verdict and never a tie.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta

from guard_eval.settings import Judge
from guard_eval.store import JudgeRun, Store
from judge.backend import Backend
from judge.budget import Budget
from judge.checks import check_criteria
from judge.cost import price
from judge.crew import Crew
from judge.journal import Journal
from judge.ledger import Ledger, Progress, Tally
from judge.online import Online
from judge.orders import LEASE, judge_plan, rater_name
from judge.pace import Pace
from judge.preview import DryRun, dry_run, located
from judge.rules import Retry
from judge.sending import Sender

__all__ = ["DryRun", "Ledger", "Progress", "Retry", "dry_run", "run_judge"]

Connect = Callable[[], Backend]
"""Opens a backend; called in the event loop that will use it."""


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
        environ: Where OPENAI_API_KEY and OPENAI_BASE_URL are read; the process's environment by default.

    Raises:
        StudyError: Only the user can mend it; what was answered until then is saved.
    """
    retry = retry or Retry()
    prices = price(located(judge, environ))
    budget = Budget(prices, budget_usd, model=judge.model)
    rater = store.rater(rater_name(judge), "model")
    check_criteria(store, judge, rater)

    def online() -> Backend:
        return Online(judge, seed=seed, environ=environ, timeout=retry.timeout)

    async def go(run: JudgeRun) -> Ledger:
        backend = (connect or online)()
        try:
            async with Journal(store, run, limit_usd=budget_usd) as journal:
                pace = Pace(judge.concurrency)
                sender = Sender(backend, journal, budget=budget, pace=pace, retry=retry, seed=seed)
                crew = Crew(
                    store=store,
                    run=run,
                    plan=judge_plan(judge, seed=seed, lease=lease),
                    size=judge.concurrency,
                    backend=backend,
                    sender=sender,
                    journal=journal,
                    pace=pace,
                    tally=Tally(price=prices),
                    on_progress=on_progress,
                )
                return await crew.go()
        finally:
            await backend.close()

    run = store.begin(rater, lease)
    try:
        return asyncio.run(go(run))
    finally:
        store.end(run)
