"""Files and batches at the provider: each step is repeated until it is done or known to be impossible.

Uploading, polling and downloading cost nothing and are simply repeated. Making a batch costs its answers, so
before that is repeated the provider is asked whether the batch is there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from guard_eval.errors import StudyError
from judge.failures import ErrorKind, JudgeError, Retry
from judge.providers.client import APIError, APIStatusError, Client
from judge.providers.envelopes import excerpt
from judge.providers.errors import is_page

ENDED = {"completed", "failed", "expired", "cancelled"}
"""The statuses after which nothing more comes."""

_STRANGE = "the server does not answer as a Batch API does; run again later, or without --batch"
_PATIENCE = 12
_LIST = 100
_PAGES = 20
_TRANSFER = 600.0
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


class BatchApi:
    """Speaks to one judge's provider about files and batches."""

    def __init__(self, client: Client, *, retry: Retry, seed: int) -> None:
        self.url = client.provider.url
        self._client = client
        self._files = client.sdk.files.with_raw_response
        self._batches = client.sdk.batches.with_raw_response
        self._retry = retry
        self._seed = seed

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file of requests, and return the provider's name for it.

        Raises:
            NotTakenError: The provider refuses the file, or has no Batch API.
            StudyError: Only the user can fix it.
        """
        file = (name, content, "application/jsonl")
        call = partial(self._files.create, file=file, purpose="batch", timeout=_TRANSFER)
        try:
            return _id(_json(await self._until(call, "upload")))
        except Missing:
            raise self._no_batch_api() from None

    async def create(self, input_file: str, path: str, *, label: str) -> BatchStatus:
        """Make a batch of an uploaded file; where the answer to that is lost, find out whether it is there.

        Raises:
            NotTakenError: The provider refuses the file, or has no Batch API.
            StudyError: Only the user can fix it.
        """

        async def find() -> BatchStatus | None:
            try:
                return await self.find(input_file)
            except Missing:
                raise StudyError(
                    f"the connection to {self.url} was lost while a batch was made, and whether it is there "
                    "cannot be asked; run again: what it may cost stays set aside"
                ) from None

        call = partial(
            self._batches.create,
            input_file_id=input_file,
            endpoint=f"/v1{path}",  # type: ignore[arg-type]
            completion_window="24h",
            metadata={"guard-eval": label},
        )
        try:
            made = await self._until(call, "create", before_again=find)
        except Missing:
            raise self._no_batch_api() from None
        return made if isinstance(made, BatchStatus) else _status(_json(made))

    async def find(self, input_file: str) -> BatchStatus | None:
        """Return the batch that was made of this file, if there is one.

        Raises:
            Missing: The server cannot list its batches.
        """
        after: dict[str, Any] = {}
        for _ in range(_PAGES):
            call: Call = partial(self._batches.list, limit=_LIST, **after)
            page = _json(await self._until(call, "list"))
            entries = [each for each in page.get("data") or [] if isinstance(each, dict)]
            for each in entries:
                if each.get("input_file_id") == input_file:
                    return _status(each)
            if not page.get("has_more") or not entries:
                return None
            after = {"after": str(entries[-1].get("id"))}
        return None

    async def poll(self, name: str) -> BatchStatus:
        """Return how far a batch is.

        Raises:
            Missing: The provider does not know it.
        """
        return _status(_json(await self._until(partial(self._batches.retrieve, name), name, patient=True)))

    async def download(self, file: str) -> bytes:
        """Return a file's content.

        Raises:
            Missing: The provider does not have it any more.
        """
        call = partial(self._files.content, file, timeout=_TRANSFER)
        answer = (await self._until(call, file, patient=True)).http_response
        content: bytes = answer.content
        if is_page(answer.headers.get("content-type", ""), content):
            raise StudyError(_STRANGE)
        return content

    async def _until(
        self,
        call: Call,
        name: str,
        *,
        patient: bool = False,
        before_again: Callable[[], Awaitable[BatchStatus | None]] | None = None,
    ) -> Any:  # noqa: ANN401 (the SDK's response, or a BatchStatus)
        """Call until there is an answer.

        Args:
            call: A call of the SDK.
            name: What it is called, for the waits between attempts.
            patient: Bear an outage of minutes: a batch takes hours anyway.
            before_again: Called before another attempt; what it returns, if anything, is the answer.

        Raises:
            Missing: The provider knows no such thing.
            StudyError: It never came, or only the user can fix it.
        """
        times = 0
        while True:
            try:
                return await call()
            except APIError as caught:
                if isinstance(caught, APIStatusError) and caught.status_code in _NO_SUCH_THING:
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

    def _no_batch_api(self) -> NotTakenError:
        return NotTakenError(
            f"the server at {self.url} has no Batch API; run without --batch, or ask another server"
        )


def _json(answer: Any) -> dict[str, Any]:  # noqa: ANN401 (the SDK's response)
    try:
        value = json.loads(answer.http_response.content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise StudyError(_STRANGE)
    return value


def _status(batch: dict[str, Any]) -> BatchStatus:
    counts = batch.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    completed, failed, total = (counts.get(name) for name in ("completed", "failed", "total"))
    whole = isinstance(completed, int) and isinstance(failed, int)
    errors = batch.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else None
    listed = [each for each in listed or [] if isinstance(each, dict)]
    return BatchStatus(
        id=_id(batch),
        status=str(batch.get("status")),
        output_file=_name(batch.get("output_file_id")),
        error_file=_name(batch.get("error_file_id")),
        done=completed + failed if whole else None,  # type: ignore[operator]
        total=total if isinstance(total, int) else None,
        seconds=_seconds(batch),
        errors=tuple(excerpt(str(each.get("message"))) for each in listed),
        codes=frozenset(str(each.get("code")) for each in listed),
    )


def _id(entry: dict[str, Any]) -> str:
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise StudyError(_STRANGE)
    return name


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(batch: dict[str, Any]) -> float:
    begun = batch.get("created_at")
    for name in ("completed", "expired", "cancelled", "failed"):
        ended = batch.get(f"{name}_at")
        if isinstance(ended, int | float) and isinstance(begun, int | float):
            return float(max(0, ended - begun))
    return 0.0
