"""What a server answers with: the text without the model's thinking, how it ended, tokens, errors."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.reporting.escaping import visible
from guard_eval.store.requests import Usage
from judge.prompts.sanitize import CONTROL_TOKEN

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


def load_json(body: bytes) -> Any:  # noqa: ANN401 (a stranger's JSON)
    """Return the JSON in bytes of any kind, or None."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def table_of(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one if `value` is none."""
    return value if isinstance(value, dict) else {}


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response, or in a line of a batch's results; else an empty one."""
    envelope = table_of(load_json(body))
    return table_of(table_of(envelope.get("response")).get("body")) if "custom_id" in envelope else envelope


def read_answer(body: bytes) -> Answer | None:
    """Return the model's answer, or None if `body` is no answer of either interface."""
    envelope = read_json(body)
    read = _read_response if "output" in envelope and "choices" not in envelope else _read_completion
    try:
        return read(envelope)
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


def _read_completion(envelope: dict[str, Any]) -> Answer | None:
    choice = envelope["choices"][0]
    finish = choice.get("finish_reason")
    if envelope.get("error") or choice.get("error") or finish == "error":  # a router lost the model
        return None
    text, refusal = choice["message"].get("content"), choice["message"].get("refusal")
    if isinstance(text, list):  # Mistral's models that reason: their thinking, and then the text
        text = "".join(each["text"] for each in text if each.get("type") == "text") or None
    return Answer(
        text=text if isinstance(text, str) else None,
        refusal=str(refusal) if refusal else None,
        ended=finish if finish in ("length", "content_filter") else "stop",
    )


def _read_response(envelope: dict[str, Any]) -> Answer | None:
    status = envelope.get("status", "completed")
    if status not in ("completed", "incomplete"):
        return None
    messages = [each["content"] for each in envelope["output"] if each.get("type") == "message"]
    parts = messages[-1] if messages else []
    filtered = table_of(envelope.get("incomplete_details")).get("reason") == "content_filter"
    return Answer(
        text="".join(each["text"] for each in parts if each.get("type") == "output_text") or None,
        refusal=next((str(each["refusal"]) for each in parts if each.get("type") == "refusal"), None),
        ended="content_filter" if filtered else "length" if status == "incomplete" else "stop",
    )


def read_usage(body: bytes) -> Usage:
    """Return the model, fingerprint and tokens that `body` states. Bytes of any kind are taken.

    Some servers leave thinking out of the completion's tokens: what the total has beyond the prompt counts.
    """
    envelope = read_json(body)
    counts = table_of(envelope.get("usage"))
    first, second = ("prompt", "completion") if "prompt_tokens" in counts else ("input", "output")
    prompt, output, total = (_count(counts, f"{each}_tokens") for each in (first, second, "total"))
    if output is not None and prompt is not None and total is not None:
        output = max(output, total - prompt)
    return Usage(
        model=_text(envelope.get("model")),
        fingerprint=_text(envelope.get("system_fingerprint")),
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=_count(table_of(counts.get(f"{first}_tokens_details")), "cached_tokens"),
        reasoning_tokens=_count(table_of(counts.get(f"{second}_tokens_details")), "reasoning_tokens"),
    )


def _text(value: object) -> str | None:
    return excerpt(value) if isinstance(value, str) else None


def _count(counts: dict[str, Any], name: str) -> int | None:
    value = counts.get(name)
    return value if type(value) is int and 0 <= value < 2**31 else None


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
