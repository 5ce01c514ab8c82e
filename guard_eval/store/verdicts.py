"""Verdicts as raters give them, by the letters on the screen: appended, never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, Choice, Rater
from guard_eval.store import meta
from guard_eval.store.names import check_name
from guard_eval.store.raters import is_admitted
from guard_eval.store.schema import presentation, verdict
from guard_eval.store.values import Saved

_LARGEST = 2**31 - 1


def check_choices(choices: Mapping[str, Choice]) -> None:
    """See that there is a choice, that each is one of the three, and that each criterion has a name.

    Raises:
        StudyError: One of these is not so.
    """
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
) -> Saved:
    """Append a verdict on each criterion; one that repeats the current choice adds nothing.

    A duration that is negative or not finite, as a clock set back yields, is stored as unknown.

    Raises:
        StudyError: The presentation was not handed to this rater, or the rater is revoked.
    """
    superseded = _claim(connection, number, rater)
    if not is_admitted(connection, rater):
        raise StudyError(f"the rater {rater.name!r} is revoked; ask the study's owner for a new invitation")
    if study_hash is not None:
        meta.set_with_first_verdict(connection, study_hash)
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
    revisions = [latest[name][0] + (name in changed) if name in latest else 0 for name in choices]
    return Saved(revision=max(revisions), surplus=superseded)


def current(connection: Connection, number: int, *, rater: Rater) -> dict[str, Choice]:
    """Return the choices of the highest revisions by criterion; none if there is no verdict yet.

    Raises:
        StudyError: The presentation was not handed to this rater.
    """
    _claim(connection, number, rater, lock=False)
    return {name: choice for name, (_, choice) in _latest(connection, number).items()}


def _claim(connection: Connection, number: int, rater: Rater, *, lock: bool = True) -> bool:
    """Return whether the presentation is superseded, and keep it as it is for the transaction."""
    statement = select(presentation.c.rater_id, presentation.c.superseded).where(presentation.c.id == number)
    row = None
    if 0 < number <= _LARGEST:
        row = connection.execute(statement.with_for_update() if lock else statement).one_or_none()
    if row is None:
        raise StudyError(f"there is no presentation {number}; ask for the next pair")
    if row.rater_id != rater.id:
        raise StudyError(
            f"presentation {number} was not handed to the rater {rater.name!r}; ask for the next pair"
        )
    return bool(row.superseded)


def _latest(connection: Connection, number: int) -> dict[str, tuple[int, Choice]]:
    statement = (
        select(verdict.c.criterion, verdict.c.revision, verdict.c.choice)
        .where(verdict.c.presentation_id == number)
        .order_by(verdict.c.revision)
    )
    return {row.criterion: (row.revision, row.choice) for row in connection.execute(statement)}


def _duration(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None
