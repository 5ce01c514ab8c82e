"""From a server's bytes to choices, or to the kind of failure they are.

The verdict is read from the schema's fields of the message's content, or from a block that carries the
comparison's code, and from nowhere else: not from prose, not from reasoning, not from a piece of JSON inside
other text. A failure is never a verdict and never a tie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NoReturn

from guard_eval.records import CHOICES, Choice
from guard_eval.rubric import CRITERIA
from judge.thinking import without_thinking

_DECORATION = " \t*_`'\"“”[]()."
_BULLET = re.compile(r"^[\s>#*•–-]*(?:\d+[.)]\s*)?")
_REASONS = re.compile(
    r"\s+(?:because|since|as|but|though|although|while|yet|or|and)\b.*|\s*[;,:(/|–—].*|\.\s.*|\s-\s.*",
    re.DOTALL | re.IGNORECASE,
)
_KIND = r"(?:method|text|option|version|continuation|answer|output)"
_MENTIONS: dict[Choice, re.Pattern[str]] = {
    "A": re.compile(
        rf"(?i:\b{_KIND}\s+a\b|\bfirst\s+(?:one|{_KIND})\b|\bformer\b|\bother\b)|\bA\b|\ba\s+(?:is|was|wins)\b"
    ),
    "B": re.compile(rf"(?i:\bb\b|\bsecond\s+(?:one|{_KIND})\b|\blatter\b|\bother\b)"),
    "tie": re.compile(r"(?i:\b(?:both|ties?|tied|draw|equal(?:ly)?|similar(?:ly)?|same|alike)\b)"),
}
"""Words after a judgment that may speak for another one."""

_CAUSE = re.compile(r"\W*(?:because|since|as|reason\w*|rationale|explanation)\b", re.IGNORECASE)
_CLAIM = re.compile(
    r"\b(?:better|best|superior|stronger|wins?|prefer\w*|ahead|tied?|equal|similar|but|however|although|though"
    r"|yet|still|overall|actually|rather|instead|finally|or)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\A\W*(?:no|not|nope|wrong|never)(?:\s+(?:really|at all))?\W*\Z", re.IGNORECASE)

_JUDGMENTS: dict[str, Choice] = {
    **dict.fromkeys(("method a is better", "a is better", "method a", "a"), "A"),
    **dict.fromkeys(("method b is better", "b is better", "method b", "b"), "B"),
    **dict.fromkeys(
        ("both methods are similar", "both are similar", "similar", "both", "tie", "equal"), "tie"
    ),
}


def has_block(content: str, code: str) -> bool:
    """Return whether an opening tag with the code stands in `content`."""
    return _opening(code).search(content) is not None


def read_block(content: str, names: Sequence[str], code: str) -> dict[str, Choice] | None:
    r"""Return the verdict of the blocks, or None unless they give just one choice for every criterion.

    Args:
        content: The model's answer.
        names: The criteria that were asked; other lines are not read.
        code: What the tags must carry.

    >>> read_block("<verdict-1f>\nFluency: Method A is better\n</verdict-1f>", ["fluency"], "1f")
    {'fluency': 'A'}
    """
    starts = [match.end() for match in _opening(code).finditer(content)]
    found: dict[str, Choice] = {}
    for start, end in pairwise([*starts, len(content)]):
        inside = _closing(code).split(content[start:end], maxsplit=1)[0]
        for name, said in _judgments(inside, names):
            if not said.strip(_DECORATION + "…"):
                continue  # the empty block, copied
            choice = _judgment(said)
            if choice is None or found.setdefault(name, choice) != choice:
                return None  # it says nothing, or two things
    return {name: found[name] for name in names} if len(found) == len(set(names)) else None


def _opening(code: str) -> re.Pattern[str]:
    return re.compile(rf"<\s*verdict-{re.escape(code)}[0-9a-f]*\s*>", re.IGNORECASE)


def _closing(code: str) -> re.Pattern[str]:
    return re.compile(rf"<\s*/\s*verdict(?:-{re.escape(code)}[0-9a-f]*)?\s*>", re.IGNORECASE)


def _judgments(block: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what follows each criterion's name: its line, and what the next lines add to it."""
    wanted = {_plain(alias): name for name in names for alias in (name, _title(name))}
    said: list[tuple[str, str]] = []
    adds = False
    for line in block.splitlines():
        label, colon, rest = _BULLET.sub("", line).partition(":")
        name = wanted.get(_plain(label))
        if name is not None and colon:
            said.append((name, rest))
        elif line.strip(_DECORATION) and adds:
            said[-1] = (said[-1][0], f"{said[-1][1].rstrip()}; {line.strip()}")
        adds = bool(said) and bool(line.strip())
    yield from said


