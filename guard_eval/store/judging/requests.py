"""Requests: their money set aside and their bytes stored before they are sent, and what became of them.

What may be sent is decided in one transaction at a time, so that a budget holds: a request that has its
answer is not sent again, one that another process is sending is waited for, and one that could cost more than
is left is not sent.

All requests of a judge begin alike, with its settings and its instructions. So the beginning of the first one
is stored once, and all are compressed against it: that halves what they take, and what it takes to write them
(benchmarks/RESULTS.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from sqlalchemy import Connection, Float, bindparam, cast, func, insert, select, update

from guard_eval.store.connection import Database
from guard_eval.store.judging import journal, runs
from guard_eval.store.judging.schema import request, sent, sent_form
from guard_eval.store.judging.values import (
    Answer,
    JudgeRun,
    NotReserved,
    PlannedRequest,
    Reservation,
    Settlement,
)
from guard_eval.store.schema import batches, presentation

LOCK = "requests"
"""One process at a time reserves or settles."""

_BILLION = 10**9

_KNOWN = select(
    request.c.key, request.c.attempt, request.c.state, request.c.run_id, request.c.batch_id
).where(request.c.key.in_(bindparam("asked", expanding=True)))

_MINE = select(presentation.c.id).where(
    presentation.c.id.in_(bindparam("asked", expanding=True)),
    presentation.c.run_id == bindparam("asked_run"),
    presentation.c.rated_at.is_(None),
)

_BOOKED = select(func.coalesce(func.sum(request.c.booked), 0))

# of each judge whose responses cost more than was set aside: how much more at worst
_OVERRUN = (
    select(
        request.c.rater_id, func.max(cast(request.c.booked, Float(53)) / request.c.reserved).label("times")
    )
    .where(request.c.state == "answered", request.c.reserved > 0, request.c.booked > request.c.reserved)
    .group_by(request.c.rater_id)
)

_HELD = select(request.c.reserved, request.c.booked).where(
    request.c.rater_id == bindparam("asked_rater"),
    request.c.state.in_(("open", "lost")),
    request.c.reserved > 0,
)

_SETTLE = (
    update(request)
    .where(request.c.key == bindparam("its_key"), request.c.attempt == bindparam("its_attempt"))
    .values(
        state=bindparam("now_state"),
        settled_at=bindparam("now_settled"),
        booked=func.coalesce(bindparam("now_booked", type_=request.c.booked.type), request.c.booked),
    )
)

Outcome = Reservation | Answer | NotReserved


def nano(usd: float) -> int:
    """Return US dollars in billionths, rounded up, but for the noise of binary fractions.

    >>> nano(0.00052), nano(1e-10)
    (520000, 1)
    """
    exact = round(usd * _BILLION, 3)
    return int(exact) + (exact > int(exact))


def reserve(
    connection: Connection,
    this: JudgeRun,
    planned: Sequence[PlannedRequest],
    *,
    now: datetime,
    limit_usd: float | None = None,
    batch_id: int | None = None,
) -> list[Outcome]:
    """Return for each request the right to send it, its answer if there is one, or why it may not be sent.

    Must run alone among those who reserve or settle. The budget is that of the whole study. Where a judge's
    response has cost more than was set aside for it, every request of that judge counts for as many times its
    own sum as the worst one did, whether it is to be sent, under way or lost.

    Raises:
        ValueError: There is a budget, and the cost of a request is unknown.
    """
    keys = [each.key for each in planned]
    answers = journal.complete(connection, keys)
    attempts, taken = _known(connection, this, keys, now)
    mine = _mine(connection, this, planned)
    times, left = (1.0, None) if limit_usd is None else _left(connection, this, limit_usd)
    outcomes: list[Outcome] = []
    rows = []
    for each in planned:
        if each.key in answers:
            outcomes.append(answers[each.key])
            if each.presentation not in (None, answers[each.key].presentation):
                # for this presentation too the answer is that of the same request
                row = _row(this, each, now, attempt=attempts[each.key], cost=0)
                rows.append(row | {"state": "released", "settled_at": now})
                attempts[each.key] += 1
        elif each.key in taken:
            outcomes.append("elsewhere")
        elif each.presentation is not None and each.presentation not in mine:
            outcomes.append("not_claimed")
        else:
            cost = None if each.usd is None else nano(each.usd)
            if left is not None:
                if cost is None:
                    raise ValueError(f"a budget of {limit_usd} US dollars, and a request of unknown cost")
                if (bound := ceil(cost * times)) > left:
                    outcomes.append("budget")
                    continue
                left -= bound
            attempt = attempts.get(each.key, 0)
            taken.add(each.key)
            rows.append(_row(this, each, now, attempt=attempt, cost=cost, batch_id=batch_id))
            outcomes.append(Reservation(key=each.key, attempt=attempt, usd=each.usd))
    if rows:
        connection.execute(insert(request), rows)
    return outcomes


def settle(connection: Connection, settled: Sequence[Settlement | Answer], now: datetime) -> None:
    """Note what became of requests: an answer's cost counts, and what was not billed frees its money.

    What is lost, and an answer of unknown cost, stays as reserved.
    """
    if settled:
        rows = [
            {
                "its_key": each.key,
                "its_attempt": each.attempt,
                "now_state": "answered" if isinstance(each, Answer) else each.state,
                "now_settled": now,
                "now_booked": _booked(each),
            }
            for each in settled
        ]
        connection.execute(_SETTLE, rows)


def _booked(settled: Settlement | Answer) -> int | None:
    if isinstance(settled, Answer):
        return None if settled.usd is None else nano(settled.usd)
    return 0 if settled.state == "released" else None


def _left(connection: Connection, this: JudgeRun, limit_usd: float) -> tuple[float, int]:
    """Return how many times its own sum a request counts, and what is left, in billionths of a US dollar."""
    worst = {row.rater_id: float(row.times) for row in connection.execute(_OVERRUN)}
    short = sum(
        max(0, ceil(row.reserved * times) - row.booked)
        for rater, times in worst.items()
        for row in connection.execute(_HELD, {"asked_rater": rater})
    )
    booked = int(connection.execute(_BOOKED).scalar_one())
    return worst.get(this.rater.id, 1.0), int(limit_usd * _BILLION + 1e-3) - booked - short


def _known(
    connection: Connection, this: JudgeRun, keys: Sequence[str], now: datetime
) -> tuple[dict[str, int], set[str]]:
    """Return the next attempt of each key, and the keys that are being sent."""
    attempts: dict[str, int] = {}
    under_way: list[tuple[str, int | None]] = []
    taken: set[str] = set()
    for part in batches(keys):
        for row in connection.execute(_KNOWN, {"asked": part}):
            attempts[row.key] = max(attempts.get(row.key, 0), row.attempt + 1)
            if row.state == "open" and row.batch_id is not None:
                taken.add(row.key)
            elif row.state == "open":
                under_way.append((row.key, row.run_id))
    if under_way:
        going = runs.live(connection, this.rater, now)
        taken.update(key for key, number in under_way if number in going or number == this.id)
    return attempts, taken


def _mine(connection: Connection, this: JudgeRun, planned: Sequence[PlannedRequest]) -> set[int]:
    mine: set[int] = set()
    for part in batches([each.presentation for each in planned if each.presentation is not None]):
        mine.update(connection.execute(_MINE, {"asked": part, "asked_run": this.id}).scalars())
    return mine


def _row(
    this: JudgeRun,
    each: PlannedRequest,
    now: datetime,
    *,
    attempt: int,
    cost: int | None,
    batch_id: int | None = None,
) -> dict[str, object]:
    return {
        "key": each.key,
        "attempt": attempt,
        "rater_id": this.rater.id,
        "presentation_id": each.presentation,
        "run_id": this.id if batch_id is None else None,
        "batch_id": batch_id,
        "style": each.style,
        "shape": each.shape,
        "state": "open",
        "reserved": cost,
        "booked": cost,
        "sent_at": now,
        "settled_at": None,
    }


_FORM_BYTES = 8192
"""How much of a first request is stored: more than its instructions take, less than zlib looks back."""

_SENT = (
    select(sent.c.key, sent.c.attempt, sent.c.body, sent.c.form_id)
    .where(sent.c.key.in_(bindparam("asked", expanding=True)))
    .order_by(sent.c.form_id)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    id: int
    body: bytes


class SentRequests:
    """Writes what is sent; remembers the forms, of each judge and shape one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._forms: dict[tuple[int, str | None], _Form] = {}

    def compress(self, this: JudgeRun, planned: Sequence[PlannedRequest]) -> list[dict[str, object] | None]:
        """Return the requests as they are stored; call it before the transaction, since it takes its time."""
        return [None if each.body is None else self._row(this, each, each.body) for each in planned]

    def _row(self, this: JudgeRun, planned: PlannedRequest, body: bytes) -> dict[str, object]:
        form = self._forms.get((this.rater.id, planned.shape))
        if form is None:
            with self._database.write() as connection:
                form = _find_or_add(connection, this.rater.id, planned.shape, body[:_FORM_BYTES])
            self._forms[this.rater.id, planned.shape] = form
        packer = zlib.compressobj(1, zdict=form.body)
        return {"form_id": form.id, "body": packer.compress(body) + packer.flush()}


