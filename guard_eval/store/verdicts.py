"""Store verdicts as letters (A, B or tie), without names of methods. Verdicts never change.

The functions raise a `StudyError` if a presentation was not handed to the given rater.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, BlindPair, Choice, HandOutPlan, NoteKind, Rater
from guard_eval.store import handout, notes
from guard_eval.store.database import Store
from guard_eval.store.judging.requests import Question, check_judge_may_rate
from guard_eval.store.schema import add_rows, query, refuse_blank_or_long_name
from guard_eval.store.settings import store_declared_settings
from guard_eval.store.showings import slots

_SHOWN = query("""
    SELECT presentation.slot_id, presentation.first, presentation.handed_out, presentation.rated_at,
        slot.held_by, slot.open, rater.excluded_at IS NOT NULL AS excluded,
        EXISTS (
            SELECT 1 FROM note WHERE note.presentation_id = presentation.id AND note.kind = 'skip'
        ) AS skipped
    FROM presentation JOIN rater ON rater.id = presentation.rater_id
    LEFT JOIN slot ON slot.id = presentation.slot_id
    WHERE presentation.id = :number AND rater.id = :rater AND rater.name = :name AND rater.revoked_at IS NULL
""")

_LATEST = query("""
    SELECT presentation_id, criterion, revision, choice FROM verdict
    WHERE presentation_id IN :numbers ORDER BY revision
""")

_RATED = query("UPDATE presentation SET rated_at = :now WHERE id IN :numbers AND rated_at IS NULL")

_RATED_BY = query("""
    SELECT id FROM presentation WHERE rater_id = :rater AND rated_at IS NOT NULL ORDER BY id
""")

LAST_CHANGE = query("""
    SELECT max(at) AS at FROM (
        SELECT at FROM verdict
        UNION ALL
        SELECT excluded_at AS at FROM rater
    ) AS change
""")

_PRESENT_ONCE = query("""
    INSERT INTO presentation (pair_id, rater_id, number, first, handed_out)
    VALUES (:pair, :rater, :number, :first, :now)
    ON CONFLICT DO NOTHING
""")

_JUDGED = query("""
    SELECT pair_id, number, id FROM presentation WHERE rater_id = :rater AND pair_id IN :pairs