def _judgment(said: str) -> Choice | None:
    """Return the choice that a line states, or None where it states none, or speaks for another as well."""
    words = " ".join(said.split()).strip(_DECORATION)
    if (choice := _JUDGMENTS.get(words.casefold())) is not None:
        return choice
    reasons = _REASONS.search(words)
    head = words if reasons is None else words[: reasons.start()]
    choice = _JUDGMENTS.get(head.strip(_DECORATION).casefold())
    if choice is None or reasons is None:
        return None
    rest = reasons.group()
    others = [_MENTIONS[other] for other in CHOICES if other != choice]
    if _DENIED.search(rest) or (any(mention.search(rest) for mention in others) and not _explains(rest)):
        return None
    return choice


def _explains(rest: str) -> bool:
    """Return whether what follows a judgment is a reason for it, and no claim for another side."""
    return _CAUSE.match(rest) is not None and _CLAIM.search(rest) is None


def _title(name: str) -> str:
    return CRITERIA[name].title if name in CRITERIA else name


def _plain(words: str) -> str:
    return "".join(letter for letter in words.casefold() if letter.isalnum())


_DETAIL = 200


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


Ended = Literal["stop", "length", "content_filter"]
"""How an answer ended: by itself, at the token limit, or withheld by the server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What the server says of an answer; None where it does not say.

    `cached_tokens` are among the input's, `reasoning_tokens` among the output's.
    """

    model: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorResponse:
    """An error that came as HTTP 200, with the status it should have had."""

    status: int
    error: object


@dataclass(frozen=True, kw_only=True, slots=True)
class RawResponse:
    """The model's answer: its text, or with what words it declined."""

    content: object
    refusal: object
    ended: Ended


def load(body: bytes) -> object:
    """Return the JSON in `body`, of a batch's line the answer it carries, or None."""
    try:
        envelope = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(envelope, dict) and "custom_id" in envelope and isinstance(envelope.get("response"), dict):
        return envelope["response"].get("body")
    return envelope


def read_response(body: bytes) -> RawResponse | None:
    """Return what the model said, or None where `body` is no answer in either dialect."""
    envelope = load(body)
    try:
        if isinstance(envelope, dict) and "output" in envelope and "choices" not in envelope:
            return _response(envelope)
        return _completion(envelope)
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


def _completion(envelope: Any) -> RawResponse:  # noqa: ANN401 (a stranger's JSON)
    answer = envelope["choices"][0]
    message = answer["message"]
    finish = answer.get("finish_reason")
    ended: Ended = finish if finish in ("length", "content_filter") else "stop"
    return RawResponse(content=message.get("content"), refusal=message.get("refusal"), ended=ended)


def _response(envelope: dict[str, Any]) -> RawResponse | None:
    if envelope.get("status", "completed") not in ("completed", "incomplete"):
        return None
    messages = [each for each in envelope["output"] if each.get("type") == "message"]
    why = (envelope.get("incomplete_details") or {}).get("reason")
    cut = envelope.get("status") == "incomplete"
    ended: Ended = "content_filter" if why == "content_filter" else "length" if cut else "stop"
    if not messages:  # all tokens went into reasoning, or it was withheld
        return RawResponse(content=None, refusal=None, ended=ended)
    parts = messages[-1]["content"]
    texts = [each["text"] for each in parts if each.get("type") == "output_text"]
    refusals = [each["refusal"] for each in parts if each.get("type") == "refusal"]
    return RawResponse(
        content="".join(texts) if texts else None, refusal=refusals[0] if refusals else None, ended=ended
    )


def read_usage(body: bytes) -> Usage:
    """Return the model, fingerprint and tokens that `body` states; bytes of any kind are taken."""
    envelope = load(body)
    if not isinstance(envelope, dict):
        return Usage()
    counts = _table(envelope.get("usage"))
    taken = _table(counts.get("prompt_tokens_details")) or _table(counts.get("input_tokens_details"))
    made = _table(counts.get("completion_tokens_details")) or _table(counts.get("output_tokens_details"))
    return Usage(
        model=_text(envelope.get("model")),
        fingerprint=_text(envelope.get("system_fingerprint")),
        input_tokens=_count(counts.get("prompt_tokens", counts.get("input_tokens"))),
        output_tokens=_count(counts.get("completion_tokens", counts.get("output_tokens"))),
        cached_tokens=_count(taken.get("cached_tokens")),
        reasoning_tokens=_count(made.get("reasoning_tokens")),
    )


