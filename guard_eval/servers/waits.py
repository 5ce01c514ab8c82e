"""Read how long a server asks the client to wait, from headers or from the words of a refusal."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime

from guard_eval.servers.answers import dump_shortened_json

_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""The seconds in each unit of time, by the first letters of the unit's name. The first match decides."""

_UNIT = r"(?:ms|s|m|h|d|secs?|seconds?|mins?|minutes?|hours?|days?)(?![a-z])"
_SPAN = rf"(?:\d+(?:\.\d+)?\s*{_UNIT}[\s,]*(?:and\s)?)+"
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.]*(?:Z|[+-]\d\d:?\d\d)?"
_ASKED = re.compile(
    rf"(?:again|retry|retry_?delay|wait|resets?|available|remaining)\b\D{{0,20}}?({_SPAN}|{_DATE})"
    r"|retry_?after\w*\"\s*:\s*\"?([\d.]+)",
    re.IGNORECASE,
)
_MILLISECONDS = re.compile(r"retry_?after\w*m(?:illi)?s\w*\"\s*:\s*\"?([\d.]+)", re.IGNORECASE)
_USED_UP = re.compile(r"\b(?:r|remaining)=0\b.*\b(?:t|reset)=(\d+)")

_LONGEST_WAIT = 31 * 86_400.0
"""A longer wait in seconds is a mistake of the server, and counts as no wait. Quotas are at most monthly."""

_LONGEST_HEADER = 1000
"""The number of characters of the header `RateLimit` that are read."""

_EPOCH = 1e9
"""Smaller numbers are durations in seconds. Larger numbers are dates: seconds since 1970, or milliseconds if
the number is a thousand times larger."""


def read_wait_seconds(headers: Mapping[str, str], error: object = None) -> float | None:
    """Return the seconds that a server asks the client to wait, or None if the server gives no time.

    Args:
        headers: The response's headers, with names in lower case.
        error: The error in the body.

    >>> read_wait_seconds({}, {"message": "Rate limit reached. Please try again in 7m12s."})
    432.0
    >>> read_wait_seconds({"retry-after": "3"}), read_wait_seconds({"retry-after": "soon"})
    (3.0, None)
    """
    words = dump_shortened_json(error)
    in_words = _ASKED.search(words)
    milliseconds = _MILLISECONDS.search(words)
    used = _USED_UP.search(headers.get("ratelimit", "")[:_LONGEST_HEADER])
    used_up = [name for name, value in headers.items() if "ratelimit" in name and value.strip() == "0"]
    stated = [
        f"{headers.get('retry-after-ms')}ms",
        headers.get("retry-after", ""),
        f"{milliseconds[1]}ms" if milliseconds else "",
        in_words[in_words.lastindex or 0] if in_words else "",
        used[1] if used else "",
        *(headers.get(name.replace("remaining", "reset"), "") for name in used_up if "remaining" in name),
    ]
    sent_at = _parse_number_or_date(headers.get("date", "")) or time.time()
    waits = (_parse_wait_seconds(value, sent_at) for value in stated)
    return next((seconds for seconds in waits if seconds is not None and seconds <= _LONGEST_WAIT), None)


def _parse_wait_seconds(value: str, sent_at: float) -> float | None:
    """Return the seconds to wait from a text such as `30`, `1m30s` or a date, or None for other texts."""
    if re.fullmatch(_SPAN, value, re.IGNORECASE):
        times = re.findall(rf"([\d.]+)\s*({_UNIT})", value.lower())
        return sum(
            float(count) * next(seconds for name, seconds in _UNITS.items() if unit.startswith(name))
            for count, unit in times
        )
    date = _parse_number_or_date(value)
    if date is None or not 0 <= date < 1e4 * _EPOCH:
        return None
    if date < _EPOCH:
        return date
    return max(0.0, (date if date < 1e3 * _EPOCH else date / 1e3) - sent_at)


def _parse_number_or_date(value: str) -> float | None:
    """Return the number in a text, or the seconds from 1970 to a date in the format of RFC 3339 or HTTP."""
    with suppress(ValueError):
        return float(value)
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):
            return parse(value).timestamp()
    return None
