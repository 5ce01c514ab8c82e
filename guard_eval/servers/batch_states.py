"""Servers' words for the states of a batch, and for a batch that is too large."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from guard_eval.servers.failures import ATTEMPTS, FailureKind

BatchState = Literal["open", "completed", "failed", "cancelled"]

_STATES: Mapping[BatchState, str] = {
    "open": r"incomplete|progress|ing$|request|queue|pending|created",
    "failed": r"fail|error|invalid|reject",
    "cancelled": r"cancel|expire|timeout|timed",
    "completed": r"complete|succe|finished|done|ended",
}
"""Words of a state, lower-case. The first state that matches decides; a batch in no known state is open."""

_QUEUE_FULL = r"enqueued|token_limit_exceeded|queue.{0,20}full"
_TOO_LARGE = (
    rf"{_QUEUE_FULL}|HTTP 413|too (?:many|large|big)"
    r"|(?:exceed|at most|maximum|limit).{0,80}(?:requests|lines|bytes|tokens|size|[MG]i?B\b)"
    r"|(?:requests|lines|bytes|tokens|size).{0,80}(?:exceed|at most|maximum|limit)"
)


def read_state(word: object) -> BatchState:
    """Return the state of a batch.

    >>> [read_state(word) for word in ("COMPLETED", "in_progress", "JOB_STATE_SUCCEEDED", "TIMEOUT_EXCEEDED")]
    ['completed', 'open', 'completed', 'cancelled']
    >>> [read_state(word) for word in ("cancelling", "canceled", "Failed", "validating", None)]
    ['open', 'cancelled', 'failed', 'open', 'open']
    """
    words = str(word).lower()
    return next((state for state, pattern in _STATES.items() if re.search(pattern, words)), "open")


def is_too_large(words: str, kind: FailureKind | None = None) -> bool:
    """Return whether a refusal says that a batch is too large for the account or the server.

    A refusal that looks like a rate limit or an outage must mention the queue, because most of these refusals
    are temporary.

    >>> is_too_large("Enqueued token limit reached. Limit: 90,000 enqueued tokens.", "rate_limited")
    True
    >>> is_too_large("HTTP 404: no /batches"), is_too_large("HTTP 429: too many requests", "rate_limited")
    (False, False)
    """
    pattern = _QUEUE_FULL if kind in ATTEMPTS else _TOO_LARGE
    return re.search(pattern, words, re.IGNORECASE | re.DOTALL) is not None
