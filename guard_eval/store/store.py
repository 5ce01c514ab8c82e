"""The store as every room sees it: one object, one database, each call one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import (
    BlindPair,
    Choice,
    Gold,
    JudgeSpending,
    ModelSeen,
    NoteKind,
    Pair,
    Plan,
    Rater,
    RaterKind,
)
from guard_eval.store import erasure, notes, pairs, raters, schema, skips, unblind, upgrade, verdicts
from guard_eval.store.connection import Database
from guard_eval.store.handout import places, queue, roster
from guard_eval.store.handout.places import Enrolment
from guard_eval.store.judging import batch_rows, exchanges, journal, requests, runs
from guard_eval.store.judging.requests import LOCK, Outcome
from guard_eval.store.judging.values import (
    Answer,
    BatchRequest,
    Exchange,
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
from guard_eval.store.notes import Note
from guard_eval.store.raters import RaterProgress
from guard_eval.store.skips import Skip
from guard_eval.store.unblind import CheckRow, HistoryRow, TidyRow
from guard_eval.store.verdicts import Saved

_PART = 200
"""How many presentations' answers are in memory at once."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Store:
    """A study's database; threads may share one, processes and machines each open their own.

    Every method is one transaction. Every method raises `StudyError` when the database cannot be used.
    """

    def __init__(self, database: Database, *, study_hash: str | None, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._study_hash = study_hash
        self._clock = clock
        self._claims = runs.Claims()
        self._sent = requests.SentRequests(database)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = False,
        study_hash: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Open the database at `url`.

        Args:
            url: `sqlite:///file` or `postgresql+psycopg://user@host/database`.
            create: Make the file and the schema where they are missing, and bring an older schema up to date.
            study_hash: `Study.hash`, to be kept with the first verdict.
            clock: What says the time, with a time zone; default: this machine, or the database's server.

        Raises:
            StudyError: There is no such database, it is not a study's, its schema is unknown to this package,
                its folder is not writable or its server not reachable. No message holds a password.
        """
        database = Database(url)
        try:
            upgrade.prepare(database, create=create)
        except BaseException:
            database.close()
            raise
        return cls(database, study_hash=study_hash, clock=clock or database.clock)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(
        self,
        function: Callable[Concatenate[Connection, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Call a function with a connection that sees one state of the database."""
        with self._database.read() as connection:
            return function(connection, *args, **kwargs)

    def add_pairs(self, new: Sequence[Pair]) -> int:
        """Add the pairs that are not stored yet; return their number.

        Raises:
            StudyError: A pair is stored with other content.
        """
        with self._database.write(lock="pairs", also=raters.PEOPLE) as connection:
            return pairs.add_pairs(connection, new)

    def fixed_pairs(self) -> str | None:
        """Return why the study's pairs cannot be drawn again, ever or just now; None where they can."""
        return self._read(pairs.why_fixed, now=self._clock())

    def replace_pairs(self, new: Sequence[Pair]) -> int:
        """Put `new` in the place of the study's pairs; return their number.

        Raters, their invites and gold pairs stay; the roster, and what was handed out unrated, go.

        Raises:
            StudyError: There are verdicts, or something else that belongs to the pairs that exist.
        """
        with self._database.write(lock="pairs", also=raters.PEOPLE) as connection:
            pairs.wait_for_ratings(connection)
            if why := pairs.why_fixed(connection, now=self._clock()):
                raise StudyError(f"the pairs cannot be drawn again: {why}")
            pairs.remove_all(connection)
            return pairs.add_pairs(connection, new)

    def add_gold(self, new: Sequence[Gold]) -> int:
        """Add the gold pairs that are not stored yet; return their number.

        Raises:
            StudyError: A pair is stored with other content or another answer, is one of the study's, or its
                answer is empty or names neither text.
        """
        with self._database.write(lock="pairs") as connection:
            return pairs.add_gold(connection, new)

    def gold(self) -> list[Gold]:
        """Return the gold pairs with their answers, in position order."""
        return self._read(pairs.all_gold)

    def pairs(self) -> list[Pair]:
        """Return all pairs, un-blinded, in position order: for the report and the export only."""
        return self._read(pairs.all_pairs)

    def invite(self, name: str) -> tuple[Rater, str]:
        """Add a person; return it and the token that lets it in, which is kept nowhere.

        Raises:
            StudyError: The name is taken, empty or too long.
        """
        with self._database.write(lock="raters") as connection:
            return raters.invite(connection, name, self._clock())

    def link(self, name: str) -> str:
        """Return a new token for a person; those given before no longer work.

        Raises:
            StudyError: There is no such rater, it is no person, or it is revoked.
        """
        with self._database.write(lock="raters") as connection:
            return raters.link(connection, name)

    def enrol(
        self,
        external_id: str,
        source: str,
        plan: Plan,
        *,
        browsers: Sequence[str] | None = None,
        neighbours: Sequence[int] = (),
        left: Sequence[int] = (),
    ) -> Enrolment:
        """Let in who comes under this id from a source such as `prolific`, and keep a place for it.

        The first time it is a new person, named P-1, P-2, …; later the same one. A revoked rater's token lets
        nobody in.

        Args:
            external_id: The source's own name for the rater.
            source: Where it comes from.
            plan: How much work there is.
            browsers: The browser's secrets: the id is let in again with one of these alone. None where the
                source itself proves who it is.
            neighbours: The ids of raters who came from the same address within a day.
            left: The ids of raters who came in the same browser before; their places are free again.

        Raises:
            StudyError: The id or the source is empty or too long.
        """
        with self._database.write(lock="raters", also=raters.PEOPLE) as connection:
            return places.enrol(
                connection,
                external_id,
                source,
                plan,
                self._clock(),
                browsers=browsers,
                neighbours=neighbours,
                left=left,
            )

    def renew_place(self, rater: Rater, plan: Plan) -> bool:
        """Keep a rater's place, or take one where its own has lapsed; return whether it has one."""
        with self._database.write(lock="raters", also=raters.PEOPLE) as connection:
            return places.renew(connection, rater, plan, self._clock())

    def end_place(self, rater: Rater) -> None:
        """Give a rater's place to others."""
        with self._database.write(lock="raters") as connection:
            places.end(connection, rater)

    def open_places(self, plan: Plan) -> int:
        """Return how many more raters without an invite the study has work for."""
        with self._database.write(lock=raters.PEOPLE) as connection:
            return places.count_open(connection, plan, self._clock())

    def waits_until(self, rater: Rater, plan: Plan) -> datetime | None:
        """Return until when a rater who is handed nothing should wait, as others have its last pairs open.

        None when nothing more will come for it: the quota is reached, no pair is left that it has not seen,
        or it has waited for a whole lease.
        """
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            return places.waits_until(connection, rater, plan, self._clock())

    def is_out(self, rater: Rater) -> bool:
        """Return whether a rater is revoked or excluded."""
        return any(self._read(raters.standing, rater))

    def sign_in(self, token: str) -> Rater | None:
        """Return whose token it is; None for one that is unknown or revoked."""
        return self._read(raters.sign_in, token)

    def revoke(self, name: str) -> None:
        """Let a rater in no more and free the slots it has not rated; its verdicts stay.

        Raises:
            StudyError: There is no such rater.
        """
        who = self._read(raters.find, name)
        with self._database.write(lock=raters.pool_of(who)) as connection:
            raters.revoke(connection, who, self._clock())

    def exclude(self, name: str, reason: str, by: str) -> None:
        """Leave a rater's verdicts out and free its slots; nothing is deleted, and the decision is noted.

        Raises:
            StudyError: There is no such rater, it is excluded already, or no name or no reason is given.
        """
        who = self._read(raters.find, name)
        with self._database.write(lock=raters.pool_of(who)) as connection:
            notes.exclude(connection, who, reason, by, self._clock())

    def include(self, name: str, reason: str, by: str) -> None:
        """Take an excluded rater in again; what it rated counts where no other rater has the slot by now.

        Raises:
            StudyError: There is no such rater, it is not excluded, or no name or no reason is given.
        """
        who = self._read(raters.find, name)
        with self._database.write(lock=raters.pool_of(who)) as connection:
            notes.include(connection, who, reason, by, self._clock())

    def erase(self, name: str, by: str, *, verdicts: bool = False) -> tuple[str, str]:
        """Take a person's identity and words out of the database for good, and lets it in no more.

        Its verdicts stay, under a name that says nothing; with `verdicts` they go too, and the pairs are free
        for others. That it was done is noted. The old bytes are overwritten in the database's own files; what
        copies of it hold is beyond reach.

        Returns:
            The new name, and the id under which the person came, where there was one.

        Raises:
            StudyError: There is no such rater, it is no person, or another program forbids the overwriting.
        """
        with self._database.write(lock="raters", also=raters.PEOPLE) as connection:
            found = erasure.erase(connection, name, verdicts=verdicts, by=by, now=self._clock())
        erasure.scrub(self._database)
        return found

    def rater(self, name: str, kind: RaterKind) -> Rater:
        """Return the rater of that name, added if it is new: for models and simulations.

        Raises:
            StudyError: The name belongs to a rater of another kind.
        """
        with self._database.write(lock="raters") as connection:
            return raters.get_or_add(connection, name, kind, self._clock())

    def raters(self) -> list[RaterProgress]:
        """Return every rater with its counts, in the order they were added."""
        return self._read(raters.progress)

    def assign(self, names: Sequence[str], plan: Plan) -> int:
        """Plan a roster: keep the slots of all pairs that no one was shown for these people; return how many.

        Sides are then even within one per rater and method (`roster` says in which designs), and a kept slot
        goes to no other rater until its own is revoked or excluded.

        Raises:
            StudyError: A name is unknown, revoked, excluded, no person's, or given twice; no pair is left; or
                the quota is too small.
        """
        with self._database.write(lock=raters.PEOPLE) as connection:
            return roster.assign(connection, names, plan)

    def hand_out(self, rater: Rater, plan: Plan, *, limit: int = 1) -> list[BlindPair]:
        """Return up to `limit` pairs: first the rater's own unrated ones, with a new lease, then free slots.

        None are returned when none is left, or when the rater is revoked.

        Raises:
            StudyError: The plan has no slots, or the database does not know the rater.
        """
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            return queue.hand_out(connection, rater, plan, now=self._clock(), limit=limit)

    def progress(self, rater: Rater, plan: Plan) -> tuple[int, int]:
        """Return how many presentations the rater has rated, and how many it can still get or has open.

        Raises:
            StudyError: The plan has no slots, or the database does not know the rater.
        """
        with self._database.read() as connection:
            if queue.is_ready(connection, rater, plan):
                return queue.progress(connection, rater, plan, now=self._clock())
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            return queue.progress(connection, rater, plan, now=self._clock())

    def save(
        self,
        presentation: int,
        choices: Mapping[str, Choice],
        *,
        rater: Rater,
        seconds: float | None = None,
        active_seconds: float | None = None,
        by_browser: bool = False,
        comment: str | None = None,
        problem: str | None = None,
        then: Plan | None = None,
    ) -> Saved:
        """Append a verdict on each criterion, with its remarks; all is on disk when this returns.

        With `then`, the rater's next pair is handed out by that plan in the same transaction: the disk is
        waited for once.

        What repeats the current choice or the last remark adds nothing; an empty remark takes the last one
        back, None leaves it. A duration that is negative or not finite is stored as unknown, and one that
        came `by_browser`, whose word it is, as no longer than the time since the pair was handed out.

        Raises:
            StudyError: The presentation was not handed to this rater, the rater is revoked, there is no
                choice, or one that is none of the three, or a remark is too long.
        """
        verdicts.check_choices(choices)
        remarks: dict[NoteKind, str | None] = {"comment": comment, "problem": problem}
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            now = self._clock()
            claimed = verdicts.claim(connection, presentation, rater)
            if by_browser:
                longest = round((now - claimed.handed_out).total_seconds(), 3)
                seconds, active_seconds = (each and min(each, longest) for each in (seconds, active_seconds))
            saved = verdicts.save(
                connection,
                presentation,
                choices,
                claimed=claimed,
                rater=rater,
                now=now,
                seconds=seconds,
                active_seconds=active_seconds,
                study_hash=self._study_hash,
            )
            for kind, text in remarks.items():
                if text is not None:
                    notes.add_changed(connection, rater, kind, text, now=now, presentation=presentation)
            if then is not None:
                handed = queue.hand_out(connection, rater, then, now=now, limit=1, found=claimed.standing)
                saved = replace(saved, next=next(iter(handed), None))
        self._study_hash = None  # stored with the first verdict, which is on disk now
        return saved

    def skip(self, presentation: int, problems: Sequence[str], *, rater: Rater, comment: str = "") -> bool:
        """Leave a presentation unrated and its slot to another rater; the rater is not shown the pair again.

        It is no verdict, but noted with its reason. A pair that `occupancy.MOST_SKIPS` raters skipped is
        given to no new rater. Returns False, and changes nothing, if the rater has skipped too many already.

        Raises:
            StudyError: The presentation was not handed to this rater or is rated, the rater is revoked, or no
                problem is given.
        """
        with self._database.write(lock=raters.pool_of(rater)) as connection:
            return skips.skip(
                connection, presentation, problems, who=rater, comment=comment, now=self._clock()
            )

    def skips(self) -> list[Skip]:
        """Return which pairs raters could not judge and why, oldest first."""
        return self._read(skips.read)

    def current(self, presentation: int, *, rater: Rater) -> dict[str, Choice]:
        """Return the choices of the highest revisions by criterion; none if there is no verdict yet.

        Raises:
            StudyError: The presentation was not handed to this rater.
        """
        return self._read(verdicts.current, presentation, rater=rater)

    def trail(self, rater: Rater) -> list[int]:
        """Return the rater's rated presentations of all visits, oldest first, checks among the rest."""
        return self._read(verdicts.trail, rater)

    def presented(self, presentation: int, *, rater: Rater) -> BlindPair:
        """Return once more what the rater was shown, on the same sides.

        Raises:
            StudyError: The presentation was not handed to this rater.
        """
        with self._database.read() as connection:
            verdicts.claim(connection, presentation, rater)
            return verdicts.blind(connection, [presentation])[0]

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
        return self._read(notes.read, name=name, kind=kind, presentation=presentation)

    def study_hash(self) -> str | None:
        """Return the settings' hash as the first verdict found it; None before that."""
        return self._read(schema.study_hash)

    def set_criteria(self, words: Mapping[str, str]) -> None:
        """Store in which words criteria are asked from now on, by name.

        A criterion on which there are verdicts keeps the words that it had.
        """
        with self._database.write() as connection:
            schema.set_criteria(connection, words)

    def set_app_address(self, url: str) -> None:
        """Store where the app was served last."""
        with self._database.write() as connection:
            schema.put(connection, schema.APP_ADDRESS, url)

    def app_address(self) -> str | None:
        """Return where the app was served last; None before that."""
        return self._read(schema.value_of, schema.APP_ADDRESS)

    def criteria(self) -> dict[str, str]:
        """Return in which words the criteria with verdicts were asked when the first one came, by name."""
        return self._read(schema.criteria)

    def tidy(self, *, include_surplus: bool = False, include_excluded: bool = False) -> list[TidyRow]:
        """Return the study's current verdicts, un-blinded, by position, rater, presentation, criterion.

        Gold pairs and repeats are no part of the study. What is surplus or an excluded rater's is left out
        by default.
        """
        return self._read(unblind.tidy, include_surplus=include_surplus, include_excluded=include_excluded)

    def history(self) -> list[HistoryRow]:
        """Return every revision of every verdict, un-blinded, by presentation, criterion and revision."""
        return self._read(unblind.history)

    def checks(self) -> list[CheckRow]:
        """Return how raters did on gold pairs and repeats, excluded ones among them, in the order shown."""
        return self._read(unblind.checks)

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
        with self._database.write(lock=raters.pool_of(run.rater)) as connection:
            return self._claims.claim(connection, run, plan, now=self._clock(), limit=limit)

    def elsewhere(self, run: JudgeRun) -> tuple[int, bool]:
        """Return how many unrated showings other runs hold, and whether one is known to be going."""
        return self._read(runs.elsewhere, run, self._clock())

    def judge_progress(self, rater: Rater, plan: Plan) -> JudgeProgress:
        """Return how far a model is, over all runs and for all that `plan` shows it."""
        return self._read(self._claims.progress, rater, plan)

    def waiting(self, name: str, plan: Plan) -> list[Showing]:
        """Return what a model would still be shown, with presentation 0: nothing is handed out."""
        return self._read(self._claims.waiting, name, plan)

    def criteria_judged(self, rater: Rater) -> set[str]:
        """Return the criteria on which the rater has given verdicts."""
        return self._read(verdicts.criteria, rater)

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
        rows = self._sent.compress(run, planned)
        with self._database.write(lock=LOCK) as connection:
            journal.add(connection, answers)
            requests.settle(connection, [*answers, *settled], now)
            verdicts.save_judgments(connection, run.rater, judgments, now=now, study_hash=self._study_hash)
            journal.fail(connection, unjudged, now)
            if not planned:
                return []
            outcomes = requests.reserve(connection, run, planned, now=now, limit_usd=limit_usd)
            requests.store_sent(connection, rows, outcomes)
            return outcomes

    def judge_again(self, rater: Rater, judgments: Sequence[Judgment]) -> int:
        """Append verdicts that were read again from the journal; return how many presentations changed.

        Raises:
            StudyError: A presentation was not handed to this rater, or the rater is revoked.
        """
        with self._database.write() as connection:
            return verdicts.save_judgments(
                connection, rater, judgments, now=self._clock(), study_hash=self._study_hash
            )

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the newest complete answer by key, where there is one; complete is HTTP 200."""
        return self._read(journal.complete, keys)

    def answered(self) -> set[str]:
        """Return the keys that have a complete answer."""
        return self._read(journal.keys)

    def answers_of(self, judge: str) -> Iterator[Answer]:
        """Yield the complete answers of the judge of that name, by presentation, of each the oldest first."""
        numbers = self._read(journal.judged, judge)
        for start in range(0, len(numbers), _PART):
            yield from self._read(journal.of, numbers[start : start + _PART])

    def shown(self, presentations: Sequence[int]) -> list[Showing]:
        """Return what a model was shown under these numbers, in their order."""
        return self._read(runs.shown, presentations)

    def exchanges(self, *, pair_id: str | None = None, judge: str | None = None) -> Iterator[Exchange]:
        """Yield the exchanges of the study with its judges, by pair, judge, order and sample.

        Args:
            pair_id: Only about this pair.
            judge: Only with the judge of this name.
        """
        numbers = self._read(exchanges.numbers, pair_id, judge)
        for start in range(0, len(numbers), _PART):
            yield from self._read(exchanges.read, numbers[start : start + _PART])

    def failures(self) -> list[Failure]:
        """Return the failures whose presentation has no verdict to this day, oldest first."""
        return self._read(journal.failures)

    def spending(self) -> list[JudgeSpending]:
        """Return what each judge that was ever asked has taken so far, over all runs, by name."""
        return self._read(journal.spending)

    def models_seen(self) -> list[ModelSeen]:
        """Return which models each judge's answers came from, by its name, in the order first seen."""
        return self._read(journal.models)

    def add_batch(
        self, run: JudgeRun, planned: Sequence[PlannedRequest], *, limit_usd: float | None = None
    ) -> tuple[JudgeBatch, list[Outcome]]:
        """Make a batch of those requests that may be sent, with their money set aside; see `record`.

        Until the batch is closed, no other process claims or sends what is in it.
        """
        rows = self._sent.compress(run, planned)
        with self._database.write(lock=LOCK) as connection:
            batch, outcomes = batch_rows.add(connection, run, planned, now=self._clock(), limit_usd=limit_usd)
            requests.store_sent(connection, rows, outcomes)
            return batch, outcomes

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

    def adopt_batches(self, run: JudgeRun) -> list[JudgeBatch]:
        """Take the judge's batches that no run looks after; return this run's that are not done."""
        with self._database.write(lock=raters.pool_of(run.rater)) as connection:
            return batch_rows.adopt(connection, run, self._clock())

    def batch_keys(self, number: int) -> frozenset[str]:
        """Return the keys of all that was put into a batch."""
        return self._read(batch_rows.keys_of, number)

    def batch_names(self) -> set[str]:
        """Return what providers call this study's batches, ended ones included."""
        return self._read(batch_rows.names)

    def batch_requests(self, number: int) -> list[BatchRequest]:
        """Return what is in a batch and not settled; a request's key is its custom id."""
        return self._read(batch_rows.requests_of, number)
