"""Texts as data: nothing in them that a chat template or our tags could take for markup.

A comparison's tags carry a code that no text in it can contain.
"""

from __future__ import annotations

import hashlib
import json
import re

from guard_eval.records import BlindPair

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


def nonce(blind: BlindPair, seed: int) -> str:
    """Return the code of this comparison's tags: 32 hexadecimal digits.

    It hashes the texts themselves, so no text can contain the code of its own tags; both orders of a pair
    share it, so that they differ in the order alone.
    """
    texts = [seed, blind.prompt, *sorted((blind.text_a, blind.text_b))]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]
