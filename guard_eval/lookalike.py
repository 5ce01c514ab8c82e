"""Names that look the same, so that a reader cannot distinguish them."""

from __future__ import annotations

import unicodedata

_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | set(map(chr, range(0xFE00, 0xFE10)))
"""What Unicode draws as nothing beside controls and formats."""


def look(text: str, *, case: bool = False) -> str:
    r"""Return what a reader sees of a name: two names with one look are taken for the same.

    Case (unless `case` is given), white space, Unicode form and what cannot be seen make no difference.

    >>> look(" Bob\u200b "), look("\uff22\uff4f\uff42"), look("Bob  B", case=True)
    ('bob', 'bob', 'Bob B')
    """
    shown = unicodedata.normalize("NFKC", text)
    shown = "".join(item for item in shown if item.isspace() or not unseen(item))
    return " ".join((shown if case else unicodedata.normalize("NFKC", shown.casefold())).split())


def unseen(character: str) -> bool:
    """Return whether a character leaves no mark; white space that is a control character counts too."""
    return unicodedata.category(character) in {"Cc", "Cf"} or character in _FILLERS
