"""How long a server asks to wait: servers say so in several headers, or in the words of a refusal."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_EPOCH = 1e9
"""A larger number of seconds is a date, and one that is a thousand times larger is a date in milliseconds."""

_UNITS = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)(?![a-z])"
_SPAN = rf"(?:\d+(?:\.\d+)?\s*{_UNIT}[\s,]*(?:and\s+)?)+"
_PART = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.IGNORECASE)
_ASKED = re.compile(rf"(?:again|retry|retry_?delay|wait|resets?)\b\D{{0,20}}?({_SPAN})", re.IGNORECASE)
_FIELD = re.compile(r'"retry_?after\w*"\s*:\s*"?(\d+(?:\.\d+)?)', re.IGNORECASE)


def read_wait(headers: Mapping[str, str], error: object = None) -> float | None:
    """Return the seconds a server asks to wait, or None if it does not say.

    Args:
        headers: The response's headers, with names in lower case.
        error: What the body says.

    >>> read_wait({}, {"message": "Rate limit reached. Please try again in 7m12s."})
    432.0
    >>> read_wait({"retry-after": "3"}), read_wait({"retry-after": "soon"})
    (3.0, None)
    """
    sent_at = _read_date(headers.get("date", "")) or time.time()
    milliseconds = headers.get("retry-after-ms")
    stated = [f"{milliseconds}ms" if milliseconds else "", headers.get("retry-after", "")]
    stated += [*_read_words(error), *_read_resets(headers)]
    waits = (_read_seconds(value, sent_at) for value in stated)
    return next((seconds for seconds in waits if seconds is not None), None)


def _read_words(error: object) -> Iterator[str]:
    """Yield the waits in the words of a refusal and in its fields."""
    words = json.dumps(error, default=str)[:10_000]
    for pattern in (_FIELD, _ASKED):
        if match := pattern.search(words):
            yield match[1]


def _read_resets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield when the limits that are used up are reset."""
    for name, value in headers.items():
        if "ratelimit" in name and "remaining" in name and value.strip() == "0":
            yield headers.get(name.replace("remaining", "reset"), "")


def _read_seconds(value: str, sent_at: float) -> float | None:
    """Return the seconds that a number, a span of time or a date means; None if it is none of them."""
    if re.fullmatch(_SPAN, value.strip(), re.IGNORECASE):
        return sum(float(count) * _factor(unit.lower()) for count, unit in _PART.findall(value))
    with suppress(ValueError):
        number = float(value)
        if not math.isfinite(number) or number < 0:
            return None
        if number < _EPOCH:
            return number
        return max(0.0, (number if number < 1000 * _EPOCH else number / 1000) - sent_at)
    date = _read_date(value)
    return None if date is None else max(0.0, date - sent_at)


def _factor(unit: str) -> float:
    return next(factor for name, factor in _UNITS.items() if unit.startswith(name))


def _read_date(value: str) -> float | None:
    """Return the seconds since 1970 of a date as HTTP or RFC 3339 write it."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, IndexError, OverflowError):
            date = read(value)
            return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return None
