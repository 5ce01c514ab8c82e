"""The Batch API of a server: upload requests, create a batch, read its status, and download its results.

A failed call is repeated for some minutes, because a batch takes hours anyway. Each batch has a name that we
choose. If the server's answer is lost, the batch is found by this name, and no second batch is created.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import IO, Literal

from guard_eval.errors import StudyError
from guard_eval.records import JsonObject, record
from guard_eval.servers.answers import get_object_or_empty, load_json_or_none, parse_token_count, shorten
from guard_eval.servers.client import Client
from guard_eval.servers.failures import ATTEMPTS, LONGEST_WAIT_SECONDS, FailureKind, RequestFailure
from guard_eval.servers.refusals import read_error_message
from guard_eval.servers.workers import draw_pause_seconds

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""The most bytes that a provider accepts in one batch."""

LARGEST_FILE = 2**31
"""The most bytes of a result file."""

BatchState = Literal["open", "completed", "failed", "cancelled"]

_STATES: Mapping[BatchState, str] = {
    "open": r"incomplete|progress|ing$|request|queue|pending|created",
    "failed": r"fail|error|invalid|reject",
    "cancelled": r"cancel|expire|timeout|timed",
    "completed": r"complete|succe|finished|done|ended",
}
"""For each state of a batch, a pattern of providers' words. The first match decides, or else `open`."""

_QUEUE_FULL = r"enqueued|token_limit_exceeded|queue.{0,20}full"
_TOO_LARGE = (
    rf"{_QUEUE_FULL}|HTTP 413|too (?:many|large|big)"
    r"|(?:exceed|at most|maximum|limit).{0,80}(?:requests|lines|bytes|tokens|size|[MG]i?B\b)"
    r"|(?:requests|lines|bytes|tokens|size).{0,80}(?:exceed|at most|maximum|limit)"
)

SECOND_LOOK_SECONDS = 5.0
"""Seconds before a second search for a batch that is not in the provider's list yet."""

Call = Callable[[], Awaitable[bytes | RequestFailure]]

_CALLS = 12
_PROVIDER_ID = re.compile(r"(?!.*\.\.)[\w.:/=-]{1,500}", re.ASCII)
_BAD_RESPONSE = "the server's answer does not follow the Batch API. Run again later, or without --batch"


class CallError(Exception):
    """A provider refused a call to the Batch API, and a retry would not help."""


class TooLargeError(CallError):
    """A provider refused a batch because the batch is too large."""


@record
class BatchStatus:
    """The status of a batch at its provider.

    Attributes:
        state: `open`, or how the batch ended.
        words: The state in the provider's words, with the number of answers.
        files: The names of the files with answers and with errors.
        unanswered: The number of requests without an answer, by the provider's counts; None if it is unknown.
        error: The reason of a failure, or an empty text.
    """

    state: BatchState
    words: str
    files: tuple[str, ...]
    unanswered: int | None
    error: str


