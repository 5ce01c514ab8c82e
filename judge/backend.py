"""What a run needs of a way to ask a judge: one small interface, so that the ways can be many.

A backend makes a request, sends it once, and reads the answer. It retries nothing, books nothing and keeps
nothing: when to ask again, what it may cost and what is journalled is the run's business, and the same for
all. What only the user can mend, a backend raises as `StudyError`, and the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from guard_eval.records import BlindPair
from guard_eval.store import Style
from judge.parsing import Parsed, Problem, Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A request, ready to be sent.

    Attributes:
        key: SHA-256 of the canonical request and the sample's index, under which the answer is journalled.
        body: The request's canonical JSON, in UTF-8, as it is sent.
        form: How the answer's form is asked for; with the same form `parse` reads the answer.
        max_output_tokens: What the request allows for the answer, reasoning included.
    """

    key: str
    body: bytes
    form: str
    max_output_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """An HTTP success as it came, without the key; `seconds` is the wall time of its request alone."""

    status: int
    body: bytes
    request_id: str | None
    seconds: float
    at: datetime
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A request without an answer.

    Attributes:
        problem: What it counts as, if it stays so; its kind decides whether and when to ask again.
        billed: Whether the server may charge for it: never after an error that it states itself; perhaps,
            when the connection was lost after sending.
        wait: Seconds the server asks to wait, where it does.
        headers: The answer's headers, in lower case, where there was an answer.
    """

    problem: Problem
    billed: Literal["no", "perhaps"] = "no"
    wait: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class AskAnew(Exception):  # noqa: N818 (an event, no error)
    """The server does not take this form; the backend asks in a simpler one from now on."""


class Backend(Protocol):
    """One way of asking one judge's server.

    Attributes:
        style: What the journal calls it.
        url: The server, for messages.
        notices: What the user should be told, in order; the run shows what is added.
    """

    style: Style
    url: str
    notices: list[str]

    def question(self, blind: BlindPair, *, sample: int) -> Question:
        """Return the request about `blind`, in the present form.

        Args:
            blind: The two texts, in the order in which they are shown.
            sample: Which of the pair's samples it is, those asked again after an unreadable answer included;
                it changes the request's own seed and the key.
        """
        ...

    def others(self, blind: BlindPair, *, sample: int) -> Sequence[Question]:
        """Return the same request in every other form in which its answer may be journalled."""
        ...

    async def send(self, question: Question) -> Reply | Trouble:
        """Send it once.

        Raises:
            StudyError: Only the user can mend it: a wrong key, an unknown model, an exhausted quota, a wrong
                address.
            AskAnew: The form was refused, which costs nothing; `question` makes another from now on.
        """
        ...

    def parse(self, body: bytes, form: str) -> Parsed | Problem:
        """Return the verdict in an answer, or why there is none."""
        ...

    def usage(self, body: bytes) -> Usage:
        """Return what the server says of an answer: model, fingerprint, tokens."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
