"""OpenAI's batches: a file of requests goes up, a batch is made of it, and files of results come down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from judge.backend import JudgeRequest
from judge.batch.api import (
    TRANSFER,
    BatchCalls,
    BatchDraft,
    BatchStatus,
    Missing,
    ResultLine,
    content_of,
    entries,
    json_of,
    name_in,
    sentences,
)
from judge.failures import Retry
from judge.providers.client import Client
from judge.providers.shapes import path_of

_LIST = 100
_PAGES = 20


class OpenAIBatches:
    """Speaks to one judge's provider about files and batches; see `judge.batch.api.BatchApi`."""

    most_requests = 50_000
    most_bytes = 200_000_000
    stored = timedelta(days=30)

    def __init__(self, client: Client, *, retry: Retry, seed: int) -> None:
        self.url = client.provider.url
        self._calls = BatchCalls(client, retry=retry, seed=seed)
        self._files = client.sdk.files.with_raw_response
        self._batches = client.sdk.batches.with_raw_response

    def line_of(self, request: JudgeRequest) -> bytes:
        """Return a request's line in the input file; its body is the very bytes that go out online."""
        frame = {"custom_id": request.key, "method": "POST", "url": f"/v1{path_of(request.shape)}"}
        return json.dumps(frame)[:-1].encode() + b', "body": ' + request.body + b"}\n"

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file of requests, and return the provider's name for it; raises as `BatchApi` says."""
        file = (name, content, "application/jsonl")
        call = partial(self._files.create, file=file, purpose="batch", timeout=TRANSFER)
        try:
            return name_in(json_of((await self._calls.until(call, "upload", large=True)).http_response))
        except Missing:
            raise self._calls.no_batch_api() from None

    async def create(self, draft: BatchDraft) -> BatchStatus:
        """Make a batch of an uploaded file; raises as `BatchApi` says."""
        call = partial(
            self._batches.create,
            input_file_id=draft.input_file,
            endpoint=f"/v1{draft.path}",
            completion_window="24h",
            metadata={"guard-eval": draft.label},
        )
        made = await self._calls.create(call, partial(self.find, draft))
        return made if isinstance(made, BatchStatus) else _status(json_of(made.http_response))

    async def find(self, draft: BatchDraft) -> BatchStatus | None:
        """Return the batch that was made of this file, if there is one; raises as `BatchApi` says."""
        after: dict[str, Any] = {}
        for _ in range(_PAGES):
            call = partial(self._batches.list, limit=_LIST, **after)
            page = json_of((await self._calls.until(call, "list")).http_response)
            listed = [each for each in page.get("data") or [] if isinstance(each, dict)]
            for each in listed:
                if each.get("input_file_id") == draft.input_file and each.get("id") not in draft.others:
                    return _status(each)
            if not page.get("has_more") or not listed:
                return None
            after = {"after": str(listed[-1].get("id"))}
        return None

    async def poll(self, name: str) -> BatchStatus:
        """Return how far a batch is; raises as `BatchApi` says."""
        answer = await self._calls.until(partial(self._batches.retrieve, name), name, patient=True)
        return _status(json_of(answer.http_response))

    async def download(self, file: str) -> bytes:
        """Return a file's content; raises as `BatchApi` says."""
        call = partial(self._files.content, file, timeout=TRANSFER)
        return content_of((await self._calls.until(call, file, patient=True, large=True)).http_response)

    def read_results(self, content: bytes) -> Iterator[ResultLine]:
        """Yield what the lines of a results or error file say; what is no result is passed over."""
        for entry, line in entries(content):
            if isinstance(entry.get("custom_id"), str):
                yield _result(entry, line)


def _result(entry: dict[str, Any], line: bytes) -> ResultLine:
    response = entry.get("response")
    response = response if isinstance(response, dict) else {}
    status, name = response.get("status_code"), response.get("request_id")
    body = response.get("body")
    error = entry.get("error") or (body.get("error") if isinstance(body, dict) else None)
    whole = status == 200 and isinstance(body, dict)
    return ResultLine(
        key=entry["custom_id"],
        line=line,
        status=status if isinstance(status, int) else None,
        request_id=name if isinstance(name, str) else None,
        error=None if whole and not error else error or body or "no answer",
    )


def _status(batch: dict[str, Any]) -> BatchStatus:
    counts = batch.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    completed, failed, total = (counts.get(name) for name in ("completed", "failed", "total"))
    whole = isinstance(completed, int) and isinstance(failed, int)
    errors = batch.get("errors")
    listed = errors.get("data") if isinstance(errors, dict) else None
    listed = [each for each in listed or [] if isinstance(each, dict)]
    return BatchStatus(
        id=name_in(batch),
        status=str(batch.get("status")),
        output_file=_name(batch.get("output_file_id")),
        error_file=_name(batch.get("error_file_id")),
        done=completed + failed if whole else None,  # type: ignore[operator]
        total=total if isinstance(total, int) else None,
        seconds=_seconds(batch),
        errors=sentences(listed),
        codes=frozenset(str(each.get("code")) for each in listed),
    )


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(batch: dict[str, Any]) -> float:
    begun = batch.get("created_at")
    for name in ("completed", "expired", "cancelled", "failed"):
        ended = batch.get(f"{name}_at")
        if isinstance(ended, int | float) and isinstance(begun, int | float):
            return float(max(0, ended - begun))
    return 0.0
