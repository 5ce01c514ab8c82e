"""What says the time: this machine, or a database server, which says the same to all machines.

A lease that one machine gave is looked at by another. By their own clocks, one that is ahead by more than the
lease would take what the other still works on.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

_COUNTER = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""Counts on while a laptop sleeps, and never jumps; Linux has the first, Windows neither."""


def machine() -> datetime:
    """Return the time as this machine has it."""
    return datetime.now(UTC)


class ServerClock:
    """A database server's time: read with each new connection, and counted on from there by this machine.

    Asking in every transaction would cost a round trip each.
    """

    def __init__(self) -> None:
        self._read: tuple[datetime, float] | None = None

    def read(self, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        """Ask the server: for SQLAlchemy's event `connect`."""
        cursor = connection.cursor()
        cursor.execute("SELECT clock_timestamp()")
        (at,) = cursor.fetchone() or (machine(),)
        self._read = at.astimezone(UTC), _count()
        cursor.close()
        connection.commit()

    def __call__(self) -> datetime:
        """Return the time; before there was a connection, this machine's."""
        if self._read is None:
            return machine()
        at, since = self._read
        return at + timedelta(seconds=_count() - since)


def _count() -> float:
    return time.monotonic() if _COUNTER is None else time.clock_gettime(_COUNTER)
