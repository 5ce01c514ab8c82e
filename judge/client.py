"""The connection to a server: one request out, its raw bytes back, no retry, no secret out.

The SDK's own retries are off: they repeat exhausted quotas and say nothing of what they paid. Bodies go out
and come back as bytes, so that what is journalled is what was received, and no answer is lost because the
SDK cannot parse it.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from guard_eval.errors import MissingExtraError
from guard_eval.settings import Judge
from judge.backend import Reply, Trouble
from judge.endpoint import api_key, server
from judge.parsing import excerpt, read_error
from judge.refusals import Look, Refusals, is_page, redact

try:
    import httpx2
    import openai
except ImportError:
    raise MissingExtraError("judge", "openai") from None

TIMEOUT = 120.0
"""Seconds until a request without answer is given up."""

_SHARE = 16
"""Requests under way that share a pool of connections: for each one, a pool looks at all it has."""

_MOST = 64
"""More requests than these share the same few pools, since making one takes time."""

_JSON = {"Content-Type": "application/json"}

_TALKATIVE = ("openai", "httpcore2", "httpx2")
"""Loggers that at DEBUG repeat headers, and a server may echo the key in one."""

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class Client:
    """Sends to one judge's server; an asynchronous context manager.

    Attributes:
        url: The server.
    """

    def __init__(
        self, judge: Judge, *, environ: Mapping[str, str] | None = None, timeout: float = TIMEOUT
    ) -> None:
        self.url = server(judge, environ)
        self._model = judge.model
        self._key = api_key(self.url, environ)
        self._refusals = Refusals(model=judge.model, url=self.url, key=self._key)
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.INFO)
        self._sdks = [
            openai.AsyncOpenAI(api_key=self._key, base_url=self.url, max_retries=0, timeout=timeout)
            for _ in range(-(-min(judge.concurrency, _MOST) // _SHARE))
        ]
        self._turns = itertools.cycle(self._sdks)

    def __repr__(self) -> str:
        """Name model and server, and nothing else."""
        return f"Client({self._model!r} at {self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        for sdk in self._sdks:
            await sdk.close()

    @property
    def sdk(self) -> openai.AsyncOpenAI:
        """Return OpenAI's client, for what is no single request; give its errors to `explain`."""
        return self._sdks[0]

    async def post(self, path: str, body: bytes, *, look: Look | None = None) -> Reply | Trouble:
        """Send `body` once and return what came.

        Args:
            path: Below the server's address, such as `/chat/completions`.
            body: JSON in UTF-8.
            look: What is told of a refusal before anything else is made of it, and may raise.

        Raises:
            StudyError: Only the user can mend it: a wrong key, an unknown model, an exhausted quota, a wrong
                address.
        """
        started = time.monotonic()
        try:
            answer = await next(self._turns).post(
                path, cast_to=httpx2.Response, content=body, options={"headers": _JSON}
            )
        except openai.APIError as error:
            failed = error
        else:
            return self._read(answer, time.monotonic() - started, look)
        return self.explain(failed, look=look)  # outside, so that the user's error quotes no other

    def _read(self, answer: httpx2.Response, seconds: float, look: Look | None) -> Reply | Trouble:
        content = answer.content
        if is_page(answer.headers.get("content-type", ""), content):
            self._refusals.page()
        if (said := read_error(content)) is not None:  # routers pass on another server's error so
            return self._refusals.status(said.status, answer.headers, said.error, look=look)
        name = answer.headers.get("x-request-id")
        return Reply(
            status=answer.status_code,
            body=redact(content, self._key),
            request_id=name and excerpt(redact(name, self._key)),
            seconds=seconds,
            at=datetime.now(UTC),
            headers=answer.headers,
        )

    def explain(self, error: openai.APIError, *, look: Look | None = None) -> Trouble:
        """Return what an error of the SDK means; raises as `post` does."""
        if isinstance(error, openai.APIStatusError):
            answer: Any = error.response
            if is_page(answer.headers.get("content-type", ""), answer.content) and error.status_code < 500:
                self._refusals.page()
            return self._refusals.status(error.status_code, answer.headers, error.body, look=look)
        cause = error.__cause__ or error  # it may quote what was sent: its name must do
        return self._refusals.lost(type(cause).__name__, sent=not isinstance(cause, _NOT_SENT))
