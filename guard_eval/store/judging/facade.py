"""The part of the store that is for judges: runs and claims, requests and money, the journal, batches.

Whatever a run tells the store at about the same time goes into one transaction, `record`: waiting for the
disk is what costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from guard_eval.records import Plan, Rater
from guard_eval.store.connection import Database
from guard_eval.store.judging import batch_rows, claims, journal, requests, runs, verdicts
from guard_eval.store.judging.journal import Snapshot
from guard_eval.store.judging.requests import LOCK, Outcome
from guard_eval.store.judging.values import (
    Answer,
    Batch,
    BatchRequest,
    Failure,
    JudgeRun,
    Judgment,
    Settlement,
    Showing,
    Spend,
    Unjudged,
    Wanted,
)
from guard_eval.store.opening import OpenDatabase
from guard_eval.store.raters import pool_of
from guard_eval.store.schema import rater as raters

_PART = 200
"""How many presentations' answers are in memory at once."""


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
        """Give up what the run has claimed and not rated."""
        with self._database.write(lock=LOCK) as connection:
            runs.end(connection, run, self._clock())

    def claim(self, run: JudgeRun, plan: Plan, limit: int) -> list[Showing]:
        """Return up to `limit` showings that are this run's from now on, and were not before.

        No two runs hold the same one while their leases hold. First come those that ended runs left.

        Raises:
            StudyError: The plan makes no sense, or the database does not know the rater.
        """
        with self._database.write(lock=pool_of(run.rater)) as connection:
            return self._claims.claim(connection, self._orders, run, plan, now=self._clock(), limit=limit)

    def elsewhere(self, run: JudgeRun) -> tuple[int, bool]:
        """Return how many unrated showings other runs hold, and whether one is known to be going."""
        with self._database.read() as connection:
            return claims.elsewhere(connection, run, self._clock())

    def judge_progress(self, rater: Rater, plan: Plan) -> claims.Progress:
        """Return how far a model is, over all runs: rated, left, and of these in a batch."""
        with self._database.read() as connection:
            return claims.progress(connection, self._orders, rater, plan)

    def waiting(self, name: str, plan: Plan) -> list[Showing]:
        """Return what a model would still be shown, with presentation 0: nothing is handed out."""
        with self._database.read() as connection:
            return claims.waiting(connection, self._orders, name, plan)

    def criteria_judged(self, rater: Rater) -> set[str]:
        """Return the criteria on which the rater has given verdicts."""
        with self._database.read() as connection:
            return verdicts.criteria(connection, rater)

    def record(
        self,
        run: JudgeRun,
        *,
        answers: Sequence[Answer] = (),
        settled: Sequence[Settlement] = (),
        judgments: Sequence[Judgment] = (),
        unjudged: Sequence[Unjudged] = (),
        wanted: Sequence[Wanted] = (),
        limit_usd: float | None = None,
    ) -> list[Outcome]:
        """Write all of this in one transaction, on disk when it returns; return what becomes of `wanted`.

        Args:
            run: Whose it is.
            answers: What came, to be kept before anything looks at it.
            settled: What brought no answer.
            judgments: Verdicts read from answers; what repeats the current choice adds nothing.
            unjudged: Presentations that could not be judged.
            wanted: Requests to be sent: for each one the right to, an answer that is there, or why not.
            limit_usd: What all judges of the study may cost together, over all runs; None for no limit.

        Raises:
            StudyError: A presentation is not of this judge, or the judge is revoked; nothing is written.
            ValueError: There is a limit, and the cost of a request is unknown.
        """
        now = self._clock()
        with self._database.write(lock=LOCK) as connection:
            requests.answered(connection, journal.add(connection, answers), now)
            requests.settle(connection, settled, now)
            verdicts.save(connection, run.rater, judgments, now=now, study_hash=self._study_hash)
            journal.fail(connection, unjudged, now)
            if not wanted:
                return []
            return requests.reserve(connection, run, wanted, now=now, limit_usd=limit_usd)

    def judge_again(self, rater: Rater, judgments: Sequence[Judgment]) -> int:
        """Append verdicts that were read again from the journal; return how many presentations changed.

        Raises:
            StudyError: A presentation was not handed to this rater, or the rater is revoked.
        """
        with self._database.write() as connection:
            return verdicts.save(connection, rater, judgments, now=self._clock(), study_hash=self._study_hash)

    def journal(self, *answers: Answer) -> None:
        """Append answers, on disk when this returns; a second one for the same key is kept too.

        Raises:
            StudyError: There is no such presentation, or a key is empty or too long.
            ValueError: An answer is of nothing in the study, and nothing was reserved for it.
        """
        with self._database.write(lock=LOCK) as connection:
            requests.answered(connection, journal.add(connection, answers), self._clock())

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

    def shown(self, presentations: Sequence[int]) -> list[Showing]:
        """Return what a model was shown under these numbers, in their order."""
        with self._database.read() as connection:
            return claims.shown(connection, presentations)

    def fail(self, presentation: int, kind: str, detail: str) -> None:
        """Note that a presentation could not be judged: counted, never a verdict.

        Raises:
            StudyError: There is no such presentation.
        """
        with self._database.write() as connection:
            journal.fail(
                connection, [Unjudged(presentation=presentation, kind=kind, detail=detail)], self._clock()
            )

    def failures(self) -> list[Failure]:
        """Return the failures whose presentation has no verdict to this day, oldest first."""
        with self._database.read() as connection:
            return journal.failures(connection)

    def spend(self) -> list[Spend]:
        """Return what each judge has taken so far, over all runs, by name."""
        with self._database.read() as connection:
            return journal.spend(connection)

    def snapshots(self) -> list[Snapshot]:
        """Return which models each judge's answers came from, by its name, in the order first seen."""
        with self._database.read() as connection:
            return journal.snapshots(connection)

    def add_batch(
        self, run: JudgeRun, wanted: Sequence[Wanted], *, limit_usd: float | None = None
    ) -> tuple[Batch, list[Outcome]]:
        """Make a batch of those requests that may be sent, with their money set aside; see `record`.

        Until the batch is closed, nobody else claims or sends what is in it.
        """
        with self._database.write(lock=LOCK) as connection:
            return batch_rows.add(connection, run, wanted, now=self._clock(), limit_usd=limit_usd)

    def update_batch(self, number: int, **values: str | None) -> None:
        """Note a batch's `provider_id`, `input_file`, `output_file`, `error_file` or `status`.

        Raises:
            StudyError: There is no such batch.
        """
        with self._database.write() as connection:
            batch_rows.change(connection, number, values)

    def close_batch(self, number: int, *, billed: bool = False) -> int:
        """Note that a batch brings nothing more; return how many of its requests have no answer.

        They may be sent again; unless `billed` their money is free.
        """
        with self._database.write(lock=LOCK) as connection:
            return batch_rows.close(connection, number, billed=billed, now=self._clock())

    def adopt_batches(self, run: JudgeRun) -> list[Batch]:
        """Take the judge's batches that no run looks after; return this run's that are not done."""
        with self._database.write(lock=pool_of(run.rater)) as connection:
            return batch_rows.adopt(connection, run, self._clock())

    def batches(self, judge: str | None = None) -> list[Batch]:
        """Return all batches, or one judge's, oldest first."""
        with self._database.read() as connection:
            return batch_rows.read(connection, *([] if judge is None else [raters.c.name == judge]))

    def batch_requests(self, number: int) -> list[BatchRequest]:
        """Return what is in a batch; a request's key is its custom id."""
        with self._database.read() as connection:
            return batch_rows.requests_of(connection, number)
