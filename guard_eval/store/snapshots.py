"""Which models a judge's answers came from, as its server named them: a judge may change overnight."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from sqlalchemy import Connection, and_, func, select

from guard_eval.store.judge_schema import answer, request
from guard_eval.store.schema import rater


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
