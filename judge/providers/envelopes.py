"""What a server answers with, in any dialect or in a batch's line: text, usage, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.reporting.escaping import visible
from guard_eval.store import Usage

_DETAIL = 200


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
    if not isinstance(envelope, dict):
        return envelope
    if "custom_id" in envelope and isinstance(envelope.get("response"), dict):  # OpenAI's line
        return envelope["response"].get("body")
    if "custom_id" in envelope and isinstance(envelope.get("result"), dict):  # Anthropic's
        return envelope["result"].get("message")
    if "key" in envelope and isinstance(envelope.get("response"), dict):  # Gemini's
        return envelope["response"]
    return envelope


def read_response(body: bytes) -> RawResponse | None:
    """Return the model's answer, or None where `body` is no answer in any dialect."""
    envelope = load(body)
    try:
        return _reader(envelope)(envelope)
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


def _reader(envelope: object) -> Callable[[Any], RawResponse | None]:
    """Return what reads an answer of this dialect."""
    if not isinstance(envelope, dict) or "choices" in envelope:
        return _completion
    if envelope.get("type") == "message":
        return _message
    if "candidates" in envelope or "promptFeedback" in envelope:
        return _candidate
    return _response if "output" in envelope else _completion


def _completion(envelope: Any) -> RawResponse | None:  # noqa: ANN401 (a stranger's JSON)
    answer = envelope["choices"][0]
    if (
        envelope.get("error") or answer.get("error") or answer.get("finish_reason") == "error"
    ):  # a router lost the model on the way
        return None
    message = answer["message"]
    content = message.get("content")
    if isinstance(content, list):  # Mistral's models that reason: their thinking, and then the text
        texts = [each["text"] for each in content if each.get("type") == "text"]
        content = "".join(texts) if texts else None
    finish = answer.get("finish_reason")
    ended: Ended = finish if finish in ("length", "content_filter") else "stop"
    return RawResponse(content=content, refusal=message.get("refusal"), ended=ended)


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


def _message(envelope: dict[str, Any]) -> RawResponse:
    """Read an answer of Anthropic's: https://platform.claude.com/docs/en/api/messages."""
    why = envelope.get("stop_reason")
    if why == "refusal":
        details = envelope.get("stop_details")
        words = details.get("explanation") if isinstance(details, dict) else None
        return RawResponse(content=None, refusal=words or "the model refused", ended="stop")
    texts = [each["text"] for each in envelope["content"] if each.get("type") == "text"]
    cut = why in ("max_tokens", "model_context_window_exceeded")
    return RawResponse(
        content="".join(texts) if texts else None, refusal=None, ended="length" if cut else "stop"
    )


_WITHHELD = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"}
"""Reasons for which Gemini ends an answer that its filters do not let pass."""


def _candidate(envelope: dict[str, Any]) -> RawResponse:
    """Read an answer of Gemini's: https://ai.google.dev/api/generate-content."""
    candidates = envelope.get("candidates")
    if not candidates:  # the prompt was blocked
        return RawResponse(content=None, refusal=None, ended="content_filter")
    first = candidates[0]
    why = first.get("finishReason")
    ended: Ended = "content_filter" if why in _WITHHELD else "length" if why == "MAX_TOKENS" else "stop"
    parts = first.get("content", {}).get("parts") or []
    texts = [each["text"] for each in parts if "text" in each and not each.get("thought")]
    return RawResponse(content="".join(texts) if texts else None, refusal=None, ended=ended)


def read_usage(body: bytes) -> Usage:
    """Return the model, fingerprint and tokens that `body` states; bytes of any kind are taken."""
    envelope = load(body)
    if not isinstance(envelope, dict):
        return Usage()
    if envelope.get("type") == "message":
        return _message_usage(envelope)
    if "usageMetadata" in envelope:
        return _candidate_usage(envelope)
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


def _message_usage(envelope: dict[str, Any]) -> Usage:
    """Read Anthropic's counts: tokens read from and written to the cache are not among its input's."""
    counts = _table(envelope.get("usage"))
    new, read, written = (
        _count(counts.get(name))
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Usage(
        model=_text(envelope.get("model")),
        input_tokens=None if new is None else new + (read or 0) + (written or 0),
        cached_tokens=read,
        written_tokens=written,
        output_tokens=_count(counts.get("output_tokens")),
        reasoning_tokens=_count(_table(counts.get("output_tokens_details")).get("thinking_tokens")),
    )


def _candidate_usage(envelope: dict[str, Any]) -> Usage:
    """Read Gemini's counts: thoughts are not among its candidates' tokens, and a count of 0 is left out."""
    counts = _table(envelope.get("usageMetadata"))
    given, made, thoughts = (
        _count(counts.get(name))
        for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )
    known = given is not None
    return Usage(
        model=_text(envelope.get("modelVersion")),
        input_tokens=given,
        cached_tokens=_count(counts.get("cachedContentTokenCount")),
        output_tokens=(made or 0) + (thoughts or 0) if known else None,
        reasoning_tokens=thoughts,
    )


def read_error(body: bytes) -> tuple[int, object, bool] | None:
    """Return the error in `body`: the status it should have had, the error, and whether it may be charged.

    An error beside an answer, or with counts of tokens, came after the model had begun.
    """
    envelope = load(body)
    if not isinstance(envelope, dict) or not envelope.get("error"):
        return None
    error = envelope["error"]
    code = error.get("code") if isinstance(error, dict) else None
    if code == "rate_limit_exceeded":
        code = 429
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return status, error, bool(envelope.get("choices") or read_usage(body).output_tokens)


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return excerpt(value) if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
