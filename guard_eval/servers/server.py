"""Decide which address a model's server has, which key is sent, and whether a proxy may be used.

A stranger may have written the study.toml. So a maker's key is sent only to that maker's server, and
OPENAI_API_KEY also to the URL in the user's own OPENAI_BASE_URL. Any other key is sent only to a server that
the user has allowed: in the user's trusted.toml, on the command line, or in answer to a question.
"""

import ipaddress
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import record
from guard_eval.study.served_model import ServedModel
from guard_eval.study.toml import read_toml

OPENAI = "https://api.openai.com/v1"
"""The default server, unless study.toml or OPENAI_BASE_URL names another one."""

MAKERS = {
    "OPENAI_API_KEY": "https://api.openai.com",
    "ANTHROPIC_API_KEY": "https://api.anthropic.com",
    "GEMINI_API_KEY": "https://generativelanguage.googleapis.com",
}
"""The environment variables of makers' keys, each with the maker's server."""

KEYLESS = "none"
"""The placeholder that is sent to a server without a key, because OpenAI's SDK requires a key."""

# URLs that all programs read alike: no user, no escape in the host, no letter that a resolver changes
_URL = re.compile(
    r"(?i:https?)://(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?"
    r"(?:/[A-Za-z0-9._~!$&'()*+,;=:%/-]*)?"
)


@record
class Server:
    """The address, the key and the time-out of a model's server.

    Attributes:
        model: The model's name, for messages.
        url: The server's address.
        variable: The environment variable that contains the key; None if no key is sent.
        key: The key, or a placeholder if no key is sent.
        timeout: Seconds to wait for a response.
        headers: Headers that study.toml adds to each request.
    """

    model: str
    url: str
    variable: str | None
    key: str = field(repr=False)
    timeout: float
    headers: Mapping[str, str]

    @property
    def avoids_proxies(self) -> bool:
        """Whether requests are sent without a proxy, because the proxy could read an unencrypted key."""
        plain = urlsplit(self.url).scheme == "http"
        return plain and (self.variable is not None or classify_address_distance(self.url) == "here")


def find_server_url(settings: ServedModel, environ: Mapping[str, str] = os.environ) -> str:
    """Return the server's URL: from study.toml, otherwise from OPENAI_BASE_URL, otherwise OpenAI's.

    Raises:
        StudyError: The URL cannot be used. The message does not show the URL, which may contain a password.
    """
    url = (settings.base_url or environ.get("OPENAI_BASE_URL") or OPENAI).strip()
    if not _is_server_url(url):
        raise StudyError(
            f"the address of the model {settings.model!r} must be http(s)://host/path without user, password "
            "or query; correct base_url in study.toml or OPENAI_BASE_URL, such as http://localhost:8000/v1. "
            "If there is a key, put it into the variable that api_key_env names"
        )
    return url


def _is_server_url(url: str) -> bool:
    """Return whether a text is the address of a server.

    >>> [_is_server_url(url) for url in ("http://[::1]:8000/v1", "http://host:99999", "host")]
    [True, False, False]
    """
    try:
        return _URL.fullmatch(url) is not None and urlsplit(url).port != 0
    except ValueError:  # a port beyond 65535
        return False


def find_origin(url: str) -> str:
    """Return the scheme, host and port of a server's address. The default port is left out.

    >>> find_origin("HTTPS://Api.OpenAI.com:443/v1"), find_origin("http://[::1]:8000/v1")
    ('https://api.openai.com', 'http://[::1]:8000')
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = None if parts.port == {"http": 80, "https": 443}.get(parts.scheme) else parts.port
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


def classify_address_distance(url: str) -> Literal["here", "near", "far"]:
    """Return whether an address is on this machine, in this network, or elsewhere.

    >>> hosts = ("[::1]", "localhost", "gpu", "10.0.0.1", "x.ai")
    >>> [classify_address_distance(f"http://{host}/v1") for host in hosts]
    ['here', 'here', 'near', 'near', 'far']
    """
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        near = "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
        if host == "localhost":
            return "here"
        return "near" if near else "far"
    if address.is_loopback:
        return "here"
    return "near" if address.is_private else "far"


def find_key_variable(settings: ServedModel, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of the environment variable with the server's key, or None if no key is sent.

    Raises:
        StudyError: The address cannot be used, or study.toml names a provider's key for another server.
    """
    url = find_server_url(settings, environ)
    maker_key = next((name for name in MAKERS if is_key_of_server(name, url, environ)), None)
    if settings.api_key_env is None:
        return maker_key
    named = settings.api_key_env.upper()
    if named in MAKERS and named != maker_key:
        raise StudyError(
            f"the key in {settings.api_key_env} is only for {MAKERS[named]}, but the model "
            f"{settings.model!r} would send it to {find_origin(url)}; put this server's key into another "
            "variable, and write the variable's name as api_key_env"
        )
    return settings.api_key_env


