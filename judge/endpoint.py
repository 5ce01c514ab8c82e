"""Where the judge's server is, and the key to it: read from the environment, checked, and never repeated."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from guard_eval.errors import StudyError
from guard_eval.settings import Judge

OPENAI = "https://api.openai.com/v1"
"""The server that is asked unless study.toml or OPENAI_BASE_URL names another."""

KEYLESS = "none"
"""Sent as key to servers that need none; the SDK wants one."""


def server(judge: Judge, environ: Mapping[str, str] | None = None) -> str:
    """Return the URL of the judge's server: study.toml's, else OPENAI_BASE_URL's, else OpenAI's.

    Raises:
        StudyError: It is no http(s) URL, or carries a user name, a password or a query.
    """
    environ = os.environ if environ is None else environ
    url = (judge.base_url or environ.get("OPENAI_BASE_URL") or OPENAI).strip()
    remedy = "give it as base_url in study.toml or as OPENAI_BASE_URL, such as http://localhost:8000/v1"
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise StudyError(f"the address of the judge {judge.model!r} is no http or https URL; {remedy}")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise StudyError(
            f"the address of the judge {judge.model!r} carries more than host and path; a key or password "
            f"does not belong there: set OPENAI_API_KEY, and {remedy}"
        )
    return url


def api_key(url: str, environ: Mapping[str, str] | None = None) -> str:
    """Return OPENAI_API_KEY; a server that is not OpenAI's may do without.

    Raises:
        StudyError: It is missing, or cannot be a key; the message does not repeat it.
    """
    environ = os.environ if environ is None else environ
    key = environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        if urlsplit(url).hostname == urlsplit(OPENAI).hostname:
            raise StudyError(
                "OPENAI_API_KEY is not set in the environment; the judge's server needs a key: set it"
            )
        return KEYLESS
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise StudyError("OPENAI_API_KEY holds characters that no key has; copy the key once more")
    return key
