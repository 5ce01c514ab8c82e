"""The part of the store that is for judges: runs and claims, requests and money, the journal, batches.

Whatever a run writes at about the same time goes into one transaction, `record`: waiting for the disk is what
costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import insert, or_, select, update

from guard_eval.errors import StudyError
from guard_eval.records import JudgeSpending, ModelSeen, Plan, Rater
from guard_eval.store.connection import Database
from guard_eval.store.judging import claims, journal, requests, runs, verdicts
from guard_eval.store.judging.requests import LOCK, Outcome
from guard_eval.store.judging.schema import batch, request
from guard_eval.store.judging.values import (
    Answer,
    BatchRequest,
    Failure,
    JudgeBatch,
    JudgeProgress,
    JudgeRun,
    Judgment,
    PlannedRequest,
    Settlement,
    Showing,
    Unjudged,
)
from guard_eval.store.opening import OpenDatabase
from guard_eval.store.raters import pool_of

_PART = 200
"""How many presentations' answers are in memory at once."""

_DONE = "done"
"""The status of a batch in which everything is settled."""

_BATCH = tuple(column for column in batch.c if column.name not in ("rater_id", "run_id"))
_CHANGEABLE = {"provider_id", "input_file", "output_file", "error_file", "status"}


class Judging(OpenDatabase):
    """What a judge needs of the store; every method is one transaction."""

    def __init__(self, database: Database, *, study_hash: str | None, clock: Callable[[], datetime]) -> None:
        super().__init__(database, study_hash=study_hash, clock=clock)
        self._claims = claims.Claims()

    def begin(self, rater: Rater, lease: timedelta) -> JudgeRun:
        """Note that this process lets a model rate; what ended runs had under way counts as lost.

        Raises:
            StudyError: The rater is revoked, or the database does not know it.
        """
        with self._database.write(lock=LOCK) as connection:
            return runs.begin(connection, rater, lease, self._clock())

    def renew(self, run: JudgeRun) -> None:
        """Let the run's claims hold for one more lease from now."""
        with self._database.write() as connection:
            runs.renew(connection, run, self._clock())

    def end(self, run: JudgeRun) -> None:
        """Give up what the run has claimed and not rated; what it sent without an answer counts as lost."""
        with self._database.write(lock=LOCK) as connection:
            runs.end(connection, run, self._clock())

    def claim(self, run: JudgeRun, plan: Plan, limit: int) -> list[Showing]:
        """Return up to `limit` showings that are this run's from now on, and were not before.

        No two runs hold the same one while their leases hold. First come those that ended runs left. A rater
        that is revoked or excluded gets none.

        Raises:
            StudyError: The plan makes no sense, or the database does not know the rater.
        """
        with self._database.write(lock=pool_of(run.rater)) as connection:
            return self._claims.claim(connection, self._orders, run, plan, now=self._clock(), limit=limit)

    def elsewhere(self, run: JudgeRun) -> tuple[int, bool]:
        """Return how many unrated showings other runs hold, and whether one is known to be going."""
        with self._database.read() as connection:
            return claims.elsewhere(connection, run, self._clock())

    def judge_progress(self, rater: Rater, plan: Plan) -> JudgeProgress:
        """Return how far a model is, over all runs and for all that `plan` shows it."""
        with self._database.read() as connection:
            return claims.progress(connection, self._orders, rater, plan)

    def waiting(self, name: str, plan: Plan) -> list[Showing]:
        """Return what a model would still be shown, with presentation 0: nothing is handed out."""
        with self._database.read() as connection:
            return claims.waiting(connection, self._orders, name, plan)

    def shown(self, presentations: Sequence[int]) -> list[Showing]:
        """Return what a model was shown under these numbers, in their order."""
        with self._database.read() as connection:
            return claims.shown(connection, presentations)

    def record(
        self,
        run: JudgeRun,
        *,
        answers: Sequence[Answer] = (),
        settled: Sequence[Settlement] = (),
        judgments: Sequence[Judgment] = (),
        unjudged: Sequence[Unjudged] = (),
        planned: Sequence[PlannedRequest] = (),
        limit_usd: float | None = None,
    ) -> list[Outcome]:
        """Write all of this in one transaction, on disk when it returns; return what becomes of `planned`.

        Args:
            run: Whose it is.
            answers: What came, stored before anything reads it.
            settled: What brought no answer.
            judgments: Verdicts read from answers; what repeats the current choice adds nothing.
            unjudged: Presentations that could not be judged.
            planned: Requests to be sent: for each one the right to, its answer if there is one, or why not.
            limit_usd: What all judges of the study may cost together, over all runs; None for no limit.

        Raises:
            StudyError: A presentation is not of this judge, or the judge is revoked; nothing is written.
            ValueError: There is a limit, and the cost of a request is unknown.
        """
        now = self._clock()
        with self._database.write(lock=LOCK) as connection:
            journal.add(connection, answers)
            requests.settle(connection, [*answers, *settled], now)
            verdicts.save(connection, run.rater, judgments, now=now, study_hash=self._study_hash)
            journal.fail(connection, unjudged, now)
            if not planned:
                return []
            return requests.reserve(connection, run, planned, now=now, limit_usd=limit_usd)

    def judge_again(self, rater: Rater, judgments: Sequence[Judgment]) -> int:
        """Append verdicts that were read again from the journal; return how many presentations changed.

        Raises:
            StudyError: A presentation was not handed to this rater, or the rater is revoked.
        """
        with self._database.write() as connection:
            return verdicts.save(connection, rater, judgments, now=self._clock(), study_hash=self._study_hash)

    def criteria_judged(self, rater: Rater) -> set[str]:
        """Return the criteria on which the rater has given verdicts."""
        with self._database.read() as connection:
            return verdicts.criteria(connection, rater)

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the newest complete answer by key, where there is one; complete is HTTP 200."""
        with self._database.read() as connection:
            return journal.complete(connection, keys)

    def answered(self) -> set[str]:
        """Return the keys that have a complete answer."""
        with self._database.read() as connection:
            return journal.keys(connection)

    def answers_of(self, judge: str) -> Iterator[Answer]:
        """Yield the complete answers of the judge of that name, by presentation, of each the oldest first."""
        with self._database.read() as connection:
            numbers = journal.judged(connection, judge)
        for start in range(0, len(numbers), _PART):
            with self._database.read() as connection:
                part = journal.of(connection, numbers[start : start + _PART])
            yield from part

    def failures(self) -> list[Failure]:
        """Return the failures whose presentation has no verdict to this day, oldest first."""
        with self._database.read() as connection:
            return journal.failures(connection)

    def spending(self) -> list[JudgeSpending]:
        """Return what each judge that was ever asked has taken so far, over all runs, by name."""
        with self._database.read() as connection:
            return journal.spending(connection)

    def models_seen(self) -> list[ModelSeen]:
        """Return which models each judge's answers came from, by its name, in the order first seen."""
        with self._database.read() as connection:
            return journal.models(connection)

    def add_batch(
        self, run: JudgeRun, planned: Sequence[PlannedRequest], *, limit_usd: float | None = None
    ) -> tuple[JudgeBatch, list[Outcome]]:
        """Make a batch of those requests that may be sent, with their money set aside; see `record`.

        Until the batch is closed, nobody else claims or sends what is in it.
        """
        now = self._clock()
        values = {"rater_id": run.rater.id, "run_id": run.id, "status": "new", "made_at": now}
        with self._database.write(lock=LOCK) as connection:
            made = connection.execute(insert(batch).values(values).returning(*_BATCH)).mappings().one()
            outcomes = requests.reserve(
                connection, run, planned, now=now, limit_usd=limit_usd, batch_id=made["id"]
            )
        return JudgeBatch(**made), outcomes

    def update_batch(self, number: int, **values: str | None) -> None:
        """Note a batch's `provider_id`, `input_file`, `output_file`, `error_file` or `status`.

        Raises:
            StudyError: There is no such batch.
            ValueError: A name is none of these.
        """
        if unknown := set(values) - _CHANGEABLE:
            raise ValueError(f"a batch has no {', '.join(sorted(unknown))}")
        with self._database.write() as connection:
            if connection.execute(update(batch).where(batch.c.id == number).values(values)).rowcount != 1:
                raise StudyError(f"there is no batch {number} in this study")

    def close_batch(self, number: int, *, billed: bool = False) -> int:
        """Note that a batch brings nothing more; return how many of its requests have no answer.

        They may be sent again; unless `billed` their money is free.
        """
        left = (request.c.batch_id == number, request.c.state == "open")
        values: dict[str, object] = {"state": "lost"} if billed else {"state": "released", "booked": 0}
        values["settled_at"] = self._clock()
        with self._database.write(lock=LOCK) as connection:
            count = connection.execute(update(request).where(*left).values(values)).rowcount
            connection.execute(update(batch).where(batch.c.id == number).values(status=_DONE))
        return count

    def adopt_batches(self, run: JudgeRun) -> list[JudgeBatch]:
        """Take the judge's batches that no run looks after; return this run's that are not done."""
        unfinished = (batch.c.rater_id == run.rater.id, batch.c.status != _DONE)
        with self._database.write(lock=pool_of(run.rater)) as connection:
            others = [each for each in runs.live(connection, run.rater, self._clock()) if each != run.id]
            free = or_(batch.c.run_id.is_(None), batch.c.run_id.not_in(others))
            connection.execute(update(batch).where(*unfinished, free).values(run_id=run.id))
            mine = select(*_BATCH).where(*unfinished, batch.c.run_id == run.id).order_by(batch.c.id)
            return [JudgeBatch(**row) for row in connection.execute(mine).mappings()]

    def batch_requests(self, number: int) -> list[BatchRequest]:
        """Return what is in a batch and not settled; a request's key is its custom id."""
        columns = (
            request.c.key,
            request.c.attempt,
            request.c.presentation_id.label("presentation"),
            request.c.shape,
        )
        left = select(*columns).where(request.c.batch_id == number, request.c.state == "open")
        with self._database.read() as connection:
            rows = connection.execute(left.order_by(request.c.presentation_id, request.c.key)).mappings()
            return [BatchRequest(**row) for row in rows]