def is_key_of_server(variable: str, url: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a maker's key may be sent to this server without a question.

    The server is the maker's own. For OPENAI_API_KEY, the server may also be the one in OPENAI_BASE_URL.
    """
    if variable not in MAKERS:
        return False
    user_url = environ.get("OPENAI_BASE_URL", "").strip() if variable == "OPENAI_API_KEY" else ""
    return find_origin(url) == MAKERS[variable] or (
        bool(user_url) and url.rstrip("/") == user_url.rstrip("/")
    )


def make_server(
    settings: ServedModel, environ: Mapping[str, str] = os.environ, *, plain_http: Collection[str] = ()
) -> Server:
    """Return a model's server with the key from the environment.

    Args:
        settings: The model's settings in study.toml.
        environ: The environment variables.
        plain_http: Servers to which the user allows a key over plain http, such as `http://10.0.0.1:8000`.

    Raises:
        StudyError: The key is missing, is not a possible key, or would be sent over plain http. The message
            does not contain the key.
    """
    url = find_server_url(settings, environ)
    host = find_origin(url)
    variable = find_key_variable(settings, environ)
    key = "" if variable is None else environ.get(variable, "").strip()
    if not key and (settings.api_key_env is not None or host in MAKERS.values()):
        raise StudyError(
            f"{variable} is not set in the environment; the server {host} needs a key: set it"
            + ("" if settings.api_key_env is None else ", or remove api_key_env from study.toml")
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise StudyError(f"the key in {variable} contains characters that no key has; copy the key again")
    if (
        key
        and urlsplit(url).scheme == "http"
        and not (host in plain_http or classify_address_distance(url) == "here")
    ):
        raise StudyError(
            f"the key in {variable} would go to {host} over plain http, where others can read it. "
            f"Use https. If the network is yours, add --send-key {variable}={host}. If the server needs "
            "no key, unset the variable"
        )
    return Server(
        model=settings.model,
        url=url,
        variable=variable if key else None,
        key=key or KEYLESS,
        timeout=settings.timeout,
        headers=settings.headers,
    )


def parse_send_key_option(values: Sequence[str]) -> set[tuple[str, str]]:
    """Return the servers and variables of `--send-key`: `KEY=https://host` → `("https://host", "KEY")`.

    Raises:
        StudyError: A value is not of this form.
    """
    pairs = set()
    for value in values:
        variable, _, url = value.partition("=")
        if not variable or not _is_server_url(url):
            raise StudyError(
                f"--send-key {value!r} cannot be read; write a variable and a server, such as "
                "MY_KEY=https://host"
            )
        pairs.add((find_origin(url), variable))
    return pairs


def find_trusted_keys_path() -> Path:
    """Return the path of the user's trusted.toml, which is never in the current folder."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():  # a relative path would mean the current folder, which may be a stranger's
        folder = Path.home() / ".config"
    return folder / "guard-eval" / "trusted.toml"


def read_trusted_keys() -> set[tuple[str, str]]:
    """Return the servers and variables in the user's trusted.toml: each key may be sent to its server.

    Raises:
        StudyError: trusted.toml is not a list of servers.
    """
    path = find_trusted_keys_path()
    if not path.exists():
        return set()
    try:
        return {
            (find_origin(entry["server"]), str(entry["key"])) for entry in read_toml(path).get("trusted", [])
        }
    except (LookupError, TypeError, AttributeError, ValueError):
        raise StudyError(
            f'{path} is not a list of servers; write each server as [[trusted]] with server = "https://…" '
            'and key = "VARIABLE", or remove the file'
        ) from None


def confirm_sending_keys(servers: Iterable[Server], allowed: set[tuple[str, str]]) -> bool:
    """Return whether all keys may be sent to their servers. Ask the user about each unknown server.

    Raises:
        StudyError: The program cannot ask, because it runs without a terminal.
    """
    destinations = {
        (find_origin(server.url), server.variable)
        for server in servers
        if server.variable is not None and not is_key_of_server(server.variable, server.url)
    }
    for url, variable in sorted(destinations and destinations - allowed - read_trusted_keys()):
        if not sys.stdin.isatty():
            raise StudyError(
                f"study.toml asks to send the key in {variable} to {url}, but --yes does not allow that. If "
                f"you trust this server with the key, add --send-key {variable}={url}, or a table "
                f'[[trusted]] to {find_trusted_keys_path()} with server = "{url}" and key = "{variable}"'
            )
        if not progress.confirm(f"study.toml asks to send the key in {variable} to {url}. Send it there?"):
            return False
    return True
