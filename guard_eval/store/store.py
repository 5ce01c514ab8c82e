"""The store as every room sees it: one object, one database, each call one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from guard_eval.records import BlindPair, Choice, Pair, Rater, RaterKind
from guard_eval.store import handout, journal, meta, pairs, raters, unblind, upgrade, verdicts, waiting
from guard_eval.store.connection import Database
from guard_eval.store.values import Answer, Failure, Plan, RaterProgress, Saved, TidyRow


def _now() -> datetime:
    return datetime.now(UTC)


class Store:
    """A study's database; threads may share one, processes and machines each open their own.

    Every method is one transaction. Every method raises `StudyError` when the database cannot be used.
    """

    def __init__(self, database: Database, *, study_hash: str | None, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._study_hash = study_hash
        self._clock = clock
        self._orders = handout.Orders()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        study_hash: str | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> Self:
        """Open the database at `url`.

        Args:
            url: `sqlite:///file` or `postgresql+psycopg://user@host/database`.
            create: Make the file and the schema where they are missing, and bring an older schema up to date.
            study_hash: `Study.hash`, to be kept with the first verdict.
            clock: What says the time, with a time zone.

        Raises:
            StudyError: There is no such database, it is not a study's, its schema is newer than this package
                knows, its folder is not writable or its server not reachable. No message holds a password.
        """
        database = Database(url)
        try:
            upgrade.prepare(database, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database, study_hash=study_hash, clock=clock)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_pairs(self, new: Sequence[Pair]) -> int:
        """Add the pairs that are not there yet; return how many that were.

        Raises:
            StudyError: A pair is there with other content.
        """
        with self._database.write(lock="pairs") as connection:
            return pairs.add_pairs(connection, new)

    def pairs(self) -> list[Pair]:
        """Return all pairs, un-blinded, in position order: for the report and the export only."""
        with self._database.read() as connection:
            return pairs.all_pairs(connection)

    def invite(self, name: str) -> tuple[Rater, str]:
        """Add a person; return it and the token that lets it in, which is kept nowhere.

        Raises:
            StudyError: The name is taken, empty or too long.
        """
        with self._database.write(lock="raters") as connection:
            return raters.invite(connection, name, self._clock())

    def sign_in(self, token: str) -> Rater | None:
        """Return whose token it is; None for one that is unknown or revoked."""
        with self._database.read() as connection:
            return raters.sign_in(connection, token)

    def revoke(self, name: str) -> None:
        """Let a rater in no more and free the slots it has not rated; its verdicts stay.

        Raises:
            StudyError: There is no such rater.
        """
        with self._database.read() as connection:
            who = raters.find(connection, name)
        with self._database.write(lock=raters.pool_of(who)) as connection:
            raters.revoke(connection, who, self._clock())

    def rater(self, name: str, kind: RaterKind) -> Rater:
        """Return the rater of that name, added if it is new: for models and simulations.

        Raises:
            StudyError: The name belongs to a rater of another kind.
        """
        with self._database.write(lock="raters") as connection:
            return raters.get_or_add(connection, name, kind, self._clock())

    def raters(self) -> list[RaterProgress]:
        """Return every rater with its counts, in the order they were added."""
        with self._database.read() as connection:
            return raters.progress(connection)

    def hand_out(self, rater: Rater, plan: Plan, *, limit: int = 1) -> list[BlindPair]:
        """Return up to `limit` pairs: first the rater's own unrated ones, with a new lease, then free slots.

        None are returned when none is left, or when the rater is revoked.

        Raises:
            StudyError: The plan has no slots, or the database does not know the rater.
        """
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            return handout.hand_out(connection, self._orders, rater, plan, now=self._clock(), limit=limit)

    def progress(self, rater: Rater, plan: Plan) -> tuple[int, int]:
        """Return how many presentations the rater has rated, and how many it can still get or has open.

        Raises:
            StudyError: The plan has no slots, or the database does not know the rater.
        """
        with self._database.read() as connection:
            return handout.progress(connection, self._orders, rater, plan, now=self._clock())

    def waiting(self, model: str, plan: Plan) -> list[BlindPair]:
        """Return what a model would still be shown, with presentation 0: nothing is handed out."""
        with self._database.read() as connection:
            return waiting.waiting(connection, self._orders, model, plan)

    def save(
        self,
        presentation: int,
        choices: Mapping[str, Choice],
        *,
        rater: Rater,
        seconds: float | None = None,
        active_seconds: float | None = None,
    ) -> Saved:
        """Append a verdict on each criterion; it is on disk when this returns.

        A choice that repeats the current one adds nothing. A duration that is negative or not finite is
        stored as unknown.

        Raises:
            StudyError: The presentation was not handed to this rater, the rater is revoked, there is no
                choice, or one that is none of the three.
        """
        verdicts.check_choices(choices)
        with self._database.write() as connection:
            return verdicts.save(
                connection,
                presentation,
                choices,
                rater=rater,
                now=self._clock(),
                seconds=seconds,
                active_seconds=active_seconds,
                study_hash=self._study_hash,
            )

    def current(self, presentation: int, *, rater: Rater) -> dict[str, Choice]:
        """Return the choices of the highest revisions by criterion; none if there is no verdict yet.

        Raises:
            StudyError: The presentation was not handed to this rater.
        """
        with self._database.read() as connection:
            return verdicts.current(connection, presentation, rater=rater)

    def study_hash(self) -> str | None:
        """Return the settings' hash as the first verdict found it; None before that."""
        with self._database.read() as connection:
            return meta.study_hash(connection)

    def tidy(self, *, include_surplus: bool = False) -> list[TidyRow]:
        """Return every current verdict, un-blinded, by pair's position, rater, presentation and criterion."""
        with self._database.read() as connection:
            return unblind.tidy(connection, include_surplus=include_surplus)

    def journal(self, answer: Answer) -> None:
        """Append a judge's answer, on disk when this returns; a second one for the same key is kept too.

        Raises:
            StudyError: There is no such presentation, or the key is empty or too long.
        """
        with self._database.write(lock=f"answer:{answer.key}") as connection:
            journal.add(connection, answer)

    def answers(self) -> dict[str, Answer]:
        """Return the newest complete answer by key; complete is HTTP 200."""
        with self._database.read() as connection:
            return journal.complete(connection)

    def fail(self, presentation: int, kind: str, detail: str) -> None:
        """Note that a presentation could not be judged: counted, never a verdict.

        Raises:
            StudyError: There is no such presentation.
        """
        with self._database.write() as connection:
            journal.fail(connection, presentation, kind, detail, self._clock())

    def failures(self) -> list[Failure]:
        """Return the failures whose presentation has no verdict to this day, oldest first."""
        with self._database.read() as connection:
            return journal.failures(connection)
