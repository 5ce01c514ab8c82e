"""From a server's bytes to choices, or to the kind of failure they are.

The verdict is read from the schema's fields of the message's content and from nowhere else: not from prose,
not from reasoning, not from a piece of JSON inside other text. A failure is never a verdict and never a tie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from guard_eval.records import CHOICES, Choice

ProblemKind = Literal[
    "refusal",  # the model declined
    "content_filter",  # the server withheld the answer or refused the texts
    "truncated",  # the answer ended at the token limit
    "unparseable",  # the content is not one JSON object
    "wrong_schema",  # it is, but not with every criterion and a choice for each
    "unreadable",  # HTTP 200, and no chat completion
    "too_long",  # the texts do not fit the model's context
    "rejected",  # the server will not take the request
    "rate_limited",  # still, after every retry
    "server_error",  # still, after every retry
    "transport",  # no whole answer came, after every retry
]

ASK_AGAIN: frozenset[str] = frozenset({"unparseable", "wrong_schema", "unreadable"})
"""Kinds that another sample may mend; the rest would come again, and be paid again."""

_DETAIL = 200
_FENCE = re.compile(r"\A```(?:json)?\s*\n(?P<json>.*)\n\s*```\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What the server says of an answer; None where it does not say."""

    model: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A verdict: one choice per criterion asked."""

    choices: dict[str, Choice]
    usage: Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Why there is no verdict; `detail` is one printable line that may quote the answer."""

    kind: ProblemKind
    detail: str


class _DuplicateFieldError(ValueError):
    """A JSON object names a field twice, so that it says two things."""


def read_usage(body: bytes) -> Usage:
    """Return the model, fingerprint and tokens that `body` states; bytes of any kind are taken."""
    envelope = _load(body)
    if not isinstance(envelope, dict):
        return Usage()
    counts = envelope.get("usage")
    counts = counts if isinstance(counts, dict) else {}
    return Usage(
        model=_text(envelope.get("model")),
        fingerprint=_text(envelope.get("system_fingerprint")),
        input_tokens=_count(counts.get("prompt_tokens")),
        output_tokens=_count(counts.get("completion_tokens")),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """An error that came as HTTP 200, with the status it should have had."""

    status: int
    error: object


def read_error(body: bytes) -> Passed | None:
    """Return the error that `body` holds in the place of an answer, if it does."""
    envelope = _load(body)
    if not isinstance(envelope, dict) or envelope.get("choices") or not envelope.get("error"):
        return None
    error = envelope["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return Passed(status=code if isinstance(code, int) and 400 <= code < 600 else 500, error=error)


def parse(body: bytes, names: Sequence[str]) -> Parsed | Problem:
    """Return the choices in a chat completion, or what is wrong with it.

    Args:
        body: The bytes of an HTTP 200 answer.
        names: The criteria that were asked; other fields are not read.
    """
    envelope = _load(body)
    try:
        answer = envelope["choices"][0]  # type: ignore[index]
        message = answer["message"]
        content, refusal = message.get("content"), message.get("refusal")
        finish = answer.get("finish_reason")
    except (TypeError, KeyError, IndexError, AttributeError):
        return Problem(
            kind="unreadable", detail=f"no chat completion: {excerpt(body.decode(errors='replace'))}"
        )
    if finish == "content_filter":
        return Problem(kind="content_filter", detail="the server's content filter withheld the answer")
    if refusal:
        return Problem(kind="refusal", detail=excerpt(str(refusal)))
    if finish == "length":
        return Problem(kind="truncated", detail="the answer ended at max_output_tokens")
    if not isinstance(content, str):
        return Problem(kind="unparseable", detail="the answer has no text")
    choices = _choices(content, names)
    return choices if isinstance(choices, Problem) else Parsed(choices=choices, usage=read_usage(body))


def _choices(content: str, names: Sequence[str]) -> dict[str, Choice] | Problem:
    text = content.strip()
    fenced = _FENCE.match(text)
    try:
        fields = _strict(fenced["json"] if fenced else text)
    except _DuplicateFieldError as error:
        return Problem(kind="wrong_schema", detail=str(error))
    except (ValueError, RecursionError):
        return Problem(kind="unparseable", detail=f"not one JSON object: {excerpt(content)}")
    if not isinstance(fields, dict):
        return Problem(kind="unparseable", detail=f"not one JSON object: {excerpt(content)}")
    missing = [name for name in names if name not in fields]
    if missing:
        return Problem(kind="wrong_schema", detail=f"no field {', '.join(missing)}: {excerpt(content)}")
    wrong = [f"{name}={excerpt(repr(fields[name]))}" for name in names if fields[name] not in CHOICES]
    if wrong:
        return Problem(kind="wrong_schema", detail=f"not A, tie or B: {excerpt(', '.join(wrong))}")
    return {name: fields[name] for name in names}


def _load(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _strict(text: str) -> object:
    return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _DuplicateFieldError("a field stands twice in the answer")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _text(value: object) -> str | None:
    return excerpt(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


def visible(text: str) -> str:
    r"""Return `text` with control and format characters escaped, line breaks and tabs kept.

    >>> visible("red \x1b[31m\nnext")
    'red \\x1b[31m\nnext'
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]
        for character in text
    )


def excerpt(text: str) -> str:
    """Return the beginning of `text` as one printable line of at most 200 characters."""
    line = " ".join(visible(text[: 4 * _DETAIL]).split())
    return line if len(line) <= _DETAIL else line[: _DETAIL - 1] + "…"
