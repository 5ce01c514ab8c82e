"""What is done about each kind of error: how often the same is sent again, and when another sample helps.

| kind | the same request again | another sample | why |
|---|---|---|---|
| rate_limited | up to 12 times, at a lower pace | no | it costs nothing and passes |
| server_error | up to 6 times | no | it costs nothing and mostly passes |
| transport | up to 4 times | no | each time may have been paid, unseen |
| timeout | no | no | each time may be paid, and the same time would not do; the next run asks again |
| unparseable, wrong_schema, unreadable | no | up to 3 | it was paid; the same again would come back |
| refusal, content_filter, truncated, too_long, rejected | no | no | it would come again, and be paid again |
| quota, auth, unknown model, web page | the run ends at once | | only the user can fix it |
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from judge.parsing import ASK_AGAIN, ErrorKind, JudgeError, Parsed, ParseError

SAMPLES = 3
"""How often one presentation is asked at most, when an answer came that no verdict can be read from."""

ATTEMPTS: dict[ErrorKind, int] = {"rate_limited": 12, "server_error": 6, "transport": 4}
"""How often one request is sent at most while it meets this kind of trouble; all others are final."""

SLOWS_DOWN: frozenset[ErrorKind] = frozenset({"rate_limited", "timeout"})
"""Kinds that say there is too much at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """When to ask again after an answer that never came.

    Attributes:
        attempts: Requests per question at most, whatever a kind's own cap allows.
        first: Attempts before a server that has never answered counts as unreachable.
        base: Seconds of the first wait; each further one is twice as long.
        longest: Seconds of the longest wait of our own.
        longest_asked: Seconds of the longest wait a server may ask for; for more, the run ends.
        timeout: Seconds until a request without answer is given up; the judge's own by default.
    """

    attempts: int = 12
    first: int = 3
    base: float = 0.5
    longest: float = 30.0
    longest_asked: float = 120.0
    timeout: float | None = None

    def allows(self, kind: ErrorKind, times: int) -> bool:
        """Return whether to send once more what has met this kind of trouble so many times."""
        return times < min(self.attempts, ATTEMPTS.get(kind, 1))

    def pause(self, name: str, times: int) -> float:
        """Return the seconds to wait before the next attempt, spread by the request's name."""
        digest = hashlib.sha256(f"{name}:{times}".encode()).digest()
        spread = 0.5 + int.from_bytes(digest[:4]) / 2**33  # in [0.5, 1)
        return min(self.longest, self.base * 2.0 ** (times - 1)) * spread


def wants_sample(outcome: Parsed | JudgeError, again: int) -> bool:
    """Return whether another sample is asked for after this outcome of sample `again` (0, 1, …).

    >>> wants_sample(ParseError(kind="unparseable", detail=""), 1)
    True
    >>> wants_sample(ParseError(kind="unparseable", detail=""), 2)
    False
    >>> wants_sample(ParseError(kind="refusal", detail=""), 0)
    False
    """
    return isinstance(outcome, ParseError) and outcome.kind in ASK_AGAIN and again + 1 < SAMPLES
