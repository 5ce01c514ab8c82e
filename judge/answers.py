"""What a server answers with: the text without the model's thinking, how it ended, tokens, errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.reporting.escaping import visible
from guard_eval.store.requests import Usage
from judge.sanitize import CONTROL_TOKEN

_DETAIL = 200


def excerpt(text: str) -> str:
    """Return the beginning of `text` as one printable line of at most 200 characters."""
    line = " ".join(visible(text[: 4 * _DETAIL]).split())
    return line if len(line) <= _DETAIL else line[: _DETAIL - 1] + "…"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The model's answer: its text, or the words with which it declined, and how it ended."""

    text: str | None
    refusal: str | None
    ended: Literal["stop", "length", "content_filter"]


def read_json(body: bytes) -> Any:  # noqa: ANN401 (a stranger's JSON)
    """Return the JSON in a response, or the answer in a line of a batch's results; None if there is none."""
    try:
        envelope = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(envelope, dict) and "custom_id" in envelope:
        response = envelope.get("response")
        return response.get("body") if isinstance(response, dict) else None
    return envelope


def read_answer(body: bytes) -> Answer | None:
    """Return the model's answer, or None if `body` is no answer of either interface."""
    envelope = read_json(body)
    try:
        if isinstance(envelope, dict) and "output" in envelope and "choices" not in envelope:
            return _read_response(envelope)
        return _read_completion(envelope)
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


def _read_completion(envelope: Any) -> Answer | None:  # noqa: ANN401 (a stranger's JSON)
    choice = envelope["choices"][0]
    finish = choice.get("finish_reason")
    if (
        envelope.get("error") or choice.get("error") or finish == "error"
    ):  # a router lost the model on the way
        return None
    message = choice["message"]
    text = message.get("content")
    if isinstance(text, list):  # Mistral's models that reason: their thinking, and then the text
        text = "".join(each["text"] for each in text if each.get("type") == "text") or None
    refusal = message.get("refusal")
    return Answer(
        text=text if isinstance(text, str) else None,
        refusal=str(refusal) if refusal else None,
        ended=finish if finish in ("length", "content_filter") else "stop",
    )


def _read_response(envelope: dict[str, Any]) -> Answer | None:
    if envelope.get("status", "completed") not in ("completed", "incomplete"):
        return None
    why = (envelope.get("incomplete_details") or {}).get("reason")
    cut = envelope.get("status") == "incomplete"
    messages = [each for each in envelope["output"] if each.get("type") == "message"]
    parts = messages[-1]["content"] if messages else []
    texts = [each["text"] for each in parts if each.get("type") == "output_text"]
    refusals = [str(each["refusal"]) for each in parts if each.get("type") == "refusal"]
    return Answer(
        text="".join(texts) if texts else None,
        refusal=refusals[0] if refusals else None,
        ended="content_filter" if why == "content_filter" else "length" if cut else "stop",
    )


def read_usage(body: bytes) -> Usage:
    """Return the model, fingerprint and tokens that `body` states. Bytes of any kind are taken.

    Some servers leave thinking out of the completion's tokens: what the total has beyond the prompt counts.
    """
    envelope = read_json(body)
    if not isinstance(envelope, dict):
        return Usage()
    counts = _table(envelope.get("usage"))
    cached = _table(counts.get("prompt_tokens_details")) or _table(counts.get("input_tokens_details"))
    details = _table(counts.get("completion_tokens_details")) or _table(counts.get("output_tokens_details"))
    prompt = _count(counts.get("prompt_tokens", counts.get("input_tokens")))
    output = _count(counts.get("completion_tokens", counts.get("output_tokens")))
    total = _count(counts.get("total_tokens"))
    if output is not None and prompt is not None and total is not None:
        output = max(output, total - prompt)
    return Usage(
        model=_text(envelope.get("model")),
        fingerprint=_text(envelope.get("system_fingerprint")),
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=_count(cached.get("cached_tokens")),
        reasoning_tokens=_count(details.get("reasoning_tokens")),
    )


def read_error(body: bytes) -> tuple[int, object, bool] | None:
    """Return the error in a success: the status it should have had, the error, and whether it may be charged.

    Routers pass on another server's error so. One beside an answer or counts of tokens came after the model
    had begun.
    """
    envelope = read_json(body) if b'"error"' in body else None
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


_NAME = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_THINKING = re.compile(
    rf"<\s*+(?P<close>/)?+\s*+{_NAME}\b[^<>]*>"
    r"|\[(?P<close_square>/)?THINK\]"  # Mistral
    r"|◁(?P<close_kimi>/)?think▷"
    r"|<\|(?:(?P<close_bar>end)|begin)_of_(?:thought|thinking)\|>"
    r"|<\|(?:(?P<close_cohere>END)|START)_THINKING\|>"
    r"|<\|channel\|>(?:(?P<close_channel>final)|\w+)\s*<\|message\|>",  # gpt-oss
    re.IGNORECASE,
)
_TURN = re.compile(
    r"\A\s*<\|start\|>assistant"
    r"|<\|?/?(?:s|bos|eos|pad|(?:begin|start|end)_?of_?(?:text|turn|sentence|message)|im_start|im_end|endoftext"
    r"|eot_id|eom_id|start|end|return|assistant)\|?>(?:assistant\b|model\b)?",
    re.IGNORECASE,
)
"""Tokens that begin or end a turn, which a server may leave in its answer."""


def without_thinking(content: str) -> str | None:
    """Return an answer without its thinking, or None if the thinking never ends.

    The text before a closing tag that nothing opened is thinking too: a chat template may have opened it.
    Other control tokens may enclose thinking as well, so the answer is what follows the last of them.

    >>> without_thinking("<think>B is better</think>A"), without_thinking("B is better</think>A")
    ('A', 'A')
    >>> without_thinking("<unused94>thought B is better<unused95>A")
    'A'
    >>> without_thinking("A <think>or rather B")
    """
    kept: list[str] = []
    thinking = False
    start = 0
    for tag in _THINKING.finditer(content):
        if tag.lastgroup is None:
            if not thinking:
                kept.append(content[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                kept.clear()
            thinking = False
        start = tag.end()
    if thinking:
        return None
    answer = _TURN.sub("", "".join([*kept, content[start:]])).strip()
    tokens = list(CONTROL_TOKEN.finditer(answer))
    if not tokens:
        return answer
    return None if tokens[-1].start() == 0 else answer[tokens[-1].end() :].strip()


_THOUGHT_FIELDS = {"reasoning_content", "reasoning", "thinking", "summary"}
"""Fields with a model's thinking: of vLLM, DeepSeek and llama.cpp; OpenRouter and Ollama; Mistral; OpenAI."""


def read_thinking(body: bytes) -> str | None:
    """Return a model's thinking, if the server gives it in a field or in the text."""
    envelope = _table(read_json(body))
    parts = [text.strip() for text in _texts([envelope.get("choices"), envelope.get("output")], inside=False)]
    answer = read_answer(body)
    if answer is not None and answer.text:
        rest = without_thinking(answer.text)
        parts.append((answer.text if rest is None else answer.text.rstrip().removesuffix(rest)).strip())
    return "\n\n".join(dict.fromkeys(filter(None, parts))) or None


def _texts(value: object, *, inside: bool) -> Iterator[str]:
    """Yield the texts of fields that hold thinking."""
    if isinstance(value, str) and inside:
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, inside=inside)
    elif isinstance(value, dict):
        for name, each in value.items():
            thought = name in _THOUGHT_FIELDS or (inside and name == "text")
            yield from _texts(each, inside=thought) if thought or not isinstance(each, str) else ()
