"""Remove the API key, in any encoding, from a server's answers and messages.

A server may quote a refused key literally. Then only the key is removed. If a server returns the key in
another encoding, the whole line is removed, because no honest answer encodes a key. To find an encoded key,
escapes are decoded, and only letters and digits are compared, in lower case. So a key is found even if the
key is escaped, split or capitalised.

The keys of local servers are often not secret: `EMPTY`, `lm-studio` or `sk-no-key-required`. Many answers
contain these words. So a short key, or a key without a digit, is not removed from answers.
"""

import base64
import re
from functools import lru_cache

SHORTEST_KEY = 8
"""Shorter keys are not secret and are not removed. Local servers have keys like `x`, a common word."""

_HALVED_KEY = 24
"""Half a key is also recognised if the whole key has at least this number of characters."""

_LONG_KEY = 16
"""If a key has at least this number of characters, parts of the key are also removed from error messages."""

_PIECE = 6
"""A word of a message is removed if the word contains this number of consecutive characters of a long key."""

_KEY_LIKE = re.compile(r"\b(?:sk|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}")

_ESCAPE = re.compile(
    rb"\\{1,8}(?:u\{([0-9a-fA-F]{1,8})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3}))"
    rb"|%(?:25){0,4}([0-9a-fA-F]{2})|&#[xX]0{0,8}([0-9a-fA-F]{1,8});?|&#0{0,8}([0-9]{1,8});?"
)
_BASES = (16, 16, 16, 8, 16, 16, 10)
"""The base in which each group of `_ESCAPE` writes a character's number, such as 16 in `\\x41`."""

_SILENT = bytes(code for code in range(256) if code > 127 or not chr(code).isalnum())


def remove_key_from_answer(content: bytes, key: str) -> bytes:
    r"""Return an answer without the key, and without the lines that contain the key in another encoding.

    Keys without digits are not removed. The keys of local servers are often ordinary words, such as
    `not-needed`, and an answer may contain these words.

    >>> remove_key_from_answer(b"Incorrect key sk-secret99", "sk-secret99")
    b'Incorrect key [key]'
    >>> remove_key_from_answer(b"A tie, at index 1", "e")
    b'A tie, at index 1'
    >>> remove_key_from_answer(b"SK%2DSECRET99\nand c2stc2VjcmV0OTk=\nand no key", "sk-secret99")
    b'[key]\n[key]\nand no key'
    """
    return _remove_key_from_bytes(content, key) if re.search(r"\d", key) else content


def remove_key_from_text(text: str, key: str) -> str:
    """Remove the key, parts of the key, and words that look like a key from a server's message."""
    redacted = _remove_key_from_bytes(text.encode(errors="replace"), key).decode(errors="replace")
    redacted = _KEY_LIKE.sub("[key]", redacted)
    if len(key) < _LONG_KEY or not re.search(r"\d", key):
        return redacted
    pieces = [key[start : start + _PIECE] for start in range(len(key) - _PIECE + 1)]
    words = re.split(r"(\s+)", redacted)
    return "".join("[key]" if any(piece in word for piece in pieces) else word for word in words)


def _remove_key_from_bytes(content: bytes, key: str) -> bytes:
    """Return the bytes without the key, and without the lines that contain the key in another encoding."""
    if len(key) < SHORTEST_KEY:
        return content
    plain = content.replace(key.encode(), b"[key]")
    if not _has_disguised_key(plain, key):
        return plain
    lines = [b"[key]" if _has_disguised_key(line, key) else line for line in plain.split(b"\n")]
    redacted = b"\n".join(lines)
    return b"[key]" if _has_disguised_key(redacted, key) else redacted


def _has_disguised_key(content: bytes, key: str) -> bool:
    """Return whether the bytes contain the key, or half of a long key, in any encoding."""
    letters = _keep_letters_and_digits(_ESCAPE.sub(_decode_escape, content.replace(b"\\n", b"")))
    return any(code in letters for code in _list_key_encodings(key))


def _decode_escape(escape: re.Match[bytes]) -> bytes:
    """Return the character that an escape encodes; empty if the character is not ASCII."""
    number = escape.lastindex or 1
    code = int(escape[number], _BASES[number - 1])
    return bytes([code]) if code < 128 else b""


def _keep_letters_and_digits(content: bytes) -> bytes:
    return content.lower().translate(None, _SILENT)


@lru_cache(maxsize=16)
def _list_key_encodings(key: str) -> set[bytes]:
    """Return a key, or the halves of a long key, in every encoding that a server may use.

    The encodings are reversed order, character numbers (hexadecimal, octal and decimal) and base64. Base64
    depends on the number of bytes before the key, modulo 3.
    """
    plain = key.encode()
    codes = [plain, plain[::-1]]
    codes += ["".join(format(byte, form) for byte in plain).encode() for form in ("x", "#x", "o", "#o", "d")]
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + plain)
        codes.append(encoded[-(-8 * offset // 6) : 8 * (offset + len(plain)) // 6])
    codes = [code for code in map(_keep_letters_and_digits, codes) if code]
    if len(key) < _HALVED_KEY:
        return set(codes)
    return {half for code in codes for half in (code[: len(code) // 2], code[len(code) // 2 :])}
