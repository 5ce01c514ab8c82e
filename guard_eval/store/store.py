"""The store as every room sees it: one object, one database, each call one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guard_eval.records import BlindPair, Choice, Gold, NoteKind, Pair, Plan, Rater, RaterKind
from guard_eval.store import gold, notes, pairs, raters, schema, showing, unblind, verdicts
from guard_eval.store.handout import queue, roster
from guard_eval.store.judging.facade import Judging
from guard_eval.store.rows import Balance, CheckRow, HistoryRow, TidyRow
from guard_eval.store.values import Note, RaterProgress, Saved


class Store(Judging):
    """A study's database; threads may share one, processes and machines each open their own.

    Every method is one transaction. Every method raises `StudyError` when the database cannot be used.
    """

    def add_pairs(self, new: Sequence[Pair]) -> int:
        """Add the pairs that are not stored yet; return their number.

        Raises:
            StudyError: A pair is stored with other content.
        """
        with self._database.write(lock="pairs", also=raters.PEOPLE) as connection:
            return pairs.add_pairs(connection, new)

    def add_gold(self, new: Sequence[Gold]) -> int:
        """Add the gold pairs that are not stored yet; return their number.

        Raises:
            StudyError: A pair is stored with other content or another answer, is one of the study's, or its
                answer is empty or names neither text.
        """
        with self._database.write(lock="pairs") as connection:
            return gold.add_gold(connection, new)

    def gold(self) -> list[Gold]:
        """Return the gold pairs with their answers, in position order."""
        with self._database.read() as connection:
            return gold.all_gold(connection)

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

    def link(self, name: str) -> str:
        """Return a new token for a person; those given before let nobody in any more.

        Raises:
            StudyError: There is no such rater, it is no person, or it is revoked.
        """
        with self._database.write(lock="raters") as connection:
            return raters.link(connection, name)

    def enrol(self, external_id: str, source: str) -> tuple[Rater, str]:
        """Return who comes under this id from a source such as `prolific`, and a token that lets it in.

        The first time it is a new person, named P-1, P-2, …; later the same one, and its other tokens stay
        good. A revoked rater's token lets nobody in.

        Raises:
            StudyError: The id or the source is empty or too long.
        """
        with self._database.write(lock="raters") as connection:
            return raters.enrol(connection, external_id, source, self._clock())

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

    def exclude(self, name: str, reason: str, by: str) -> None:
        """Leave a rater's verdicts out and free its slots; nothing is deleted, and the decision is noted.

        Raises:
            StudyError: There is no such rater, it is excluded already, or nobody or no reason is given.
        """
        with self._database.read() as connection:
            who = raters.find(connection, name)
        with self._database.write(lock=raters.pool_of(who)) as connection:
            notes.exclude(connection, who, reason, by, self._clock())

    def include(self, name: str, reason: str, by: str) -> None:
        """Take an excluded rater in again; what it rated counts where nobody else has the slot by now.

        Raises:
            StudyError: There is no such rater, it is not excluded, or nobody or no reason is given.
        """
        with self._database.read() as connection:
            who = raters.find(connection, name)
        with self._database.write(lock=raters.pool_of(who)) as connection:
            notes.include(connection, who, reason, by, self._clock())

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

    def assign(self, names: Sequence[str], plan: Plan) -> int:
        """Plan a roster: keep the slots of all pairs nobody was shown for these people; return how many.

        Sides are then even within one per rater and method (`roster` says in which designs), and a kept slot
        is nobody else's until its rater is revoked or excluded.

        Raises:
            StudyError: A name is unknown, revoked, excluded, no person's, or given twice; no pair is left; or
                the quota is too small.
        """
        queue.check(plan)
        with self._database.write(lock=raters.PEOPLE) as connection:
            return roster.assign(connection, names, plan)

    def hand_out(self, rater: Rater, plan: Plan, *, limit: int = 1) -> list[BlindPair]:
        """Return up to `limit` pairs: first the rater's own unrated ones, with a new lease, then free slots.

        None are returned when none is left, or when the rater is revoked.

        Raises:
            StudyError: The plan has no slots, or the database does not know the rater.
        """
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            return queue.hand_out(connection, self._orders, rater, plan, now=self._clock(), limit=limit)

    def progress(self, rater: Rater, plan: Plan) -> tuple[int, int]:
        """Return how many presentations the rater has rated, and how many it can still get or has open.

        Raises:
            StudyError: The plan has no slots, or the database does not know the rater.
        """
        with self._database.read() as connection:
            if queue.is_ready(connection, rater, plan):
                return queue.progress(connection, self._orders, rater, plan, now=self._clock())
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            queue.make_ready(connection, rater, plan)
            return queue.progress(connection, self._orders, rater, plan, now=self._clock())

    def save(
        self,
        presentation: int,
        choices: Mapping[str, Choice],
        *,
        rater: Rater,
        seconds: float | None = None,
        active_seconds: float | None = None,
        comment: str | None = None,
        problem: str | None = None,
    ) -> Saved:
        """Append a verdict on each criterion, with its remarks; all is on disk when this returns.

        What repeats the current choice or the last remark adds nothing; an empty remark takes the last one
        back, None leaves it. A duration that is negative or not finite is stored as unknown.

        Raises:
            StudyError: The presentation was not handed to this rater, the rater is revoked, there is no
                choice, or one that is none of the three, or a remark is too long.
        """
        verdicts.check_choices(choices)
        remarks: dict[NoteKind, str | None] = {"comment": comment, "problem": problem}
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
                remarks={kind: text for kind, text in remarks.items() if text is not None},
            )

    def current(self, presentation: int, *, rater: Rater) -> dict[str, Choice]:
        """Return the choices of the highest revisions by criterion; none if there is no verdict yet.

        Raises:
            StudyError: The presentation was not handed to this rater.
        """
        with self._database.read() as connection:
            return verdicts.current(connection, presentation, rater=rater)

    def trail(self, rater: Rater) -> list[int]:
        """Return the rater's rated presentations of all visits, oldest first, checks among the rest."""
        with self._database.read() as connection:
            return showing.trail(connection, rater)

    def presented(self, presentation: int, *, rater: Rater) -> BlindPair:
        """Return once more what the rater was shown, on the same sides.

        Raises:
            StudyError: The presentation was not handed to this rater.
        """
        with self._database.read() as connection:
            showing.claim(connection, presentation, rater)
            return showing.blind(connection, [presentation])[0]

    def note(self, rater: Rater, kind: NoteKind, detail: str, *, presentation: int | None = None) -> None:
        """Append a note on a rater, or on what it was shown; it is on disk when this returns.

        Raises:
            StudyError: The database does not know the rater, the presentation was not handed to it, or the
                note is too long.
            ValueError: There is no such kind, or `exclude` and `include` are meant, which write it.
        """
        with self._database.write() as connection:
            notes.write(connection, rater, kind, detail, now=self._clock(), presentation=presentation)

    def notes(
        self,
        *,
        rater: Rater | str | None = None,
        kind: NoteKind | None = None,
        presentation: int | None = None,
    ) -> list[Note]:
        """Return all notes, or those of a rater, of a kind, or on a presentation, oldest first."""
        name = rater.name if isinstance(rater, Rater) else rater
        with self._database.read() as connection:
            return notes.read(connection, name=name, kind=kind, presentation=presentation)

    def study_hash(self) -> str | None:
        """Return the settings' hash as the first verdict found it; None before that."""
        with self._database.read() as connection:
            return schema.study_hash(connection)

    def tidy(self, *, include_surplus: bool = False, include_excluded: bool = False) -> list[TidyRow]:
        """Return the study's current verdicts, un-blinded, by position, rater, presentation, criterion.

        Gold pairs and repeats are no part of the study. What is surplus or an excluded rater's is left out
        by default.
        """
        with self._database.read() as connection:
            return unblind.tidy(
                connection, include_surplus=include_surplus, include_excluded=include_excluded
            )

    def history(self) -> list[HistoryRow]:
        """Return every revision of every verdict, un-blinded, by presentation, criterion and revision."""
        with self._database.read() as connection:
            return unblind.history(connection)

    def checks(self) -> list[CheckRow]:
        """Return how raters did on gold pairs and repeats, excluded ones among them, in the order shown."""
        with self._database.read() as connection:
            return unblind.checks(connection)

    def balance(self) -> Balance:
        """Return on which side the methods stood in the verdicts that count, per rater and per pair."""
        with self._database.read() as connection:
            return unblind.balance(connection)