class BatchApi:
    """Calls the Batch API of one server.

    A method raises `CallError` if the provider refuses a call, and `StudyError` if no answer came or if only
    the user can fix the problem.

    Attributes:
        client: The client that sends requests to the server.
        pace: A factor for the length of pauses, except pauses that the server requests.
    """

    def __init__(self, client: Client, *, pace: float = 1.0) -> None:
        self.client = client
        self.client.largest = LARGEST_FILE
        self.pace = pace

    async def find_batch(self, name: str) -> str | None:
        """Return the provider's id of the batch with our name, if there is one.

        The provider's list is read twice, because a list may lack the newest batches.
        """
        batch_id = await self._search_batches(name)
        if batch_id is None:
            await asyncio.sleep(self.pace * SECOND_LOOK_SECONDS)
            batch_id = await self._search_batches(name)
        return batch_id

    async def _search_batches(self, name: str) -> str | None:
        """Search the provider's list once for the batch with our name; return the provider's id, if any."""
        query: dict[str, object] = {"limit": 100}
        seen_pages = set()
        while True:
            page = await self._call_and_read_json(partial(self.client.get, "/batches", dict(query)))
            listed = page.get("data")
            if not isinstance(listed, list):
                raise StudyError(_BAD_RESPONSE)
            for entry in map(get_object_or_empty, listed):
                if get_object_or_empty(entry.get("metadata")).get("guard-eval") == name:
                    return _check_provider_id(entry.get("id"))
            if not page.get("has_more") or not listed:
                return None
            last_id = _check_provider_id(get_object_or_empty(listed[-1]).get("id"))
            if last_id in seen_pages:  # the list repeats itself without end
                raise StudyError(_BAD_RESPONSE)
            seen_pages.add(last_id)
            query["after"] = last_id

    async def create_batch(self, name: str, file: IO[bytes], path: str) -> str:
        """Upload a file of requests and create a batch; return the provider's id of the batch.

        Args:
            name: Our name for the batch.
            file: The requests, one JSON object a line.
            path: The path to which the provider sends each request, such as `/v1/chat/completions`.

        Raises:
            TooLargeError: The batch is too large.
        """
        upload = partial(self.client.upload, f"guard-eval-{name}.jsonl", file)
        uploaded = await self._call_and_read_json(upload)
        body = {
            "input_file_id": _check_provider_id(uploaded.get("id")),
            "endpoint": path,
            "completion_window": "24h",
            "metadata": {"guard-eval": name},
        }
        post = partial(self.client.post, "/batches", json.dumps(body).encode())
        created = await self._call_and_read_json(post, name)
        return _check_provider_id(created.get("id"))

    async def read_status(self, batch_id: str) -> BatchStatus:
        """Return the status of a batch."""
        status = await self._call_and_read_json(partial(self.client.get, f"/batches/{batch_id}"))
        state = read_batch_state(status.get("status"))
        counts = get_object_or_empty(status.get("request_counts"))
        total, answers = parse_token_count(counts.get("total")), parse_token_count(counts.get("completed"))
        files = (status.get("output_file_id"), status.get("error_file_id"))
        return BatchStatus(
            state=state,
            words=f"{shorten(str(status.get('status')))}, {answers or 0} answers",
            files=tuple(_check_provider_id(name) for name in files if name),
            unanswered=total - answers if total and answers and total >= answers else None,
            error=shorten(read_error_message(status.get("errors") or status.get("error"))),
        )

    async def download_file(self, file_id: str) -> bytes:
        """Return the contents of a result file."""
        get_file = partial(self.client.get, f"/files/{file_id}/content")
        content = await self._repeat_call_until_answered(get_file)
        if len(content) > LARGEST_FILE:
            raise CallError("the file of results is too large")
        return content

    async def _call_and_read_json(self, call: Call, name: str | None = None) -> JsonObject:
        """Call the server until it answers, and return the JSON object in the answer."""
        table = load_json_or_none(await self._repeat_call_until_answered(call, name))
        if not isinstance(table, dict):
            raise StudyError(_BAD_RESPONSE)
        return table

    async def _repeat_call_until_answered(self, call: Call, name: str | None = None) -> bytes:
        """Repeat a call until the server answers. `name` is our name for a batch that the call creates."""
        detail = ""
        for attempt in range(1, _CALLS + 1):
            result = await call()
            if isinstance(result, bytes):
                return result
            detail = result.detail
            is_missing = detail.startswith(("HTTP 404", "HTTP 405", "HTTP 501"))
            if not is_missing and result.fatal is not None and result.kind != "transport":
                raise StudyError(result.fatal)
            is_final = is_missing or result.kind not in ATTEMPTS or is_batch_too_large(detail, result.kind)
            if attempt < _CALLS and not is_final:
                wait = min(result.wait or 0.0, LONGEST_WAIT_SECONDS)
                await asyncio.sleep(max(wait, self.pace * draw_pause_seconds(attempt)))
            try:
                # the provider may have created the batch, even if the answer says otherwise
                batch_id = None if name is None else await self.find_batch(name)
            except CallError:
                break
            if batch_id is not None:
                return json.dumps({"id": batch_id}).encode()
            if is_final:
                raise (TooLargeError if is_batch_too_large(detail) else CallError)(detail)
        raise StudyError(f"{detail}. All batches are kept. To continue, run the command again")


def _check_provider_id(value: object) -> str:
    """Return a provider's id if it can be a part of an address: Gemini's is `batches/123`."""
    if not isinstance(value, str) or not _PROVIDER_ID.fullmatch(value):
        raise StudyError(_BAD_RESPONSE)
    return value


def read_batch_state(provider_state: object) -> BatchState:
    """Return a batch's state that a provider's word means. An unknown word means `open`.

    >>> [read_batch_state(word) for word in ("COMPLETED", "in_progress", "JOB_STATE_SUCCEEDED", "TIMEOUT")]
    ['completed', 'open', 'completed', 'cancelled']
    >>> [read_batch_state(word) for word in ("cancelling", "canceled", "Failed", "validating", None)]
    ['open', 'cancelled', 'failed', 'open', 'open']
    """
    words = str(provider_state).lower()
    return next((state for state, pattern in _STATES.items() if re.search(pattern, words)), "open")


def is_batch_too_large(message: str, failure_kind: FailureKind | None = None) -> bool:
    """Return whether a refusal means that the batch is too large for the account or the server.

    Most rate limits and outages are temporary. So a refusal of these kinds counts only if the words mention a
    full queue.

    >>> is_batch_too_large("Enqueued token limit reached. Limit: 90,000 enqueued tokens.", "rate_limited")
    True
    >>> is_batch_too_large("HTTP 404: no /batches")
    False
    >>> is_batch_too_large("HTTP 429: too many requests", "rate_limited")
    False
    """
    pattern = _QUEUE_FULL if failure_kind in ATTEMPTS else _TOO_LARGE
    return re.search(pattern, message, re.IGNORECASE | re.DOTALL) is not None
