"""Anthropic's batches: the requests go up with the batch itself, and one file of results comes down.

A batch has no name of ours there, and the list does not say what is in it: one whose making was interrupted
is known by when it was made and how many requests it has, and in the end by its results.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx2

from judge.backend import JudgeRequest
from judge.batch.api import (
    OVER,
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
)
from judge.failures import Retry
from judge.providers.client import Client

_PATH = "/v1/messages/batches"
_LIST = 100
_PAGES = 20

_CLOCKS = timedelta(minutes=5)
"""How far this machine's clock may be ahead of the server's."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status that an error of this type has online."""

_OVER = dict(zip(("expired", "canceled"), sorted(OVER, reverse=True), strict=True))


class AnthropicBatches:
    """Speaks to Anthropic about batches; see `judge.batch.api.BatchApi`."""

    most_requests = 100_000
    most_bytes = 250_000_000  # 256 MB, the frame included
    stored = timedelta(days=29)

    def __init__(self, client: Client, *, retry: Retry, seed: int) -> None:
        self.url = client.provider.url
        self._calls = BatchCalls(client, retry=retry, seed=seed)
        self._sdk = client.sdk

    def line_of(self, request: JudgeRequest) -> bytes:
        """Return a request as it is in a batch; its body is the very bytes that go out online."""
        return json.dumps({"custom_id": request.key})[:-1].encode() + b', "params": ' + request.body + b"}\n"

    async def upload(self, name: str, content: bytes) -> str:  # noqa: ARG002 (they go up with the batch)
        """Return a name for the requests, which go up with the batch itself."""
        return f"inline-{secrets.token_hex(8)}"

    async def create(self, draft: BatchDraft) -> BatchStatus:
        """Make a batch of the requests; raises as `BatchApi` says."""
        body = b'{"requests": [' + b",".join(draft.content.splitlines()) + b"]}"
        options = {"headers": {"Content-Type": "application/json"}, "timeout": TRANSFER}
        call = partial(self._sdk.post, _PATH, cast_to=httpx2.Response, content=body, options=options)
        made = await self._calls.create(call, partial(self.find, draft))
        return made if isinstance(made, BatchStatus) else _status(json_of(made))

    async def find(self, draft: BatchDraft) -> BatchStatus | None:
        """Return the oldest batch that may be this one, if there is any; raises as `BatchApi` says."""
        possible: list[BatchStatus] = []
        async for each, made_at in self._listed():
            if made_at < draft.since - _CLOCKS:
                break
            if each.total == len(draft.keys) and each.id not in draft.others:
                possible.append(each)
        for each in reversed(possible):
            if each.output_file is None or await self._has(each.output_file, draft.keys):
                return each
        return None

    async def _has(self, file: str, keys: frozenset[str]) -> bool:
        """Return whether a file of results has any of these requests."""
        try:
            return any(line.key in keys for line in self.read_results(await self.download(file)))
        except Missing:
            return False

    async def _listed(self) -> Any:  # noqa: ANN401 (pairs of BatchStatus and datetime)
        query: dict[str, Any] = {"limit": _LIST}
        for _ in range(_PAGES):
            options = {"params": query}
            call = partial(self._sdk.get, _PATH, cast_to=httpx2.Response, options=options)
            page = json_of(await self._calls.until(call, "list"))
            listed = [each for each in page.get("data") or [] if isinstance(each, dict)]
            for each in listed:
                yield _status(each), _moment(each, "created_at") or datetime.now(UTC)
            if not page.get("has_more") or not listed:
                return
            query = {"limit": _LIST, "after_id": str(listed[-1].get("id"))}

    async def poll(self, name: str) -> BatchStatus:
        """Return how far a batch is; raises as `BatchApi` says."""
        call = partial(self._sdk.get, f"{_PATH}/{name}", cast_to=httpx2.Response)
        return _status(json_of(await self._calls.until(call, name, patient=True)))

    async def download(self, file: str) -> bytes:
        """Return the results of the batch of that name; raises as `BatchApi` says."""
        options = {"timeout": TRANSFER}
        call = partial(self._sdk.get, f"{_PATH}/{file}/results", cast_to=httpx2.Response, options=options)
        return content_of(await self._calls.until(call, file, patient=True, large=True))

    def read_results(self, content: bytes) -> Iterator[ResultLine]:
        """Yield what the lines of the results say; what is no result is passed over."""
        for entry, line in entries(content):
            result = entry.get("result")
            if isinstance(entry.get("custom_id"), str) and isinstance(result, dict):
                yield _result(entry["custom_id"], result, line)


def _result(key: str, result: dict[str, Any], line: bytes) -> ResultLine:
    kind = result.get("type")
    if kind == "succeeded" and isinstance(result.get("message"), dict):
        name = result["message"].get("id")
        return ResultLine(
            key=key, line=line, status=200, request_id=name if isinstance(name, str) else None, error=None
        )
    if kind in _OVER:
        return ResultLine(key=key, line=line, status=None, request_id=None, error={"code": _OVER[kind]})
    outer = result.get("error")
    outer = outer if isinstance(outer, dict) else {}
    error = outer.get("error", outer) or "no answer"
    status = _STATUSES.get(str(error.get("type"))) if isinstance(error, dict) else None
    name = outer.get("request_id")
    return ResultLine(
        key=key, line=line, status=status, request_id=name if isinstance(name, str) else None, error=error
    )


def _status(batch: dict[str, Any]) -> BatchStatus:
    name = name_in(batch)
    counts = batch.get("request_counts")
    numbers = {key: value for key, value in (counts or {}).items() if isinstance(value, int)}
    total = sum(numbers.values())
    ended = batch.get("processing_status") == "ended"
    begun, over = _moment(batch, "created_at"), _moment(batch, "ended_at")
    return BatchStatus(
        id=name,
        status="completed" if ended else str(batch.get("processing_status")),
        output_file=name if batch.get("results_url") else None,
        error_file=None,
        done=total - numbers.get("processing", 0) if numbers else None,
        total=total if numbers else None,
        seconds=max(0.0, (over - begun).total_seconds()) if begun and over else 0.0,
        errors=(),
        codes=frozenset(),
    )


def _moment(batch: dict[str, Any], field: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(batch.get(field)))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
