"""The requests as they were sent, byte for byte, in the transaction that reserves their money.

They are compressed one by one, to four tenths of their size. A dictionary of what a judge's requests share
would save another two or three kilobytes each (benchmarks/RESULTS.md); it would also be one more thing that
must never be lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, insert, select

from guard_eval.store.judging.requests import Outcome
from guard_eval.store.judging.schema import sent
from guard_eval.store.judging.values import PlannedRequest, Reservation
from guard_eval.store.schema import batches

_SENT = select(sent).where(sent.c.key.in_(bindparam("asked", expanding=True)))


def compressed(planned: Sequence[PlannedRequest]) -> list[bytes | None]:
    """Return the requests as they are kept; call it before the transaction, since it takes its time."""
    return [None if each.body is None else zlib.compress(each.body) for each in planned]


def keep(connection: Connection, bodies: Sequence[bytes | None], outcomes: Sequence[Outcome]) -> None:
    """Keep the requests that may be sent; `bodies` are those of `compressed`, `outcomes` of `reserve`."""
    rows = [
        {"key": right.key, "attempt": right.attempt, "body": body}
        for body, right in zip(bodies, outcomes, strict=True)
        if body is not None and isinstance(right, Reservation)
    ]
    if rows:
        connection.execute(insert(sent), rows)


def read(connection: Connection, keys: Sequence[str]) -> dict[tuple[str, int], bytes]:
    """Return what was sent under these keys, by key and attempt."""
    return {
        (row.key, row.attempt): zlib.decompress(row.body)
        for part in batches(keys)
        for row in connection.execute(_SENT, {"asked": part})
    }
