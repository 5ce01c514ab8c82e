"""The requests as they were sent, byte for byte, in the transaction that reserves their money.

All requests of a judge begin alike, with its settings and its instructions. So the beginning of the first one
is stored once, and all are compressed against it: that halves what they take, and what it takes to write them
(benchmarks/RESULTS.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select

from guard_eval.store.connection import Database
from guard_eval.store.judging.requests import Outcome
from guard_eval.store.judging.schema import sent, sent_form
from guard_eval.store.judging.values import JudgeRun, PlannedRequest, Reservation
from guard_eval.store.schema import batches

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
        """Return the requests as they are kept; call it before the transaction, since it takes its time."""
        return [None if each.body is None else self._row(this, each, each.body) for each in planned]

    def _row(self, this: JudgeRun, planned: PlannedRequest, body: bytes) -> dict[str, object]:
        form = self._forms.get((this.rater.id, planned.shape))
        if form is None:
            with self._database.write() as connection:
                form = _find_or_add(connection, this.rater.id, planned.shape, body[:_FORM_BYTES])
            self._forms[this.rater.id, planned.shape] = form
        packer = zlib.compressobj(1, zdict=form.body)
        return {"form_id": form.id, "body": packer.compress(body) + packer.flush()}


def keep(
    connection: Connection, rows: Sequence[dict[str, object] | None], outcomes: Sequence[Outcome]
) -> None:
    """Keep the requests that may be sent; `rows` are those of `compress`, `outcomes` of `reserve`."""
    kept = [
        {**row, "key": right.key, "attempt": right.attempt}
        for row, right in zip(rows, outcomes, strict=True)
        if row is not None and isinstance(right, Reservation)
    ]
    if kept:
        connection.execute(insert(sent), kept)


def read(connection: Connection, keys: Sequence[str]) -> dict[tuple[str, int], bytes]:
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
