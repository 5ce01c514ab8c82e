"""Where the judge's server is, and which key it is sent: read from the environment, checked, never repeated.

A study.toml is a stranger's file. OPENAI_API_KEY goes to OpenAI and to the URL in the user's own
OPENAI_BASE_URL, and nowhere else; any other server gets the key whose variable its
`[[judge]]` names, or none.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from guard_eval.errors import StudyError
from guard_eval.study.settings import Judge

OPENAI = "https://api.openai.com/v1"
"""The server that is asked unless study.toml or OPENAI_BASE_URL names another."""

OWN_KEY = "OPENAI_API_KEY"
"""The variable that goes to OpenAI and to the URL in OPENAI_BASE_URL alone."""

KEYLESS = "none"
"""Sent as key to servers that get none; the SDK wants one."""

# what every reader of URLs reads alike: no user, no escape, no letter that a resolver would change
_PLACE = re.compile(r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One judge's server, and all that a connection to it needs; what is sent there is `judge.request`'s.

    Attributes:
        model: The judge's model, for messages.
        url: The server's address.
        variable: The environment variable that holds the key; None where no key is sent.
        key: Its value; a placeholder where no key is sent.
        timeout: Seconds until a request without response is given up.
        headers: What study.toml sends along with each request.
    """

    model: str
    url: str
    variable: str | None
    key: str = field(repr=False)
    timeout: float
    headers: Mapping[str, str] = field(default_factory=dict)


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
            f"does not belong there: set the variable that api_key_env names, and {remedy}"
        )
    if _PLACE.fullmatch(parts.netloc) is None or "\\" in url:
        raise StudyError(f"the host of the judge {judge.model!r} has letters that no host has; {remedy}")
    return url


def with_server_url(judge: Judge, environ: Mapping[str, str] | None = None) -> Judge:
    """Return `judge` with the address that the environment gives it, for its price and the like.

    Raises:
        StudyError: The address cannot be used.
    """
    return judge.model_copy(update={"base_url": server(judge, environ)})


def origin(url: str) -> str:
    """Return scheme, host and port of a server's address, the usual port left out.

    >>> origin("HTTPS://Api.OpenAI.com:443/v1"), origin("http://[::1]:8000/v1")
    ('https://api.openai.com', 'http://[::1]:8000')
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = None if parts.port == {"http": 80, "https": 443}[parts.scheme] else parts.port
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}" + ("" if port is None else f":{port}")


def is_loopback(url: str) -> bool:
    """Return whether an address is this very machine, whatever a name server says.

    >>> [is_loopback(f"http://{host}/v1") for host in ("127.0.0.1:1", "[::1]", "localhost", "gpu", "0.0.0.0")]
    [True, True, True, False, False]
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def key_variable(judge: Judge, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the environment variable whose value goes to the judge's server, or None where none does.

    Raises:
        StudyError: The address cannot be used, or study.toml names OPENAI_API_KEY for another server.
    """
    environ = os.environ if environ is None else environ
    url = server(judge, environ)
    given = environ.get("OPENAI_BASE_URL", "").strip()
    own = origin(url) == origin(OPENAI) or (bool(given) and url.rstrip("/") == given.rstrip("/"))
    if judge.api_key_env is None:
        return OWN_KEY if own else None
    if judge.api_key_env.upper() == OWN_KEY and not own:
        raise StudyError(
            f"api_key_env of the judge {judge.model!r} names {OWN_KEY}, which goes to OpenAI and to "
            f"OPENAI_BASE_URL alone, and not to {origin(url)}; put that server's own key into a variable of "
            "another name, and name it there"
        )
    return judge.api_key_env


def provider_of(
    judge: Judge, environ: Mapping[str, str] | None = None, *, plain_http: bool = False
) -> Provider:
    """Return the judge's server and the key that goes there.

    Args:
        judge: The study's settings for this judge.
        environ: The environment; the process's own by default.
        plain_http: Whether the user lets a key go over plain http to another machine.

    Raises:
        StudyError: The key is missing, cannot be a key, or would go over plain http; the message does not
            repeat it.
    """
    environ = os.environ if environ is None else environ
    found = Provider(
        model=judge.model,
        url=server(judge, environ),
        variable=None,
        key=KEYLESS,
        timeout=judge.timeout,
        headers=judge.headers,
    )
    variable = key_variable(judge, environ)
    key = "" if variable is None else environ.get(variable, "").strip()
    if variable is None or (not key and judge.api_key_env is None and origin(found.url) != origin(OPENAI)):
        return found
    place = origin(found.url)
    if not key:
        raise StudyError(
            f"{variable} is not set in the environment; the judge's server {place} needs a key: set it"
            + ("" if judge.api_key_env is None else ", or remove api_key_env from study.toml")
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise StudyError(f"{variable} holds characters that no key has; copy the key once more")
    if urlsplit(found.url).scheme == "http" and not (plain_http or is_loopback(found.url)):
        raise StudyError(
            f"the key in {variable} would go to {place} over plain http, where everyone on the way can "
            "read it; use https, add --plain-http if that network is yours, or unset the variable if the "
            "server needs no key"
        )
    return replace(found, variable=variable, key=key)
