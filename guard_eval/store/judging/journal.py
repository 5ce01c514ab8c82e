"""The judge's journal: every answer as the server sent it, what failed, and what the judges have taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from http import HTTPStatus
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, bindparam, case, func, insert, select

from guard_eval.records import JudgeSpending, ModelSeen
from guard_eval.store.judging.schema import answer, failure, request
from guard_eval.store.judging.values import Answer, Failure, Unjudged, Usage
from guard_eval.store.schema import batches, presentation, rater

_USAGE = [field.name for field in fields(Usage)]
_FIELDS = [field.name for field in fields(Answer) if field.name not in ("usage", "presentation")]
COLUMNS = [column for column in answer.c if column.name != "presentation_id"]
"""What is read of an answer; whose presentation it counts for is the reader's business."""

_COMPLETE = (
    select(*COLUMNS, answer.c.presentation_id.label("presentation"))
    .where(answer.c.key.in_(bindparam("asked", expanding=True)), answer.c.status == HTTPStatus.OK)
    .order_by(answer.c.attempt)
)
# an answer may be of several presentations whose requests are the same; each has a request of its own
_REQUESTED = (
    select(request.c.presentation_id, request.c.key)
    .where(request.c.presentation_id.in_(bindparam("asked", expanding=True)))
    .distinct()
    .subquery()
)
_OF_PRESENTATIONS = (
    select(*COLUMNS, _REQUESTED.c.presentation_id.label("presentation"))
    .join(_REQUESTED, _REQUESTED.c.key == answer.c.key)
    .where(answer.c.status == HTTPStatus.OK)
    .order_by(_REQUESTED.c.presentation_id, answer.c.at, answer.c.attempt)
)

_BILLION = 10**9


def add(connection: Connection, entries: Sequence[Answer]) -> None:
    """Append answers to requests that were reserved."""
    if entries:
        connection.execute(insert(answer), [_values(entry) for entry in entries])


def complete(connection: Connection, keys: Iterable[str]) -> dict[str, Answer]:
    """Return the newest complete answer by key; complete is HTTP 200."""
    return {
        row["key"]: answer_of(row)
        for part in batches(list(keys))
        for row in connection.execute(_COMPLETE, {"asked": part}).mappings()
    }


def keys(connection: Connection) -> set[str]:
    """Return the keys that have a complete answer."""
    statement = select(answer.c.key).where(answer.c.status == HTTPStatus.OK).distinct()
    return set(connection.execute(statement).scalars())


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
    rows = connection.execute(_OF_PRESENTATIONS, {"asked": list(presentations)})
    return [answer_of(row) for row in rows.mappings()]


def fail(connection: Connection, entries: Sequence[Unjudged], now: datetime) -> None:
    """Note which presentations could not be judged."""
    if entries:
        rows = [
            {"presentation_id": entry.presentation, "kind": entry.kind, "detail": entry.detail, "at": now}
            for entry in entries
        ]
        connection.execute(insert(failure), rows)


def failures(connection: Connection, *wanted: ColumnElement[bool]) -> list[Failure]:
    """Return the failures for which `wanted` holds, or whose presentation has no verdict, oldest first."""
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
        .where(*(wanted or [presentation.c.rated_at.is_(None)]))
        .order_by(failure.c.id)
    )
    return [Failure(**row) for row in connection.execute(statement).mappings()]


def spending(connection: Connection) -> list[JudgeSpending]:
    """Return one row per judge that was ever asked, by name."""
    sent, done = request.c.state != "released", request.c.state == "answered"
    unmetered = and_(done, answer.c.input_tokens.is_(None) | answer.c.output_tokens.is_(None))
    counts = {
        "requests": sent,
        "answers": done,
        "lost": request.c.state == "lost",
        "open": request.c.state == "open",
        "unmetered": unmetered,
        "unpriced": and_(sent, request.c.booked.is_(None)),
    }
    sums: dict[str, ColumnElement[int]] = {
        **{name: case((condition, 1), else_=0) for name, condition in counts.items()},
        **{name: answer.c[name] for name in _USAGE if name.endswith("_tokens")},
        "usd": case((done, request.c.booked)),
        "held_usd": case((~done, request.c.booked)),
    }
    statement = (
        select(
            rater.c.name.label("judge"),
            *(func.coalesce(func.sum(column), 0).label(name) for name, column in sums.items()),
        )
        .join(rater, rater.c.id == request.c.rater_id)
        .outerjoin(answer, and_(answer.c.key == request.c.key, answer.c.attempt == request.c.attempt))
        .group_by(rater.c.name)
        .order_by(rater.c.name)
    )
    rows: list[JudgeSpending] = []
    for row in connection.execute(statement).mappings():
        values: dict[str, Any] = {name: int(row[name]) for name in sums}
        values |= {name: values[name] / _BILLION for name in ("usd", "held_usd")}
        rows.append(JudgeSpending(judge=row["judge"], **values))
    return rows


def models(connection: Connection) -> list[ModelSeen]:
    """Return the models of every judge, by its name and in the order in which they were first seen."""
    first = func.min(answer.c.at).label("first")
    columns = (rater.c.name.label("judge"), answer.c.model, answer.c.fingerprint)
    statement = (
        select(*columns, func.count().label("answers"), first, func.max(answer.c.at).label("last"))
        .join(request, and_(request.c.key == answer.c.key, request.c.attempt == answer.c.attempt))
        .join(rater, rater.c.id == request.c.rater_id)
        .where(answer.c.status == HTTPStatus.OK)
        .group_by(rater.c.name, answer.c.model, answer.c.fingerprint)
        .order_by(rater.c.name, first)
    )
    return [ModelSeen(**row) for row in connection.execute(statement).mappings()]


def answer_of(row: RowMapping) -> Answer:
    """Return the answer in a row of `COLUMNS` and its `presentation`."""
    values = dict(row)
    usage = Usage(**{name: values.pop(name) for name in _USAGE})
    return Answer(usage=usage, **values)


def _values(entry: Answer) -> dict[str, object]:
    return {
        **{name: getattr(entry, name) for name in _FIELDS},
        **{name: getattr(entry.usage, name) for name in _USAGE},
        "presentation_id": entry.presentation,
    }
