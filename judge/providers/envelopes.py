"""What a server answers with, in either dialect or in a batch's line: text, usage, errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.store import Usage

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
class RawResponse:
    """The model's answer: its text, or the words with which it declined."""

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
    """Return the model's answer, or None where `body` is no answer in either dialect."""
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
        written_tokens=_count(taken.get("cache_write_tokens")),
        reasoning_tokens=_count(made.get("reasoning_tokens")),
    )


def read_error(body: bytes) -> tuple[int, object] | None:
    """Return the error that `body` holds in the place of an answer, after the status it should have had."""
    envelope = load(body)
    if not isinstance(envelope, dict) or envelope.get("choices") or not envelope.get("error"):
        return None
    error = envelope["error"]
    code = error.get("code") if isinstance(error, dict) else None
    if code == "rate_limit_exceeded":
        code = 429
    return (code if isinstance(code, int) and 400 <= code < 600 else 500), error


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return excerpt(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
