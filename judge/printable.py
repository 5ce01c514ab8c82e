"""Strangers' words for terminal and log: control characters are shown, not obeyed."""

from __future__ import annotations

_DETAIL = 200


def visible(text: str) -> str:
    r"""Return `text` with control and format characters escaped, line breaks and tabs kept.

    >>> visible("red \x1b[31m\nnext")
    'red \\x1b[31m\nnext'
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]
        for character in text
    )


def excerpt(text: str) -> str:
    """Return the beginning of `text` as one printable line of at most 200 characters."""
    line = " ".join(visible(text[: 4 * _DETAIL]).split())
    return line if len(line) <= _DETAIL else line[: _DETAIL - 1] + "…"
