"""Verdicts as raters give them, by the letters on the screen: appended, never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, Choice, NoteKind, Rater
from guard_eval.store import notes, presentations, schema
from guard_eval.store.raters import standing
from guard_eval.store.schema import check_name, presentation, verdict

_REVISIONS = (
    select(verdict.c.criterion, verdict.c.revision, verdict.c.choice)
    .where(verdict.c.presentation_id == bindparam("param_id"))
    .order_by(verdict.c.revision)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What became of a verdict.

    Attributes:
        revision: The highest revision now current among the criteria saved: 0 unless a mind was changed.
        surplus: Another rater had taken the slot before this came; it is kept, and not counted by default.
    """

    revision: int
    surplus: bool


def check_choices(choices: Mapping[str, Choice]) -> None:
    """Check that there is a choice, that each is one of the three, and that each criterion has a name."""
    if not choices:
        raise StudyError("the verdict is empty; choose for at least one criterion")
    for criterion, choice in choices.items():
        check_name("criterion", criterion)
        if choice not in CHOICES:
            raise StudyError(f"{choice!r} is no choice for {criterion!r}; choose from: {', '.join(CHOICES)}")


def save(
    connection: Connection,
    number: int,
    choices: Mapping[str, Choice],
    *,
    rater: Rater,
    now: datetime,
    seconds: float | None,
    active_seconds: float | None,
    study_hash: str | None,
    remarks: Mapping[NoteKind, str],
) -> Saved:
    """Append a verdict on each criterion, and the remarks (`Store.save`)."""
    superseded = presentations.claim(connection, number, rater, lock=True)
    if standing(connection, rater).revoked:
        raise StudyError(f"the rater {rater.name!r} is revoked; ask the study's owner for a new invitation")
    if study_hash is not None:
        schema.set_with_first_verdict(connection, study_hash)
    latest = _latest(connection, number)
    changed = {name: choice for name, choice in choices.items() if latest.get(name, (-1, None))[1] != choice}
    rows = [
        {
            "presentation_id": number,
            "criterion": name,
            "revision": latest.get(name, (-1, None))[0] + 1,
            "choice": choice,
            "at": now,
            "seconds": _duration(seconds),
            "active_seconds": _duration(active_seconds),
        }
        for name, choice in changed.items()
    ]
    if rows:
        connection.execute(insert(verdict), rows)
        unrated = (presentation.c.id == number, presentation.c.rated_at.is_(None))
        connection.execute(update(presentation).where(*unrated).values(rated_at=now))
    for kind, remark in remarks.items():
        notes.add_changed(connection, rater, kind, remark, now=now, presentation=number)
    revisions = [latest[name][0] + (name in changed) if name in latest else 0 for name in choices]
    return Saved(revision=max(revisions), surplus=superseded)


def current(connection: Connection, number: int, *, rater: Rater) -> dict[str, Choice]:
    """Return the choices of the highest revisions by criterion; none if there is no verdict yet."""
    presentations.claim(connection, number, rater)
    return {name: choice for name, (_, choice) in _latest(connection, number).items()}


def _latest(connection: Connection, number: int) -> dict[str, tuple[int, Choice]]:
    rows = connection.execute(_REVISIONS, {"param_id": number})
    return {row.criterion: (row.revision, row.choice) for row in rows}


def _duration(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None
