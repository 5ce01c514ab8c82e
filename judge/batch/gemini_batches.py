"""Gemini's batches: a file of requests goes up, a batch is made of it, and a file of results comes down."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from guard_eval.errors import StudyError
from judge.backend import JudgeRequest
from judge.batch.api import (
    STRANGE,
    BatchCalls,
    BatchDraft,
    BatchStatus,
    Missing,
    ResultLine,
    entries,
)
from judge.failures import Retry
from judge.providers.client import Client
from judge.providers.errors import is_page

_LIST = 100
_MOST_LISTED = 2000

_STATES = {
    "SUCCEEDED": "completed",
    "PARTIALLY_SUCCEEDED": "completed",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "EXPIRED": "expired",
}
_HTTP = {1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 11: 400, 13: 500, 14: 503, 16: 401}
"""The HTTP status of a gRPC code, which a line's error may have in its place."""


class GeminiBatches:
    """Speaks to Gemini about files and batches; see `judge.batch.api.BatchApi`."""

    most_requests = 50_000
    most_bytes = 1_900_000_000  # a file of 2 GB
    stored = timedelta(days=2)

    def __init__(self, client: Client, *, retry: Retry, seed: int) -> None:
        self.url = client.provider.url
        self._model = client.provider.model
        self._calls = BatchCalls(client, retry=retry, seed=seed)
        self._api = client.sdk.api

    def line_of(self, request: JudgeRequest) -> bytes:
        """Return a request's line in the input file; its body is what goes out online."""
        return json.dumps({"key": request.key})[:-1].encode() + b', "request": ' + request.body + b"}\n"

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file of requests, and return the provider's name for it; raises as `BatchApi` says."""
        config = {"display_name": name, "mime_type": "application/jsonl"}

        async def call() -> Any:  # noqa: ANN401 (the SDK's file)
            return await self._api.files.upload(file=io.BytesIO(content), config=config)

        try:
            found = (await self._read(self._calls.until(call, "upload", large=True))).name
        except Missing:
            raise self._calls.no_batch_api() from None
        if not isinstance(found, str):
            raise StudyError(STRANGE)
        return found

    async def create(self, draft: BatchDraft) -> BatchStatus:
        """Make a batch of an uploaded file, and give it the file's name; raises as `BatchApi` says."""
        call = partial(
            self._api.batches.create,
            model=self._model,
            src=draft.input_file,
            config={"display_name": draft.input_file},
        )
        made = await self._read(self._calls.create(call, partial(self.find, draft)))
        return made if isinstance(made, BatchStatus) else _status(made)

    async def find(self, draft: BatchDraft) -> BatchStatus | None:
        """Return the batch that has this file's name, if there is one; raises as `BatchApi` says."""

        async def call() -> list[Any]:
            found = []
            async for job in await self._api.batches.list(config={"page_size": _LIST}):
                found.append(job)
                if len(found) == _MOST_LISTED:
                    break
            return found

        for job in await self._read(self._calls.until(call, "list")):
            if job.display_name == draft.input_file and job.name not in draft.others:
                return _status(job)
        return None

    async def poll(self, name: str) -> BatchStatus:
        """Return how far a batch is; raises as `BatchApi` says."""
        call = partial(self._api.batches.get, name=name)
        return _status(await self._read(self._calls.until(call, name, patient=True)))

    async def download(self, file: str) -> bytes:
        """Return a file's content; raises as `BatchApi` says."""
        call = partial(self._api.files.download, file=file)
        content: bytes = await self._read(self._calls.until(call, file, patient=True, large=True))
        if is_page("", content):
            raise StudyError(STRANGE)
        return content

    def read_results(self, content: bytes) -> Iterator[ResultLine]:
        """Yield what the lines of the results say; what is no result is passed over."""
        for entry, line in entries(content):
            if isinstance(entry.get("key"), str):
                yield _result(entry, line)

    async def _read(self, call: Any) -> Any:  # noqa: ANN401 (what the SDK returns)
        """Return what a call brings; the SDK may not be able to read it.

        Raises:
            StudyError: It cannot.
        """
        try:
            return await call
        except StudyError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError):
            raise StudyError(STRANGE) from None


def _result(entry: dict[str, Any], line: bytes) -> ResultLine:
    response, error = entry.get("response"), entry.get("error") or entry.get("status")
    whole = isinstance(response, dict) and ("candidates" in response or "promptFeedback" in response)
    name = response.get("responseId") if isinstance(response, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    status = _HTTP.get(code, code) if isinstance(code, int) else None
    return ResultLine(
        key=entry["key"],
        line=line,
        status=200 if whole and not error else status,
        request_id=name if isinstance(name, str) else None,
        error=None if whole and not error else error or response or "no answer",
    )


def _status(job: Any) -> BatchStatus:  # noqa: ANN401 (the SDK's BatchJob)
    if not isinstance(job.name, str) or not job.name:
        raise StudyError(STRANGE)
    state = str(getattr(job.state, "name", job.state)).removeprefix("JOB_STATE_")
    dest, error = job.dest, job.error
    seconds = (job.end_time - job.create_time).total_seconds() if job.end_time and job.create_time else 0.0
    return BatchStatus(
        id=job.name,
        status=_STATES.get(state, state.lower()),
        output_file=dest.file_name if dest else None,
        error_file=None,
        done=None,
        total=None,
        seconds=max(0.0, seconds),
        errors=(str(error.message),) if error and error.message else (),
        codes=frozenset(),
    )
