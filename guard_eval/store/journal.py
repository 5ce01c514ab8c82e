"""The judge's journal: every answer as the server sent it, and what could not be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from http import HTTPStatus

from sqlalchemy import Connection, bindparam, func, insert, select

from guard_eval.errors import StudyError
from guard_eval.store.judge_schema import answer, failure, request
from guard_eval.store.judge_values import Answer, Failure, Unjudged
from guard_eval.store.names import check_name
from guard_eval.store.schema import presentation, rater
from guard_eval.store.showing import batches

_FIELDS = [field.name for field in fields(Answer)]
_COLUMNS = [
    answer.c.presentation_id.label(name) if name == "presentation" else answer.c[name] for name in _FIELDS
]

_COMPLETE = (
    select(*_COLUMNS)
    .where(answer.c.key.in_(bindparam("asked", expanding=True)), answer.c.status == HTTPStatus.OK)
    .order_by(answer.c.attempt)
)
# an answer may be of several presentations whose requests are the same; each has a request of its own
_ASKED = (
    select(request.c.presentation_id, request.c.key)
    .where(request.c.presentation_id.in_(bindparam("asked", expanding=True)))
    .distinct()
    .subquery()
)
_OF = (
    select(
        *(column for column in _COLUMNS if column.name != "presentation"),
        _ASKED.c.presentation_id.label("presentation"),
    )
    .join(_ASKED, _ASKED.c.key == answer.c.key)
    .where(answer.c.status == HTTPStatus.OK)
    .order_by(_ASKED.c.presentation_id, answer.c.at, answer.c.attempt)
)
_ATTEMPTS = (
    select(
        request.c.key,
        func.max(request.c.attempt).label("last"),
        func.max(request.c.attempt).filter(request.c.state == "open").label("open"),
    )
    .where(request.c.key.in_(bindparam("asked", expanding=True)))
    .group_by(request.c.key)
)
_RATERS = select(presentation.c.id, presentation.c.rater_id).where(
    presentation.c.id.in_(bindparam("asked", expanding=True))
)


def add(connection: Connection, entries: Sequence[Answer]) -> list[Answer]:
    """Append answers, and return them with their attempts; a second one for the same key is kept too.

    Must run alone among those who reserve or settle.

    Raises:
        StudyError: There is no such presentation, or a key is empty or too long.
        ValueError: An answer is of nothing in the study, and nothing was reserved for it.
    """
    if not entries:
        return []
    placed = _placed(connection, entries)
    connection.execute(insert(answer), [_values(entry) for entry in placed])
    return placed


def complete(connection: Connection, keys: Iterable[str]) -> dict[str, Answer]:
    """Return the newest complete answer by key; complete is HTTP 200."""
    found = {}
    for part in batches(list(keys)):
        for row in connection.execute(_COMPLETE, {"asked": part}).mappings():
            found[row["key"]] = Answer(**row)
    return found


def keys(connection: Connection) -> set[str]:
    """Return the keys that have a complete answer."""
    return set(
        connection.execute(select(answer.c.key).where(answer.c.status == HTTPStatus.OK).distinct()).scalars()
    )


def judged(connection: Connection, name: str) -> list[int]:
    """Return the presentations of that judge that have a complete answer, in order."""
    statement = (
        select(request.c.presentation_id)
        .join(answer, answer.c.key == request.c.key)
        .join(rater, rater.c.id == request.c.rater_id)
        .where(
            rater.c.name == name,
            request.c.presentation_id.is_not(None),
            answer.c.status == HTTPStatus.OK,
        )
        .distinct()
        .order_by(request.c.presentation_id)
    )
    return [number for number in connection.execute(statement).scalars() if number is not None]


def of(connection: Connection, presentations: Sequence[int]) -> list[Answer]:
    """Return the complete answers about these presentations, of each the oldest first."""
    return [Answer(**row) for row in connection.execute(_OF, {"asked": list(presentations)}).mappings()]


def fail(connection: Connection, entries: Sequence[Unjudged], now: datetime) -> None:
    """Note which presentations could not be judged.

    Raises:
        StudyError: There is no such presentation.
    """
    if entries:
        _raters(connection, [entry.presentation for entry in entries])
        rows = [
            {"presentation_id": entry.presentation, "kind": entry.kind, "detail": entry.detail, "at": now}
            for entry in entries
        ]
        connection.execute(insert(failure), rows)


def failures(connection: Connection) -> list[Failure]:
    """Return the failures whose presentation has no verdict to this day, oldest first."""
    statement = (
        select(
            failure.c.presentation_id.label("presentation"),
            rater.c.name.label("rater"),
            failure.c.kind,
            failure.c.detail,
            failure.c.at,
        )
        .join(presentation, presentation.c.id == failure.c.presentation_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .where(presentation.c.rated_at.is_(None))
        .order_by(failure.c.id)
    )
    return [Failure(**row) for row in connection.execute(statement).mappings()]


def _placed(connection: Connection, entries: Sequence[Answer]) -> list[Answer]:
    """Return the answers with their attempts; what nobody has reserved becomes a request here."""
    if all(entry.attempt is not None for entry in entries):
        return list(entries)
    for entry in entries:
        check_name("key of the answer", entry.key)
    raters = _raters(connection, [entry.presentation for entry in entries if entry.presentation is not None])
    rows = connection.execute(_ATTEMPTS, {"asked": [entry.key for entry in entries]})
    attempts = {row.key: (row.last, row.open) for row in rows}
    placed, made = [], []
    for entry in entries:
        last, opened = attempts.get(entry.key, (-1, None))
        attempt = entry.attempt
        if attempt is None and opened is not None:
            attempt = opened
        elif attempt is None:
            attempt = last + 1
            if entry.presentation is None:
                raise ValueError(f"nothing was reserved for the key {entry.key}, which is of no presentation")
            made.append(_request(entry, attempt, raters[entry.presentation]))
        attempts[entry.key] = (max(last, attempt), None)
        placed.append(_numbered(entry, attempt))
    if made:
        connection.execute(insert(request), made)
    return placed


def _numbered(entry: Answer, attempt: int) -> Answer:
    return Answer(**{**asdict(entry), "attempt": attempt})


def _request(entry: Answer, attempt: int, rater_id: int) -> dict[str, object]:
    return {
        "key": entry.key,
        "attempt": attempt,
        "rater_id": rater_id,
        "presentation_id": entry.presentation,
        "style": entry.backend,
        "state": "open",
        "sent_at": entry.at,
    }


def _values(entry: Answer) -> dict[str, object]:
    values = {name: getattr(entry, name) for name in _FIELDS}
    values["presentation_id"] = values.pop("presentation")
    return values


def _raters(connection: Connection, numbers: Sequence[int]) -> dict[int, int]:
    """Return the rater of each presentation.

    Raises:
        StudyError: There is no such presentation.
    """
    found: dict[int, int] = {}
    for part in batches([number for number in numbers if 0 < number < 2**31]):
        found.update((row.id, row.rater_id) for row in connection.execute(_RATERS, {"asked": part}))
    for number in numbers:
        if number not in found:
            raise StudyError(f"there is no presentation {number}; it is not of this study")
    return found
