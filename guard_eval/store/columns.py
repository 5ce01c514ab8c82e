"""Column types that mean the same on SQLite and PostgreSQL: exact text and moments in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, Text
from sqlalchemy.types import TypeDecorator

ESCAPE = "\x1a"
"""ASCII's SUBSTITUTE, which hardly any text holds: what is stored reads as written in any SQL client."""

_UNSTORABLE = re.compile(f"[\x00{ESCAPE}\ud800-\udfff]")
_ESCAPED = re.compile(f"{ESCAPE}([0-9a-f]{{4}})")


def escape(text: str) -> str:
    r"""Return `text` with NUL, lone surrogates and SUBSTITUTE written as SUBSTITUTE and four digits.

    >>> escape("a\x00b")
    'a\x1a0000b'
    """
    return _UNSTORABLE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    r"""Return what `escape` was given.

    >>> unescape(escape("a\x00b\x1a0000\ud800")) == "a\x00b\x1a0000\ud800"
    True
    """
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


class ExactText(TypeDecorator[str]):
    """Text of any characters: NUL and lone surrogates, which databases refuse, are escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return what the database is given."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return what was stored."""
        return None if value is None else unescape(value)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC: `timestamptz` on PostgreSQL, text that sorts by time on SQLite; aware in Python."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the moment in UTC.

        Raises:
            ValueError: It has no time zone, so that its meaning would hang on the machine.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; use datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the stored moment; SQLite has dropped the zone, which is UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
