"""Read the time that a server asks to wait, from several headers or from the words of a refusal."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime

from guard_eval.servers.answers import dump_json

_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""The seconds in each unit of time, by the beginning of the unit's name. The first match decides."""

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

_LONGEST_HEADER = 1000
"""The number of characters of the header `RateLimit` that are searched."""

_EPOCH = 1e9
"""Numbers above this value are dates in seconds; above a thousand times this value, in milliseconds."""


def read_wait_seconds(headers: Mapping[str, str], error: object = None) -> float | None:
    """Return the seconds that a server asks to wait; None if it gives no time.

    Args:
        headers: The response's headers, with names in lower case.
        error: The error in the body.

    >>> read_wait_seconds({}, {"message": "Rate limit reached. Please try again in 7m12s."})
    432.0
    >>> read_wait_seconds({"retry-after": "3"}), read_wait_seconds({"retry-after": "soon"})
    (3.0, None)
    """
    words = dump_json(error)
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
    sent_at = _read_number(headers.get("date", "")) or time.time()
    waits = (_read_wait_in_seconds(value, sent_at) for value in stated)
    return next((seconds for seconds in waits if seconds is not None), None)


def _read_wait_in_seconds(value: str, sent_at: float) -> float | None:
    """Return the seconds that a number, a duration or a date means; None for other texts."""
    if re.fullmatch(_SPAN, value, re.IGNORECASE):
        times = re.findall(rf"([\d.]+)\s*({_UNIT})", value.lower())
        return sum(float(count) * _find_unit_seconds(unit) for count, unit in times)
    date = _read_number(value)
    if date is None or not 0 <= date < 1e4 * _EPOCH:
        return None
    if date < _EPOCH:
        return date
    return max(0.0, (date if date < 1e3 * _EPOCH else date / 1e3) - sent_at)


def _find_unit_seconds(unit: str) -> float:
    return next(seconds for name, seconds in _UNITS.items() if unit.startswith(name))


def _read_number(value: str) -> float | None:
    """Return a number, or convert a date in the format of RFC 3339 or HTTP to seconds since 1970."""
    with suppress(ValueError):
        return float(value)
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):
            return parse(value).timestamp()
    return None
