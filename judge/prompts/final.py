"""Find the final words of an answer, without thinking and control tokens."""

from __future__ import annotations

import re

from guard_eval.servers.thinking import remove_thinking
from judge.prompts.sanitize import CONTROL_TOKEN

_TURN = re.compile(
    r"\A\s*<\|start\|>assistant"
    r"|<\|?/?(?:s|bos|eos|pad|(?:begin|start|end)_?of_?(?:text|turn|sentence|message)|im_start|im_end|endoftext"
    r"|eot_id|eom_id|start|end|return|assistant)\|?>(?:assistant\b|model\b)?",
    re.IGNORECASE,
)
"""Tokens that begin or end a turn, which a server may leave in its answer."""
_WRAPPER = r"box|answer|response|solution|output|final(?:[_ ](?:answer|response))?"
_OPENS_ANSWER = re.compile(
    rf"<\|?(?:(?:begin|start)_(?:of_)?)?(?:{_WRAPPER})\|?>|\[BEGIN (?:{_WRAPPER})\]|<\|START_TEXT\|>",
    re.IGNORECASE,
)
_CLOSES_ANSWER = re.compile(
    rf"(?:</(?:{_WRAPPER})>|<\|end_(?:of_)?(?:{_WRAPPER}|text)\|>|\[END (?:{_WRAPPER})\])\s*\Z",
    re.IGNORECASE,
)
"""Tokens around an answer, such as those of GLM and Cohere."""


def read_final(content: str) -> str | None:
    """Return the final words of an answer, or None if its thinking never ends.

    Special tokens may enclose the answer. Other control tokens may also enclose thinking, so the answer is
    the text after the last of them.

    >>> read_final("<unused94>thought B is better<unused95>A")
    'A'
    >>> read_final("A text: <answer>A</answer>")
    'A'
    """
    said = remove_thinking(content)
    if said is None:
        return None
    answer = _TURN.sub("", said).strip()
    for opening in list(_OPENS_ANSWER.finditer(answer))[-1:]:
        inside = _CLOSES_ANSWER.sub("", answer[opening.end() :])
        if not CONTROL_TOKEN.search(inside):
            return inside.strip()
    tokens = list(CONTROL_TOKEN.finditer(answer))
    if not tokens:
        return answer
    return None if tokens[-1].start() == 0 else answer[tokens[-1].end() :].strip()
