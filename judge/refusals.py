"""What a server's refusal means: ask again, count a failure, or tell the user.

No text that leaves here holds the key, even where a server echoes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn, TypeVar

from guard_eval.errors import StudyError
from judge.endpoint import KEYLESS
from judge.parsing import Problem, ProblemKind, excerpt
from judge.prompt import Output

Text = TypeVar("Text", str, bytes)

_KEY_LIKE = re.compile(r"\b(?:sk|key)-[\w*.-]{4,}")
_QUOTA = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_FILTERED = {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"}
_TOO_LONG = {"context_length_exceeded", "string_above_max_length"}
_SAYS_TOO_LONG = re.compile(
    r"maximum context length|context.{0,20}(?:exceed|too long|window)|too many tokens", re.IGNORECASE
)
_SAYS_OUTPUT = re.compile(
    r"response_format|json_schema|json_object|json mode|structured.?output|guided.?decoding", re.IGNORECASE
)
_AGAIN = {408, 409, 425, 429}
_MALFORMED = {400, 415, 422}


class OutputRefused(Exception):  # noqa: N818 (handled by falling back, never shown)
    """The server does not take this `response_format`."""

    def __init__(self, output: Output, detail: str) -> None:
        super().__init__(detail)
        self.output: Output = output
        self.detail = detail


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """A request without an answer.

    Attributes:
        problem: What it counts as, if it stays so.
        again: Whether to ask again.
        wait: Seconds the server asks to wait, where it does.
    """

    problem: Problem
    again: bool
    wait: float | None = None


def redact(text: Text, key: str) -> Text:
    """Return `text` without the key.

    >>> redact("Incorrect key sk-secret99", "sk-secret99")
    'Incorrect key [key]'
    """
    if key == KEYLESS:
        return text
    if isinstance(text, bytes):
        return text.replace(key.encode(), b"[key]")
    return text.replace(key, "[key]")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how long a server asks to wait: `Retry-After-Ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        until = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(
        0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    )


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Explains what goes wrong between one judge and its server.

    Attributes:
        model: The judge's model.
        url: Its server.
        key: What no text may hold.
    """

    model: str
    url: str
    key: str

    def __repr__(self) -> str:
        """Leave out the key."""
        return f"Refusals({self.model!r} at {self.url!r})"

    def status(self, status: int, headers: Mapping[str, str], error: object, *, output: Output) -> Trouble:
        """Explain an HTTP status that is no success.

        Args:
            status: The HTTP status.
            headers: The answer's headers; names in lower case are looked up.
            error: What the body's `error` holds, or the body itself.
            output: How the answer's form was asked for.

        Raises:
            StudyError: Only the user can mend it.
            OutputRefused: The way of asking for JSON is not known there.
        """
        named = error if isinstance(error, dict) else {}
        codes = {str(named.get(name)) for name in ("code", "type")} & (_QUOTA | _FILTERED | _TOO_LONG)
        said = named.get("message") or named.get("detail") or error
        detail = f"HTTP {status}: {excerpt(_KEY_LIKE.sub('[key]', redact(str(said), self.key)))}"
        if status == 402 or codes & _QUOTA:
            raise StudyError(
                f"the account at {self.url} has no credit left (HTTP {status}); add credit there and run "
                "again: nothing that was answered is paid twice"
            )
        self._fatal(status)
        if status in _AGAIN or status >= 500:
            kind: ProblemKind = "rate_limited" if status == 429 else "server_error"
            return Trouble(problem=Problem(kind=kind, detail=detail), again=True, wait=retry_after(headers))
        if codes & _FILTERED:
            return _final("content_filter", detail)
        if status == 413 or codes & _TOO_LONG or _SAYS_TOO_LONG.search(detail):
            return _final("too_long", detail)
        if (
            status in _MALFORMED
            and output != "text"
            and _SAYS_OUTPUT.search(f"{named.get('param')} {detail}")
        ):
            raise OutputRefused(output, detail)
        return _final("rejected", detail)

    def _fatal(self, status: int) -> None:
        # the server's own words may hold a part of the key, so ours stand alone
        if status == 401:
            raise StudyError(
                f"{self.url} does not accept the key (HTTP 401); set OPENAI_API_KEY in the environment to a "
                "valid one"
            )
        if status == 403:
            raise StudyError(
                f"{self.url} does not allow this key to use {self.model!r} (HTTP 403); set OPENAI_API_KEY to "
                "one that may, or name another model"
            )
        if status in (404, 405):
            raise StudyError(
                f"{self.url} has no model {self.model!r}, or no chat completions at that address (HTTP "
                f"{status}); mend model or base_url in study.toml"
            )

    def lost(self, cause: str) -> Trouble:
        """Explain a request without any whole answer; `cause` is the name of what happened."""
        return Trouble(
            problem=Problem(kind="transport", detail=f"no answer from {self.url}: {cause}"), again=True
        )

    def unreachable(self, detail: str) -> NoReturn:
        """Raise for a server that has never answered."""
        raise StudyError(
            f"{detail}; check base_url in study.toml or OPENAI_BASE_URL, and that the server runs"
        )

    def page(self) -> NoReturn:
        """Raise for a web page in the place of an answer."""
        raise StudyError(
            f"{self.url} answers with a web page, not with chat completions; check base_url in study.toml or "
            "OPENAI_BASE_URL: it usually ends in /v1"
        )

    def long_wait(self, seconds: float) -> NoReturn:
        """Raise for a server that asks to come back much later."""
        raise StudyError(
            f"{self.url} asks to wait {seconds:.0f} seconds before the next request; run again then: nothing "
            "that was answered is paid twice"
        )


def is_page(content_type: str, body: bytes) -> bool:
    """Return whether an answer is HTML.

    >>> is_page("application/json", b'{"choices": []}'), is_page("text/html; charset=utf-8", b"")
    (False, True)
    """
    return content_type.lower().startswith("text/html") or body.lstrip()[:1] == b"<"


def _final(kind: ProblemKind, detail: str) -> Trouble:
    return Trouble(problem=Problem(kind=kind, detail=detail), again=False)
