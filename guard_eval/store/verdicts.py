"""What a rater is shown, without names, and its verdicts, by the letters on the screen: never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, BlindPair, Choice, Rater
from guard_eval.store import schema
from guard_eval.store.raters import standing
from guard_eval.store.schema import batches, check_name, pair, presentation, verdict

_LARGEST = 2**31 - 1

_TEXTS = (
    select(presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    .join(pair)
    .where(presentation.c.id.in_(bindparam("param_id", expanding=True)))
)

_CLAIM = select(presentation.c.rater_id, presentation.c.superseded).where(
    presentation.c.id == bindparam("param_id")
)
_CLAIM_LOCKED = _CLAIM.with_for_update()

_REVISIONS = (
    select(verdict.c.criterion, verdict.c.revision, verdict.c.choice)
    .where(verdict.c.presentation_id == bindparam("param_id"))
    .order_by(verdict.c.revision)
)


def claim(connection: Connection, number: int, rater: Rater, *, lock: bool = False) -> bool:
    """Return whether a presentation of this rater is superseded; with `lock`, it stays so to the end."""
    row = None
    if 0 < number <= _LARGEST:
        row = connection.execute(_CLAIM_LOCKED if lock else _CLAIM, {"param_id": number}).one_or_none()
    if row is None:
        raise StudyError(f"there is no presentation {number}; ask for the next pair")
    if row.rater_id != rater.id:
        raise StudyError(
            f"presentation {number} was not handed to the rater {rater.name!r}; ask for the next pair"
        )
    return bool(row.superseded)


def trail(connection: Connection, rater: Rater) -> list[int]:
    """Return the rater's rated presentations in the order they were shown: `rated_at` may have gone back."""
    mine = (presentation.c.rater_id == rater.id, presentation.c.rated_at.is_not(None))
    return list(
        connection.execute(select(presentation.c.id).where(*mine).order_by(presentation.c.id)).scalars()
    )


def blind(connection: Connection, numbers: Sequence[int]) -> list[BlindPair]:
    """Return the presentations as they are shown, in the order of `numbers`."""
    found: dict[int, BlindPair] = {}
    for ids in batches(numbers):
        for row in connection.execute(_TEXTS, {"param_id": ids}):
            left, right = (row.text_a, row.text_b) if row.first == "a" else (row.text_b, row.text_a)
            found[row.id] = BlindPair.of(row.id, row.prompt, left, right)
    return [found[number] for number in numbers]


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
) -> Saved:
    """Append a verdict on each criterion (`Store.save`)."""
    superseded = claim(connection, number, rater, lock=True)
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
    revisions = [latest[name][0] + (name in changed) if name in latest else 0 for name in choices]
    return Saved(revision=max(revisions), surplus=superseded)


def current(connection: Connection, number: int, *, rater: Rater) -> dict[str, Choice]:
    """Return the choices of the highest revisions by criterion; none if there is no verdict yet."""
    claim(connection, number, rater)
    return {name: choice for name, (_, choice) in _latest(connection, number).items()}


def _latest(connection: Connection, number: int) -> dict[str, tuple[int, Choice]]:
    rows = connection.execute(_REVISIONS, {"param_id": number})
    return {row.criterion: (row.revision, row.choice) for row in rows}


def _duration(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None
