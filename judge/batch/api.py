"""What a run in batches needs of a provider, and what all providers have in common.

Uploading, polling and downloading cost nothing and are simply repeated. Making a batch costs its answers, so
before that is repeated the provider is asked whether the batch is there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from guard_eval.errors import StudyError
from judge.backend import JudgeRequest
from judge.failures import ErrorKind, JudgeError, Retry
from judge.providers.client import Client
from judge.providers.envelopes import excerpt
from judge.providers.errors import is_page

ENDED = {"completed", "failed", "expired", "cancelled"}
"""The statuses after which nothing more comes."""

STRANGE = "the server does not answer as a Batch API does; run again later, or without --batch"
TRANSFER = 600.0
"""Seconds that a call may take, and a file from one byte to the next."""

LONGEST = 3600.0
"""Seconds that a file may take on its way: a server may send a byte a minute for ever."""

LARGEST_FILE = 2**31
"""Bytes of a file of results."""

OVER = {"batch_expired", "batch_cancelled"}
"""Codes of requests that were never made, because the batch ended before their turn."""

_PATIENCE = 12
_NO_SUCH_THING = (404, 405, 501)

Call = Callable[[], Awaitable[Any]]


class Missing(Exception):  # noqa: N818 (what it means depends on what was asked for)
    """The provider knows no such thing."""


class NotTakenError(StudyError):
    """The provider refuses for good what it was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchStatus:
    """A batch as the provider describes it.

    Attributes:
        id: The provider's name for it.
        status: `validating`, `in_progress`, `completed`, …
        output_file: The file of answers, where there is one.
        error_file: The file of errors, where there is one.
        done: How many of its requests are done, failed ones included; None where it does not say.
        total: How many it has; None where it does not say.
        seconds: From its making to its end; 0 until then.
        errors: Why it failed as a whole, a sentence each.
        codes: The codes of these.
    """

    id: str
    status: str
    output_file: str | None
    error_file: str | None
    done: int | None
    total: int | None
    seconds: float
    errors: tuple[str, ...]
    codes: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchDraft:
    """A batch that is to be made, or whose making was interrupted.

    Attributes:
        input_file: What `upload` returned.
        keys: Its requests' names.
        others: The provider's names of batches that are none of it.
        since: When it was put together; it was not made before.
        path: Where its requests go, below the server's address.
        label: What it is called.
        content: Its lines.
    """

    input_file: str
    keys: frozenset[str]
    others: Collection[str]
    since: datetime
    path: str = ""
    label: str = ""
    content: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultLine:
    """One line of a results or error file.

    Attributes:
        key: The request's custom id.
        line: The line as it came.
        status: The HTTP status of this request; None where it was never made.
        request_id: The provider's name for it.
        error: What went wrong, if it did: the error's object, or the body.
    """

    key: str
    line: bytes
    status: int | None
    request_id: str | None
    error: object

    @property
    def code(self) -> str | None:
        """Return the error's code."""
        return str(self.error.get("code")) if isinstance(self.error, dict) else None


class BatchApi(Protocol):
    """One provider's batches.

    Attributes:
        url: The server.
        most_requests: How many requests it takes in one batch.
        most_bytes: How large a batch may be.
        stored: How long it keeps a batch's results.
    """

    url: str
    most_requests: int
    most_bytes: int
    stored: timedelta

    def line_of(self, request: JudgeRequest) -> bytes:
        """Return a request's line; its body is the very bytes that go out online."""
        ...

    async def upload(self, name: str, content: bytes) -> str:
        """Upload the lines under that name, where the provider wants that; return what they are called there.

        Raises:
            NotTakenError: The provider refuses the file, or has no Batch API.
            StudyError: Only the user can fix it.
        """
        ...

    async def create(self, draft: BatchDraft) -> BatchStatus:
        """Make a batch of what was uploaded; where the answer is lost, find out whether it exists.

        Raises:
            NotTakenError: The provider refuses it, or has no Batch API.
            StudyError: Only the user can fix it.
        """
        ...

    async def find(self, draft: BatchDraft) -> BatchStatus | None:
        """Return the batch that was made of this draft, if there is one.

        A provider that gives a batch no name of ours returns what may be it; its results say whether it is.

        Raises:
            Missing: The server cannot list its batches.
        """
        ...

    async def poll(self, name: str) -> BatchStatus:
        """Return how far a batch is.

        Raises:
            Missing: The provider does not know it.
        """
        ...

    async def download(self, file: str) -> bytes:
        """Return a file of results.

        Raises:
            Missing: The provider does not have it any more.
        """
        ...

    def read_results(self, content: bytes) -> Iterator[ResultLine]:
        """Yield what the lines of a file of results say; what is no result is passed over."""
        ...


