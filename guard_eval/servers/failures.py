"""Failed requests: the kind of failure, and whether a retry may help."""

from typing import Literal

from guard_eval.records import record

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
"""Kinds of failures after which a new sample with another seed may succeed. A retry would only cost money."""

OF_THE_SERVER: frozenset[FailureKind] = frozenset(
    {"transport", "timeout", "server_error", "rate_limited", "unreadable"}
)
"""Kinds of failures that the server causes, whatever the request contains."""

SAMPLES = 3
"""The most samples of an answer to one question, if no answer contains a verdict."""

ATTEMPTS: dict[FailureKind, int] = {"rate_limited": 12, "server_error": 6, "transport": 4, "timeout": 4}
"""How often a request is sent at most, by kind of failure. After other failures, there is no retry.

Each attempt may cost money, even without an answer. After a time-out, there is a retry only if other requests
were sent at the same time."""

MOST_FAILURES = 10
"""The run ends after this many questions in a row that the server failed to answer."""

LONGEST_WAIT_SECONDS = 120.0
"""The longest wait that a server may request, in seconds. If a server requests more, the run ends."""

Omittable = Literal["reasoning_effort", "temperature", "top_p", "seed", "store", "system"]
"""Parts of a request that can be left out. A left-out system message moves to the user's message."""

Change = Omittable | Literal["responses", "output", "limit", "fewer_tokens", "guess"]
"""A change of a request that may help after a refusal.

A part's name means that this part is left out. `responses` is the other interface, `output` is plain text,
`limit` is the other name of the token limit, `fewer_tokens` is a lower limit. `guess` means that the server
gave no reason, so the next simpler form is tried."""


@record
class RequestFailure:
    """The failure of a request: no answer came, or the answer cannot be read.

    Attributes:
        kind: The kind of failure, which decides whether the request is repeated.
        detail: A description in one printable line, without the key. The line may quote the answer.
        billed: Whether the server may charge for the request.
        wait: Seconds that the server asks the client to wait, if any.
        change: A change that may help if the form of the request caused the failure.
        fatal: A sentence for the user if only the user can fix the problem.
        blames_address: Whether the address or the model's name seems wrong. If answers came before, a retry
            may help, because a proxy may have answered for the server.
        too_slow: Whether the server gave no answer in time though it had no other request of this run. A
            retry would be as slow.
        row: The database row of the answer, if a stored answer contains no verdict.
    """

    kind: FailureKind
    detail: str
    billed: bool = False
    wait: float | None = None
    change: Change | None = None
    fatal: str | None = None
    blames_address: bool = False
    too_slow: bool = False
    row: int | None = None
