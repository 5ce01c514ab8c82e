"""What a run needs of a way to ask a judge: one small interface, for servers, recordings and tests alike.

A backend makes a request, sends it once, and reads the answer. It retries nothing and stores nothing: when to
ask again, what it may cost and what is journalled is the run's business, and the same for all. What only the
user can fix, a backend raises as `StudyError`, and the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from guard_eval.store import Showing, Style, Usage
from judge.failures import JudgeError
from judge.parsing import Choices


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeRequest:
    """A request, ready to be sent.

    Attributes:
        key: Its name, under which the response is journalled; see `judge.request.RequestBuilder.key`.
        body: The request's JSON, in UTF-8, as it is sent.
        shape: In which shape it is put; recorded with the response.
        max_output_tokens: What the request allows for the answer, reasoning included.
    """

    key: str
    body: bytes
    shape: str
    max_output_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """An HTTP success as it came, without the key; `seconds` is the wall time of its request alone."""

    body: bytes
    usage: Usage
    request_id: str | None
    seconds: float
    at: datetime
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class ShapeChanged(Exception):  # noqa: N818 (an event, no error)
    """The server does not take this form; the backend asks in a simpler one from now on."""


class Backend(Protocol):
    """One way of asking one judge's server.

    Attributes:
        style: What the journal calls it.
        url: The server, for messages.
        notices: Messages for the user, in order; the run shows what is added.
    """

    style: Style
    url: str
    notices: list[str]

    def build(self, showing: Showing, *, again: int = 0) -> JudgeRequest:
        """Return the request about `showing`, in the present shape.

        Args:
            showing: The two texts, in the order in which they are shown.
            again: How often it was asked before, because a response could not be read.
        """
        ...

    async def send(self, request: JudgeRequest) -> Response | JudgeError:
        """Send it once.

        Raises:
            StudyError: Only the user can fix it: a wrong key, an unknown model, an exhausted quota, a wrong
                address.
            ShapeChanged: The form was refused, which costs nothing; `build` makes another from now on.
        """
        ...

    def parse(self, showing: Showing, body: bytes, *, shape: str | None) -> Choices | JudgeError:
        """Return the verdict in a response to a request of that shape, or why there is none."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
