"""What a server's refusal means. The first line of the table that matches decides.

No text that leaves here holds the key, even if a server echoes it.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import urlsplit

from guard_eval.servers.answers import (
    excerpt,
    load_json,
    read_answer,
    read_count,
    read_json,
    read_usage,
    table_of,
)
from guard_eval.servers.failures import ATTEMPTS, RESAMPLED, Change, FailureKind, RequestFailure
from guard_eval.servers.redaction import redact_words
from guard_eval.servers.server import Server
from guard_eval.servers.waits import read_wait

_CLIENT = range(400, 500)
_LONGEST = 4000
"""Characters of a server's words that are looked up: some quote the whole request after their sentence."""
_LONGEST_DETAIL = 500
"""Characters of a server's words that are shown: its remedy often comes last."""
_DEEPEST = 8
"""How deep in an error its words are looked for: routers quote the error of the server behind them."""
_PAGE = "a web page"
_FORM = {400, 404, 405, 415, 422, 500, 501}
_UNKNOWN = (
    r"support|unknown|unrecogni[sz]ed|unexpected|deprecated|no longer|extra(?:neous)? |forbidden|ignored"
    r"|not (?:permitted|allowed|available|accept|compatible|valid)|\bonly\b|cannot be|must (?:not )?be"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A line of the table: it matches a refusal of its statuses with one of its codes, or with its words.

    `kind`, an `FailureKind` or a key of `_FATAL`, is what the refusal counts as; without it only another form
    may help, and the next lines decide. `change` is what may help if the form is to blame, and `billed`
    whether the server may charge.
    """

    statuses: Collection[int] = ()
    codes: Collection[str] = ()
    words: str = ""
    kind: str | None = None
    change: Change | None = None
    billed: bool = False

    def matches(self, status: int, codes: set[str], words: str) -> bool:
        """Return whether a refusal is of this line."""
        if self.statuses and status not in self.statuses:
            return False
        said = bool(self.words) and re.search(self.words, words, re.IGNORECASE | re.DOTALL) is not None
        return said or not codes.isdisjoint(self.codes) or not (self.codes or self.words)


def _unknown(change: Change, name: str) -> Rule:
    """Return the line about words that name a part of the request and say that it is not taken."""
    return Rule(statuses=_FORM, words=f"^(?=.*(?:{name}))(?=.*(?:{_UNKNOWN}))", change=change)


RULES = (
    Rule(
        statuses=_FORM,
        codes={"json_validate_failed", "tool_use_failed", "output_parse_failed"},
        words=r"failed to (?:generate|validate) json|unexpected tokens remaining|harmonyerror"
        r"|model (?:has )?(?:produced|generated|returned) (?:an? )?(?:invalid|malformed|empty)"
        r"|(?:model(?:'s)? |generated )(?:output|response|answer|text|json)\b.{0,40}"
        r"(?:invalid|not (?:be )?(?:valid|parsed?)|does not match)",
        kind="unparseable",
    ),
    Rule(statuses={402}, kind="no_credit"),
    Rule(
        codes={
            *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),
            *("exceeded_current_quota_error", "insufficient_balance"),
        },
        kind="no_credit",
    ),
    Rule(
        statuses={400, 403, 429},
        words=r"credit balance is too low|spend limit|\bbalance\b.{0,30}(?:insufficient|not enough)"
        r"|(?:insufficient|not enough) (?:account |available )?(?:balance|credits?|funds)",
        kind="no_credit",
    ),
    Rule(statuses={401}, kind="wrong_key"),
    Rule(statuses={400}, words=r"API key not valid|API key expired", kind="wrong_key"),
    Rule(statuses={407}, kind="proxy"),
    Rule(statuses=range(300, 400), kind="moved"),
    Rule(statuses={429, 529}, kind="rate_limited"),
    Rule(statuses={403}, words=r"rate.?limit|too many requests", kind="rate_limited"),
    Rule(codes={"rate_limit_exceeded"}, kind="rate_limited"),
    Rule(statuses={409, 425}, kind="server_error"),
    Rule(statuses={413}, kind="too_long"),
    Rule(statuses=range(200, 500), words=f"^ {_PAGE}\\b", kind="web_page"),
    Rule(statuses={451}, kind="blocked"),
    Rule(
        statuses={400, 403},
        codes={"unsupported_country_region_territory"},
        words=r"\b(?:country|region|territory|location)\b.{0,60}"
        r"(?:unsupported|restricted|blocked|not (?:supported|available|allowed|permitted))"
        r"|(?:unsupported|restricted|blocked|not (?:supported|available|allowed)) .{0,20}"
        r"\b(?:country|region|territory|location)\b"
        r"|\bgeo(?:graph|-?block|-?fenc|-?restrict)|\bfrom your (?:country|region|territory|location)\b",
        kind="blocked",
    ),
    Rule(statuses={403}, words=r"\bflagged\b|\bmoderation\b", kind="content_filter"),
    Rule(statuses={403}, kind="forbidden"),
    Rule(
        statuses={404, 405, 500, 501},
        words=r"unexpected endpoint|page not found|cannot post"
        r"|^\W*(?:(?!model|deployment|engine)\w+ )?(?:not found|method not allowed)\W*$"
        r"|(?:invalid|unknown) (?:url|path|route|endpoint)|no (?:such )?route|route .{0,80}not found",
        kind="no_path",
    ),
    Rule(statuses={404, 405}, words=r"^\W*$", kind="no_path"),
    Rule(statuses={408}, kind="server_error", billed=True),  # some say so of a model that took too long
    Rule(
        statuses={*_CLIENT, 500},
        codes={"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"},
        words=r"maximum context length|context.{0,20}(?:exceed|too long|window)|exceeds? .{0,30}context"
        r"|longer than .{0,30}context|too many tokens|prompt is too long|token count.{0,30}exceeds",
        kind="too_long",
        change="fewer_tokens",
    ),
    Rule(
        statuses=_CLIENT,
        codes={"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"},
        kind="content_filter",
    ),
    Rule(
        statuses=_CLIENT,
        words=r"^(?=.*max_(?:\w+_)?tokens)"
        r"(?=.*(?:too (?:large|high|long)|at most|less than|smaller|exceed|between|maximum|up to|<))",
        kind="too_many_tokens",
        change="fewer_tokens",
    ),
    Rule(
        statuses=_CLIENT,
        words=r"^(?=.*max_(?:\w+_)?tokens)(?=.*(?:too (?:small|low)|at least|greater than|larger than))",
        kind="rejected",
    ),
    Rule(statuses=_FORM, words=r"/responses\b|not a chat model", change="responses"),
    Rule(
        statuses=_FORM,
        words=r"response_format|output_config|output_format|text\.format|json_schema|response_?mime_?type"
        r"|response_?(?:json_?)?schema|json_object|json mode|structured.?output"
        r"|guided.?decoding|initialize samplers|\bgrammar\b",
        change="output",
    ),
    _unknown("limit", r"\bmax_(?:completion_)?tokens\b"),
    _unknown("reasoning_effort", r"\breasoning(?:_effort|\.effort)?\b"),
    _unknown("temperature", r"\btemperature\b"),
    _unknown("top_p", r"\btop_p\b"),
    _unknown("seed", r"\bseed\b"),
    _unknown("store", r"\bstore\b"),
    _unknown("system", r"\bsystem (?:role|message|prompt)|\brole\W{1,3}system"),
    Rule(
        statuses={404},
        codes={"model_not_found", "not_found_error", "NOT_FOUND"},
        words=r"\b(?:model|deployment|engine)\b.{0,100}(?:does not exist|not found)",
        kind="no_model",
    ),
    Rule(statuses={404}, change="guess"),
    Rule(statuses={404}, words="no endpoints found", kind="no_endpoint"),
    Rule(statuses={404, 405}, kind="no_model"),
    Rule(statuses=_FORM, change="guess"),
    Rule(statuses=_CLIENT, kind="rejected"),
    # what is behind a gateway may have done the work
    Rule(statuses={504, 524}, kind="timeout", billed=True),
    Rule(statuses={502, 520, 521, 522, 523}, kind="server_error", billed=True),
    Rule(kind="server_error"),
)
"""The table."""

_FATAL = {
    "no_credit": "the account at {url} has no credit left ({detail}); add credit there and run again: "
    "nothing that was answered is paid twice",
    "no_key": "{url} wants a key ({detail}), and none is sent there: put that server's own key into an "
    "environment variable, and name it in the model's table of study.toml: api_key_env",
    "wrong_key": "{url} does not accept the key ({detail}); set {variable} in the environment to a valid one",
    "forbidden": "{url} does not allow this key to use {model!r} ({detail}); set {variable} to one that may, "
    "or name another model",
    "blocked": "{url} does not serve this country or this network ({detail}); the key may be right: name a "
    "server that does as base_url in study.toml",
    "proxy": "the proxy before {url} wants a user and a password ({detail}); correct HTTPS_PROXY, HTTP_PROXY "
    "or ALL_PROXY in the environment, or name the host in NO_PROXY if no proxy is needed",
    "moved": "{url} sends requests on to another address ({detail}), which is not followed; give the right "
    "one as base_url in study.toml",
    "no_model": "{url} has no model {model!r}, or no chat completions at that address ({detail}); correct "
    "model or base_url in study.toml: {hint}",
    "no_path": "{url} has no chat completions ({detail}); correct base_url in study.toml or OPENAI_BASE_URL: "
    "{hint}",
    "no_endpoint": "no provider behind {url} takes such requests for {model!r} ({detail}); ask for less in "
    "the model's table of study.toml, such as in extra_body, or name another model",
    "too_many_tokens": "{url} does not let {model!r} write answers of so many tokens ({detail}); set fewer "
    "tokens in study.toml: max_output_tokens of a judge, or generation.max_new_tokens",
    "web_page": "{url} answers with {detail}, not with chat completions; check base_url in study.toml or "
    "OPENAI_BASE_URL: {hint}",
}
"""What only the user can mend: the run ends with the sentence."""


def hint_at_address(url: str) -> str:
    """Return what is usually wrong with a server's address.

    >>> hint_at_address("http://localhost:1234")
    'it usually ends in /v1, such as http://localhost:1234/v1'
    >>> hint_at_address("http://localhost:1234/v1/chat/completions")
    'it ends before /chat/completions'
    """
    path = urlsplit(url).path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/responses"):
        if path.endswith(ending):
            return f"it ends before {ending}"
    if "/v1" in path:
        return "it usually ends in /v1"
    return f"it usually ends in /v1, such as {url.rstrip('/')}/v1"


def read_words(error: object) -> str:
    """Return all that a server says about an error, without what a router said before it.

    >>> read_words({"message": "Provider returned error", "metadata": {"raw": '{"error": "try again"}'}})
    'Provider returned error: try again'
    """
    return ": ".join(dict.fromkeys(_sentences(error, 0))) or str(error)


_SAYING = (
    *("message", "detail", "details", "msg", "error", "errors", "error_description", "reason"),
    *("metadata", "raw", "data", "innererror", "description"),
)
"""Fields that hold a server's words, or the error of a server behind it."""


def _sentences(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        nested = load_json(value.encode(errors="replace")) if value.lstrip()[:1] in ("{", "[") else None
        if nested is None:
            yield value.strip()
            return
        value = nested
    if depth == _DEEPEST:
        return
    if isinstance(value, dict):
        value = [value.get(name) for name in _SAYING]
    for part in value if isinstance(value, list) else ():
        yield from _sentences(part, depth + 1)


def read_refusal(
    server: Server, status: int, headers: Mapping[str, str], error: object, *, page: bool = False
) -> RequestFailure:
    """Explain an HTTP status that is no success, or a web page with any status.

    Args:
        server: The server that answered so.
        status: The HTTP status.
        headers: The response's headers, with names in lower case.
        error: What the body's `error` holds, or the body itself.
        page: Whether the body is a web page.
    """
    table = table_of(error)
    inner = table_of(table.get("innererror"))
    codes = {str(each.get(name)) for each in (table, inner) for name in ("code", "type", "status")}
    message = _name_page(error) if page else read_words(error)
    if 300 <= status < 400:
        message = f"to {headers.get('location', 'nowhere')}"
    message = redact_words(message, server.key)
    detail = f"HTTP {status}: {excerpt(message, _LONGEST_DETAIL)}"
    words = f"{table.get('param') or ''} {message}"[:_LONGEST]
    rules = [rule for rule in RULES if rule.matches(status, codes, words)]
    rule = next(each for each in rules if each.kind is not None)  # the last rule matches everything
    # what the words name comes before a guess
    change = next((each.change for each in rules[: rules.index(rule) + 1] if each.change), None)
    if rule.kind in _FATAL:
        keyless = rule.kind in ("wrong_key", "forbidden") and server.variable is None
        values = {"url": server.url, "model": server.model, "variable": server.variable, "detail": detail}
        fatal = _FATAL["no_key" if keyless else rule.kind].format(**values, hint=hint_at_address(server.url))
        return RequestFailure(kind="rejected", detail=detail, change=change, fatal=fatal)
    kind = cast("FailureKind", rule.kind)
    wait = read_wait(headers, error) if kind in ATTEMPTS else None
    return RequestFailure(kind=kind, detail=detail, billed=rule.billed, wait=wait, change=change)


def _name_page(content: object) -> str:
    """Return that a body is a web page, with its title."""
    title = re.search(r"<title[^<>]{0,100}>([^<]{1,100})", str(content)[:_LONGEST], re.IGNORECASE)
    return f"{_PAGE} ({title[1].strip()})" if title else _PAGE


def read_error(server: Server, body: bytes) -> RequestFailure | None:
    """Explain the error in a success; None if there is none, or if another sample of the answer may mend it.

    Routers pass on another server's error so. One beside an answer or counts of tokens came after the model
    had begun, and may be charged.
    """
    envelope = read_json(body) if b'"error"' in body else {}
    error = envelope.get("error")
    if not error:
        return None
    refusal = read_refusal(server, read_status(table_of(error).get("code")) or 500, {}, error)
    if refusal.kind in RESAMPLED:
        return None
    charged = bool(envelope.get("choices") or read_usage(body).output_tokens)
    return replace(refusal, billed=True, change=None) if charged else refusal


def read_line(server: Server, line: bytes) -> RequestFailure | None:
    """Explain a line of a batch's results; None if it has an answer, whatever its status says.

    A line without status and without error has an answer, even if nobody can read it: it may be charged.
    """
    entry = table_of(load_json(line))
    response = table_of(entry.get("response"))
    status = read_status(response.get("status_code"))
    error = entry.get("error") or read_json(line).get("error")
    is_success = status is None or status in range(200, 300)
    if read_answer(line) is not None or (is_success and not error):
        return read_error(server, line)
    refusal = read_refusal(server, status or 500, {}, error or "no answer")
    return None if refusal.kind in RESAMPLED else replace(refusal, billed=False)


def read_status(value: object) -> int | None:
    """Return an HTTP status that is a number or its digits; None for anything else.

    >>> read_status("200"), read_status(0), read_status("rate_limit_exceeded")
    (200, None, None)
    """
    status = read_count(value)
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
    (ssl.SSLError, "the server does not speak TLS", "check whether the address begins with http or https"),
    (BaseException, "", f"check {_ADDRESS}, that the server runs, and HTTPS_PROXY if it is set"),
)
"""Causes of a request without an answer, each in words, with what helps. The first that matches decides."""


def explain_lost(server: Server, error: BaseException, *, sent: bool) -> RequestFailure:
    """Explain a request without a whole answer.

    Args:
        server: The server.
        error: What happened. It may quote what was sent, so only its type is shown.
        sent: Whether the server may have got the request.
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
        words = f"{words} ({excerpt(cause.verify_message)})"
    detail = f"no answer from {server.url}: {words}"
    return RequestFailure(kind=kind, detail=detail, billed=sent, fatal=f"{detail}; {remedy}")


def is_page(content_type: str, body: bytes) -> bool:
    """Return whether an answer is HTML.

    >>> is_page("application/json", b'{"choices": []}'), is_page("text/html; charset=utf-8", b"")
    (False, True)
    """
    return content_type.lower().startswith("text/html") or body.lstrip()[:1] == b"<"
