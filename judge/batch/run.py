"""A run in batches, from the study's settings to its ledger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta

from guard_eval.store import JudgeRun, Store
from guard_eval.study.judge_settings import Judge
from judge.batch.api import BatchApi
from judge.batch.collecting import Collector, Patience
from judge.batch.results import Reader
from judge.batch.runner import BatchRunner
from judge.batch.state import BatchState
from judge.checks import check_criteria
from judge.client import Client
from judge.cost import price
from judge.journal import Journal
from judge.ledger import Ledger, Progress, Tally
from judge.orders import LEASE, judge_plan, rater_name
from judge.preview import with_server_url
from judge.prices import Budget
from judge.request import RequestBuilder
from judge.retry import Retry

CALL = 120.0
"""Seconds until a call that makes or looks at a batch is tried again; the batch itself takes hours."""


def run_batches(
    store: Store,
    judge: Judge,
    *,
    seed: int,
    lease: timedelta = LEASE,
    budget_usd: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    retry: Retry | None = None,
    patience: Patience | None = None,
    environ: Mapping[str, str] | None = None,
    plain_http: bool = False,
) -> Ledger:
    """Judge everything that is left for this judge in batches, and return what it took.

    It waits until they are done. Stopped by Ctrl-C, the batches go on at the provider, and the next run
    takes them over.

    Args:
        store: The study's database.
        judge: The study's settings for this judge; its name, or else its model's, is the rater's.
        seed: The study's seed.
        lease: How long what this run claimed stays its own after it was last heard of.
        budget_usd: What all judges of the study may cost together, over all runs; None for no limit.
        on_progress: Called whenever something is known that was not, from this thread.
        retry: When to ask again; the defaults by default.
        patience: How often to ask how far a batch is; the defaults by default.
        environ: Where the key and OPENAI_BASE_URL are read; the process's environment by default.
        plain_http: Whether a key may go over plain http to another machine.

    Raises:
        StudyError: Only the user can fix it; what was answered until then is saved.
    """
    retry, patience = retry or Retry(), patience or Patience()
    known = price(with_server_url(judge, environ))
    prices = None if known is None else known.in_batch()
    budget = Budget(prices, budget_usd, model=judge.model)
    rater = store.rater(rater_name(judge), "model")
    check_criteria(store, judge, rater)

    alone = judge.model_copy(update={"concurrency": 1, "timeout": CALL})  # one connection is enough

    async def go(run: JudgeRun) -> Ledger:
        async with (
            Client(alone, environ=environ, timeout=retry.timeout, plain_http=plain_http) as client,
            Journal(store, run, limit_usd=None) as journal,
        ):
            builder = RequestBuilder(judge, seed=seed)
            api = BatchApi(client, retry=retry, seed=seed)
            state = BatchState(
                store=store,
                run=run,
                plan=judge_plan(judge, seed=seed, lease=lease),
                journal=journal,
                builder=builder,
                tally=Tally(price=prices),
                on_progress=on_progress,
            )
            reader = Reader(client.refusals, budget=budget, builder=builder)
            collector = Collector(state, api, reader, patience)
            runner = BatchRunner(state, api, collector, builder=builder, budget=budget)
            renewing = asyncio.create_task(state.renew())
            try:
                return await runner.run()
            finally:
                renewing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await renewing

    run = store.begin(rater, lease)
    try:
        return asyncio.run(go(run))
    finally:
        store.end(run)
