"""Ask a judge about pairs whose answer is known; see `judge.calibration`.

It goes the way of all requests: budget, pace, retries, and the journal before anything is read. The keys are
the calibration's own, so that no answer is taken for one of the study's, and none is paid twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from guard_eval.errors import StudyError
from guard_eval.judge_settings import Judge
from guard_eval.store import Store
from judge.calibration import Question
from judge.calibration_answers import FIRST_SAMPLE, of_study
from judge.cost import SAMPLES
from judge.crew import FAILURES_IN_A_ROW
from judge.ledger import Ledger, Progress
from judge.orders import LEASE
from judge.pace import Stopped
from judge.parsing import Parsed, Problem
from judge.rules import Retry, samples
from judge.session import Connect, Session, in_session


def calibrate(
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
    """Ask the judge about the calibration set, and return what it took; see `judge.run.run_judge`.

    Raises:
        StudyError: Only the user can mend it; what was answered until then is saved.
    """
    asked = of_study(store, seed=seed)

    async def work(session: Session) -> Ledger:
        renewing = asyncio.create_task(session.renew())
        try:
            await _Panel(session, total=len(asked), on_progress=on_progress).go(asked)
        finally:
            renewing.cancel()
        return session.close()

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


class _Panel:
    """All questions of a calibration at once, as fast as the server bears."""

    def __init__(
        self, session: Session, *, total: int, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._backend, self._sender = session.backend, session.sender
        self._pace, self._tally = session.pace, session.tally
        self._total = total
        self._on_progress = on_progress
        self._told = 0

    async def go(self, asked: Sequence[Question]) -> None:
        """Ask them; at any end what is under way is received first."""
        tasks = [asyncio.create_task(self._ask(each)) for each in asked]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._pace.stop()
            await asyncio.wait(tasks)
        errors = [task.exception() for task in tasks]
        for error in errors:
            if error is not None and not isinstance(error, Stopped):
                raise error

    async def _ask(self, asked: Question) -> None:
        outcome = await self._outcome(asked)
        if isinstance(outcome, Parsed):
            self._tally.verdicts += 1
        else:
            self._tally.failures[outcome.kind] += 1
        self._tell()
        failed = self._tally.failures.total()
        if isinstance(outcome, Problem) and not self._tally.verdicts and failed >= FAILURES_IN_A_ROW:
            self._pace.stop()
            raise StudyError(
                f"the first {failed} questions all failed, last with {outcome.kind} ({outcome.detail}); what "
                "was answered is saved: mend the server or the settings and run again"
            )

    async def _outcome(self, asked: Question) -> Parsed | Problem:
        outcome: Parsed | Problem
        for again in range(SAMPLES):
            answered = await self._sender.ask(asked.blind, sample=FIRST_SAMPLE + again)
            if isinstance(answered, Problem):
                outcome = answered
            else:
                if answered.usage is None:
                    self._tally.reused += 1
                else:
                    self._tally.count(answered.usage)
                outcome = self._backend.parse(answered.body, answered.form)
            if isinstance(outcome, Parsed) or again + 1 >= samples(outcome.kind):
                break
        return outcome

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        said = self._backend.notices[self._told :]
        self._told = len(self._backend.notices)
        self._on_progress(
            self._tally.progress(total=self._total, requests=self._sender.requests, notices=said)
        )
