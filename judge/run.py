"""Let a model rate what the store hands out: journal first, read then, pay nothing twice.

An answer is in the journal before anything looks at it, so a run may be killed at any moment: the next one
reads what was paid and sends only the rest. A failure is counted, never a verdict and never a tie.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from guard_eval.settings import Judge
from guard_eval.store import Store
from judge.checks import check_criteria
from judge.crew import Crew
from judge.ledger import Ledger, Progress
from judge.orders import LEASE, judge_plan, rater_name
from judge.preview import DryRun, dry_run
from judge.rules import Retry
from judge.session import Connect, Session, in_session

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
    check_criteria(store, judge, store.rater(rater_name(judge), "model"))
    plan = judge_plan(judge, seed=seed, lease=lease)

    def work(session: Session) -> Awaitable[Ledger]:
        return Crew(session, plan, judge.concurrency, on_progress=on_progress).go()

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
    )
