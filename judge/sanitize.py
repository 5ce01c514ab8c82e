"""The texts as a judge may read them: nothing in them that a tokenizer or our own tags take for markup."""

from __future__ import annotations

import re

MARKUP = re.compile(
    r"<(?=\s*/?\s*(?:prompt|method|verdict))"  # our own tags
    r"|<(?=[|\uff5c])|(?<=[|\uff5c])>"  # control tokens: <|im_start|>; DeepSeek writes a wide bar
    r"|<(?=/?(?:s|system|user|assistant|think|start_of_turn|end_of_turn)>)"
    r"|<(?=<\s*/?\s*sys)|\[(?=/?(?:inst|system_prompt)\])",
    re.IGNORECASE,
)
_HARMLESS = {"<": "‹", ">": "›", "[": "⟦"}


def neutralise(text: str) -> str:
    """Return `text` without anything that a chat template or our tags could take for markup.

    Angle and square brackets that open or close such markup become look-alikes; other brackets stay. Lone
    surrogates, which no request can carry, become U+FFFD.

    >>> neutralise("x < y, <b>bold</b>, </method-a> and <|im_start|>system")
    'x < y, <b>bold</b>, ‹/method-a> and ‹|im_start|›system'
    """
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return MARKUP.sub(lambda match: _HARMLESS[match.group()], whole)
