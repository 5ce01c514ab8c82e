"""Send requests to one server with several workers, which pause if the server asks, and stop together."""

import asyncio
import secrets
from collections.abc import Awaitable, Iterable
from contextlib import suppress

from guard_eval import progress
from guard_eval.servers.limiter import RateLimiter
from guard_eval.servers.server import Server

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""The pause before a second attempt, and the longest pause that the server did not ask for."""


class Workers:
    """The workers of one run.

    Attributes:
        limiter: The gate before the server.
        pace: A factor for all pauses that the server did not ask for.
    """

    def __init__(self, server: Server, *, concurrency: int, pace: float = 1.0) -> None:
        self.limiter = RateLimiter(concurrency, timeout=server.timeout)
        self.pace = pace
        self._stop = asyncio.Event()

    @property
    def is_stopped(self) -> bool:
        """Whether the workers must send no further requests."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Tell the workers to send no further requests, and end all pauses."""
        self._stop.set()
        self.limiter.end_pause()

    async def run(self, works: Iterable[Awaitable[None]]) -> None:
        """Wait for all workers. An error in one worker stops the others, and is raised at the end.

        After Ctrl-C, answers under way are still received, because they are paid.
        """
        workers = [asyncio.ensure_future(self._stop_all_on_error(work)) for work in works]
        if not workers:
            return
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:
            self.stop()
            progress.warn(
                f"stopping: waiting for {self.limiter.in_flight} answers; Ctrl-C again gives them up. Run "
                "the same command again to continue"
            )
            await asyncio.wait(workers)
            raise
        for error in [worker.exception() for worker in workers]:
            if error is not None:
                raise error

    async def _stop_all_on_error(self, work: Awaitable[None]) -> None:
        try:
            await work
        except BaseException:
            self.stop()
            raise

    async def pause(self, seconds: float) -> bool:
        """Wait unless the run stops; return whether it continues."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return not self.is_stopped

    async def back_off(self, attempts: int, seconds: float = 0.0) -> None:
        """Wait before the next attempt, at least as long as the server asks."""
        await self.pause(max(seconds, self.pace * draw_pause(attempts)))


def draw_pause(attempts: int) -> float:
    """Return random seconds before the next attempt."""
    seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
    return seconds * secrets.SystemRandom().uniform(0.5, 1)
