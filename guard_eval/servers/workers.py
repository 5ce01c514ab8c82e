"""Send requests to one server with several workers, which pause if the server asks, and stop together.

The number of parallel requests rises after each round of answers, and is halved after a rate limit.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.servers.failures import RequestFailure
from guard_eval.servers.server import Server

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""The pause before a second attempt, and the longest pause that the server did not request."""

START = 16
"""The largest number of parallel requests after the first answer. After a slow answer, there are fewer."""

PROBE_ROUNDS = 20
"""Rounds of answers before there are more parallel requests than when the server last refused one."""

POLL_SECONDS = 0.2
"""Seconds between two checks whether a pause has ended."""

SILENT_SECONDS = 60.0
"""Seconds between two messages to the user about a wait."""


STORE_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds between attempts to store an answer in a file or database that cannot be used."""


class RateLimiter:
    """Limits the parallel requests to a server: additive increase, multiplicative decrease, common pauses.

    The first request is sent alone. The duration of this request limits the number of parallel requests: even
    if the server answers one request at a time, all must be answered in half the time-out. If the server puts
    requests into a queue, the limit is not lowered, but stops rising when answers take an eighth of the
    time-out.

    Attributes:
        limit: The number of requests that may wait for an answer at the same time.
        in_flight: The number of requests that wait for an answer now.
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
        """Wait until a request may be sent; return the time at which the request may be sent."""
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

    async def send(
        self, call: Awaitable[bytes | RequestFailure], admitted_at: float
    ) -> bytes | RequestFailure:
        """Send a request, adapt the limit to the response or failure, and return the response or failure.

        A time-out of one of several parallel requests counts as a refusal, because the server may have put
        the requests into a queue.

        Args:
            call: The request.
            admitted_at: The time at which the request was allowed to be sent.
        """
        is_alone = self.in_flight == 1
        sent_at = time.monotonic()
        result = await call
        if isinstance(result, bytes):
            self.raise_limit_after_answer(sent_at)
            return result
        too_slow = result.kind == "timeout" and is_alone
        is_limited = result.kind in {"rate_limited", "timeout"} and not too_slow
        if is_limited or result.wait:
            self.lower_limit(admitted_at, result.wait or 0.0)
            self._report_wait(result)
        return replace(result, too_slow=too_slow)

    def _report_wait(self, refusal: RequestFailure) -> None:
        """Tell the user that requests wait because of a rate limit, at most once a minute."""
        now = time.monotonic()
        if now < self._silent_until:
            return
        self._silent_until = now + max(refusal.wait or 0.0, SILENT_SECONDS)
        wait = f" for {refusal.wait:,.0f} seconds" if (refusal.wait or 0.0) >= 1 else ""
        progress.show_notice(
            f"the server limits the rate of requests; some requests wait{wait} ({refusal.detail})"
        )

    def raise_limit_after_answer(self, sent_at: float) -> None:
        """Raise the limit if an answer came quickly."""
        seconds = max(time.monotonic() - sent_at, 1e-3)
        if not self._measured:
            self._measured = True
            self.limit = max(self.limit, min(START, self._concurrency, self._timeout / 2 / seconds))
        elif seconds < self._timeout / 8:
            rounds = 1 if self.limit < self._ceiling - 1 else PROBE_ROUNDS
            step = 1.0 if self._ceiling == float("inf") else 1 / (rounds * self.limit)
            self.limit = min(self._concurrency, self.limit + step)

    def lower_limit(self, sent_at: float, wait: float) -> None:
        """Pause all requests, and halve the limit once for all requests that were sent at the same time."""
        now = time.monotonic()
        if sent_at > self._reduced_at:
            self._reduced_at = now
            self._ceiling = self.limit
            self.limit = max(1.0, self.limit / 2)
        self._closed_until = max(self._closed_until, now + wait)

    def end_pause(self) -> None:
        """End the pause of all requests."""
        self._closed_until = 0.0


class Workers:
    """The parallel workers that send the requests of one run.

    Attributes:
        limiter: Limits the number of parallel requests.
        pace: A factor for the length of pauses, except pauses that the server requests.
    """

    def __init__(self, server: Server, *, concurrency: int, pace: float = 1.0) -> None:
        self.limiter = RateLimiter(concurrency, timeout=server.timeout)
        self.pace = pace
        self._stop = asyncio.Event()
        self._has_warned = False

    @property
    def is_stopped(self) -> bool:
        """Whether the workers must send no further requests."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Tell the workers to send no further requests, and end all pauses."""
        self._stop.set()
        self.limiter.end_pause()

    async def run(self, tasks: Iterable[Awaitable[None]]) -> None:
        """Run all workers until the end. An error in one worker stops the others, and is raised at the end.

        After Ctrl-C, the workers still receive the answers to requests that were sent, because these requests
        must be paid.
        """
        workers = [asyncio.ensure_future(self._run_worker(task)) for task in tasks]
        if not workers:
            return
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:
            self.stop()
            progress.warn(
                f"stopping: waiting for {self.limiter.in_flight} answers; Ctrl-C again discards them. Run "
                "the same command again to continue"
            )
            await asyncio.wait(workers)
            raise
        for error in [worker.exception() for worker in workers]:
            if error is not None:
                raise error

    async def _run_worker(self, task: Awaitable[None]) -> None:
        """Run one worker, and stop all workers if this worker fails."""
        try:
            await task
        except BaseException:
            self.stop()
            raise

    async def pause(self, seconds: float) -> bool:
        """Wait unless the run stops; return whether the run continues."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return not self.is_stopped

    async def store_paid_answer(self, store: Callable[[], Awaitable[object]]) -> None:
        """Store an answer. If the file or the database cannot be used, try again for a minute.

        An answer is paid already, a database server that restarts is back in seconds, and a user can free
        space on a disk.

        Raises:
            StudyError: The answer could not be stored for a minute.
        """
        for pause in STORE_PAUSES_SECONDS:
            try:
                await store()
            except StudyError as error:
                if not self._has_warned:
                    progress.warn(f"paid answers wait for a minute, because they cannot be stored: {error}")
                self._has_warned = True
                await asyncio.sleep(self.pace * pause)
            else:
                return
        await store()

    async def back_off(self, attempts: int, seconds: float) -> None:
        """Wait before the next attempt, at least `seconds` and longer after each failed attempt."""
        await self.pause(max(seconds, self.pace * draw_pause_seconds(attempts)))


def draw_pause_seconds(attempts: int) -> float:
    """Draw the length of the pause after a number of failed attempts, in seconds (exponential backoff)."""
    seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
    return seconds * secrets.SystemRandom().uniform(0.5, 1)
