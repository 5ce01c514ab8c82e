"""The connection to a server: one request out, its raw bytes back, no retry, no secret out.

The SDK's own retries are off: they repeat exhausted quotas and say nothing of what they paid. Bodies go out
and come back as bytes, so that what is journalled is what was received, and no answer is lost because the
SDK cannot parse it.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal, Self

from guard_eval.errors import MissingExtraError
from guard_eval.study.settings import Judge
from judge.backend import Response
from judge.endpoint import OWN_KEY, access, is_loopback
from judge.errors import ErrorReader, OnError, is_page, redact
from judge.parsing import RequestError, excerpt, read_error

try:
    import httpx2
    import openai
except ImportError:
    raise MissingExtraError("judge", "openai") from None

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
        url: The server.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        environ: Mapping[str, str] | None = None,
        timeout: float | None = None,
        plain_http: bool = False,
    ) -> None:
        self._access = access(judge, environ, plain_http=plain_http)
        self.url = self._access.url
        self._model = judge.model
        self._key = self._access.key
        self._timeout = judge.timeout if timeout is None else timeout
        self.refusals = ErrorReader(model=judge.model, access=self._access)
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.INFO)
        # a proxy would read the key on its way from this machine to itself
        direct = self.url.lower().startswith("http:") and is_loopback(self.url)
        self._sdks = [
            openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self.url,
                max_retries=0,
                timeout=httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT)),
                http_client=openai.DefaultAsyncHttpxClient(
                    follow_redirects=False,  # nothing that is sent here is meant for another server
                    trust_env=not direct,
                    event_hooks={"request": [self._strip]},
                ),
            )
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

    async def _strip(self, request: httpx2.Request) -> None:
        """Take off what the environment adds, unless the request goes where the user's own key does."""
        if self._access.variable == OWN_KEY:
            return
        for name in [each for each in request.headers if each.lower() not in _HEADERS]:
            if not name.lower().startswith("x-stainless-"):
                del request.headers[name]
        request.headers["Authorization"] = f"Bearer {self._key}"

    @property
    def sdk(self) -> openai.AsyncOpenAI:
        """Return OpenAI's client, for what is no single request; give its errors to `explain`."""
        return self._sdks[0]

    async def post(
        self, path: str, body: bytes, *, on_error: OnError | None = None
    ) -> Response | RequestError:
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
                path, cast_to=httpx2.Response, content=body, options={"headers": _JSON}
            )
        except openai.APIError as error:
            failed = error
        else:
            return self._read(answer, time.monotonic() - started, on_error)
        return self.explain(failed, on_error=on_error)  # outside, so that the user's error quotes no other

    def _read(
        self, answer: httpx2.Response, seconds: float, on_error: OnError | None
    ) -> Response | RequestError:
        content = answer.content
        if is_page(answer.headers.get("content-type", ""), content):
            self.refusals.page()
        if (said := read_error(content)) is not None:  # routers pass on another server's error so
            return self.refusals.status(said.status, answer.headers, said.error, on_error=on_error)
        name = answer.headers.get("x-request-id")
        return Response(
            status=answer.status_code,
            body=redact(content, self._key),
            request_id=name and excerpt(redact(name, self._key)),
            seconds=seconds,
            at=datetime.now(UTC),
            headers=answer.headers,
        )

    def explain(self, error: openai.APIError, *, on_error: OnError | None = None) -> RequestError:
        """Return what an error of the SDK means; raises as `post` does."""
        if isinstance(error, openai.APIStatusError):
            answer: Any = error.response
            if is_page(answer.headers.get("content-type", ""), answer.content) and error.status_code < 500:
                self.refusals.page()
            return self.refusals.status(error.status_code, answer.headers, error.body, on_error=on_error)
        cause = error.__cause__ or error  # it may quote what was sent: its name must do
        if isinstance(cause, httpx2.TimeoutException) and not isinstance(cause, _NOT_SENT):
            return self.refusals.timed_out(self._timeout)
        return self.refusals.lost(type(cause).__name__, sent=not isinstance(cause, _NOT_SENT))


