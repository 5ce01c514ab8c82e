"""What a judge's run puts into the store and takes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from guard_eval.records import BlindPair, Choice, Rater

Style = Literal["chat", "responses", "messages", "generate", "batch", "replay"]
"""How a judge is asked: online in one of two dialects, in a batch, or from a recording."""

NotReserved = Literal["budget", "elsewhere", "not_claimed"]
"""Why a request may not be sent: it could cost more than is left; another process is sending the same one; or
its presentation is rated by now, or another run's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeRun:
    """A process that lets one model rate. What it claims is its own while its lease holds; see `renew`.

    `drawing` names the drawing of the pairs at its beginning: None for the first.
    """

    id: int
    rater: Rater
    lease: timedelta
    drawing: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeProgress:
    """How far a model is over all runs: showings rated, those left, and of these those in a batch."""

    rated: int
    left: int
    in_batch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Showing:
    """A pair as a judge is to see it.

    Attributes:
        blind: The two texts in their order, and the presentation's number; 0 where nothing was handed out.
        sample: 0 for the first time the pair is asked in this order, 1 for the next, …
        purpose: What it is shown for: a verdict of the study, or the judge's calibration.
    """

    blind: BlindPair
    sample: int
    purpose: Literal["study", "calibration"] = "study"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRequest:
    """A request that is to be sent.

    Attributes:
        key: The request's name: a hash of everything the study decides about it.
        presentation: What is judged; None for what is no part of the study, such as a calibration.
        usd: The most it can cost, in US dollars; None where the price is unknown.
        style: How it is sent.
        shape: In which shape it is put on the wire.
        body: The request itself, byte for byte, which is kept; it never holds a key of the server.
    """

    key: str
    presentation: int | None
    usd: float | None
    style: Style = "chat"
    shape: str | None = None
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """The right to send one request once; its money is set aside until the request is settled."""

    key: str
    attempt: int
    usd: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settlement:
    """What became of a request that brought no answer: `released`, surely not billed, or `lost`."""

    key: str
    attempt: int
    state: Literal["released", "lost"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a server says of an answer; None where it does not say.

    Attributes:
        model: The snapshot that it used.
        fingerprint: Its name for its configuration.
        input_tokens: Tokens of the request; `cached_tokens` and `written_tokens` are among them.
        cached_tokens: Tokens billed as cached.
        written_tokens: Tokens billed as written to the server's cache.
        output_tokens: Tokens of the answer; `reasoning_tokens` are among them.
        reasoning_tokens: Tokens that the server does not show.
    """

    model: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    written_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def metered(self) -> bool:
        """Return whether the server states the tokens on both sides."""
        return self.input_tokens is not None and self.output_tokens is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A judge's answer as the server sent it.

    Attributes:
        key: The request's name: a hash of everything the study decides about it.
        attempt: The reservation's.
        presentation: What was judged; None for what is no part of the study.
        status: The HTTP status.
        body: The response's raw bytes.
        request_id: The server's name for the request, where it gave one.
        usage: What the server says of it.
        usd: What it cost, in US dollars; None where tokens or price are unknown.
        backend: How it was asked for.
        shape: In which shape was asked: dialect, output mode, name of the token limit, what was left out.
        seconds: From request to answer.
        at: When the answer came; any time zone, given back in UTC.
    """

    key: str
    attempt: int
    presentation: int | None
    status: int
    body: bytes
    request_id: str | None
    usage: Usage
    usd: float | None = None
    backend: Style = "chat"
    shape: str | None = None
    seconds: float
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgment:
    """A verdict read from an answer: one choice per criterion, by the letters shown."""

    presentation: int
    choices: Mapping[str, Choice]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unjudged:
    """Why a presentation could not be judged: counted, never a verdict."""

    presentation: int
    kind: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A presentation that could not be judged, as it is stored: by whom, and when it was noted."""

    presentation: int
    rater: str
    kind: str
    detail: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeBatch:
    """A batch at a provider, as far as it has come; what is None has not happened yet.

    Attributes:
        id: Its number in this study.
        provider_id: The provider's name for it.
        input_file: The provider's name for the file of requests.
        output_file: The provider's name for the file of answers.
        error_file: The provider's name for the file of errors.
        status: `new`, then whatever the provider says; `done` when everything in it is settled.
        made_at: When it was put together.
    """

    id: int
    provider_id: str | None
    input_file: str | None
    output_file: str | None
    error_file: str | None
    status: str
    made_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRequest:
    """One request of a batch that is not settled; its key is its custom id there."""

    key: str
    attempt: int
    presentation: int | None
    shape: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One request about a presentation, as it was sent, and what became of it.

    Attributes:
        key: The request's name.
        attempt: 0, 1, … for one key.
        state: `open`, `answered`, `released` (surely not billed) or `lost` (perhaps billed).
        style: How it was sent.
        shape: In which shape.
        sent: The request, byte for byte; None where it was not kept.
        sent_at: When it was sent.
        reserved_usd: What was set aside for it; None where the price was unknown.
        answer: What came; None where nothing did.
    """

    key: str
    attempt: int
    state: Literal["open", "answered", "released", "lost"]
    style: Style
    shape: str | None
    sent: bytes | None
    sent_at: datetime
    reserved_usd: float | None
    answer: Answer | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """All requests to a judge about one presentation of a pair, and their answers.

    Attributes:
        presentation: `Presentation.id`.
        pair_id: `Pair.id`.
        rater: The judge's name.
        order: Which text of the pair was shown as A.
        sample: 0 for the first time the pair was asked in this order, 1 for the next, …
        blind: What the judge was shown.
        attempts: The requests, oldest first.
        choices: The current verdict by criterion; empty where there is none.
        failures: Why there was none, each time that this was noted.
    """

    presentation: int
    pair_id: str
    rater: str
    order: Literal["a", "b"]
    sample: int
    blind: BlindPair
    attempts: tuple[Attempt, ...]
    choices: Mapping[str, Choice]
    failures: tuple[Failure, ...]
