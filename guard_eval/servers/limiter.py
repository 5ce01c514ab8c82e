"""Limit the requests under way: raise the limit after each round of answers, halve it after a refusal."""

import asyncio
import time
from collections.abc import Awaitable

from guard_eval import progress
from guard_eval.servers.failures import RequestFailure

START = 16
"""The highest limit after the first answer. After a slow answer, the limit is lower; see `RateLimiter`."""

PROBE_ROUNDS = 20
"""Rounds of answers before the limit again rises above the value at which the server refused."""

POLL_SECONDS = 0.2
"""Seconds between two checks whether a pause has ended."""

SILENT_SECONDS = 60.0
"""Seconds between two messages about waits."""


class RateLimiter:
    """A gate before the server: additive increase, multiplicative decrease, and one pause for all requests.

    One request goes first. Its duration limits the number of the next ones: even a server that answers one
    request at a time must finish them in half the time-out. If the server puts requests into a queue, the
    limit is not lowered; it only stops rising when answers take an eighth of the time-out.

    Attributes:
        limit: The number of requests that may be under way now.
        in_flight: The number of requests that are under way.
    """

    def __init__(self, concurrency: int, *, timeout: float) -> None:
        self.limit = 1.0
        self.in_flight = 0
        self._concurrency = concurrency
        self._timeout = timeout
        self._measured = False
        self._ceiling = float("inf")  # the last limit at which the server refused
        self._closed_until = 0.0
        self._reduced_at = 0.0
        self._silent_until = 0.0
        self._free = asyncio.Condition()

    async def __aenter__(self) -> float:
        """Wait until a request may be sent; return the time."""
        async with self._free:
            await self._free.wait_for(lambda: self.in_flight < int(self.limit))
            self.in_flight += 1
        try:
            while (wait := self._closed_until - time.monotonic()) > 0:  # noqa: ASYNC110 (`end_pause` may end it)
                await asyncio.sleep(min(wait, POLL_SECONDS))
        except BaseException:
            await self.__aexit__()
            raise
        return time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        async with self._free:
            self.in_flight -= 1
            self._free.notify(2)

    async def watch(
        self, call: Awaitable[bytes | RequestFailure], let_go_at: float
    ) -> bytes | RequestFailure:
        """Send a request that was admitted at this time, adapt the limit to the result, and return it.

        A time-out among other requests counts as a refusal: the server may keep them in a queue.
        """
        is_alone = self.in_flight == 1
        sent_at = time.monotonic()
        result = await call
        if isinstance(result, bytes):
            self.note_answer(sent_at)
            return result
        is_queued = result.kind == "timeout" and not is_alone
        if result.kind == "rate_limited" or is_queued or result.wait:
            self.note_refusal(let_go_at, result.wait or 0.0)
            self._report_wait(result)
        return result

    def _report_wait(self, refusal: RequestFailure) -> None:
        """Print a message about a wait, at most once a minute."""
        now = time.monotonic()
        if now < self._silent_until:
            return
        self._silent_until = now + max(refusal.wait or 0.0, SILENT_SECONDS)
        wait = f" for {refusal.wait:,.0f} seconds" if (refusal.wait or 0.0) >= 1 else ""
        progress.show_notice(f"the server takes fewer requests; some wait{wait} ({refusal.detail})")

    def note_answer(self, sent_at: float) -> None:
        """Raise the limit if an answer came quickly."""
        seconds = max(time.monotonic() - sent_at, 1e-3)
        if not self._measured:
            self._measured = True
            self.limit = max(self.limit, min(START, self._concurrency, self._timeout / 2 / seconds))
        elif seconds < self._timeout / 8:
            rounds = 1 if self.limit < self._ceiling - 1 else PROBE_ROUNDS
            step = 1.0 if self._ceiling == float("inf") else 1 / (rounds * self.limit)
            self.limit = min(self._concurrency, self.limit + step)

    def note_refusal(self, sent_at: float, wait: float) -> None:
        """Pause, and halve the limit: only once for all requests that were under way at the same time."""
        now = time.monotonic()
        if sent_at > self._reduced_at:
            self._reduced_at = now
            self._ceiling = self.limit
            self.limit = max(1.0, self.limit / 2)
        self._closed_until = max(self._closed_until, now + wait)

    def end_pause(self) -> None:
        """End the pause."""
        self._closed_until = 0.0
