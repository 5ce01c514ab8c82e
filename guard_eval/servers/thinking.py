"""Find the model's thinking, which servers return in separate fields or inside the text."""

import re

from guard_eval.servers.answers import object_or_empty, read_answer, read_json, read_usage

_NAME = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_THINKING = re.compile(
    rf"<\s*+(?P<close>/)?+\s*+{_NAME}\b[^<>]*>"
    r"|\[(?P<close_square>/)?THINK\]"  # Mistral
    r"|◁(?P<close_kimi>/)?think▷"
    r"|<\|(?:(?P<close_bar>end)|begin)_of_(?:thought|thinking)\|>"
    r"|<\|(?:(?P<close_cohere>END)|START)_THINKING\|>"
    r"|<\|channel\|>\s*(?:(?P<close_channel>final)|\w+)\s*(?:<\|constrain\|>\s*\w+\s*)?(?:<\|message\|>)?"
    r"|assistant(?P<close_plain>final)",  # gpt-oss, whose control tokens some servers take out
    re.IGNORECASE,
)


def remove_thinking(content: str) -> str | None:
    """Return an answer without the model's thinking; None if the thinking never ends.

    If there is a closing tag without an opening tag, the text before it is thinking, too: the chat template
    may contain the opening tag.

    >>> remove_thinking("<think>B is better</think>A"), remove_thinking("B is better</think>A")
    ('A', 'A')
    >>> remove_thinking("A <think>or rather B")
    """
    visible: list[str] = []
    thinking = False
    start = 0
    for tag in _THINKING.finditer(content):
        if tag.lastgroup is None:
            if not thinking:
                visible.append(content[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                visible.clear()
            thinking = False
        start = tag.end()
    return None if thinking else "".join([*visible, content[start:]])


def has_reasoned(body: bytes) -> bool:
    """Return whether an answer counts reasoning tokens or contains thinking."""
    if read_usage(body).reasoning_tokens:
        return True
    answer = read_answer(body)
    if answer is not None and answer.text and _THINKING.search(answer.text):
        return True
    choices = read_json(body).get("choices")
    message = object_or_empty(
        object_or_empty(choices[0] if isinstance(choices, list) and choices else None).get("message")
    )
    content = message.get("content")
    parts = (
        [block.get("type") for block in map(object_or_empty, content)] if isinstance(content, list) else []
    )
    names = [*(name for name, value in message.items() if value), *parts]
    return any(re.search("reason|think", str(name), re.IGNORECASE) for name in names)
