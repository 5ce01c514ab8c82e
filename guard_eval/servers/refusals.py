"""Explain a server's refusal with the first matching rule of refusals.toml.

No text from this module contains the key, even if a server repeats the key.
"""

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from guard_eval.bundled import read_bundled_toml
from guard_eval.records import record
from guard_eval.servers.answers import (
    dump_shortened_json,
    get_object_or_empty,
    load_json_or_none,
    parse_token_count,
    read_answer,
    read_json_object,
    read_usage,
    shorten,
)
from guard_eval.servers.failures import ATTEMPTS, RESAMPLED, Change, FailureKind, RequestFailure
from guard_eval.servers.redaction import remove_key_from_text
from guard_eval.servers.server import Server
from guard_eval.servers.waits import read_wait_seconds

_TABLE = read_bundled_toml(__file__, "refusals.toml")

_LONGEST = 4000
"""The number of characters of a server's message that the rules read. A message may quote the request."""
_LONGEST_DETAIL = 500
"""The number of characters of a server's message that are shown to the user."""
_DEEPEST = 8
"""The number of nested objects in which messages are searched. Routers wrap the errors of other servers."""
_PAGE = "a web page"


@record
class RefusalRule:
    """A rule that says what a server's refusal means. The comments in refusals.toml explain the fields."""

    statuses: Sequence[int | str] = ()
    codes: Sequence[str] = ()
    words: Sequence[str] = ()
    named_part: Sequence[str] = ()
    kind: str | None = None
    change: Change | None = None
    billed: bool = False

    def matches(self, status: int, codes: set[str], words: str) -> bool:
        """Return whether the rule applies to a refusal."""
        if self.statuses and status not in self.statuses and f"{status // 100}xx" not in self.statuses:
            return False
        if self.named_part:
            return _matches_any(self.named_part, words) and _matches_any(_TABLE["not_taken"], words)
        return (
            _matches_any(self.words, words)
            or not codes.isdisjoint(self.codes)
            or not (self.codes or self.words)
        )


def _matches_any(patterns: Sequence[str], words: str) -> bool:
    return any(re.search(pattern, words, re.IGNORECASE | re.DOTALL) for pattern in patterns)


RULES = [RefusalRule(**row) for row in _TABLE["rule"]]
"""All rules, in order. The first rule that matches a refusal decides. The last rule matches every refusal."""

_OF_ADDRESS = {"web_page", "no_model", "no_path", "moved"}
"""Problems that a wrong address or a wrong name of the model causes."""

_FATAL: dict[str | None, str] = _TABLE["fatal"]
"""For each problem that only the user can fix, the message with which the run ends."""


def read_error_message(error: object) -> str:
    """Return the messages in an error, joined by colons: first a router's message, then the server's.

    >>> read_error_message({"message": "Provider error", "metadata": {"raw": '{"error": "try again"}'}})
    'Provider error: try again'
    """
    return ": ".join(dict.fromkeys(_find_error_messages(error, 0))) or dump_shortened_json(error)


def _find_error_messages(value: object, depth: int) -> Iterator[str]:
    """Yield all messages in an error, from the outer messages to the inner messages."""
    if isinstance(value, str):
        nested = load_json_or_none(value) if value.lstrip()[:1] in ("{", "[") else None
        if nested is None:
            yield value.strip()
            return
        value = nested
    if depth == _DEEPEST:
        return
    if isinstance(value, dict):
        value = [value.get(name) for name in _TABLE["message_fields"]]
    for entry in value if isinstance(value, list) else ():
        yield from _find_error_messages(entry, depth + 1)


def explain_refusal(
    server: Server, status: int | None, headers: Mapping[str, str], error: object, *, page: bool = False
) -> RequestFailure:
    """Return the failure that an error or a web page means.

    Args:
        server: The server that sent the response.
        status: The HTTP status, or None for an error without one, such as an error in a whole answer.
        headers: The response's headers, with names in lower case.
        error: The body's `error`, or the body itself.
        page: Whether the body is a web page.
    """
    table = get_object_or_empty(error)
    inner = get_object_or_empty(table.get("innererror"))
    codes = {str(fields.get(name)) for fields in (table, inner) for name in ("code", "type", "status")}
    message = _PAGE if page else read_error_message(error)
    if status in range(300, 400):
        message = f"to {headers.get('location', 'nowhere')}"
    message = remove_key_from_text(message, server.key)
    detail = f"{f'HTTP {status}' if status else 'an error'}: {shorten(message, _LONGEST_DETAIL)}"
    words = f"{table.get('param') or ''} {message}"[:_LONGEST]
    rules = [rule for rule in RULES if rule.matches(status or 500, codes, words)]
    rule = next(rule for rule in rules if rule.kind is not None)
    # a part that the message names is tried before a guess
    changes = [earlier.change for earlier in rules[: rules.index(rule) + 1] if earlier.change]
    change = changes[0] if changes else None
    if rule.kind in _FATAL:
        keyless = rule.kind in ("wrong_key", "forbidden") and server.variable is None
        fatal = _FATAL["no_key" if keyless else rule.kind].format(
            url=server.url, model=server.model, variable=server.variable, detail=detail
        )
        return RequestFailure(
            kind="rejected",
            detail=detail,
            change=change,
            fatal=fatal,
            blames_address=rule.kind in _OF_ADDRESS,
        )
    kind = cast("FailureKind", rule.kind)
    wait = read_wait_seconds(headers, error) if kind in ATTEMPTS else None
    return RequestFailure(kind=kind, detail=detail, billed=rule.billed, wait=wait, change=change)


