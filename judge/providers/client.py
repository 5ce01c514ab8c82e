"""The connection to a server: one request out, its raw bytes back, no retry, no secret out.

The SDK's own retries are off: they repeat exhausted quotas and say nothing of what they paid. Bodies go out
and come back as bytes, so that what is journalled is what was received, and no answer is lost because the
SDK cannot parse it.
"""

from __future__ import annotations

import itertools
import logging
import time
from datetime import UTC, datetime
from typing import Any, Self

from guard_eval.errors import MissingExtraError
from judge.backend import Response
from judge.failures import JudgeError
from judge.providers.endpoint import OWN_KEY, Provider, is_loopback
from judge.providers.envelopes import excerpt, read_error, read_usage
from judge.providers.errors import ErrorReader, OnError, is_page, redact

try:
    import httpx2
    import openai
    from openai import APIError, APIStatusError
except ImportError:
    raise MissingExtraError("judge", "openai") from None

__all__ = ["APIError", "APIStatusError", "Client"]

CONNECT = 30.0
"""Seconds until a server that takes no connection is given up."""

_SHARE = 16
"""Requests under way that share a pool of connections: for each one, a pool looks at all it has."""

_MOST = 64
"""More requests than these share the same few pools, since making one takes time."""

_JSON = {"Content-Type": "application/json"}

_TALKATIVE = ("openai", "httpcore2", "httpx2")
"""Loggers that at DEBUG repeat headers, and a server may echo the key in one."""

_HEADERS = {
    *("accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host"),
    *("idempotency-key", "transfer-encoding", "user-agent"),
}
"""What a server other than the user's own is sent. The SDK adds more from the environment, such as
OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS."""

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class Client:
    """Sends to one judge's server; an asynchronous context manager.

    Attributes:
        provider: The server.
        errors: Explains what goes wrong there.
    """

    def __init__(self, provider: Provider, *, concurrency: int) -> None:
        self.provider = provider
        self.errors = ErrorReader(provider=provider)
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.INFO)
        # a proxy would read the key on its way from this machine to itself
        direct = provider.url.lower().startswith("http:") and is_loopback(provider.url)
        self._sdks = [
            openai.AsyncOpenAI(
                api_key=provider.key,
                base_url=provider.url,
                max_retries=0,
                timeout=httpx2.Timeout(provider.timeout, connect=min(provider.timeout, CONNECT)),
                http_client=openai.DefaultAsyncHttpxClient(
                    follow_redirects=False,  # nothing that is sent here is meant for another server
                    trust_env=not direct,
                    event_hooks={"request": [self._strip]},
                ),
            )
            for _ in range(-(-min(concurrency, _MOST) // _SHARE))
        ]
        self._turns = itertools.cycle(self._sdks)

    def __repr__(self) -> str:
        """Name model and server, and nothing else."""
        return f"Client({self.provider.model!r} at {self.provider.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        for sdk in self._sdks:
            await sdk.close()

    async def _strip(self, request: httpx2.Request) -> None:
        """Take off what the environment adds, unless the request goes where the user's own key does."""
        if self.provider.variable == OWN_KEY:
            return
        own = {name.lower() for name in self.provider.headers}
        for name in [each for each in request.headers if each.lower() not in _HEADERS | own]:
            if not name.lower().startswith("x-stainless-"):
                del request.headers[name]
        request.headers["Authorization"] = f"Bearer {self.provider.key}"

    @property
    def sdk(self) -> openai.AsyncOpenAI:
        """Return OpenAI's client, for what is no single request; give its errors to `explain`."""
        return self._sdks[0]

    async def post(self, path: str, body: bytes, *, on_error: OnError | None = None) -> Response | JudgeError:
        """Send `body` once and return what came.

        Args:
            path: Below the server's address, such as `/chat/completions`.
            body: JSON in UTF-8.
            on_error: Called first with the error of the server; it may raise.

        Raises:
            StudyError: Only the user can fix it: a wrong key, an unknown model, an exhausted quota, a wrong
                address.
        """
        started = time.monotonic()
        try:
            answer = await next(self._turns).post(
                path,
                cast_to=httpx2.Response,
                content=body,
                options={"headers": {**self.provider.headers, **_JSON}},
            )
        except APIError as error:
            failed = error
        else:
            return self._read(answer, time.monotonic() - started, on_error)
        return self.explain(failed, on_error=on_error)  # outside, so that the user's error quotes no other

    def _read(
        self, answer: httpx2.Response, seconds: float, on_error: OnError | None
    ) -> Response | JudgeError:
        content = answer.content
        if is_page(answer.headers.get("content-type", ""), content):
            self.errors.fatal("web_page", status=answer.status_code)
        if (failed := read_error(content)) is not None:  # routers pass on another server's error so
            return self.errors.status(failed[0], answer.headers, failed[1], on_error=on_error)
        name = answer.headers.get("x-request-id")
        body = redact(content, self.provider.key)
        return Response(
            status=answer.status_code,
            body=body,
            usage=read_usage(body),
            request_id=name and excerpt(redact(name, self.provider.key)),
            seconds=seconds,
            at=datetime.now(UTC),
            headers=answer.headers,
        )

    def explain(self, error: APIError, *, on_error: OnError | None = None) -> JudgeError:
        """Return what an error of the SDK means; raises as `post` does."""
        if isinstance(error, APIStatusError):
            answer: Any = error.response
            page = is_page(answer.headers.get("content-type", ""), answer.content)
            return self.errors.status(
                error.status_code, answer.headers, error.body, page=page, on_error=on_error
            )
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.TimeoutException) and not isinstance(cause, _NOT_SENT):
            return self.errors.timed_out(self.provider.timeout)
        return self.errors.lost(cause, sent=not isinstance(cause, _NOT_SENT))
