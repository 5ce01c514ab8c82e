"""What goes into the store and comes out of it, besides the records of the study itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from guard_eval.records import RaterKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How pairs are handed to one rater.

    Attributes:
        seed: The study's seed; a rater's order is the order of `content_id(seed, rater.name, pair.id)`.
        slots: Showings per pair in the rater's pool: raters per pair for people, orders for a model.
        lease: After this long and unrated, a presentation's slot may go to somebody else.
    """

    seed: int
    slots: int
    lease: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What became of a verdict.

    Attributes:
        revision: The highest revision now current among the criteria saved: 0 unless a mind was changed.
        surplus: The slot had gone to another rater before this came; it is kept, and not counted by default.
    """

    revision: int
    surplus: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A judge's answer as the server sent it.

    Attributes:
        key: SHA-256 of the canonical request and the sample's index.
        presentation: What was judged.
        status: The HTTP status.
        body: The response's raw bytes.
        request_id: The server's name for the request, where it gave one.
        model: The snapshot the server says it used, where it says so.
        input_tokens: Tokens of the request as the server counted them, where it did.
        output_tokens: Tokens of the answer, likewise.
        seconds: From request to answer.
        at: When the answer came; any time zone, given back in UTC.
    """

    key: str
    presentation: int
    status: int
    body: bytes
    request_id: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A presentation that could not be judged: counted, never a verdict."""

    presentation: int
    rater: str
    kind: str
    detail: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterProgress:
    """How far a rater has come, in presentations."""

    name: str
    kind: RaterKind
    revoked: bool
    handed_out: int
    rated: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TidyRow:
    """One current verdict with the names restored.

    Attributes:
        pair_id: `Pair.id`.
        dataset: The pair's dataset.
        method_a: The first method of the comparison, whichever side it was shown on.
        method_b: The second method.
        rater: The rater's name.
        criterion: A criterion of the rubric.
        verdict: The better method's name, or `tie`.
        rater_kind: person, model or simulated; no statistic pools kinds.
        presentation: `Presentation.id`.
        slot: Which of the pair's planned showings it was.
        shown_first: The method whose text was shown as A.
        seconds: From the pair's appearance to the submit, where known.
        active_seconds: Those of them in focus and not idle, where known.
        at: When it was saved, ISO 8601, UTC.
        length_a: Length of `method_a`'s text in characters.
        length_b: Length of `method_b`'s text in characters.
        surplus: The slot was handed out again before this verdict came.
    """

    pair_id: str
    dataset: str
    method_a: str
    method_b: str
    rater: str
    criterion: str
    verdict: str
    rater_kind: RaterKind
    presentation: int
    slot: int
    shown_first: str
    seconds: float | None
    active_seconds: float | None
    at: str
    length_a: int
    length_b: int
    surplus: bool
