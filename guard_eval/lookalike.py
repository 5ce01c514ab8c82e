"""Find names that look the same to a reader."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | set(map(chr, range(0xFE00, 0xFE10)))
"""Invisible characters in Unicode, other than control and format characters."""


def make_visible_form(text: str, *, keep_case: bool = False) -> str:
    r"""Return the visible form of a name: two names with the same form count as equal.

    Case (unless `keep_case` is true), white space, Unicode form and invisible characters are ignored.

    >>> make_visible_form(" Bob\u200b "), make_visible_form("\uff22\uff4f\uff42")
    ('bob', 'bob')
    >>> make_visible_form("Bob  B", keep_case=True)
    'Bob B'
    """
    visible = unicodedata.normalize("NFKC", text)
    visible = "".join(item for item in visible if item.isspace() or not is_invisible(item))
    return " ".join((visible if keep_case else unicodedata.normalize("NFKC", visible.casefold())).split())


def is_invisible(character: str) -> bool:
    """Return whether a character is invisible. Control characters that are white space count as invisible."""
    return unicodedata.category(character) in {"Cc", "Cf"} or character in _FILLERS


# By script: Cyrillic, Greek, Armenian, Cherokee, small capitals and other Latin letters, punctuation.
_LETTERS = {
    "АВЕЅZІЈКМНОРСТХУҮԌԚԜаеорсухіјѕһԁԛԝѵүӏӀгпктмв": "ABESZIJKMHOPCTXYYGQWaeopcyxijshdqwvyllrnktmb",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαβγειηκνορτυωχ": "ABEZHIKMNOPTYXabyeinkvoptuwx",
    "ՕՏՍԼօոսհյցզ": "OSULonuhjgq",
    "ᎪᏴᏟᎬᎻᎫᏦᏞᎷᏀᏢᏒᏚᎢᏙᎳᏃ": "ABCEHJKLMGPRSTVWZ",
    "ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢıɑɡ": "ABCDEGHIJKLMNOPRSTUVWYZiag",
    "‐‑‒–—―−’‘ʼ′`": "-------'''''",
}
_SHAPES = str.maketrans("".join(_LETTERS), "".join(_LETTERS.values()))
_STROKES = str.maketrans("0Il|", "o111")
"""Replacements of 0, I, l and |, which look like other characters. The case of letters matters here."""


def are_lookalikes(first: str, second: str) -> bool:
    """Return whether two names look the same, in any script.

    >>> are_lookalikes("Ada", "\u0410d\u0430"), are_lookalikes("Bill", "BiII"), are_lookalikes("Ada", "Ida")
    (True, True, False)
    """
    return make_visible_form(first) == make_visible_form(second) or _replace_lookalikes(
        first
    ) == _replace_lookalikes(second)


@cache
def _replace_lookalikes(name: str) -> str:
    """Replace letters of other scripts in a name by Latin letters that look the same."""
    letters = (
        unicodedata.normalize("NFD", make_visible_form(name, keep_case=True))
        .translate(_SHAPES)
        .translate(_STROKES)
    )
    return unicodedata.normalize("NFC", letters.casefold())


_MODEL = re.compile(
    r"(chat)?(gpt|claude|llama|gemini|gemma|qwen|qwq|mi[sx]tral|deepseek|grok|phi|kimi|glm|olmo)"
    r"[-_. :/]?(v?\d|[a-z]+[-_. ]\d).*|o\d-(mini|preview|pro).*"
    r"|(gpt|chatgpt|llm)|[\w.-]{2,}/[\w.-]{3,}"
)


def is_model_name(name: str) -> bool:
    """Return whether a name belongs to a language model, such as gpt-4. "Claude" may also be a person.

    >>> [is_model_name(name) for name in ("GPT-4", "claude-sonnet-4", "Llama 70b", "Claude", "P-3")]
    [True, True, True, False, False]
    """
    return _MODEL.fullmatch(make_visible_form(name)) is not None
