"""Send one request to a server and return raw bytes, without retries and redirects.

The SDK's own retries are off, because retries would repeat requests after a quota is used up, and a lost
answer would be paid but not recorded. Bodies are sent and returned as bytes, so an answer that the SDK cannot
parse is not lost.
"""

import asyncio
import itertools
import logging
import ssl
from collections.abc import Mapping
from typing import IO, Self

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.servers.answers import load_json_or_none
from guard_eval.servers.failures import RESAMPLED, RequestFailure
from guard_eval.servers.redaction import remove_key_from_answer
from guard_eval.servers.refusals import (
    explain_error_with_status_200,
    explain_lost_request,
    explain_refusal,
    is_web_page,
)
from guard_eval.servers.server import Server, is_key_of_server

try:
    import httpx2
    import openai
except ImportError:
    raise MissingExtraError("servers", "openai") from None

CONNECT_SECONDS = 30.0
LARGEST_RESPONSE = 2**25
"""The most bytes of a response. A response with probabilities of 8192 tokens is several times smaller."""

_REQUESTS_PER_POOL = 8
"""The most parallel requests in one pool of connections. A request is slower in a large pool."""

_TALKATIVE = ("openai", "httpcore2", "httpx2")
"""Loggers that write headers at level DEBUG. A server may echo the key in a header."""

_HEADERS = {
    b"accept",
    b"accept-encoding",
    b"connection",
    b"content-length",
    b"content-type",
    b"host",
    b"transfer-encoding",
    b"user-agent",
}
"""The headers of all requests, besides the study's own headers and the key. The SDK adds further ones from
the environment: OPENAI_ORG_ID and OPENAI_CUSTOM_HEADERS."""

_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)


class Client:
    """An asynchronous context manager that sends requests to one server.

    Attributes:
        server: The server.
        largest: The most bytes of a response.
    """

    def __init__(self, server: Server, *, concurrency: int) -> None:
        self.server = server
        self.largest = LARGEST_RESPONSE
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.INFO)
        # shared by all pools, because reading the certificates takes as long as dozens of requests
        try:
            tls = httpx2.create_ssl_context(trust_env=not server.avoids_proxies)
        except OSError as error:
            raise StudyError(
                f"the files for certificates cannot be read ({error.strerror or type(error).__name__}); "
                "correct SSL_CERT_FILE, SSL_CERT_DIR or SSLKEYLOGFILE in the environment"
            ) from None
        try:
            self._sdks = [self._connect(tls) for _ in range(-(-concurrency // _REQUESTS_PER_POOL))]
        except (ImportError, ValueError, httpx2.InvalidURL):  # the message may contain a proxy's password
            raise StudyError(
                "a proxy in the environment cannot be used; correct HTTPS_PROXY, HTTP_PROXY or "
                "ALL_PROXY, such as http://proxy.example:3128 (socks5:// needs: pip install 'httpx2[socks]')"
            ) from None
        self._turns = itertools.cycle(self._sdks)

    def _connect(self, tls: ssl.SSLContext) -> openai.AsyncOpenAI:
        """Return a client of OpenAI's SDK for this server."""
        transport = None
        if self.server.avoids_proxies:  # a client with its own transport ignores proxies from the environment
            transport = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False)
        return openai.AsyncOpenAI(
            api_key=self.server.key,
            base_url=self.server.url,
            max_retries=0,
            timeout=httpx2.Timeout(self.server.timeout, connect=min(self.server.timeout, CONNECT_SECONDS)),
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,  # no request is meant for another server
                trust_env=not self.server.avoids_proxies,
                verify=tls,
                event_hooks={"request": [self._remove_environment_headers], "response": [self._read_body]},
                transport=transport,
            ),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for sdk in self._sdks:
            await sdk.close()

    async def _remove_environment_headers(self, request: httpx2.Request) -> None:
        """Remove headers that come from environment variables, unless the key belongs to this server."""
        if is_key_of_server(str(self.server.variable), self.server.url):
            return
        names = _HEADERS | {name.lower().encode() for name in self.server.headers}
        headers = [
            (name, value)
            for name, value in request.headers.raw
            if name.lower() in names or name.lower().startswith(b"x-stainless-")
        ]
        request.headers = httpx2.Headers([*headers, (b"Authorization", f"Bearer {self.server.key}".encode())])

    async def _read_body(self, response: httpx2.Response) -> None:
        """Read a response's body. Stop after `largest` bytes, because no real answer is so large."""
        chunks = []
        size = 0
        async for chunk in response.aiter_bytes():
            chunks.append(chunk)
            size += len(chunk)
            if size > self.largest:
                await response.aclose()
                break
        response._content = b"".join(chunks)[: self.largest + 1]  # noqa: SLF001 (httpx2 has no limit)

    async def post(self, path: str, body: bytes) -> bytes | RequestFailure:
        """Send JSON once to a path below the server's address, and return the response."""
        result = await self._send("post", path, content=body)
        return (
            result
            if isinstance(result, RequestFailure)
            else explain_error_with_status_200(self.server, result) or result
        )

    async def upload(self, name: str, file: IO[bytes]) -> bytes | RequestFailure:
        """Upload a whole file of requests. The file is read in pieces while it is sent."""
        file.seek(0)
        files = [("file", (name, file, "application/jsonl"))]
        form = {"purpose": "batch"}
        return await self._send("post", "/files", content_type="multipart/form-data", body=form, files=files)

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> bytes | RequestFailure:
        """Return the response to a GET request for a path below the server's address."""
        return await self._send("get", path, query=query)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        content_type: str = "application/json",
        query: Mapping[str, object] | None = None,
        **content: object,
    ) -> bytes | RequestFailure:
        """Send one request, and return the response or the failure."""
        options = {"headers": {**self.server.headers, "Content-Type": content_type}, "params": query or {}}
        send = getattr(next(self._turns), method)
        timeout = self.server.timeout
        try:
            # httpx2's time-out begins again at each byte, and a server may send blanks while it works
            async with asyncio.timeout(timeout + min(timeout, CONNECT_SECONDS)):
                response = await send(path, cast_to=httpx2.Response, options=options, **content)
        except openai.APIStatusError as error:
            return self._read_response(error.response)
        except (openai.APIConnectionError, httpx2.RequestError, TimeoutError) as error:
            return self._explain_exception(error)
        return self._read_response(response)

    def _read_response(self, response: httpx2.Response) -> bytes | RequestFailure:
        """Return a response's body without the key, or the failure if the server refused the request."""
        content = remove_key_from_answer(response.content, self.server.key)
        headers = response.headers
        page = is_web_page(headers.get("content-type", ""), content)
        if response.is_success and not page:
            return content
        body = load_json_or_none(content)
        if isinstance(body, list) and body:  # Gemini's
            body = body[0]
        error = body.get("error", body) if isinstance(body, dict) else content.decode(errors="replace")
        refusal = explain_refusal(self.server, response.status_code, headers, error, page=page)
        # a refusal of the model's own text is an answer: it is stored, and another sample follows
        return content if refusal.kind in RESAMPLED else refusal

    def _explain_exception(self, error: Exception) -> RequestFailure:
        """Return the failure of a request whose complete response did not arrive because of this error."""
        cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
        sent = not isinstance(cause, _NOT_SENT)
        if sent and isinstance(cause, (TimeoutError, httpx2.TimeoutException)):
            detail = f"no response from {self.server.url} within {self.server.timeout:g} seconds"
            return RequestFailure(kind="timeout", detail=detail, billed=True)
        return explain_lost_request(self.server, cause or error, sent=sent)