class BatchCalls:
    """Calls about files and batches, each repeated until it is done or known to be impossible."""

    def __init__(self, client: Client, *, retry: Retry, seed: int) -> None:
        self.url = client.provider.url
        client.largest = LARGEST_FILE
        self._client = client
        self._retry = retry
        self._seed = seed

    async def create(self, call: Call, find: Callable[[], Awaitable[BatchStatus | None]]) -> Any:  # noqa: ANN401
        """Call what makes a batch; before it is repeated, call `find`, and return what it finds.

        Raises:
            NotTakenError: The provider refuses the batch, or has no Batch API.
            StudyError: Only the user can fix it.
        """

        async def found() -> BatchStatus | None:
            try:
                return await find()
            except Missing:
                raise StudyError(
                    f"the connection to {self.url} was lost while a batch was made, and whether it exists "
                    "cannot be asked; run again: what it may cost stays set aside"
                ) from None

        try:
            return await self.until(call, "create", large=True, before_again=found)
        except Missing:
            raise self.no_batch_api() from None

    async def until(
        self,
        call: Call,
        name: str,
        *,
        patient: bool = False,
        large: bool = False,
        before_again: Callable[[], Awaitable[BatchStatus | None]] | None = None,
    ) -> Any:  # noqa: ANN401 (the SDK's response, or a BatchStatus)
        """Call until there is an answer.

        Args:
            call: A call of the SDK.
            name: What it is called, for the waits between attempts.
            patient: Bear an outage of minutes: a batch takes hours anyway.
            large: It carries a file, and may take longer.
            before_again: Called before another attempt; what it returns, if anything, is the answer.

        Raises:
            Missing: The provider knows no such thing.
            StudyError: It never came, or only the user can fix it.
        """
        times = 0
        while True:
            try:
                async with asyncio.timeout(LONGEST if large else TRANSFER):
                    return await call()
            except Exception as caught:  # noqa: BLE001 (each SDK has classes of its own; `explain` knows them)
                answer = getattr(caught, "response", None)
                if getattr(answer, "status_code", None) in _NO_SUCH_THING:
                    raise Missing from None
                error = self._client.explain(caught)
            times += 1
            self._check(error, times, patient=patient)
            await asyncio.sleep(max(error.wait or 0.0, self._retry.pause(f"{self._seed}:{name}", times)))
            if before_again is not None and (found := await before_again()) is not None:
                return found

    def _check(self, error: JudgeError, times: int, *, patient: bool) -> None:
        """Check that it may be tried again.

        Raises:
            StudyError: It may not.
        """
        if (error.wait or 0.0) > self._retry.longest_asked:
            raise self._retry.too_long(self.url, error.wait or 0.0)
        kind: ErrorKind = "transport" if error.kind == "timeout" else error.kind  # no call is paid
        if kind in {"rejected", "too_long", "content_filter"}:
            raise NotTakenError(
                f"the server at {self.url} does not take the batch: {error.detail}; run without --batch"
            )
        if times >= _PATIENCE if patient else not self._retry.allows(kind, times):
            raise StudyError(f"{error.detail}; run again to go on from here: batches are kept")

    def no_batch_api(self) -> NotTakenError:
        """Return the error of a server that knows nothing of batches."""
        return NotTakenError(
            f"the server at {self.url} has no Batch API; run without --batch, or ask another server"
        )


def content_of(answer: Any) -> bytes:  # noqa: ANN401 (a response of httpx2)
    """Return a file's content.

    Raises:
        StudyError: It is a web page.
    """
    content: bytes = answer.content
    if is_page(answer.headers.get("content-type", ""), content):
        raise StudyError(STRANGE)
    return content


def json_of(answer: Any) -> dict[str, Any]:  # noqa: ANN401 (a response of httpx2)
    """Return the object in a response.

    Raises:
        StudyError: There is none.
    """
    try:
        value = json.loads(answer.content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StudyError(STRANGE)
    return value


def name_in(entry: dict[str, Any], field: str = "id") -> str:
    """Return what the provider calls a file or batch.

    Raises:
        StudyError: It does not say.
    """
    name = entry.get(field)
    if not isinstance(name, str) or not name:
        raise StudyError(STRANGE)
    return name


def entries(content: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the objects in a file's lines, each with its line; what is no object is passed over."""
    for line in content.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry, line


def sentences(errors: object) -> tuple[str, ...]:
    """Return what a batch's errors say, a sentence each."""
    listed = errors if isinstance(errors, list) else []
    return tuple(excerpt(str(each.get("message"))) for each in listed if isinstance(each, dict))
