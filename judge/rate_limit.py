"""How many requests are under way: as many as the server bears, below the study's bound.

Concurrency grows by one with each answer until the server first says that it is too much, and from then on
by one with each round of answers; in each round with too much it falls by half the share of late requests
that were too much (additive increase, multiplicative decrease; the share as in Alizadeh et al. 2010). So a
server that refuses now and then costs little speed, and one that refuses everything is soon asked half as
much with every round. What a server asks to wait, by `Retry-After` or by its rate headers, holds for all
requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Mapping

START = 16
"""How many requests go out before anything is known of the server."""

WEIGHT = 1 / 16
"""What one request counts in the share of late ones that were too much."""

LONGEST = 120.0
"""Seconds for which rate headers are obeyed at most; then the server is asked again."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


class Stopped(Exception):  # noqa: N818 (an event, no error)
    """The run is ending: the question stays open and nothing was received for it."""


class RateLimiter:
    """A gate in front of the server.

    Attributes:
        in_flight: Requests under way.
        limit: How many may be.
    """

    def __init__(self, bound: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_flight = 0
        self.limit = float(min(bound, START))
        self._bound = bound
        self._clock = clock
        self._growing = True
        self._share = 0.0
        self._cut_at = clock()
        self._asked_until = self._cut_at
        self._window_until = self._cut_at
        self._stopping = asyncio.Event()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def stopping(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let no further request through; those under way are received."""
        self._stopping.set()
        while self._waiting:
            self._wake()

    async def enter(self) -> float:
        """Wait for a place; return the moment, for `too_much`.

        Raises:
            Stopped: `stop` was called before there was one.
        """
        while True:
            if self.stopping:
                raise Stopped
            now = self._clock()
            closed = max(self._asked_until, self._window_until) - now
            if closed > 0:
                await self.wait(closed)
            elif self.in_flight < int(self.limit):
                self.in_flight += 1
                return now
            else:
                place = asyncio.get_running_loop().create_future()
                self._waiting.append(place)
                await place

    def leave(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        self._wake()

    def answered(self) -> None:
        """Note that the server bears what is under way."""
        self._share -= WEIGHT * self._share
        self.limit = min(self._bound, self.limit + (1.0 if self._growing else 1.0 / self.limit))
        self._wake()

    def too_much(self, entered: float) -> None:
        """Note that the server bears less than was under way when the request `entered`."""
        self._share += WEIGHT * (1.0 - self._share)
        if entered < self._cut_at:
            return  # sent before the last cut, which was for the same reason
        self._growing = False
        self._cut_at = self._clock()
        self.limit = max(1.0, self.limit * (1.0 - self._share / 2))

    def ask_to_wait(self, seconds: float) -> None:
        """Let nothing through for so long: a server's limit holds for every request."""
        self._asked_until = max(self._asked_until, self._clock() + seconds)

    def read_headers(self, headers: Mapping[str, str]) -> None:
        """Wait until the server's window begins again where its rate headers say that nothing is left."""
        waits = [
            duration(headers.get(f"x-ratelimit-reset-{what}", ""))
            for what in ("requests", "tokens")
            if headers.get(f"x-ratelimit-remaining-{what}", "").strip().startswith(("0", "-"))
        ]
        asked = max((seconds for seconds in waits if seconds is not None), default=None)
        if asked is not None:
            self._window_until = max(self._window_until, self._clock() + min(asked, LONGEST))

    async def wait(self, seconds: float) -> None:
        """Sleep, but no longer than the run goes on.

        Raises:
            Stopped: `stop` was called.
        """
        if seconds > 0 and not self.stopping:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)
        if self.stopping:
            raise Stopped

    def _wake(self) -> None:
        free = max(1, int(self.limit) - self.in_flight)
        while self._waiting and free > 0:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1


def duration(text: str) -> float | None:
    """Return the seconds in a duration as rate headers have it; None where it is none.

    >>> [duration(text) for text in ("1s", "6m0s", "120ms", "8.64s", "2", "soon")]
    [1.0, 360.0, 0.12, 8.64, 2.0, None]
    """
    text = text.strip()
    with contextlib.suppress(ValueError):
        seconds = float(text)
        return seconds if 0 <= seconds < float("inf") else None
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    hours, minutes, seconds_, thousandths = (float(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds_ + thousandths / 1000
