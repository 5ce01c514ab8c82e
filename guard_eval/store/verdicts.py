"""Verdicts, by the letters on the screen: appended, never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, BlindPair, Choice, NoteKind, Plan, Rater
from guard_eval.store import handout, notes
from guard_eval.store.database import Store
from guard_eval.store.schema import UNRATED, check_name, presentation, rater, slot, verdict
from guard_eval.store.settings import keep_declared

if TYPE_CHECKING:
    from guard_eval.store.requests import Question

_OWNER = (
    select(
        presentation,
        slot.c.held_by,
        slot.c.open,
        rater.c.name,
        rater.c.kind,
        rater.c.revoked_at,
        rater.c.excluded_at,
        handout.SKIPPED.label("skipped"),
    )
    .join(rater, rater.c.id == presentation.c.rater_id)
    .outerjoin(slot, slot.c.id == presentation.c.slot_id)
    .where(presentation.c.id == bindparam("number"))
)
_CURRENT = (
    select(verdict.c.presentation_id, verdict.c.criterion, verdict.c.revision, verdict.c.choice)
    .where(verdict.c.presentation_id.in_(bindparam("numbers", expanding=True)))
    .order_by(verdict.c.revision)
)
_INSERT = insert(verdict)
_SHOW = insert(presentation).returning(presentation.c.id, sort_by_parameter_order=True)
_RATED = (
    update(presentation)
    .where(presentation.c.id == bindparam("rated"), UNRATED)
    .values(rated_at=bindparam("now"))
)
_KEEP_SLOT = (
    update(slot).where(slot.c.id == bindparam("slot")).values(held_by=bindparam("holder"), leased_until=None)
)

_Latest = dict[tuple[int, str], tuple[int, Choice]]
"""The newest revision and its choice, by presentation and criterion."""


def save(
    store: Store,
    number: int,
    choices: Mapping[str, Choice],
    *,
    rater: Rater,
    seconds: float | None = None,
    active_seconds: float | None = None,
    ends_seen: int | None = None,
    by_browser: bool = False,
    comment: str | None = None,
    problem: str | None = None,
    then: Plan | None = None,
) -> BlindPair | None:
    """Append a verdict on each criterion, with its remarks; all is on disk when this returns.

    With `then`, the rater's next pair is handed out by that plan in the same transaction, and returned: the
    disk is waited for once.

    What repeats the current choice or the last remark adds nothing; an empty remark takes the last one back,
    None leaves it. A duration that is negative or not finite is stored as unknown. One that was measured
    `by_browser` is cut to the time since the pair was handed out. `ends_seen` is how many of the three texts
    were on the screen to their end.

    Raises:
        StudyError: The presentation was not handed to this rater, the rater is revoked, there is no choice,
            or one that is none of the three, or a remark is too long.
    """
    _check_choices(choices)
    with store.write() as (db, now):
        row = db.execute(_OWNER, {"number": number}).one_or_none() if 0 < number < 2**31 else None
        if row is None or row.revoked_at is not None or (row.rater_id, row.name) != (rater.id, rater.name):
            notes.check_owner(db, rater, number)  # says what is wrong
            notes.check_admitted(db, rater)
            raise AssertionError
        longest = (now - row.handed_out).total_seconds() if by_browser else math.inf
        measured = {
            "seconds": _duration(seconds, longest),
            "active_seconds": _duration(active_seconds, longest),
            "ends_seen": ends_seen,
        }
        latest = _read_latest(db, [number]) if row.rated_at is not None else {}
        if not store.declared_kept:
            store.declared_kept = keep_declared(db, rater, store.declared_now)
        _append(db, [(number, choices)], latest, now=now, **measured)
        free = row.held_by is None and row.open and row.excluded_at is None and not row.skipped
        if row.slot_id is not None and (free or (row.held_by == number and row.rated_at is None)):
            db.execute(_KEEP_SLOT, {"slot": row.slot_id, "holder": number})
        remarks: dict[NoteKind, str | None] = {"comment": comment, "problem": problem}
        for kind, text in remarks.items():
            if text is not None:
                notes.add_changed(db, rater, kind, text, now=now, presentation=number)
        if then is None or row.excluded_at is not None:
            return None
        following = handout.blind(db, handout.claim_in(store, db, rater, then, now=now))
        return next(iter(following), None)


def save_of_judge(
    db: Connection,
    judge: Rater,
    answers: Sequence[tuple[Question, Mapping[str, Choice]]],
    *,
    now: datetime,
    declared: Mapping[str, str],
) -> None:
    """Append a judge's verdicts on the questions it was asked, within a transaction.

    The first verdict on a question makes its presentation. What repeats the current choice adds nothing.

    Raises:
        StudyError: A choice is none of the three.
    """
    for _, choices in answers:
        _check_choices(choices)
    keep_declared(db, judge, declared)
    columns = (presentation.c.pair_id, presentation.c.number, presentation.c.id)
    pairs = presentation.c.pair_id.in_({question.pair_id for question, _ in answers})
    mine = select(*columns).where(presentation.c.rater_id == judge.id, pairs)
    numbers = {(row[0], row[1]): int(row[2]) for row in db.execute(mine)}
    same = {"rater_id": judge.id, "role": "study", "handed_out": now}
    new = {
        (each.pair_id, each.number): {
            **same,
            "pair_id": each.pair_id,
            "number": each.number,
            "first": each.first,
        }
        for each, _ in answers
        if (each.pair_id, each.number) not in numbers
    }
    if new:
        numbers |= dict(zip(new, db.execute(_SHOW, list(new.values())).scalars(), strict=True))
    entries = [(numbers[each.pair_id, each.number], choices) for each, choices in answers]
    _append(db, entries, _read_latest(db, list(numbers.values())), now=now)


def current(store: Store, number: int, *, rater: Rater) -> dict[str, Choice]:
    """Return the choices of the highest revisions by criterion; none if there is no verdict yet.

    Raises:
        StudyError: The presentation was not handed to this rater.
    """
    with store.read() as db:
        notes.check_owner(db, rater, number)
        return {name: choice for (_, name), (_, choice) in _read_latest(db, [number]).items()}


def trail(store: Store, rater: Rater) -> list[int]:
    """Return the rater's rated presentations of all visits, in the order shown, checks among the rest."""
    mine = (presentation.c.rater_id == rater.id, presentation.c.rated_at.is_not(None))
    with store.read() as db:
        return list(db.execute(select(presentation.c.id).where(*mine).order_by(presentation.c.id)).scalars())


