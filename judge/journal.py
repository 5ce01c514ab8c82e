"""Write the requests and verdicts of a run to the store."""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.servers.failures import RequestFailure
from guard_eval.store import Store, raters
from guard_eval.store import settings as store_settings
from guard_eval.store.judging import calibration, requests
from guard_eval.store.judging.group_commit import GroupCommit
from guard_eval.store.judging.requests import LEASE, PlannedRequest, Question, Reservation
from guard_eval.store.verdicts import save_judged
from guard_eval.study.judge_settings import Judge
from judge.decide import Verdict


class Journal:
    """Writes to the store for one run of one judge.

    Attributes:
        store: The study's database.
        rater: The judge as a rater.
        run: The name of the run in the store.
        settings: A hash (64 digits) of all settings that change the judge's requests.
    """

    def __init__(self, store: Store, judge: Judge, *, settings: str, limit: int | None) -> None:
        """Check that the judge may rate, and store the wording of its criteria.

        Args:
            store: The study's database.
            judge: The study's settings for the judge.
            settings: A hash (64 digits) of all settings that change the judge's requests.
            limit: The highest total cost of all requests of the study, in billionths of a US dollar.

        Raises:
            StudyError: The judge is revoked or excluded.
        """
        self.store = store
        self.rater = raters.get_or_add(store, judge.rater_name, "model")
        self.settings = settings
        self.run = secrets.token_hex(8)
        self._limit = limit
        self.write = GroupCommit(store).write
        with store.read() as db:
            requests.check_judge(db, self.rater)
        store_settings.set_criteria(store, {criterion.name: str(criterion) for criterion in judge.rubric})

    async def reserve_request(self, planned: PlannedRequest) -> Reservation:
        """Reserve the cost of a request, if it may be sent now."""
        return cast("Reservation", await self.write(self._reserve_requests, planned))

    def reserve_batch(self, planned: Sequence[PlannedRequest], batch: str) -> list[Reservation]:
        """Reserve the costs of a batch's requests."""
        with self.store.write() as (db, now):
            return self._reserve_requests(db, now, planned, batch)

    def _reserve_requests(
        self, db: Connection, now: datetime, planned: Sequence[PlannedRequest], batch: str | None = None
    ) -> list[Reservation]:
        return requests.reserve_requests(
            db, planned, judge=self.rater, run=self.run, now=now, limit=self._limit, batch=batch
        )

    async def note_failure(self, error: RequestFailure) -> None:
        """Store the reason why an answer gave no verdict."""
        if error.row is not None:
            await self.write(requests.note_failures, (error.row, error.kind, error.detail))

    async def save_verdict(self, question: Question, verdict: Verdict) -> None:
        """Save a verdict of the study, or an answer of the calibration."""
        if question.check is None:
            await self.write(self._save_verdicts, (question, verdict.choices))
        else:
            await self.write(self._save_check_answers, (question, verdict.choices))

    def _save_verdicts(self, db: Connection, now: datetime, verdicts: list[Any]) -> None:
        save_judged(db, self.rater, verdicts, now=now, declared=self.store.declared_now)

    def _save_check_answers(self, db: Connection, now: datetime, answers: list[Any]) -> None:
        calibration.keep_answers(db, now, self.settings, answers)

    async def keep_renewing_lease(self) -> None:
        """Renew the lease of open requests before it ends.

        Raises:
            StudyError: The lease cannot be renewed. When it ends, another run may send the same requests.
        """
        seconds = LEASE.total_seconds()
        while True:
            await asyncio.sleep(seconds / 3)
            try:
                async with asyncio.timeout(seconds / 2):
                    await self.extend_lease(LEASE)
            except TimeoutError:
                raise StudyError(
                    f"another program has locked {self.store.name} for {seconds / 2:g} seconds, so nothing "
                    "more is sent. All answers are saved. End that program, then run this command again"
                ) from None

    async def extend_lease(self, lease: timedelta) -> None:
        """Extend the lease of the run's open requests by this time from now."""
        await self.write(self._extend_lease, lease)

    def _extend_lease(self, db: Connection, now: datetime, leases: list[timedelta]) -> None:
        requests.renew_lease(db, self.run, now + leases[-1])
