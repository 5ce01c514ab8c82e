"""From a server's bytes to choices, or to the kind of failure they are.

The verdict is read from the schema's fields of the message's content, or from a block that carries the
comparison's code, and from nowhere else: not from prose, not from reasoning, not from a piece of JSON inside
other text. A failure is never a verdict and never a tie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from guard_eval.records import CHOICES, Choice
from judge.blocks import has_block, read_block
from judge.envelopes import Passed, Usage, read_error, read_said, read_usage
from judge.printable import excerpt, visible

__all__ = [
    "ASK_AGAIN",
    "Parsed",
    "Passed",
    "Problem",
    "ProblemKind",
    "Usage",
    "excerpt",
    "parse",
    "read_error",
    "read_usage",
    "visible",
]

ProblemKind = Literal[
    "refusal",  # the model declined
    "content_filter",  # the server withheld the answer or refused the texts
    "truncated",  # the answer ended at the token limit
    "unparseable",  # the content is not one JSON object, and has no verdict block
    "wrong_schema",  # it is or has, but not with every criterion and a choice for each
    "unreadable",  # HTTP 200, and no answer in either dialect
    "too_long",  # the texts do not fit the model's context
    "rejected",  # the server will not take the request
    "rate_limited",  # still, after every retry
    "server_error",  # still, after every retry
    "transport",  # no whole answer came, after every retry
    "unrecorded",  # what is replayed has no answer to this request
]

ASK_AGAIN: frozenset[str] = frozenset({"unparseable", "wrong_schema", "unreadable"})
"""Kinds that another sample may mend; the rest would come again, and be paid again."""

_FENCE = re.compile(r"\A```(?:json)?\s*\n(?P<json>.*)\n\s*```\Z", re.DOTALL | re.IGNORECASE)
_THOUGHT = "</think>"


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


def parse(body: bytes, names: Sequence[str], *, code: str | None = None) -> Parsed | Problem:
    """Return the choices in an answer, or what is wrong with it.

    Args:
        body: The bytes of an HTTP 200 answer in either dialect, or a line of a batch's results.
        names: The criteria that were asked; other fields are not read.
        code: What a verdict block must carry; None where there can be none.
    """
    said = read_said(body)
    if said is None:
        return Problem(kind="unreadable", detail=f"no answer: {excerpt(body.decode(errors='replace'))}")
    if said.ended == "content_filter":
        return Problem(kind="content_filter", detail="the server's content filter withheld the answer")
    if said.refusal:
        return Problem(kind="refusal", detail=excerpt(str(said.refusal)))
    if said.ended == "length":
        return Problem(kind="truncated", detail="the answer ended at max_output_tokens")
    if not isinstance(said.content, str):
        return Problem(kind="unparseable", detail="the answer has no text")
    if code is not None and has_block(said.content, code):
        choices = read_block(said.content, names, code) or _no_block(said.content)
    else:
        choices = _choices(said.content, names)
    return choices if isinstance(choices, Problem) else Parsed(choices=choices, usage=read_usage(body))


def _no_block(content: str) -> Problem:
    return Problem(kind="wrong_schema", detail=f"no judgment for each criterion: {excerpt(content)}")


def _choices(content: str, names: Sequence[str]) -> dict[str, Choice] | Problem:
    text = content.rpartition(_THOUGHT)[2].strip()  # some servers leave a model's reasoning in the answer
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


def _strict(text: str) -> object:
    return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _DuplicateFieldError("a field stands twice in the answer")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
