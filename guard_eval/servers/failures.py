"""Failed requests: the kind of failure, and whether a retry may help."""

from typing import Literal

from guard_eval.frozen import record

FailureKind = Literal[
    "refusal",  # the model declined
    "content_filter",  # the server withheld the answer or refused the texts
    "truncated",  # the answer ended at the token limit
    "unparseable",  # the content is not one JSON object, and has no verdict block
    "wrong_schema",  # it is or has one, but a criterion or its choice is missing
    "unreadable",  # HTTP 200 without an answer
    "too_long",  # the texts do not fit the model's context
    "rejected",  # the server does not take the request
    "rate_limited",  # still, after every retry
    "server_error",  # still, after every retry
    "timeout",  # no whole answer came in time
    "transport",  # no whole answer came, after every retry
]

RESAMPLED: frozenset[FailureKind] = frozenset({"unparseable", "wrong_schema", "unreadable"})
"""Kinds of failures after which a new sample may succeed. The same request would fail, and be paid, again."""

OF_THE_SERVER: frozenset[FailureKind] = frozenset(
    {"transport", "timeout", "server_error", "rate_limited", "unreadable"}
)
"""Kinds of failures that the server causes, whichever text is asked for."""

SAMPLES = 3
"""The most requests for one question, if its answers contain no verdict."""

ATTEMPTS: dict[FailureKind, int] = {"rate_limited": 12, "server_error": 6, "transport": 4, "timeout": 4}
"""The most times that a request is sent, by kind of failure. All other kinds are final.

Each attempt may have cost money, even without an answer. A time-out is also final if no other request was
under way."""

MOST_FAILURES = 10
"""The run ends after this many questions in a row that the server failed to answer."""

LONGEST_WAIT_SECONDS = 120.0
"""The most seconds that a server may ask to wait. If it asks for more, the run ends."""

Omittable = Literal["reasoning_effort", "temperature", "top_p", "seed", "store", "system"]
"""Parts of a request that can be left out. Without `system`, its words move to the user's message."""

Change = Omittable | Literal["responses", "output", "limit", "fewer_tokens", "guess"]
"""A change that may help if a request is refused: leave out this part, use the other interface, plain text,
the other name of the token limit, or a lower limit; or guess the next simpler form if the server gives no
reason."""


@record
class RequestFailure:
    """The failure of a request: no answer came, or the answer cannot be read.

    Attributes:
        kind: The kind of failure, which decides whether the request is repeated.
        detail: One printable line without the key. It may quote the answer.
        billed: Whether the server may charge for the request: never after an error that the server reports.
        wait: Seconds that the server asks to wait, if it does.
        change: A change that may help if the form of the request caused the failure.
        fatal: A sentence for the user if only the user can fix the problem.
        row: The row of the answer, if it contains no verdict.
    """

    kind: FailureKind
    detail: str
    billed: bool = False
    wait: float | None = None
    change: Change | None = None
    fatal: str | None = None
    row: int | None = None