Kind = Literal["OpenAI", "vLLM", "Ollama", "llama.cpp", "SGLang", "LM Studio", "transformers serve"]

PROBE_TIMEOUT = 5.0
"""Seconds after which a server that does not answer the probe is left alone."""

_BY_OWNER: dict[str, Kind] = {
    "vllm": "vLLM",
    "library": "Ollama",
    "llamacpp": "llama.cpp",
    "sglang": "SGLang",
    "organization_owner": "LM Studio",
    "openai": "OpenAI",
    "system": "OpenAI",
    "openai-internal": "OpenAI",
}

_LACKS: dict[Kind, str] = {
    "vLLM": "no Batch API, no rate headers",
    "Ollama": "no Batch API, no rate headers; it may ignore the schema and cut long prompts in silence",
    "llama.cpp": "no Batch API, no rate headers",
    "SGLang": "no Batch API, no rate headers",
    "LM Studio": "no Batch API, no rate headers",
    "transformers serve": "no Batch API, no rate headers; it ignores schema and JSON mode",
}

_SHOWN = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What is known of a server.

    Attributes:
        kind: Which software or service it is; None where it does not say.
        models: The names of its models, as it lists them.
        context: How many tokens the judge's model takes, where the server says so.
        shutdown: The day on which the provider switches the model off, where it says so.
        notices: Messages for the user.
    """

    kind: Kind | None = None
    models: tuple[str, ...] = ()
    context: int | None = None
    shutdown: date | None = None
    notices: tuple[str, ...] = ()


async def probe(sdk: openai.AsyncOpenAI, model: str) -> Probe:
    """Return what the server says of itself; never raises."""
    try:
        answer = await sdk.models.with_raw_response.list(timeout=PROBE_TIMEOUT)
        listed = json.loads(answer.http_response.content)["data"]
        entries = [each for each in listed if isinstance(each, dict) and isinstance(each.get("id"), str)]
    except Exception:  # noqa: BLE001 (a server need not know this; its answers are what counts)
        return Probe()
    return read(entries, answer.headers, model)


def read(entries: list[dict[str, Any]], headers: Mapping[str, str], model: str) -> Probe:
    """Return what a list of models and the headers it came with tell of a server.

    Args:
        entries: The models, each with its `id`.
        headers: The answer's, looked up in lower case.
        model: The judge's model.
    """
    kind = _kind(entries, headers)
    names = tuple(each["id"] for each in entries)
    mine = next((each for each in entries if each["id"] in (model, f"{model}:latest")), None)
    context, end = _context(mine or {}), _shutdown(mine or {})
    notices = []
    if kind in _LACKS:
        size = f", whose model takes {context:,} tokens" if context else ""
        notices.append(f"the server is {kind}{size}: {_LACKS[kind]}")
    if names and mine is None and kind != "OpenAI":  # OpenAI's list leaves out some of its own names
        shown = ", ".join(excerpt(name) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        notices.append(f"the server does not list {model}; it has {shown}{more}")
    if end is not None:
        notices.append(f"the provider switches {model} off on {end}; finish before, or name another model")
    return Probe(kind=kind, models=names, context=context, shutdown=end, notices=tuple(notices))


def _kind(entries: list[dict[str, Any]], headers: Mapping[str, str]) -> Kind | None:
    if "openai-version" in headers or "openai-processing-ms" in headers:
        return "OpenAI"
    if headers.get("server", "").lower().startswith("llama.cpp"):
        return "llama.cpp"
    owners = {str(each.get("owned_by")) for each in entries}
    for owner, kind in _BY_OWNER.items():
        if owner in owners:
            return kind
    # its owners are the authors' names in its cache of the Hub
    mine = entries and all(each["id"].startswith(f"{each.get('owned_by')}/") for each in entries)
    return "transformers serve" if mine and headers.get("server") == "uvicorn" else None


def _context(entry: dict[str, Any]) -> int | None:
    meta = entry.get("meta")
    size = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    return size if isinstance(size, int) and size > 0 else None


def _shutdown(entry: dict[str, Any]) -> date | None:
    try:
        return date.fromisoformat(str(entry.get("shutdown_date"))[:10])
    except ValueError:
        return None
