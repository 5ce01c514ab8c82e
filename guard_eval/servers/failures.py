"""Failed requests: the kind of failure, and whether a retry may help."""

from typing import Literal

from guard_eval.frozen import record

FailureKind = Literal[
    "refusal",  # the model declined
    "content_filter",  # the server withheld the answer or refused the texts
    "truncated",  # the answer ended at the token limit
    "unparseable",  # the content is not one JSON object, and has no verdict block
    "wrong_schema",  # it is or has, but not with every criterion and a choice for each
    "unreadable",  # HTTP 200 without an answer
    "too_long",  # the texts do not fit the model's context
    "rejected",  # the server does not take the request
    "rate_limited",  # still, after every retry
    "server_error",  # still, after every retry
    "timeout",  # no whole answer came in time
    "transport",  # no whole answer came, after every retry
]

RESAMPLED: frozenset[FailureKind] = frozenset({"unparseable", "wrong_schema", "unreadable"})
"""Kinds after which another sample may succeed. The same request would fail again, and cost again."""

OF_THE_SERVER: frozenset[FailureKind] = frozenset(
    {"transport", "timeout", "server_error", "rate_limited", "unreadable"}
)
"""Kinds that are the server's fault and not one text's."""

SAMPLES = 3
"""Requests for one question at most, when answers come that no verdict can be read from."""

ATTEMPTS: dict[FailureKind, int] = {"rate_limited": 12, "server_error": 6, "transport": 4, "timeout": 4}
"""How often one request is sent at most while it meets this kind of failure. All others are final.

Each time may have been paid, unseen. A time-out of a request that was alone is final, too."""

MOST_FAILURES = 10
"""Questions in a row that the server fails to answer and that end a run."""

LONGEST_WAIT_SECONDS = 120.0
"""Seconds that a server may ask to wait; for longer the run ends."""

Omittable = Literal["reasoning_effort", "temperature", "top_p", "seed", "store", "system"]
"""Parts of a request that can be left out. Without `system` the user's message has its words too."""

Change = Omittable | Literal["responses", "output", "limit", "fewer_tokens", "guess"]
"""What may help if a request is refused: a request without that part, the other interface, plain text, the
other name of the token limit, a lower limit, or the next simpler form if the server does not say."""


@record
class RequestFailure:
    """The failure of a request: no answer came, or the answer cannot be read.

    Attributes:
        kind: The kind of failure. It decides whether the request is repeated.
        detail: One printable line without the key. It may quote the answer.
        billed: Whether the server may charge for it: never after an error that it states itself.
        wait: Seconds the server asks to wait, if it does.
        change: What may help if the form of the request is to blame.
        fatal: A sentence for the user if only the user can fix the problem.
        row: The row of the answer that no verdict can be read from.
    """

    kind: FailureKind
    detail: str
    billed: bool = False
    wait: float | None = None
    change: Change | None = None
    fatal: str | None = None
    row: int | None = None
