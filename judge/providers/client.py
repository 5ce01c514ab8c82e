"""The connection to a server: one request out, its raw bytes back, no retry, no secret out.

The SDK's own retries are off: they repeat exhausted quotas and say nothing of what they paid. Bodies go out
and come back as bytes, so that what is journalled is what was received, and no answer is lost because the
SDK cannot parse it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, Self

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.study.judge_settings import ProviderName
from judge.backend import Response
from judge.failures import JudgeError
from judge.providers.endpoint import MAKERS, Provider, is_direct, origin, proxy_of
from judge.providers.envelopes import excerpt, read_error, read_usage
from judge.providers.errors import ErrorReader, OnError, is_page, redact

try:
    import httpx2
    import openai
except ImportError:
    raise MissingExtraError("judge", "openai") from None

__all__ = ["Client", "Sdk"]

CONNECT = 30.0
"""Seconds until a server that takes no connection is given up."""

LARGEST = 2**25
"""Bytes of an answer, unpacked: several times those of one with probabilities for 8192 tokens."""

_SHARE = 16
"""Requests under way that share a pool of connections: for each one, a pool looks at all it has."""

_MOST = 64
"""More requests than these share the same few pools, since making one takes time."""

_JSON = {"Content-Type": "application/json"}

_TALKATIVE = ("anthropic", "google_genai", "openai", "httpcore2", "httpx2")
"""Loggers that at DEBUG repeat headers, and a server may echo the key in one."""

_HEADERS = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "host"),
    *("anthropic-version", "idempotency-key", "transfer-encoding", "user-agent"),
    *("x-goog-upload-command", "x-goog-upload-header-content-length", "x-goog-upload-header-content-type"),
    *("x-goog-upload-offset", "x-goog-upload-protocol"),
}
"""What a server other than the user's own is sent. The SDK adds more from the environment, such as
OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS."""

_KEYS = ("authorization", "x-api-key", "x-goog-api-key")
"""Where a key is sent."""

_REQUEST_IDS = ("x-request-id", "request-id")
"""Where a response has the server's name for the request."""

_NOT_SENT = (
    *(httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout),
    *(httpx2.ProxyError, httpx2.UnsupportedProtocol),
)


class _TooLargeError(httpx2.TransportError):
    """A server sends more than any answer has; the rest was not read."""


