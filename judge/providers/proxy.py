"""The proxy between here and a server, as HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY name it."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from judge.providers.endpoint import is_loopback


def is_direct(url: str, *, keyed: bool) -> bool:
    """Return whether no proxy may stand between here and a server: it would read a key that is not encrypted.

    >>> is_direct("http://gpu:8000/v1", keyed=True), is_direct("https://gpu:8000/v1", keyed=True)
    (True, False)
    """
    return urlsplit(url).scheme.lower() == "http" and (keyed or is_loopback(url))


def proxy_of(url: str, *, keyed: bool) -> str | None:
    """Return scheme, host and port of the proxy to a server, without user and password; None without one."""
    parts, found = urlsplit(url), getproxies()
    given = found.get(parts.scheme.lower()) or found.get("all")
    if not given or is_direct(url, keyed=keyed) or proxy_bypass(parts.hostname or ""):
        return None
    try:
        proxy = urlsplit(given if "://" in given else f"http://{given}")
        port = "" if proxy.port is None else f":{proxy.port}"
    except ValueError:
        return None
    host = proxy.hostname or ""
    return f"{proxy.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def through(proxy: str | None) -> str:
    """Return what a message says after a server's address."""
    return "" if proxy is None else f" through the proxy {proxy}"
