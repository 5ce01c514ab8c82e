"""Batches at a provider: written down before each step, so that whoever comes next can go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, or_, select, update

from guard_eval.errors import StudyError
from guard_eval.store.judging import requests, runs
from guard_eval.store.judging.requests import Outcome
from guard_eval.store.judging.schema import batch, request
from guard_eval.store.judging.values import Batch, BatchRequest, JudgeRun, Wanted
from guard_eval.store.schema import rater

DONE = "done"
"""The status of a batch in which everything is settled."""

_CHANGEABLE = {"provider_id", "input_file", "output_file", "error_file", "status"}


def add(
    connection: Connection,
    this: JudgeRun,
    wanted: Sequence[Wanted],
    *,
    now: datetime,
    limit_usd: float | None,
) -> tuple[Batch, list[Outcome]]:
    """Make a batch of what may be sent; return it, and what became of each request.

    Must run alone among those who reserve or settle.
    """
    values = {"rater_id": this.rater.id, "run_id": this.id, "status": "new", "made_at": now}
    number = connection.execute(insert(batch).values(values).returning(batch.c.id)).scalar_one()
    outcomes = requests.reserve(connection, this, wanted, now=now, limit_usd=limit_usd, batch_id=number)
    return read(connection, batch.c.id == number)[0], outcomes


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
    values: dict[str, object] = {"state": "lost" if billed else "released", "settled_at": now}
    if not billed:
        values["booked"] = 0
    count = connection.execute(update(request).where(*left).values(values)).rowcount
    change(connection, number, {"status": DONE})
    return count


def adopt(connection: Connection, this: JudgeRun, now: datetime) -> list[Batch]:
    """Take the judge's batches that nobody looks after; return all that are this run's and not done.

    Must run alone in the rater's pool.
    """
    others = [number for number in runs.live(connection, this.rater, now) if number != this.id]
    free = (
        batch.c.rater_id == this.rater.id,
        batch.c.status != DONE,
        or_(batch.c.run_id.is_(None), batch.c.run_id.not_in(others)),
    )
    connection.execute(update(batch).where(*free).values(run_id=this.id))
    return read(connection, batch.c.run_id == this.id, batch.c.status != DONE)


def read(connection: Connection, *wanted: object) -> list[Batch]:
    """Return the batches for which `wanted` holds, oldest first."""
    statement = select(batch, rater.c.name.label("rater")).join(rater, rater.c.id == batch.c.rater_id)
    rows = connection.execute(statement.where(*wanted).order_by(batch.c.id))  # type: ignore[arg-type]
    return [
        Batch(
            id=row.id,
            rater=row.rater,
            provider_id=row.provider_id,
            input_file=row.input_file,
            output_file=row.output_file,
            error_file=row.error_file,
            status=row.status,
            made_at=row.made_at,
        )
        for row in rows
    ]


def requests_of(connection: Connection, number: int) -> list[BatchRequest]:
    """Return what is in a batch, by presentation and key."""
    columns = (request.c.key, request.c.attempt, request.c.presentation_id, request.c.state, request.c.shape)
    statement = select(*columns).where(request.c.batch_id == number)
    rows = connection.execute(statement.order_by(request.c.presentation_id, request.c.key))
    return [
        BatchRequest(
            key=row.key,
            attempt=row.attempt,
            presentation=row.presentation_id,
            state=row.state,
            shape=row.shape,
        )
        for row in rows
    ]