class Sdk(Protocol):
    """A provider's SDK, as far as one request needs it."""

    async def post(
        self,
        path: str,
        *,
        cast_to: type[httpx2.Response],
        content: bytes,
        options: Any,  # noqa: ANN401
    ) -> httpx2.Response:
        """Send bytes and return the response; raise the SDK's error for a status that is no success."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def _openai(provider: Provider, http: Callable[..., Any]) -> Sdk:
    return openai.AsyncOpenAI(
        api_key=provider.key,
        base_url=provider.url,
        max_retries=0,
        timeout=_timeout(provider),
        http_client=http(openai.DefaultAsyncHttpxClient),
    )


def _anthropic(provider: Provider, http: Callable[..., Any]) -> Sdk:
    try:
        import anthropic  # noqa: PLC0415 (an extra of its own)
    except ImportError:
        raise MissingExtraError("anthropic", "anthropic") from None
    return anthropic.AsyncAnthropic(
        api_key=provider.key,
        base_url=provider.url.rstrip("/").removesuffix("/v1"),
        max_retries=0,
        timeout=_timeout(provider),
        http_client=http(anthropic.DefaultAsyncHttpxClient),
    )


def _gemini(provider: Provider, http: Callable[..., Any]) -> Sdk:
    from judge.providers.gemini_sdk import GeminiSdk  # noqa: PLC0415 (an extra of its own)

    return GeminiSdk(provider, http(httpx2.AsyncClient, timeout=_timeout(provider)))


_SDKS: dict[ProviderName, Callable[[Provider, Callable[..., Any]], Sdk]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def _timeout(provider: Provider) -> httpx2.Timeout:
    return httpx2.Timeout(provider.timeout, connect=min(provider.timeout, CONNECT))


def _place(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class Client:
    """Sends to one judge's server; an asynchronous context manager.

    Attributes:
        provider: The server.
        errors: Explains what goes wrong there.
        largest: Bytes until a response is given up.
    """

    def __init__(self, provider: Provider, *, concurrency: int) -> None:
        self.provider = provider
        self.largest = LARGEST
        keyed = provider.variable is not None
        self.errors = ErrorReader(provider=provider, proxy=proxy_of(provider.url, keyed=keyed))
        self._place = _place(httpx2.URL(provider.url))
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.INFO)
        self._trust_env = not is_direct(provider.url, keyed=keyed)
        # one for all pools: to read the certificates takes as long as some dozen requests
        self._tls = httpx2.create_ssl_context(trust_env=self._trust_env)
        count = -(-min(concurrency, _MOST) // _SHARE)
        try:
            self._sdks = [_SDKS[provider.name](provider, self._http) for _ in range(count)]
        except MissingExtraError:
            raise
        except (ImportError, ValueError, httpx2.InvalidURL):  # its words may hold a proxy's password
            raise StudyError(
                "a proxy that the environment names cannot be used; correct HTTPS_PROXY, HTTP_PROXY or "
                "ALL_PROXY, such as http://proxy.example:3128 (socks5:// needs: pip install 'httpx2[socks]')"
            ) from None
        self._turns = itertools.cycle(self._sdks)

    def _http(self, make: Callable[..., Any], **more: Any) -> Any:  # noqa: ANN401 (an SDK's own class)
        """Return an HTTP client of that class."""
        if not self._trust_env:  # with a transport of ours no SDK makes one of the environment's proxies
            more["transport"] = httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False)
        return make(
            follow_redirects=False,  # nothing that is sent here is meant for another server
            trust_env=self._trust_env,
            verify=self._tls,
            event_hooks={"request": [self._strip], "response": [self._read_body]},
            **more,
        )

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
        """Take off what the environment adds, unless the request goes where the user's own key does.

        Raises:
            StudyError: The request would go to another server: a response may name one, for a file's content.
        """
        if _place(request.url) != self._place:
            raise StudyError(
                f"the judge {self.provider.model!r} is at {origin(self.provider.url)}, and a request would "
                f"go to {excerpt(request.url.netloc.decode())}, which was not named; nothing was sent there"
            )
        if self.provider.variable == MAKERS[self.provider.name].variable:
            return
        own = {name.lower() for name in self.provider.headers}
        for name in [each for each in request.headers if each.lower() not in _HEADERS | own]:
            if not name.lower().startswith("x-stainless-"):
                del request.headers[name]
        for name in _KEYS:  # the environment may have put another key in
            request.headers.pop(name, None)
        key = self.provider.key
        if self.provider.name == "gemini":
            request.headers["x-goog-api-key"] = key
            return
        request.headers["Authorization"] = f"Bearer {key}"
        if self.provider.name == "anthropic":
            request.headers["x-api-key"] = key

    async def _read_body(self, response: httpx2.Response) -> None:
        """Read a response, which every SDK does next, up to a size.

        Raises:
            _TooLargeError: It has more.
        """
        parts, size = [], 0
        async for part in response.aiter_bytes():
            parts.append(part)
            size += len(part)
            if size > self.largest:
                raise _TooLargeError("too large")
        response._content = b"".join(parts)  # noqa: SLF001 (as `aread` does)

    @property
    def sdk(self) -> Any:  # noqa: ANN401 (the SDK's own client)
        """Return the SDK's client, for what is no single request; give its errors to `explain`."""
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
        timeout = _timeout(self.provider)
        try:
            # httpx2 counts from byte to byte, and a server may send blanks while it works, or for ever
            async with asyncio.timeout(self.provider.timeout + (timeout.connect or 0.0)):
                answer = await next(self._turns).post(
                    path,
                    cast_to=httpx2.Response,
                    content=body,
                    options={"headers": {**self.provider.headers, **_JSON}},
                )
        except Exception as error:  # noqa: BLE001 (each SDK has classes of its own; `explain` knows them)
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
            status, words, charged = failed
            error = self.errors.status(status, answer.headers, words, on_error=on_error)
            return replace(error, billed="perhaps") if charged else error
        name = next((answer.headers[each] for each in _REQUEST_IDS if each in answer.headers), None)
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

    def explain(self, error: Exception, *, on_error: OnError | None = None) -> JudgeError:
        """Return what an error of an SDK means; raises as `post` does, and what is none of these."""
        answer = getattr(error, "response", None)
        if isinstance(answer, httpx2.Response):
            page = is_page(answer.headers.get("content-type", ""), answer.content)
            return self.errors.status(
                answer.status_code, answer.headers, _refusal(answer), page=page, on_error=on_error
            )
        cause = error if isinstance(error, httpx2.RequestError) else error.__cause__
        if isinstance(cause, StudyError):  # of the hook, in an SDK's own error
            raise cause from None
        if isinstance(cause, _TooLargeError):
            return self.errors.too_large(self.largest)
        if isinstance(error, TimeoutError):
            return self.errors.timed_out(self.provider.timeout)
        if not isinstance(cause, httpx2.RequestError):
            raise error
        if isinstance(cause, httpx2.TimeoutException) and not isinstance(cause, _NOT_SENT):
            return self.errors.timed_out(self.provider.timeout)
        return self.errors.lost(cause, sent=not isinstance(cause, _NOT_SENT))


def _refusal(answer: httpx2.Response) -> object:
    """Return what a refusal's body has under `error`, or else the body."""
    try:
        body = json.loads(answer.content)
    except (ValueError, RecursionError):
        return answer.content.decode(errors="replace")
    if isinstance(body, list) and len(body) == 1:  # Gemini's
        body = body[0]
    return body.get("error", body) if isinstance(body, dict) else body
