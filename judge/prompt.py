"""What the judge is sent: the messages, and the request around them in each shape that servers take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from guard_eval.judge_settings import Judge, reasons
from guard_eval.records import CHOICES, BlindPair
from guard_eval.rubric import CHOICE_LABELS, criteria
from judge import wording
from judge.quoting import MARKUP, neutralise, nonce
from judge.shape import OUTPUTS, Output, Shape, first_shape

__all__ = [
    "OUTPUTS",
    "PROMPT_VERSION",
    "Output",
    "Shape",
    "canonical",
    "code",
    "key",
    "key_of",
    "keys",
    "messages",
    "neutralise",
    "nonce",
    "request",
    "schema",
    "system",
]

PROMPT_VERSION = wording.version(MARKUP.pattern)
"""Names the wording: it changes with any word of the prompt, of the rubric or of our additions."""


def system(names: Sequence[str], *, output: Output = "json_schema") -> str:
    """Return the system message for the named criteria, in their order.

    Raises:
        StudyError: A name is no criterion of the rubric.
    """
    return _system(tuple(names), lines=output == "text")


@lru_cache
def _system(names: tuple[str, ...], *, lines: bool) -> str:
    return wording.system(criteria(names), lines=lines)


def messages(
    blind: BlindPair, names: Sequence[str], seed: int, *, output: Output = "json_schema"
) -> list[dict[str, str]]:
    """Return the system and the user message that ask for a verdict on `blind`.

    Raises:
        StudyError: A name is no criterion of the rubric.
    """
    user = wording.user(
        criteria(tuple(names)),
        nonce=nonce(blind, seed),
        prompt=neutralise(blind.prompt),
        text_a=neutralise(blind.text_a),
        text_b=neutralise(blind.text_b),
        lines=output == "text",
    )
    return [
        {"role": "system", "content": system(names, output=output)},
        {"role": "user", "content": user},
    ]


def code(blind: BlindPair, seed: int) -> str:
    """Return the code that this comparison's verdict block must carry; see `wording.CODE_DIGITS`."""
    return nonce(blind, seed)[: wording.CODE_DIGITS]


def schema(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of the answer: one field per criterion, each one of A, tie, B."""
    labels = "; ".join(f"{choice}: {CHOICE_LABELS[choice]}" for choice in CHOICES)
    field = {"type": "string", "enum": list(CHOICES), "description": labels}
    return {
        "type": "object",
        "properties": {name: dict(field) for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


def request(
    judge: Judge,
    blind: BlindPair,
    seed: int,
    *,
    shape: Shape | None = None,
    output: Output | None = None,
    sample: int = 0,
) -> dict[str, Any]:
    """Return the body of the request that asks `judge` about `blind`.

    Args:
        judge: The study's settings for this judge.
        blind: The two texts, in the order in which they are shown.
        seed: The study's seed.
        shape: In which shape it is put; the judge's first one by default.
        output: How the answer's form is asked for, where it is not the shape's.
        sample: 0 for the first time a pair is asked, 1 for the next, …; it changes the request's own seed.
    """
    shape = first_shape(judge) if shape is None else shape
    shape = shape if output is None else replace(shape, output=output)
    said = messages(blind, judge.criteria, seed, output=shape.output)
    if "system" in shape.without:
        said = [{"role": "user", "content": "\n\n".join(each["content"] for each in said)}]
    body = _chat(judge, shape, said) if shape.dialect == "chat" else _responses(judge, shape, said)
    if shape.dialect == "chat":
        body["seed"] = _request_seed(seed, sample)
    if (temperature := _temperature(judge)) is not None:
        body["temperature"] = temperature
    for name in shape.without:
        body.pop(name, None)
    return body


def _chat(judge: Judge, shape: Shape, said: list[dict[str, str]]) -> dict[str, Any]:
    body: dict[str, Any] = {"model": judge.model, "messages": said, shape.limit: judge.max_output_tokens}
    if shape.output == "json_schema":
        named = {"name": "verdict", "strict": True, "schema": schema(judge.criteria)}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif shape.output == "json_object":
        body["response_format"] = {"type": "json_object"}
    if judge.reasoning_effort is not None:
        body["reasoning_effort"] = judge.reasoning_effort
    return body


def _responses(judge: Judge, shape: Shape, said: list[dict[str, str]]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": judge.model,
        "input": said,
        "max_output_tokens": judge.max_output_tokens,
        "store": False,  # the texts are the study's: the server need not keep them
    }
    if shape.output == "json_schema":
        named = {"name": "verdict", "strict": True, "schema": schema(judge.criteria)}
        body["text"] = {"format": {"type": "json_schema", **named}}
    elif shape.output == "json_object":
        body["text"] = {"format": {"type": "json_object"}}
    if judge.reasoning_effort is not None:
        body["reasoning"] = {"effort": judge.reasoning_effort}
    return body


def _temperature(judge: Judge) -> float | None:
    """Return study.toml's, else 0 unless the model takes none or several samples are to differ."""
    if judge.temperature is not None:
        return judge.temperature
    return None if reasons(judge.model) or judge.samples > 1 else 0


def keys(judge: Judge, blind: BlindPair, seed: int, *, sample: int = 0) -> dict[Output, str]:
    """Return the keys under which the answer to one question may be journalled, by the way of asking."""
    return {
        output: key(request(judge, blind, seed, output=output, sample=sample), sample) for output in OUTPUTS
    }


def _request_seed(seed: int, sample: int) -> int:
    digest = hashlib.sha256(f"{seed}:{sample}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1  # servers take signed 32-bit seeds


def canonical(body: dict[str, Any]) -> bytes:
    """Return the request's canonical JSON, in UTF-8: keys sorted, no spaces."""
    return json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def key(body: dict[str, Any], sample: int = 0) -> str:
    """Return the SHA-256 under which this request's answer is journalled: same request, same key."""
    return key_of(canonical(body), sample)


def key_of(body: bytes, sample: int = 0) -> str:
    """Return the key of a request that is canonical JSON already."""
    return hashlib.sha256(body + f"\n{sample}".encode()).hexdigest()
