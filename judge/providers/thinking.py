"""A model's thinking, which some servers leave in the answer: cut off before anything is read.

The tags are those that models of this kind write: DeepSeek-R1, Qwen and most others `<think>`, Mistral
`[THINK]`, Kimi `◁think▷`, Seed-OSS `<seed:think>`, Cohere `<|START_THINKING|>`, gpt-oss its channels.
"""

from __future__ import annotations

import re

_NAME = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_TAG = re.compile(
    rf"<\s*+(?P<close>/)?+\s*+{_NAME}\b[^<>]*>"
    r"|\[(?P<close_square>/)?THINK\]"
    r"|◁(?P<close_kimi>/)?think▷"
    r"|<\|(?:(?P<close_bar>end)|begin)_of_(?:thought|thinking)\|>"
    r"|<\|(?:(?P<close_cohere>END)|START)_THINKING\|>"
    r"|<\|channel\|>(?:(?P<close_channel>final)|\w+)\s*<\|message\|>",
    re.IGNORECASE,
)
_ENDS = re.compile(r"\A\s*<\|start\|>assistant|<\|(?:end|return)\|>\s*\Z")


def without_thinking(content: str) -> str | None:
    """Return an answer without its thinking, or None where the thinking never ends.

    The text before a closing tag that nothing opened is thinking too: a chat template may have opened it.

    >>> without_thinking("<think>B is better</think>A"), without_thinking("B is better</think>A")
    ('A', 'A')
    >>> without_thinking("A <think>or rather B")
    """
    kept: list[str] = []
    thinking = False
    start = 0
    for tag in _TAG.finditer(content):
        if tag.lastgroup is None:
            if not thinking:
                kept.append(content[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                kept.clear()
            thinking = False
        start = tag.end()
    return None if thinking else _ENDS.sub("", "".join([*kept, content[start:]])).strip()
