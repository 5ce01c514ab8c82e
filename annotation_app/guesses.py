"""How many wrong invites one address may try: guessing gets nowhere, and who mistypes waits a moment.

An invite has 256 random bits, so that no number of guesses finds one; this keeps guessing from being work for
the database. Each process counts for itself. Only what was wrong counts, so that a class behind one address
signs in at once; but an address that guessed too much waits even with the right invite, for otherwise it
would learn which one that is.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

BURST = 20
"""Wrong invites in a row."""

SECONDS_EACH = 6.0
"""After so many seconds one more is allowed."""

REMEMBERED = 10_000
"""Addresses; the one that was wrong longest ago is forgotten first."""


class Guesses:
    """A bucket of wrong guesses for each address, which empties with time."""

    def __init__(
        self,
        *,
        burst: int = BURST,
        seconds_each: float = SECONDS_EACH,
        remembered: int = REMEMBERED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._seconds, self._remembered, self._clock = burst, seconds_each, remembered, clock
        self._full_until: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def allowed(self, address: str | None) -> bool:
        """Return whether an invite from this address is looked at; None is this machine's own."""
        with self._lock:
            return self._waiting(_network(address)) <= (self._burst - 1) * self._seconds

    def wrong(self, address: str | None) -> None:
        """Count a wrong invite."""
        key = _network(address)
        with self._lock:
            # what is stored is the moment at which all guesses are forgiven
            self._full_until[key] = self._clock() + self._waiting(key) + self._seconds
            self._full_until.move_to_end(key)
            while len(self._full_until) > self._remembered:
                self._full_until.popitem(last=False)

    def _waiting(self, key: str) -> float:
        return max(0.0, self._full_until.get(key, 0.0) - self._clock())


def _network(address: str | None) -> str:
    """Return what counts as one address: of IPv6 the network, of which everybody has a whole one."""
    if address is None:
        return "this machine"
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        # whatever a proxy passed on: one bucket for all of it
        return "no address"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


GUESSES = Guesses()
"""The server's."""
