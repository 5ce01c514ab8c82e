"""Remove a key, in any spelling, from all that a server sends.

A server may quote a refused key literally: then only the key is removed. If a server returns the key in
disguise, the text around the key is removed, too, because no honest answer does that. To find a disguised
key, escapes are decoded, and only letters and digits are compared, in lower case. So a key is found even if
it is escaped, split or capitalised.

Local servers get keys that are no secret, such as `EMPTY`, `lm-studio` or `sk-no-key-required`. Many answers
contain these words. So a key without a digit, or with few characters, is not removed from answers.
"""

import base64
import re
from functools import lru_cache

SHORTEST_KEY = 8
"""The length of the shortest secret key. Local servers get keys like `x`, which many answers contain."""

_HALVED_KEY = 24
"""The length from which half a key is also recognised. Shorter halves can be words."""

_LONG_KEY = 16
"""If a key has at least this length, pieces of the key are recognised in an error, too."""

_PIECE = 6
"""A word counts as a part of a long key if it has this many consecutive characters of the key."""

_KEY_LIKE = re.compile(r"\b(?:sk|key)-[\w*.-]{4,}|\bAIza[\w-]{10,}")

_ESCAPE = re.compile(
    rb"\\{1,8}(?:u\{([0-9a-fA-F]{1,8})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3}))"
    rb"|%(?:25){0,4}([0-9a-fA-F]{2})|&#[xX]0{0,8}([0-9a-fA-F]{1,8});?|&#0{0,8}([0-9]{1,8});?"
)
_BASES = (16, 16, 16, 8, 16, 16, 10)
"""The base of the number in each group of `_ESCAPE`."""

_SILENT = bytes(code for code in range(256) if code > 127 or not chr(code).isalnum())


def remove_key(content: bytes, key: str) -> bytes:
    r"""Return an answer without the key, and without the lines that contain the key in disguise.

    Keys without digits stay: documentation gives local servers ordinary words as keys, such as `not-needed`,
    and an answer may contain these words.

    >>> remove_key(b"Incorrect key sk-secret99", "sk-secret99"), remove_key(b"A tie, at index 1", "e")
    (b'Incorrect key [key]', b'A tie, at index 1')
    >>> remove_key(b"SK%2DSECRET99\nand c2stc2VjcmV0OTk=\nand no key", "sk-secret99")
    b'[key]\n[key]\nand no key'
    """
    return _remove_key(content, key) if re.search(r"\d", key) else content


def remove_key_from_text(text: str, key: str) -> str:
    """Remove the key, parts of it, and anything that looks like a key from a server's sentence."""
    redacted = _remove_key(text.encode(errors="replace"), key).decode(errors="replace")
    redacted = _KEY_LIKE.sub("[key]", redacted)
    if len(key) < _LONG_KEY or not re.search(r"\d", key):
        return redacted
    pieces = [key[start : start + _PIECE] for start in range(len(key) - _PIECE + 1)]
    words = re.split(r"(\s+)", redacted)
    return "".join("[key]" if any(piece in word for piece in pieces) else word for word in words)


def _remove_key(content: bytes, key: str) -> bytes:
    """Return the bytes without the key, and without the lines that contain the key in disguise."""
    if len(key) < SHORTEST_KEY:
        return content
    plain = content.replace(key.encode(), b"[key]")
    if not _has_disguised_key(plain, key):
        return plain
    lines = [b"[key]" if _has_disguised_key(line, key) else line for line in plain.split(b"\n")]
    redacted = b"\n".join(lines)
    return b"[key]" if _has_disguised_key(redacted, key) else redacted


def _has_disguised_key(content: bytes, key: str) -> bool:
    """Return whether the bytes contain the key in any encoding."""
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
    """Return a key and its halves in every encoding.

    Numbers are hexadecimal, octal and decimal. The form in base64 depends on the number of bytes before the
    key, modulo 3.
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
