"""The judge's journal: every answer as the server sent it, and what could not be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from http import HTTPStatus

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, insert, select

from guard_eval.errors import StudyError
from guard_eval.store.judging.schema import answer, failure, request
from guard_eval.store.judging.values import Answer, Failure, Spend, Unjudged
from guard_eval.store.presentations import batches
from guard_eval.store.schema import check_name, presentation, rater

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
        "shape": entry.shape,
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


_BILLION = 10**9


def spend(connection: Connection) -> list[Spend]:
    """Return one row per judge that was ever asked, by name."""
    sent = request.c.state != "released"
    done = request.c.state == "answered"
    unmetered = and_(done, answer.c.input_tokens.is_(None) | answer.c.output_tokens.is_(None))
    statement = (
        select(
            rater.c.name.label("judge"),
            _count(sent).label("requests"),
            _count(done).label("answers"),
            _count(request.c.state == "lost").label("lost"),
            _count(request.c.state == "open").label("open"),
            _count(unmetered).label("unmetered"),
            *(_sum(answer.c[name]).label(name) for name in _TOKENS),
            _sum(case((done, request.c.booked))).label("usd"),
            _sum(case((~done, request.c.booked))).label("held_usd"),
            _count(and_(sent, request.c.booked.is_(None))).label("unpriced"),
        )
        .join(rater, rater.c.id == request.c.rater_id)
        .outerjoin(answer, and_(answer.c.key == request.c.key, answer.c.attempt == request.c.attempt))
        .group_by(rater.c.name)
        .order_by(rater.c.name)
    )
    rows = []
    for row in connection.execute(statement).mappings():
        counts = {name: int(value) for name, value in row.items() if name not in {"judge", *_MONEY}}
        money = {name: int(row[name]) / _BILLION for name in _MONEY}
        rows.append(Spend(judge=row["judge"], **counts, **money))  # type: ignore[arg-type]
    return rows


_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_MONEY = ("usd", "held_usd")


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    return func.coalesce(func.sum(column), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What one judge's server called the model and its configuration, and when.

    Attributes:
        judge: The rater's name.
        model: The model's snapshot; None where the server did not say.
        fingerprint: The server's name for its configuration; None where it gave none.
        answers: How many answers were of it.
        first: When the first of them came, in UTC.
        last: When the last of them came, in UTC.
    """

    judge: str
    model: str | None
    fingerprint: str | None
    answers: int
    first: datetime
    last: datetime


def snapshots(connection: Connection) -> list[Snapshot]:
    """Return the snapshots of every judge, by its name and in the order in which they were first seen."""
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
    return [Snapshot(**row) for row in connection.execute(statement).mappings()]