def presented(store: Store, number: int, *, rater: Rater) -> BlindPair:
    """Return once more what the rater was shown, on the same sides.

    Raises:
        StudyError: The presentation was not handed to this rater.
    """
    with store.read() as db:
        notes.check_owner(db, rater, number)
        return handout.blind(db, [number])[0]


def _check_choices(choices: Mapping[str, Choice]) -> None:
    """Check that there is a choice, that each is one of the three, and that each criterion has a name."""
    if not choices:
        raise StudyError("the verdict is empty; choose for at least one criterion")
    for criterion, choice in choices.items():
        check_name("criterion", criterion)
        if choice not in CHOICES:
            raise StudyError(f"{choice!r} is no choice for {criterion!r}; choose from: {', '.join(CHOICES)}")


def _append(
    db: Connection,
    entries: Sequence[tuple[int, Mapping[str, Choice]]],
    latest: _Latest,
    *,
    now: datetime,
    **measured: float | None,
) -> None:
    """Append what differs from `latest`, and bring that up to date."""
    rows: list[dict[str, object]] = []
    changed: set[int] = set()
    for number, choices in entries:
        for criterion, choice in choices.items():
            revision, before = latest.get((number, criterion), (-1, None))
            if before != choice:
                latest[number, criterion] = (revision + 1, choice)
                changed.add(number)
                row = {"presentation_id": number, "criterion": criterion, "revision": revision + 1}
                rows.append({**row, "choice": choice, "at": now, **measured})
    if rows:
        db.execute(_INSERT, rows)
        db.execute(_RATED, [{"rated": number, "now": now} for number in sorted(changed)])


def _read_latest(db: Connection, numbers: Sequence[int]) -> _Latest:
    return {
        (row.presentation_id, row.criterion): (row.revision, row.choice)
        for row in db.execute(_CURRENT, {"numbers": list(numbers)})
    }


def _duration(seconds: float | None, longest: float) -> float | None:
    """Return a duration, at most `longest`; None if either is negative, or it is not finite."""
    if seconds is None or not math.isfinite(seconds) or min(seconds, longest) < 0:
        return None
    return min(seconds, round(longest, 3)) if longest < math.inf else seconds
