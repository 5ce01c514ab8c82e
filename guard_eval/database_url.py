"""A database's URL before anything is opened: whether it is one, and whether it holds a password."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

_URL = re.compile(r"[\w+]+://(?P<rest>.*)", re.DOTALL)
_USER_AND_PASSWORD = re.compile(r"[^:/]*:[^@]*@")

UNREADABLE = (
    "the database's URL cannot be read; write sqlite:///study.db or postgresql+psycopg://user@host/database"
)
"""The message for a text that is no URL. It does not repeat the text, which may hold a password anywhere."""


def holds_password(text: str) -> bool:
    """Return whether a database's URL holds a password, or what could be a part of one.

    An @ in a password ends it early for a parser of the URL, so a second one before the path counts.

    >>> holds_password("postgresql://me@host/db"), holds_password("postgresql://me:secret@host/db")
    (False, True)

    Raises:
        ValueError: It is no URL.
    """
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError(UNREADABLE)
    rest = found["rest"]
    keys = [key for key, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)]
    return (
        _USER_AND_PASSWORD.match(rest) is not None
        or rest.partition("/")[0].count("@") > 1
        or any("password" in key.lower() for key in keys)
    )
