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
from judge.failures import ErrorKind, JudgeError
from judge.providers.endpoint import KEYLESS, Access
from judge.providers.envelopes import excerpt

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
class ServerError:
    """How a server refuses a request.

    Attributes:
        status: The HTTP status.
        param: Which parameter it names, where it does.
        message: Its words; for reading, not for showing.
        detail: The same for the user's eyes: one printable line without the key.
    """

    status: int
    param: str | None
    message: str
    detail: str


OnError = Callable[[ServerError], None]
"""Takes a refusal that may be of the request's shape, and raises if it is."""


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
class ErrorReader:
    """Explains what goes wrong between one judge and its server.

    Attributes:
        model: The judge's model.
        access: Its server, and the key that no text may hold.
    """

    model: str
    access: Access

    @property
    def url(self) -> str:
        """Return the server's address."""
        return self.access.url

    def status(
        self, status: int, headers: Mapping[str, str], error: object, *, on_error: OnError | None = None
    ) -> JudgeError:
        """Explain an HTTP status that is no success.

        Args:
            status: The HTTP status.
            headers: The answer's headers; by names in lower case.
            error: What the body's `error` holds, or the body itself.
            on_error: Called with an error that may be about the shape of the request; it may raise.

        Raises:
            StudyError: Only the user can fix it.
        """
        named = error if isinstance(error, dict) else {}
        codes = {str(named.get(name)) for name in ("code", "type")} & (_QUOTA | _FILTERED | _TOO_LONG)
        message = redact(str(named.get("message") or named.get("detail") or error), self.access.key)
        detail = f"HTTP {status}: {excerpt(_KEY_LIKE.sub('[key]', message))}"
        if status == 402 or codes & _QUOTA:
            raise StudyError(
                f"the account at {self.url} has no credit left (HTTP {status}); add credit there and run "
                "again: nothing that was answered is paid twice"
            )
        may_be_shape = (400 <= status < 500 or status == 501) and status not in {401, 403, *_AGAIN}
        if on_error is not None and may_be_shape:
            param = named.get("param") if isinstance(named.get("param"), str) else None
            on_error(ServerError(status=status, param=param, message=message, detail=detail))
        self._fatal(status)
        if status in _AGAIN or status >= 500:
            kind: ErrorKind = "rate_limited" if status == 429 else "server_error"
            return JudgeError(
                kind=kind,
                detail=detail,
                billed="perhaps" if status in _GATEWAY else "no",
                wait=retry_after(headers),
                headers=headers,
            )
        if codes & _FILTERED:
            return JudgeError(kind="content_filter", detail=detail)
        if status == 413 or codes & _TOO_LONG or _SAYS_TOO_LONG.search(detail):
            return JudgeError(kind="too_long", detail=detail)
        return JudgeError(kind="rejected", detail=detail)

    def _fatal(self, status: int) -> None:
        # the server's own words may hold a part of the key, so ours stand alone
        variable = self.access.variable
        if status in (401, 403) and variable is None:
            raise StudyError(
                f"{self.url} wants a key (HTTP {status}), and none is sent there: put that server's own key "
                "into an environment variable, and name it in this judge's table of study.toml: api_key_env"
            )
        if status == 401:
            raise StudyError(
                f"{self.url} does not accept the key (HTTP 401); set {variable} in the environment to a "
                "valid one"
            )
        if status == 403:
            raise StudyError(
                f"{self.url} does not allow this key to use {self.model!r} (HTTP 403); set {variable} to one "
                "that may, or name another model"
            )
        if 300 <= status < 400:
            raise StudyError(
                f"{self.url} sends requests on to another address (HTTP {status}), which is not followed; "
                "give the right one as base_url in study.toml"
            )
        if status in (404, 405):
            raise StudyError(
                f"{self.url} has no model {self.model!r}, or no chat completions at that address (HTTP "
                f"{status}); correct model or base_url in study.toml"
            )

    def lost(self, cause: str, *, sent: bool) -> JudgeError:
        """Explain a request without any whole answer.

        Args:
            cause: The name of what happened.
            sent: Whether the server may have got the request.
        """
        return JudgeError(
            kind="transport",
            detail=f"no answer from {self.url}: {cause}",
            billed="perhaps" if sent else "no",
        )

    def timed_out(self, seconds: float) -> JudgeError:
        """Explain a request whose response did not come in time; the server may charge for it."""
        detail = f"no response from {self.url} within {seconds:g} seconds"
        return JudgeError(kind="timeout", detail=detail, billed="perhaps")

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