def explain_error_with_status_200(server: Server, body: bytes) -> RequestFailure | None:
    """Return the failure that an error in a response with status 200 means.

    Return None if there is no error, or if a new sample may succeed.

    Routers forward the errors of other servers with status 200. If the response also has an answer or a token
    count, the model had begun to answer, and the request may cost money.
    """
    envelope = read_json_object(body) if b'"error"' in body else {}
    error = envelope.get("error")
    if not error:
        return None
    refusal = explain_refusal(server, parse_http_status(get_object_or_empty(error).get("code")), {}, error)
    if refusal.kind in RESAMPLED:
        return None
    charged = bool(envelope.get("choices") or read_usage(body).output_tokens)
    return replace(refusal, billed=True, change=None) if charged else refusal


def explain_failed_batch_line(server: Server, line: bytes) -> RequestFailure | None:
    """Return the failure in a line of a batch's results, or None if the line has an answer.

    A line without a status and without an error counts as an answer even if the line cannot be read, because
    the request may cost money.
    """
    entry = get_object_or_empty(load_json_or_none(line))
    response = get_object_or_empty(entry.get("response"))
    status = parse_http_status(response.get("status_code"))
    error = entry.get("error") or read_json_object(line).get("error")
    is_success = status is None or status in range(200, 300)
    if read_answer(line) is not None or (is_success and not error):
        return explain_error_with_status_200(server, line)
    refusal = explain_refusal(server, status, {}, error or "no answer")
    return None if refusal.kind in RESAMPLED else replace(refusal, billed=False)


def parse_http_status(value: object) -> int | None:
    """Return an HTTP status from a number or a string of digits. For other values, return None.

    >>> parse_http_status("200"), parse_http_status(0), parse_http_status("rate_limit_exceeded")
    (200, None, None)
    """
    status = parse_token_count(value)
    return status if status is not None and 100 <= status < 600 else None


_ADDRESS = "base_url in study.toml or OPENAI_BASE_URL"

_LOST: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "its certificate is not trusted",
        f"check {_ADDRESS}; if that server is yours, name its certificate's authority in SSL_CERT_FILE",
    ),
    (socket.gaierror, "the name of the host does not resolve", f"check its spelling in {_ADDRESS}"),
    (ConnectionRefusedError, "nothing listens at that port", f"start the server, or correct {_ADDRESS}"),
    (
        ssl.SSLError,
        "the server does not speak TLS",
        "check whether the address begins with http or https, and HTTPS_PROXY if it is set",
    ),
    (BaseException, "", f"check {_ADDRESS}, that the server runs, and HTTPS_PROXY if it is set"),
)
"""Errors that prevent an answer, each with a description and a remedy. The first match decides."""


def explain_lost_request(server: Server, error: BaseException, *, sent: bool) -> RequestFailure:
    """Return the failure of a request whose complete answer did not arrive.

    Args:
        server: The server.
        error: The error. Only the error's type is shown, because the message may quote the request.
        sent: Whether the server may have received the request.
    """
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < 20:
        chain.append(cause)
    words, remedy, cause = next(
        (words, remedy, cause) for kind, words, remedy in _LOST for cause in chain if isinstance(cause, kind)
    )
    name = type(error).__name__
    kind: FailureKind = "transport"
    words = words or (f"the connection was lost before the whole answer came ({name})" if sent else name)
    if isinstance(cause, ssl.SSLCertVerificationError):
        kind = "rejected"
        words = f"{words} ({shorten(cause.verify_message)})"
    detail = f"no answer from {server.url}: {words}"
    return RequestFailure(kind=kind, detail=detail, billed=sent, fatal=f"{detail}; {remedy}")


def is_web_page(content_type: str, body: bytes) -> bool:
    """Return whether an answer is HTML.

    >>> is_web_page("application/json", b'{"choices": []}'), is_web_page("text/html; charset=utf-8", b"")
    (False, True)
    """
    return content_type.lower().startswith("text/html") or body.lstrip()[:1] == b"<"
