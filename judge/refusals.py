"""What a server's refusal means: ask again, count a failure, or tell the user.

No text that leaves here holds the key, even where a server echoes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NoReturn, TypeVar

from guard_eval.errors import StudyError
from judge.backend import Trouble
from judge.endpoint import KEYLESS
from judge.parsing import Problem, ProblemKind, excerpt

Text = TypeVar("Text", str, bytes)

_KEY_LIKE = re.compile(r"\b(?:sk|key)-[\w*.-]{4,}")
_QUOTA = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_FILTERED = {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"}
_TOO_LONG = {"context_length_exceeded", "string_above_max_length"}
_SAYS_TOO_LONG = re.compile(
    r"maximum context length|context.{0,20}(?:exceed|too long|window)|too many tokens", re.IGNORECASE
)
_AGAIN = {408, 409, 425, 429}
_GATEWAY = {502, 504, 520, 521, 522, 523, 524}  # what is behind it may have done the work


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """What a server says of a request that it does not take.

    Attributes:
        status: The HTTP status.
        param: Which parameter it names, where it does.
        said: What it says; for reading, not for showing.
        detail: The same for the user's eyes: one printable line without the key.
    """

    status: int
    param: str | None
    said: str
    detail: str


Look = Callable[[Refusal], None]
"""Looks at a refusal that may be of the request's shape, and raises if it is."""


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

    def status(
        self, status: int, headers: Mapping[str, str], error: object, *, look: Look | None = None
    ) -> Trouble:
        """Explain an HTTP status that is no success.

        Args:
            status: The HTTP status.
            headers: The answer's headers; names in lower case are looked up.
            error: What the body's `error` holds, or the body itself.
            look: What is told of a refusal that may be of the request's shape, and may raise.

        Raises:
            StudyError: Only the user can mend it.
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
        if look is not None and (400 <= status < 500 or status == 501) and status not in {401, 403, *_AGAIN}:
            param = named.get("param")
            look(
                Refusal(
                    status=status,
                    param=param if isinstance(param, str) else None,
                    said=redact(str(said), self.key),
                    detail=detail,
                )
            )
        self._fatal(status)
        if status in _AGAIN or status >= 500:
            kind: ProblemKind = "rate_limited" if status == 429 else "server_error"
            return Trouble(
                problem=Problem(kind=kind, detail=detail),
                billed="perhaps" if status in _GATEWAY else "no",
                wait=retry_after(headers),
                headers=headers,
            )
        if codes & _FILTERED:
            return _final("content_filter", detail)
        if status == 413 or codes & _TOO_LONG or _SAYS_TOO_LONG.search(detail):
            return _final("too_long", detail)
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

    def lost(self, cause: str, *, sent: bool) -> Trouble:
        """Explain a request without any whole answer.

        Args:
            cause: The name of what happened.
            sent: Whether the server may have got the request.
        """
        return Trouble(
            problem=Problem(kind="transport", detail=f"no answer from {self.url}: {cause}"),
            billed="perhaps" if sent else "no",
        )

    def page(self) -> NoReturn:
        """Raise for a web page in the place of an answer."""
        raise StudyError(
            f"{self.url} answers with a web page, not with chat completions; check base_url in study.toml or "
            "OPENAI_BASE_URL: it usually ends in /v1"
        )


def is_page(content_type: str, body: bytes) -> bool:
    """Return whether an answer is HTML.

    >>> is_page("application/json", b'{"choices": []}'), is_page("text/html; charset=utf-8", b"")
    (False, True)
    """
    return content_type.lower().startswith("text/html") or body.lstrip()[:1] == b"<"


def _final(kind: ProblemKind, detail: str) -> Trouble:
    return Trouble(problem=Problem(kind=kind, detail=detail))
