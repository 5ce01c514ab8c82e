"""Pairs that a rater cannot judge: the slot goes to another rater, and no verdict is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select, true, update

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import notes, verdicts
from guard_eval.store.handout import occupancy
from guard_eval.store.schema import note, presentation, rater

SPARE = 2
"""A rater may skip so many pairs more than it has rated: else a few could take every pair from the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Skip:
    """A pair that a rater could not judge; `reason` is what it reported, with commas."""

    rater: str
    presentation: int
    pair_id: str
    reason: str
    at: datetime


def skip(
    connection: Connection, number: int, problems: Sequence[str], *, who: Rater, comment: str, now: datetime
) -> bool:
    """Leave a presentation unrated (`Store.skip`); must run alone in the rater's pool."""
    if verdicts.claim(connection, number, who).standing.revoked:
        raise StudyError(f"the rater {who.name!r} is revoked; ask the study's owner for a new invitation")
    row = connection.execute(select(presentation).where(presentation.c.id == number)).one()
    if row.skipped:
        return True
    if row.rated_at is not None or not problems:
        raise StudyError(f"presentation {number} was rated, or no reason to skip it is given; rate it")
    mine = select(func.count(presentation.c.rated_at)).where(presentation.c.rater_id == who.id)
    rated = connection.execute(mine).scalar_one()
    left = connection.execute(
        select(func.count()).where(presentation.c.rater_id == who.id, presentation.c.skipped == true())
    ).scalar_one()
    if left >= rated + SPARE:
        return False
    connection.execute(
        update(presentation)
        .where(presentation.c.id == number)
        .values(skipped=True, superseded=True, leased_until=now)
    )
    notes.add(connection, who, "skip", ", ".join(problems), now=now, presentation=number)
    if comment:
        notes.add(connection, who, "comment", comment, now=now, presentation=number)
    if row.role == "study":
        occupancy.recount(connection, row.pool, [row.pair_id])
    return True


def read(connection: Connection) -> list[Skip]:
    """Return what was skipped, oldest first."""
    statement = (
        select(rater.c.name, presentation.c.id, presentation.c.pair_id, note.c.detail, note.c.at)
        .select_from(note)
        .join(presentation, presentation.c.id == note.c.presentation_id)
        .join(rater, rater.c.id == note.c.rater_id)
        .where(note.c.kind == "skip")
        .order_by(note.c.id)
    )
    return [
        Skip(rater=row.name, presentation=row.id, pair_id=row.pair_id, reason=row.detail, at=row.at)
        for row in connection.execute(statement)
    ]
