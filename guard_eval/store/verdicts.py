"""What a rater is shown, without names, and its verdicts, by the letters on the screen: never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, BlindPair, Choice, Rater
from guard_eval.store import schema
from guard_eval.store.judging.values import Judgment
from guard_eval.store.raters import Standing, standing, standing_of
from guard_eval.store.schema import batches, check_name, pair, presentation, verdict

_LARGEST = 2**31 - 1

_TEXTS = (
    select(presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    .join(pair)
    .where(presentation.c.id.in_(bindparam("param_id", expanding=True)))
)

_CLAIM = (
    select(
        presentation.c.superseded,
        presentation.c.rated_at,
        presentation.c.handed_out,
        schema.rater.c.id,
        schema.rater.c.name,
        schema.rater.c.kind,
        schema.rater.c.revoked_at,
        schema.rater.c.excluded_at,
    )
    .join(schema.rater)
    .where(presentation.c.id == bindparam("param_id"))
)

_CURRENT = (
    select(verdict.c.presentation_id, verdict.c.criterion, verdict.c.revision, verdict.c.choice)
    .where(verdict.c.presentation_id.in_(bindparam("param_ids", expanding=True)))
    .order_by(verdict.c.revision)
)
_RATERS = (
    select(presentation.c.id, presentation.c.rater_id)
    .where(presentation.c.id.in_(bindparam("param_ids", expanding=True)))
    .with_for_update()
)
_FIRST = (
    update(presentation)
    .where(presentation.c.id == bindparam("param_id"), presentation.c.rated_at.is_(None))
    .values(rated_at=bindparam("param_now"))
)
_INSERT = insert(verdict)
_CRITERIA = (
    select(verdict.c.criterion)
    .join(presentation, presentation.c.id == verdict.c.presentation_id)
    .where(presentation.c.rater_id == bindparam("param_rater"))
    .distinct()
)

_Latest = dict[tuple[int, str], tuple[int, Choice]]
"""The newest revision and its choice, by presentation and criterion."""


class Claim(NamedTuple):
    """Whether a presentation is another rater's or has a verdict, since when, and its rater's standing."""

    superseded: bool
    rated: bool
    handed_out: datetime
    standing: Standing


def claim(connection: Connection, number: int, rater: Rater) -> Claim:
    """Return the state of a presentation of this rater; alone in the rater's pool, it stays so to the end."""
    row = None
    if 0 < number <= _LARGEST:
        row = connection.execute(_CLAIM, {"param_id": number}).one_or_none()
    if row is None:
        raise StudyError(f"there is no presentation {number}; ask for the next pair")
    superseded, rated_at, handed_out, owner, *known = row
    if owner != rater.id:
        raise StudyError(
            f"presentation {number} was not handed to the rater {rater.name!r}; ask for the next pair"
        )
    return Claim(superseded, rated_at is not None, handed_out, standing_of(rater, *known))


def trail(connection: Connection, rater: Rater) -> list[int]:
    """Return the rater's rated presentations in the order they were shown: a clock may be set back."""
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
        next: The rater's next pair, where one was asked for and is left.
    """

    revision: int
    surplus: bool
    next: BlindPair | None = None


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
    claimed: Claim,
    rater: Rater,
    now: datetime,
    seconds: float | None,
    active_seconds: float | None,
    study_hash: str | None,
) -> Saved:
    """Append a verdict on each criterion (`Store.save`); must run alone in the rater's pool."""
    if claimed.standing.revoked:
        raise StudyError(f"the rater {rater.name!r} is revoked; ask the study's owner for a new invitation")
    durations = {"seconds": _duration(seconds), "active_seconds": _duration(active_seconds)}
    latest = _latest(connection, [number]) if claimed.rated else {}
    _append(connection, [(number, choices)], latest, now=now, study_hash=study_hash, **durations)
    return Saved(revision=max(latest[number, name][0] for name in choices), surplus=claimed.superseded)


def save_judgments(
    connection: Connection,
    rater: Rater,
    judgments: Sequence[Judgment],
    *,
    now: datetime,
    study_hash: str | None,
) -> int:
    """Append a judge's verdicts; return how many presentations they changed.

    Raises:
        StudyError: A presentation was not handed to this rater, or the rater is revoked.
    """
    if not judgments:
        return 0
    if standing(connection, rater).revoked:
        raise StudyError(f"the rater {rater.name!r} is revoked, so its verdicts are not taken any more")
    found: dict[int, int] = {}
    numbers = sorted({each.presentation for each in judgments})
    for part in batches(numbers):
        found.update((row.id, row.rater_id) for row in connection.execute(_RATERS, {"param_ids": part}))
    for number in numbers:
        if found.get(number) != rater.id:
            raise StudyError(f"presentation {number} was not handed to the rater {rater.name!r}")
    given = [(each.presentation, each.choices) for each in judgments]
    for _, choices in given:
        check_choices(choices)
    latest = _latest(connection, numbers)
    return len(_append(connection, given, latest, now=now, study_hash=study_hash))


def _append(
    connection: Connection,
    given: Sequence[tuple[int, Mapping[str, Choice]]],
    latest: _Latest,
    *,
    now: datetime,
    study_hash: str | None,
    **durations: float | None,
) -> set[int]:
    """Append what differs from `latest`, and bring that up to date; return which presentations changed."""
    if study_hash is not None:
        schema.set_with_first_verdict(connection, study_hash)
    rows: list[dict[str, object]] = []
    changed: set[int] = set()
    for number, choices in given:
        for criterion, choice in choices.items():
            revision, before = latest.get((number, criterion), (-1, None))
            if before != choice:
                latest[number, criterion] = (revision + 1, choice)
                changed.add(number)
                row = {"presentation_id": number, "criterion": criterion, "revision": revision + 1}
                rows.append({**row, "choice": choice, "at": now, **durations})
    if rows:
        connection.execute(_INSERT, rows)
        numbers = sorted({number for number, _ in given})
        connection.execute(_FIRST, [{"param_id": number, "param_now": now} for number in numbers])
    return changed


def current(connection: Connection, number: int, *, rater: Rater) -> dict[str, Choice]:
    """Return the choices of the highest revisions by criterion; none if there is no verdict yet."""
    claim(connection, number, rater)
    return {name: choice for (_, name), (_, choice) in _latest(connection, [number]).items()}


def criteria(connection: Connection, rater: Rater) -> set[str]:
    """Return the criteria on which the rater has given verdicts."""
    return set(connection.execute(_CRITERIA, {"param_rater": rater.id}).scalars())


def _latest(connection: Connection, numbers: Sequence[int]) -> _Latest:
    return {
        (row.presentation_id, row.criterion): (row.revision, row.choice)
        for part in batches(numbers)
        for row in connection.execute(_CURRENT, {"param_ids": part})
    }


def _duration(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) and seconds >= 0 else None
