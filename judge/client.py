"""The connection to a server of chat completions: raw bytes in, our own retries, no secret out.

The SDK's retries are off: they repeat exhausted quotas and say nothing of what they paid. Whatever can be
mended only by the user ends the run at once, in one sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from guard_eval.errors import MissingExtraError
from guard_eval.settings import Judge
from judge.endpoint import api_key, server
from judge.parsing import Problem, excerpt, read_error
from judge.prompt import OUTPUTS, Output
from judge.refusals import OutputRefused, Refusals, Trouble, is_page, redact

try:
    import openai
except ImportError:
    raise MissingExtraError("judge", "openai") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """When to ask again after an answer that never came.

    Attributes:
        attempts: Requests per question at most.
        first: Attempts before a server that has never answered counts as unreachable.
        base: Seconds of the first wait; each further one is twice as long.
        longest: Seconds of the longest wait of our own.
        longest_asked: Seconds of the longest wait a server may ask for; for more, the run ends.
        timeout: Seconds until a request without answer is given up.
    """

    attempts: int = 6
    first: int = 3
    base: float = 0.5
    longest: float = 30.0
    longest_asked: float = 120.0
    timeout: float = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """An HTTP success as it came; `seconds` is the wall time of its request alone."""

    status: int
    body: bytes
    request_id: str | None
    seconds: float
    at: datetime


class Stopped(Exception):  # noqa: N818 (an event, no error)
    """The run is ending: the question stays open and nothing was received for it."""


class Client:
    """Asks one judge's server; an asynchronous context manager.

    Attributes:
        url: The server.
        output: How the answer's form is asked for; it falls back where the server refuses.
        requests: HTTP requests sent so far.
        retries: Those of them that repeated another.
        notices: What the user should be told, in order.
    """

    def __init__(
        self, judge: Judge, *, seed: int, retry: Retry | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.url = server(judge, environ)
        self.output: Output = OUTPUTS[0]
        self.requests = 0
        self.retries = 0
        self.notices: list[str] = []
        self._model = judge.model
        self._seed = seed
        self._retry = retry or Retry()
        self._key = api_key(self.url, environ)
        self._reached = False
        self._open_at = 0.0
        self._stopping = asyncio.Event()
        self._refusals = Refusals(model=judge.model, url=self.url, key=self._key)
        for name in (
            "openai",
            "httpcore2",
        ):  # at DEBUG they log headers, and a server may echo the key in one
            logging.getLogger(name).setLevel(logging.INFO)
        self._sdk = openai.AsyncOpenAI(
            api_key=self._key, base_url=self.url, max_retries=0, timeout=self._retry.timeout
        )

    def __repr__(self) -> str:
        """Name model and server, and nothing else."""
        return f"Client({self._model!r} at {self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._sdk.close()

    @property
    def stopping(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Send no further request; those under way are received."""
        self._stopping.set()

    async def send(self, body: dict[str, Any], *, key: str) -> Reply | Problem:
        """Send `body` until an answer comes, or return why none will.

        Args:
            body: The request, made with the present `output`.
            key: Its key; the waits between attempts are drawn from it and the study's seed.

        Raises:
            StudyError: Only the user can mend it: a wrong key, an unknown model, an exhausted quota, a wrong
                address.
            OutputRefused: The server does not know this way of asking for JSON; see `fall_back`.
            Stopped: `stop` was called before an answer came.
        """
        output = self.output
        attempt = 0
        while True:
            attempt += 1
            await self._wait(self._open_at - time.monotonic())
            self.requests += 1
            self.retries += attempt > 1
            outcome = await self._once(body, output)
            if isinstance(outcome, Reply):
                return outcome
            if not self._reached and attempt >= self._retry.first:
                self._refusals.unreachable(outcome.problem.detail)
            if not outcome.again or attempt >= self._retry.attempts:
                return outcome.problem
            await self._pause(outcome, key, attempt)

    async def _once(self, body: dict[str, Any], output: Output) -> Reply | Trouble:
        started = time.monotonic()
        try:
            answer = await self._sdk.chat.completions.with_raw_response.create(**body)
        except openai.APIStatusError as error:
            refused = error
        except openai.APIConnectionError as error:  # its cause may quote what was sent: its name must do
            return self._refusals.lost(type(error.__cause__ or error).__name__)
        else:
            self._reached = True
            content = answer.http_response.content
            if is_page(answer.headers.get("content-type", ""), content):
                self._refusals.page()
            if (said := read_error(content)) is not None:  # routers pass on another server's error so
                return self._refusals.status(said.status, answer.headers, said.error, output=output)
            return Reply(
                status=answer.status_code,
                body=redact(content, self._key),
                request_id=answer.request_id and excerpt(redact(answer.request_id, self._key)),
                seconds=time.monotonic() - started,
                at=datetime.now(UTC),
            )
        self._reached = True
        return self._refusals.status(
            refused.status_code, refused.response.headers, refused.body, output=output
        )

    async def _pause(self, trouble: Trouble, key: str, attempt: int) -> None:
        asked = trouble.wait or 0.0
        if asked > self._retry.longest_asked:
            self._refusals.long_wait(asked)
        if asked:  # a server's limit holds for every question, not for this one alone
            self._open_at = max(self._open_at, time.monotonic() + asked)
        own = min(self._retry.longest, self._retry.base * 2 ** (attempt - 1)) * self._jitter(key, attempt)
        await self._wait(max(asked, own))

    def _jitter(self, key: str, attempt: int) -> float:
        digest = hashlib.sha256(f"{self._seed}:{key}:{attempt}".encode()).digest()
        return 0.5 + int.from_bytes(digest[:4]) / 2**33  # in [0.5, 1)

    async def _wait(self, seconds: float) -> None:
        if seconds > 0 and not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)
        if self._stopping.is_set():
            raise Stopped

    def fall_back(self, refused: OutputRefused) -> None:
        """Ask in a simpler way from now on, and say so once."""
        if refused.output != self.output:
            return  # another question met the same and has fallen back already
        self.output = OUTPUTS[OUTPUTS.index(self.output) + 1]
        simpler = "in JSON mode" if self.output == "json_object" else "for JSON by the prompt alone"
        self.notices.append(f"the server refuses {refused.output} ({refused.detail}); asking {simpler}")