def read_error(body: bytes) -> ErrorResponse | None:
    """Return the error that `body` holds in the place of an answer, if it does."""
    envelope = load(body)
    if not isinstance(envelope, dict) or envelope.get("choices") or not envelope.get("error"):
        return None
    error = envelope["error"]
    code = error.get("code") if isinstance(error, dict) else None
    if code == "rate_limit_exceeded":
        code = 429
    return ErrorResponse(status=code if isinstance(code, int) and 400 <= code < 600 else 500, error=error)


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return excerpt(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None


__all__ = [
    "ASK_AGAIN",
    "ErrorKind",
    "ErrorResponse",
    "JudgeError",
    "ParseError",
    "Parsed",
    "RequestError",
    "Usage",
    "excerpt",
    "parse",
    "read_error",
    "read_usage",
    "visible",
]

ErrorKind = Literal[
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
    "timeout",  # no whole answer came in the judge's `timeout`
    "transport",  # no whole answer came, after every retry
    "unrecorded",  # what is replayed has no answer to this request
]

ASK_AGAIN: frozenset[str] = frozenset({"unparseable", "wrong_schema", "unreadable"})
"""Kinds that another sample may fix; the rest would come again, and be paid again."""

_FENCE = re.compile(r"\A```(?:json)?\s*\n(?P<json>.*)\n\s*```\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """A verdict: one choice per criterion asked."""

    choices: dict[str, Choice]
    usage: Usage


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseError:
    """Why there is no verdict; `detail` is one printable line that may quote the answer."""

    kind: ErrorKind
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestError:
    """Why a request has no response.

    Attributes:
        kind: What it counts as, if it stays so; it decides whether and when the same is sent again.
        detail: One printable line without the key.
        billed: Whether the server may charge for it: never after an error that it states itself; perhaps,
            when the connection was lost after sending.
        wait: Seconds the server asks to wait, where it does.
        headers: The response's headers, in lower case, where one came.
    """

    kind: ErrorKind
    detail: str
    billed: Literal["no", "perhaps"] = "no"
    wait: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


JudgeError = ParseError | RequestError
"""Why a pair has no verdict: no response came, or none that can be read."""


class _DuplicateFieldError(ValueError):
    """A JSON object names a field twice, so that it says two things."""


def parse(body: bytes, names: Sequence[str], *, code: str | None = None) -> Parsed | ParseError:
    """Return the choices in an answer, or what is wrong with it.

    Args:
        body: The bytes of an HTTP 200 answer in either dialect, or a line of a batch's results.
        names: The criteria that were asked; other fields are not read.
        code: What a verdict block must carry; None where there can be none.
    """
    said = read_response(body)
    if said is None:
        return ParseError(kind="unreadable", detail=f"no answer: {excerpt(body.decode(errors='replace'))}")
    if said.ended == "content_filter":
        return ParseError(kind="content_filter", detail="the server's content filter withheld the answer")
    if said.refusal:
        return ParseError(kind="refusal", detail=excerpt(str(said.refusal)))
    if said.ended == "length":
        return ParseError(kind="truncated", detail="the answer ended at max_output_tokens")
    if not isinstance(said.content, str):
        return ParseError(kind="unparseable", detail="the answer has no text")
    choices = _read(said.content, names, code)
    return choices if isinstance(choices, ParseError) else Parsed(choices=choices, usage=read_usage(body))


def _read(content: str, names: Sequence[str], code: str | None) -> dict[str, Choice] | ParseError:
    fields = _fields(content)  # a whole object: what looks like a tag stands in one of its strings
    if fields is None:
        answer = without_thinking(content)
        if answer is None:
            return ParseError(kind="unparseable", detail=f"the thinking never ends: {excerpt(content)}")
        if code is not None and has_block(answer, code):
            return read_block(answer, names, code) or ParseError(
                kind="wrong_schema", detail=f"not one judgment for each criterion: {excerpt(content)}"
            )
        fields = _fields(answer)
    if fields is None:
        return ParseError(kind="unparseable", detail=f"not one JSON object: {excerpt(content)}")
    return fields if isinstance(fields, ParseError) else _choices(fields, names, content)


def _fields(text: str) -> dict[str, Any] | ParseError | None:
    """Return the fields of a text that is one JSON object and nothing else; None where it is not."""
    fenced = _FENCE.match(text.strip())
    try:
        fields = _strict(fenced["json"] if fenced else text)
    except _DuplicateFieldError as error:
        return ParseError(kind="wrong_schema", detail=str(error))
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _choices(fields: dict[str, Any], names: Sequence[str], content: str) -> dict[str, Choice] | ParseError:
    missing = [name for name in names if name not in fields]
    if missing:
        return ParseError(kind="wrong_schema", detail=f"no field {', '.join(missing)}: {excerpt(content)}")
    wrong = [f"{name}={excerpt(repr(fields[name]))}" for name in names if fields[name] not in CHOICES]
    if wrong:
        return ParseError(kind="wrong_schema", detail=f"not A, tie or B: {excerpt(', '.join(wrong))}")
    plain = {name.casefold(): fields[name] for name in names}
    twice = [other for other, value in fields.items() if plain.get(_name(other), value) != value]
    if twice:
        return ParseError(kind="wrong_schema", detail=f"two judgments on one criterion: {excerpt(content)}")
    return {name: fields[name] for name in names}


def _name(field: str) -> str:
    return "_".join(field.casefold().replace("-", " ").split())


def _strict(text: str) -> object:
    return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _DuplicateFieldError("a field stands twice in the answer")
    return fields


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
