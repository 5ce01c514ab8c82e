"""Why a judge gives no verdict, and what is done about each kind.

| kind | the same request again | another sample | why |
|---|---|---|---|
| rate_limited | up to 12 times, at a lower pace | no | it costs nothing and passes |
| server_error | up to 6 times | no | it costs nothing and mostly passes |
| transport | up to 4 times | no | each time may have been paid, unseen |
| timeout, in a queue | up to 4 times, with fewer at once | no | each time may be paid, and fewer will do |
| timeout, slow by itself | no | no | it may be paid, and the same time would not do; the next run asks |
| unparseable, wrong_schema, unreadable | no | up to 3 | it was paid; the same again would come back |
| refusal, content_filter, truncated, too_long, rejected | no | no | it would come again, and be paid again |
| quota, auth, unknown model, web page | the run ends at once | | only the user can fix it |
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from guard_eval.errors import StudyError

ErrorKind = Literal[
    "refusal",  # the model declined
    "content_filter",  # the server withheld the answer or refused the texts
    "truncated",  # the answer ended at the token limit
    "unparseable",  # the content is not one JSON object, and has no verdict block
    "wrong_schema",  # it is or has, but not with every criterion and a choice for each
    "unreadable",  # HTTP 200, and no answer in either dialect
    "too_long",  # the texts do not fit the model's context
    "rejected",  # the server will not take the request
    "rate_limited",  # still, after every retry
    "server_error",  # still, after every retry
    "timeout",  # no whole answer came in the judge's `timeout`
    "transport",  # no whole answer came, after every retry
    "unrecorded",  # what is replayed has no answer to this request
]

ASK_AGAIN: frozenset[ErrorKind] = frozenset({"unparseable", "wrong_schema", "unreadable"})
"""Kinds that another sample may fix; the rest would come again, and be paid again."""

SAMPLES = 3
"""How often one presentation is asked at most, when an answer came that no verdict can be read from."""

ATTEMPTS: dict[ErrorKind, int] = {"rate_limited": 12, "server_error": 6, "transport": 4, "timeout": 4}
"""How often one request is sent at most while it meets this kind of failure; all others are final."""

ITS_ADDRESS = "check base_url in study.toml or OPENAI_BASE_URL, and that the server runs"
"""What can be done about a server that cannot be reached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeError:
    """Why there is no verdict: no response came, or none that a verdict can be read from.

    Attributes:
        kind: What it counts as; it decides whether and when the pair is asked about again.
        detail: One printable line without the key; it may quote the answer.
        remedy: What the user can do, where no answer came at all.
        billed: Whether the server may charge for a request without response: never after an error that it
            states itself; perhaps, when the connection was lost after sending.
        late: Whether it was given up, here or by a gateway, because of the time it took.
        queued: Whether it was late for waiting behind others, so that fewer at once may help.
        wait: Seconds the server asks to wait, where it does.
        headers: The response's headers, in lower case, where one came.
    """

    kind: ErrorKind
    detail: str
    remedy: str = ""
    billed: Literal["no", "perhaps"] = "no"
    late: bool = False
    queued: bool = False
    wait: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def wants_sample(self, again: int) -> bool:
        """Return whether another sample is asked for after this outcome of sample `again` (0, 1, …).

        >>> [JudgeError(kind="unparseable", detail="").wants_sample(again) for again in range(3)]
        [True, True, False]
        >>> JudgeError(kind="refusal", detail="").wants_sample(0)
        False
        """
        return self.kind in ASK_AGAIN and again + 1 < SAMPLES


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """When to send a request again after an answer that never came.

    Attributes:
        attempts: Times a request is sent at most, whatever a kind's own limit allows.
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

    def allows(self, kind: ErrorKind, times: int, *, queued: bool = True) -> bool:
        """Return whether to send once more what has met this kind of failure so many times."""
        if kind == "timeout" and not queued:
            return False
        return times < min(self.attempts, ATTEMPTS.get(kind, 1))

    def pause(self, name: str, times: int) -> float:
        """Return the seconds to wait before the next attempt, spread by the request's name."""
        digest = hashlib.sha256(f"{name}:{times}".encode()).digest()
        spread = 0.5 + int.from_bytes(digest[:4]) / 2**33  # in [0.5, 1)
        return min(self.longest, self.base * 2.0 ** (times - 1)) * spread

    def too_long(self, url: str, seconds: float) -> StudyError:
        """Return the error that ends a run when the server asks for a longer wait than is borne."""
        return StudyError(
            f"{url} asks to wait {seconds:.0f} seconds before the next request; run again then: nothing that "
            "was answered is paid twice"
        )
