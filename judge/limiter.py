"""How many requests are under way: one more with each round of answers, half as many at a refusal."""

from __future__ import annotations

import asyncio
import time

START = 16
"""Requests at once in the beginning."""

POLL_SECONDS = 0.2
"""Seconds between two looks whether a pause was ended."""


class RateLimiter:
    """A gate before the server: additive increase, multiplicative decrease, and one pause for all.

    Attributes:
        limit: How many requests may be under way at present.
        in_flight: How many are.
    """

    def __init__(self, concurrency: int, *, timeout: float) -> None:
        self.limit = float(min(concurrency, START))
        self.in_flight = 0
        self._concurrency = concurrency
        self._prompt_seconds = timeout / 8  # an answer that takes longer has waited in a queue, or soon would
        self._closed_until = 0.0
        self._reduced_at = 0.0
        self._free = asyncio.Condition()

    async def __aenter__(self) -> float:
        """Wait for a place, and return the moment at which it was free."""
        async with self._free:
            await self._free.wait_for(lambda: self.in_flight < int(self.limit))
            self.in_flight += 1
        try:
            while (wait := self._closed_until - time.monotonic()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(min(wait, POLL_SECONDS))
        except BaseException:
            await self.__aexit__()
            raise
        return time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        async with self._free:
            self.in_flight -= 1
            self._free.notify(2)

    def answered(self, sent_at: float) -> None:
        """Let one more through after each round of answers that came soon."""
        if time.monotonic() - sent_at < self._prompt_seconds:
            self.limit = min(self._concurrency, self.limit + (1 / self.limit if self._reduced_at else 1.0))

    def refused(self, sent_at: float, wait: float) -> None:
        """Let half as many through, once for all that were under way together, and pause."""
        if sent_at > self._reduced_at:
            self._reduced_at = time.monotonic()
            self.limit = max(1.0, self.limit / 2)
        self._closed_until = max(self._closed_until, time.monotonic() + wait)

    def open(self) -> None:
        """End the pause."""
        self._closed_until = 0.0
