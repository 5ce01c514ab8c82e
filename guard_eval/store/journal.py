"""The judge's journal: every answer as the server sent it, and what could not be judged."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from http import HTTPStatus

from sqlalchemy import Connection, func, insert, select

from guard_eval.errors import StudyError
from guard_eval.store.names import check_name
from guard_eval.store.schema import answer, failure, presentation, rater
from guard_eval.store.values import Answer, Failure

_FIELDS = [field.name for field in fields(Answer)]
_COLUMNS = [
    answer.c.presentation_id.label(name) if name == "presentation" else answer.c[name] for name in _FIELDS
]


def add(connection: Connection, entry: Answer) -> None:
    """Append an answer; a second one for the same key is kept beside the first.

    Raises:
        StudyError: There is no such presentation, or the key is empty or too long.
    """
    check_name("key of the answer", entry.key)
    _check_presentation(connection, entry.presentation)
    attempts = select(func.count()).where(answer.c.key == entry.key)
    values = asdict(entry) | {"attempt": connection.execute(attempts).scalar_one()}
    values["presentation_id"] = values.pop("presentation")
    connection.execute(insert(answer).values(values))


def complete(connection: Connection) -> dict[str, Answer]:
    """Return the newest complete answer by key; complete is HTTP 200."""
    statement = select(*_COLUMNS).where(answer.c.status == HTTPStatus.OK).order_by(answer.c.attempt)
    return {row["key"]: Answer(**row) for row in connection.execute(statement).mappings()}


def fail(connection: Connection, number: int, kind: str, detail: str, now: datetime) -> None:
    """Note that a presentation could not be judged.

    Raises:
        StudyError: There is no such presentation.
    """
    _check_presentation(connection, number)
    connection.execute(insert(failure).values(presentation_id=number, kind=kind, detail=detail, at=now))


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


def _check_presentation(connection: Connection, number: int) -> None:
    statement = select(presentation.c.id).where(presentation.c.id == number)
    if not 0 < number < 2**31 or connection.execute(statement).one_or_none() is None:
        raise StudyError(f"there is no presentation {number}; it is not of this study")