def store_sent(
    connection: Connection, rows: Sequence[dict[str, object] | None], outcomes: Sequence[Outcome]
) -> None:
    """Store the requests that may be sent; `rows` are those of `compress`, `outcomes` of `reserve`."""
    stored = [
        {**row, "key": right.key, "attempt": right.attempt}
        for row, right in zip(rows, outcomes, strict=True)
        if row is not None and isinstance(right, Reservation)
    ]
    if stored:
        connection.execute(insert(sent), stored)


def read_sent(connection: Connection, keys: Sequence[str]) -> dict[tuple[str, int], bytes]:
    """Return what was sent under these keys, by key and attempt."""
    forms: dict[int, bytes] = {}
    found = {}
    for part in batches(keys):
        for row in connection.execute(_SENT, {"asked": part}).all():
            if row.form_id not in forms:
                form = select(sent_form.c.body).where(sent_form.c.id == row.form_id)
                forms[row.form_id] = connection.execute(form).scalar_one()
            found[row.key, row.attempt] = zlib.decompressobj(zdict=forms[row.form_id]).decompress(row.body)
    return found


def _find_or_add(connection: Connection, rater_id: int, shape: str | None, body: bytes) -> _Form:
    same = sent_form.c.shape.is_(None) if shape is None else sent_form.c.shape == shape
    known = select(sent_form).where(sent_form.c.rater_id == rater_id, same).order_by(sent_form.c.id).limit(1)
    row = connection.execute(known).first()
    if row is not None:
        return _Form(id=row.id, body=row.body)
    values = {"rater_id": rater_id, "shape": shape, "body": body}
    added = insert(sent_form).values(values).returning(sent_form.c.id)
    return _Form(id=connection.execute(added).scalar_one(), body=body)
