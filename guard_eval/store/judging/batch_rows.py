"""Batches at a provider: written down before each step, so that the next run can go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, or_, select, update

from guard_eval.errors import StudyError
from guard_eval.store.judging import requests, runs
from guard_eval.store.judging.requests import Outcome
from guard_eval.store.judging.schema import batch, request
from guard_eval.store.judging.values import BatchRequest, JudgeBatch, JudgeRun, PlannedRequest

DONE = "done"
"""The status of a batch in which everything is settled."""

_COLUMNS = tuple(column for column in batch.c if column.name not in ("rater_id", "run_id"))
_CHANGEABLE = {"provider_id", "input_file", "output_file", "error_file", "status"}


def add(
    connection: Connection,
    this: JudgeRun,
    planned: Sequence[PlannedRequest],
    *,
    now: datetime,
    limit_usd: float | None,
) -> tuple[JudgeBatch, list[Outcome]]:
    """Make a batch of what may be sent; return it, and what became of each request.

    Must run alone among those who reserve or settle.
    """
    values = {"rater_id": this.rater.id, "run_id": this.id, "status": "new", "made_at": now}
    made = connection.execute(insert(batch).values(values).returning(*_COLUMNS)).mappings().one()
    return JudgeBatch(**made), requests.reserve(
        connection, this, planned, now=now, limit_usd=limit_usd, batch_id=made["id"]
    )


def change(connection: Connection, number: int, values: dict[str, str | None]) -> None:
    """Note a batch's next step.

    Raises:
        StudyError: There is no such batch.
        ValueError: A name is none of a batch.
    """
    if unknown := set(values) - _CHANGEABLE:
        raise ValueError(f"a batch has no {', '.join(sorted(unknown))}")
    if connection.execute(update(batch).where(batch.c.id == number).values(values)).rowcount != 1:
        raise StudyError(f"there is no batch {number} in this study")


def close(connection: Connection, number: int, *, billed: bool, now: datetime) -> int:
    """Note that a batch brings nothing more; return how many of its requests are left unanswered.

    Must run alone among those who reserve or settle.
    """
    left = (request.c.batch_id == number, request.c.state == "open")
    values: dict[str, object] = {"state": "lost"} if billed else {"state": "released", "booked": 0}
    count = connection.execute(update(request).where(*left).values({**values, "settled_at": now})).rowcount
    change(connection, number, {"status": DONE})
    return count


def adopt(connection: Connection, this: JudgeRun, now: datetime) -> list[JudgeBatch]:
    """Take the judge's batches that no living run has; return all that are this run's and not done.

    Must run alone in the rater's pool.
    """
    unfinished = (batch.c.rater_id == this.rater.id, batch.c.status != DONE)
    others = [number for number in runs.live(connection, this.rater, now) if number != this.id]
    free = or_(batch.c.run_id.is_(None), batch.c.run_id.not_in(others))
    connection.execute(update(batch).where(*unfinished, free).values(run_id=this.id))
    mine = select(*_COLUMNS).where(*unfinished, batch.c.run_id == this.id).order_by(batch.c.id)
    return [JudgeBatch(**row) for row in connection.execute(mine).mappings()]


def requests_of(connection: Connection, number: int) -> list[BatchRequest]:
    """Return what is in a batch and not settled, by presentation and key."""
    presentation = request.c.presentation_id.label("presentation")
    left = (
        select(request.c.key, request.c.attempt, presentation, request.c.shape)
        .where(request.c.batch_id == number, request.c.state == "open")
        .order_by(request.c.presentation_id, request.c.key)
    )
    return [BatchRequest(**row) for row in connection.execute(left).mappings()]


def keys_of(connection: Connection, number: int) -> frozenset[str]:
    """Return the keys of all that was put into a batch, settled or not."""
    return frozenset(connection.execute(select(request.c.key).where(request.c.batch_id == number)).scalars())


def names(connection: Connection) -> set[str]:
    """Return the providers' names of all batches that have one."""
    found = connection.execute(select(batch.c.provider_id).where(batch.c.provider_id.is_not(None)))
    return set(found.scalars())
