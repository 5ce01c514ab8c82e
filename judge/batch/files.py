"""The files of a batch: requests in, one JSON object per line, and results and errors out, in any order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from judge.backend import JudgeRequest
from judge.providers.shapes import path_of

MOST_REQUESTS = 50_000
"""How many requests OpenAI takes in one batch."""

MOST_BYTES = 200_000_000
"""How large a batch's file may be."""

OVER = {"batch_expired", "batch_cancelled"}
"""Codes of requests that were never made, because the batch ended before their turn."""


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


def line_of(request: JudgeRequest) -> bytes:
    """Return a request's line in the input file; its body is the very bytes that go out online."""
    frame = {"custom_id": request.key, "method": "POST", "url": f"/v1{path_of(request.shape)}"}
    return json.dumps(frame)[:-1].encode() + b', "body": ' + request.body + b"}\n"


def parts(
    lines: Iterable[tuple[JudgeRequest, bytes]], *, requests: int = MOST_REQUESTS, size: int = MOST_BYTES
) -> Iterator[list[tuple[JudgeRequest, bytes]]]:
    """Yield the lines in parts that fit into one batch each, at most so many and so many bytes."""
    part: list[tuple[JudgeRequest, bytes]] = []
    taken = 0
    for request, line in lines:
        if part and (len(part) == requests or taken + len(line) > size):
            yield part
            part, taken = [], 0
        part.append((request, line))
        taken += len(line)
    if part:
        yield part


def read_results(content: bytes) -> Iterator[ResultLine]:
    """Yield what the lines of a results or error file say; what is no result is passed over."""
    for line in content.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("custom_id"), str):
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