""")


def save_verdict(
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
    then: HandOutPlan | None = None,
) -> BlindPair | None:
    """Append a verdict on each criterion, with remarks. All are on disk when this function returns.

    With the plan `then`, the rater's next pair is handed out in the same transaction, and returned, so that
    one write to disk is enough.

    A repeated choice or remark adds nothing. An empty remark removes the last one; None keeps it. A duration
    that is negative or not finite is stored as unknown. A duration that was measured `by_browser` is limited
    to the time since the pair was handed out. `ends_seen` is the number of the three texts that were shown to
    their end.

    Raises:
        StudyError: The presentation was not handed to this rater, the rater is revoked, there is no choice or
            an unknown choice, or a remark is too long.
    """
    _check_choices(choices)
    with store.begin_write() as (db, now):
        rows = _SHOWN(db, number=number if 0 < number < 2**31 else 0, rater=rater.id, name=rater.name)
        row = rows.one_or_none()
        if row is None:
            notes.check_presentation_handed_to(db, rater, number)  # raises an error with the reason
            notes.check_rater_not_revoked(db, rater)
        assert row is not None
        longest = (now - row.handed_out).total_seconds() if by_browser else math.inf
        store_declared_settings(db, rater, store.declared_now)
        measured = {
            "seconds": _limit_duration(seconds, longest),
            "active_seconds": _limit_duration(active_seconds, longest),
            "ends_seen": ends_seen,
        }
        _append_changed_choices(db, {number: choices}, now=now, **measured)
        free = row.held_by is None and row.open and not (row.excluded or row.skipped)
        if row.slot_id is not None and (free or (row.held_by == number and row.rated_at is None)):
            slots.hold_slot(db, row.slot_id, number, row.first, until=None)
        remarks: dict[NoteKind, str | None] = {"comment": comment, "problem": problem}
        for kind, text in remarks.items():
            if text is not None:
                notes.write_note(store, rater, kind, text, presentation=number)
        return None if then is None else next(iter(handout.claim_pairs(store, rater, then)), None)


def save_judged_verdicts(
    db: Connection,
    judge: Rater,
    answers: Sequence[tuple[Question, Mapping[str, Choice]]],
    *,
    now: datetime,
    declared: Mapping[str, str],
) -> None:
    """Append a judge's verdicts on questions, within a transaction.

    The first verdict on a question makes the question's presentation. A repeated choice adds nothing.

    Raises:
        StudyError: The judge is revoked or excluded, or a choice is unknown.
    """
    check_judge_may_rate(db, judge)
    for _, choices in answers:
        _check_choices(choices)
    store_declared_settings(db, judge, declared)
    same = {"rater": judge.id, "now": now}
    rows = [
        {"pair": question.pair_id, "number": question.number, "first": question.first, **same}
        for question, _ in answers
    ]
    _PRESENT_ONCE(db, rows)
    pairs = list({question.pair_id for question, _ in answers})
    numbers = {(row.pair_id, row.number): row.id for row in _JUDGED(db, rater=judge.id, pairs=pairs)}
    choices_by_number = {numbers[question.pair_id, question.number]: choices for question, choices in answers}
    _append_changed_choices(db, choices_by_number, now=now)


def read_current_choices(store: Store, number: int, *, rater: Rater) -> dict[str, Choice]:
    """Return the latest choice on each criterion; an empty dict if there is no verdict yet."""
    with store.begin_read() as db:
        notes.check_presentation_handed_to(db, rater, number)
        return {name: choice for (_, name), (_, choice) in _read_latest_choices(db, [number]).items()}


def read_rated_presentations(store: Store, rater: Rater) -> list[int]:
    """Return the presentations that the rater has rated, with checks, from all visits in the order shown."""
    with store.begin_read() as db:
        return list(_RATED_BY(db, rater=rater.id).scalars())


def read_presentation(store: Store, number: int, *, rater: Rater) -> BlindPair:
    """Return an earlier presentation of the rater, with the texts on the same sides."""
    with store.begin_read() as db:
        notes.check_presentation_handed_to(db, rater, number)
        return handout.read_blind_pairs(db, [number])[0]


def _check_choices(choices: Mapping[str, Choice]) -> None:
    """Check that there is at least one choice, all choices are valid, and each criterion has a name."""
    if not choices:
        raise StudyError("the verdict has no choice; choose A, B or tie for at least one criterion")
    for criterion, choice in choices.items():
        refuse_blank_or_long_name("criterion", criterion)
        if choice not in CHOICES:
            raise StudyError(
                f"{choice!r} is not a choice for {criterion!r}; choose from: {', '.join(CHOICES)}"
            )


def _append_changed_choices(
    db: Connection, entries: Mapping[int, Mapping[str, Choice]], *, now: datetime, **measured: float | None
) -> None:
    """Append each presentation's choices that differ from the current ones."""
    latest = _read_latest_choices(db, list(entries))
    rows = []
    for number, choices in entries.items():
        for criterion, choice in choices.items():
            revision, before = latest.get((number, criterion), (-1, None))
            if before != choice:
                row = {"presentation_id": number, "criterion": criterion, "revision": revision + 1}
                rows.append({**row, "choice": choice, "at": now, **measured})
    if rows:
        add_rows(db, "verdict", rows)
        _RATED(db, numbers=[row["presentation_id"] for row in rows], now=now)


def _read_latest_choices(db: Connection, numbers: Sequence[int]) -> dict[tuple[int, str], tuple[int, Choice]]:
    """Return the latest revision and choice for each presentation and criterion."""
    return {
        (row.presentation_id, row.criterion): (row.revision, row.choice)
        for row in _LATEST(db, numbers=list(numbers))
    }


def _limit_duration(seconds: float | None, longest: float) -> float | None:
    """Limit a duration to `longest`; return None if either is negative, or the duration is not finite."""
    if seconds is None or not math.isfinite(seconds) or min(seconds, longest) < 0:
        return None
    return min(seconds, round(longest, 3)) if longest < math.inf else seconds
