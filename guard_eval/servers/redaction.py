"""A key is taken out of everything that a server sends, in whatever spelling it comes back."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import lru_cache

SHORTEST_KEY = 8
"""What is shorter is no secret: servers of one's own are given `x` or `EMPTY`, which answers are full of."""

_LONG_KEY = 16
"""A key of this length or more is recognised if it is split, too."""

_PIECE = 6
"""Characters in a row of a long key that make a word a part of it."""

_SEPARATOR = (
    rb"""[\s\x00"'`*+,]|\\{1,8}[nrt"]|\\{1,8}u(?:00ad|200[b-f]|feff)|\xc2\xad|\xe2\x80[\x8b-\x8f]|\xef\xbb\xbf"""
    rb"""|"[^{}]{0,200}\}\s*,\s*\{[^{}]{0,200}:\s*\""""
)
"""What may stand between the characters of a split key: the last is the border of two parts of JSON."""

_KEY_LIKE = re.compile(r"\b(?:sk|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}")


def redact(content: bytes, key: str) -> bytes:
    r"""Return bytes without the key, also if it is escaped, encoded in base64 or split.

    >>> redact(b"Incorrect key sk-secret99", "sk-secret99"), redact(b"A tie, at index 1", "e")
    (b'Incorrect key [key]', b'A tie, at index 1')
    >>> redact(rb'{"error": "\u0073k-secret99, sk%2Dsecret99 and c2stc2VjcmV0OTk="}', "sk-secret99")
    b'{"error": "[key], [key] and [key]k="}'
    """
    return content if len(key) < SHORTEST_KEY else _key_pattern(key).sub(b"[key]", content)


def redact_words(text: str, key: str) -> str:
    """Return a server's sentence without the key, without parts of it, and without what looks like a key."""
    redacted = _KEY_LIKE.sub("[key]", redact(text.encode(errors="replace"), key).decode(errors="replace"))
    if len(key) < _LONG_KEY:
        return redacted
    pieces = set(_cut(key))
    return re.sub(r"\S+", lambda word: word[0] if pieces.isdisjoint(_cut(word[0])) else "[key]", redacted)


def _cut(text: str) -> Iterator[str]:
    """Yield all pieces of a text that are long enough to be known again."""
    return (text[start : start + _PIECE] for start in range(len(text) - _PIECE + 1))


@lru_cache(maxsize=16)
def _key_pattern(key: str) -> re.Pattern[bytes]:
    """Return what matches a key in any spelling.

    Each alternative begins with a fixed character, so a text without any of them is passed over fast.
    """
    first, *others = (_spell(character) for character in key.encode())
    separator = b"(?:%s){0,40}?" % _SEPARATOR if len(key) >= _LONG_KEY else b""
    after = b"".join(separator + b"(?:%s)" % b"|".join(spellings) for spellings in others)
    alternatives = [spelling + after for spelling in first]
    alternatives += [_spell_base64(key.encode(), offset) for offset in range(3)]
    alternatives.append(b"".join(_either_case(b"%02x" % character) for character in key.encode()))
    return re.compile(b"|".join(alternatives))


def _spell(character: int) -> tuple[bytes, ...]:
    """Return patterns of a character as it is, and escaped in JSON, in a URL and in HTML."""
    plain = re.escape(bytes([character]))
    code = _either_case(b"%02x" % character)
    return (
        plain,
        rb"\\{1,8}(?:%b|[ux]\{?0*%b\}?)" % (plain, code),
        rb"%%(?:25){0,4}%b" % code,
        rb"&#0*(?:%d|[xX]0*%b);?" % (character, code),
    )


def _spell_base64(key: bytes, offset: int) -> bytes:
    """Return what matches the key in base64 if this many bytes stand before it, modulo 3."""
    encoded = base64.b64encode(bytes(offset) + key)
    first = -(-8 * offset // 6)
    last = 8 * (offset + len(key)) // 6
    spellings = {b"+": rb"(?:[+-]|\\+u002[bB]|%2[bB])", b"/": rb"(?:\\*/|_|%2[fF])"}
    letters = (encoded[index : index + 1] for index in range(first, last))
    return b"".join(spellings.get(letter, letter) for letter in letters)


def _either_case(digits: bytes) -> bytes:
    """Return what matches hexadecimal digits in capitals and in small letters."""
    return re.sub(rb"[a-f]", lambda digit: b"[%b%b]" % (digit[0], digit[0].upper()), digits)
