"""How many requests are under way: as many as the server bears, below the study's bound.

Concurrency grows by one with each answer until the server first says that it is too much, and from then on
by one with each round of answers; in each round with too much it falls by half the share of late requests
that were too much (additive increase, multiplicative decrease; the share as in Alizadeh et al. 2010). So a
server that refuses now and then costs little speed, and one that refuses everything is soon asked half as
much with every round. What a server asks to wait, by `Retry-After` or by its rate headers, holds for all
requests.

A server that queues what it cannot do at once says nothing: its answers take longer the more requests wait,
until they come too late. So concurrency does not grow where answers take longer than at first and a good
part of the time-out. A request that came too late was in a queue if fewer answers came in its time than were
under way with it; half of what came then is what is under way from there on (Little's law: they take half the
time-out). One that was overtaken by more is slow by itself, and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

START = 16
"""How many requests go out at most before anything is known of the server."""

ASSUMED = 5.0
"""Seconds of an answer, of which the first requests to a server of one at a time fill half the time-out."""

SHORT = 1 / 8
"""As a part of the time-out: what takes no longer waits in no queue that matters."""

LONG = 1 / 2
"""The same: what takes longer is nearly too late."""

AT_MOST = 3 / 4
"""The same: what no answer should come near."""

OVERTAKEN = 1.25
"""In the time of a request in a queue no more answers come than so many times those that are ahead of it."""

PATIENCE = 8
"""Rounds of answers until one more is tried than when requests came too late."""

GROWN = 1.5
"""So many times as long as at first is no more than chance and length make of it."""

WEIGHT = 1 / 16
"""What one request counts in the share of late ones that were too much."""

LONGEST = 120.0
"""Seconds for which rate headers are obeyed at most; then the server is asked again."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


class Stopped(Exception):  # noqa: N818 (an event, no error)
    """The run is ending: the question stays open and nothing was received for it."""


class QueuePlace(NamedTuple):
    """A request's place in front of the server.

    Attributes:
        since: When it was taken.
        among: How many were under way then, this one included.
        answers: How many answers had come by then.
    """

    since: float
    among: int
    answers: int


class RateLimiter:
    """A gate in front of the server.

    Attributes:
        in_flight: Requests under way.
        limit: How many may be.
    """

    def __init__(
        self, bound: int, *, timeout: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.in_flight = 0
        self._start = min(bound, START, max(1, int(LONG * timeout / ASSUMED)))
        self.limit = float(self._start)
        self._bound = bound
        self._timeout = timeout  # of this side, or a shorter one of a gateway
        self._clock = clock
        self._answers = 0
        self._ceiling = float(bound)  # above which requests came too late
        self._usual = 0.0  # seconds of the answers to the first requests
        self._first = 0  # how many these are
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

    async def enter(self) -> QueuePlace:
        """Wait for a place, and return it.

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
                return QueuePlace(now, self.in_flight, self._answers)
            else:
                place = asyncio.get_running_loop().create_future()
                self._waiting.append(place)
                await place

    def leave(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        self._wake()

    def answered(self, place: QueuePlace) -> None:
        """Note that the server has answered the request of that place."""
        seconds = self._clock() - place.since
        self._answers += 1
        self._share -= WEIGHT * self._share
        if not place.answers:
            self._first += 1
            self._usual += (seconds - self._usual) / self._first
        if self._bears_more(place, seconds):
            self._ceiling = min(self._bound, self._ceiling + 1 / (PATIENCE * self._ceiling))
            self.limit = min(self._ceiling, self.limit + (1.0 if self._growing else 1.0 / self.limit))
        elif seconds > max(LONG * self._timeout, GROWN * self._usual) and self._queued(place):
            self._cut(place, self.limit * LONG / 2 * self._timeout / seconds)
        self._wake()

    def _bears_more(self, place: QueuePlace, seconds: float) -> bool:
        """Return whether the server answered so soon that one more may be under way."""
        if seconds <= SHORT * self._timeout:
            return True
        if place.answers and place.among <= self.limit / 2:
            return False  # it went out when far fewer did
        if_it_queued = seconds * (self.limit + 1) / place.among  # what an answer would take
        return seconds <= self._usual or (
            seconds <= GROWN * self._usual and if_it_queued <= AT_MOST * self._timeout
        )

    def too_much(self, place: QueuePlace) -> None:
        """Note that the server bears less than was under way when that place was taken."""
        self._share += WEIGHT * (1.0 - self._share)
        if place.since >= self._cut_at:
            self._growing = False
        self._cut(place, self.limit * (1.0 - self._share / 2))

    def too_late(self, place: QueuePlace) -> bool:
        """Note that the request of that place was given up, and return whether it waited in a queue.

        Then it may be answered in time where fewer wait; what the server still does for abandoned requests is
        waited for.
        """
        seconds, answers = self._clock() - place.since, self._answers - place.answers
        if place.among == 1 or not answers or not self._queued(place):
            return False
        if seconds > self._usual:
            self._timeout = min(self._timeout, seconds)
        if place.since >= self._cut_at:
            self._growing = False
        fewer = max(1.0, AT_MOST * place.among)
        self._ceiling = min(self._ceiling, fewer)
        self._cut(place, LONG * answers if answers < place.among else fewer)
        self._asked_until = max(self._asked_until, self._clock()) + seconds / answers
        return True

    def _queued(self, place: QueuePlace) -> bool:
        """Return whether a request that took long was not overtaken by more than were under way with it."""
        return self._answers - place.answers <= OVERTAKEN * place.among

    def _cut(self, place: QueuePlace, limit: float) -> None:
        """Let no more than `limit` through, once for all that were under way together."""
        if place.since >= self._cut_at:  # what was sent before the last cut says what that one knew
            self._cut_at = self._clock()
            self.limit = max(1.0, min(self.limit, limit))

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
