"""A database's URL before anything is opened: whether it holds a password, and whom it would reach."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from guard_eval.errors import StudyError

HOSTS_VARIABLE = "GUARD_EVAL_DATABASE_HOSTS"
"""The environment variable in which users name the database servers that a study.toml may use."""

_URL = re.compile(r"[\w+]+://(?P<rest>.*)", re.DOTALL)
_USER_AND_PASSWORD = re.compile(r"[^:/]*:[^@]*@")

_HARMLESS_OPTIONS = frozenset(
    {"host", "port", "user", "options", "application_name", "client_encoding", "connect_timeout", "sslmode"}
    | {"tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"}
)
"""What a study's URL may set. Other options of PostgreSQL's client name files or weaken the connection."""

_WITH_PORT = re.compile(r".*[^:]:\d+")

_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})

# every parser reads such a URL in the same way: what is checked here is what is reached
_PLAIN_SERVER = re.compile(
    r"postgres(ql)?(\+psycopg)?://([\w.+%-]*@)?(?P<host>[\w.-]*|\[[0-9a-fA-F:]+\])(:(?P<port>\d+))?"
    r"/(?P<database>[\w.+-]*)(\?(?P<query>[^#@]*))?",
    re.ASCII,
)

UNREADABLE = (
    "the database's URL cannot be read; write sqlite:///study.db or postgresql+psycopg://user@host/database"
)
"""The message for a text that is no URL. It does not repeat the text, which may hold a password anywhere."""


def holds_password(text: str) -> bool:
    """Return whether a database's URL holds a password, or what could be a part of one.

    An @ in a password ends it early for a parser of the URL, so a second one before the path counts. So does
    a colon in the user's name, however often it is percent-encoded.

    >>> holds_password("postgresql://me@host/db"), holds_password("postgresql://me:secret@host/db")
    (False, True)
    >>> holds_password("postgresql://me%3Asecret@host/db")
    True

    Raises:
        ValueError: It is no URL.
    """
    match = _URL.fullmatch(text)
    if match is None:
        raise ValueError(UNREADABLE)
    server, _, query = match["rest"].partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    return (
        any(_USER_AND_PASSWORD.match(form) for form in (server, decode(server), decode(match["rest"])))
        or server.partition("/")[0].count("@") > 1
        or any("password" in decode(key).lower() for key, _ in options)
        or any(key.lower() == "user" and ":" in decode(value) for key, value in options)
    )


def decode(text: str) -> str:
    """Decode a percent-encoded text until nothing in it is encoded."""
    while (decoded := unquote(text)) != text:
        text = decoded
    return text


def check_location(text: str, folder: Path) -> None:
    """Check that a study's database is a file in its folder, or on a server that the user names.

    Whoever wrote study.toml chose the server. The user's PGPASSWORD, .pgpass and client certificates would go
    there with the first connection.

    Raises:
        StudyError: The URL names another place, or sets an option that a study may not set.
    """
    if text.startswith(("sqlite:", "sqlite+")):
        path = Path(text.partition("///")[2] or "/")
        if "?" in text or not path.resolve().is_relative_to(folder.resolve()):
            raise StudyError(
                f"database in study.toml is a file outside {folder}; remove that line, and the study uses "
                "its own file, study.db"
            )
        return
    url = _PLAIN_SERVER.fullmatch(text)
    if url is None:
        raise StudyError(UNREADABLE)
    options = parse_qsl(url["query"] or "", keep_blank_values=True)
    refused = sorted({key for key, _ in options} - _HARMLESS_OPTIONS)
    if not {value for key, value in options if key == "sslmode"} <= _ENCRYPTED:
        refused.append(f"an sslmode other than {', '.join(sorted(_ENCRYPTED))}")
    if refused:
        raise StudyError(
            f"database in study.toml sets {' and '.join(refused)}, which only your own environment may set; "
            "remove it there, and use PostgreSQL's variables such as PGSSLMODE"
        )
    trusted = {entry.strip().casefold() for entry in os.environ.get(HOSTS_VARIABLE, "").split(",")}
    ports = _split(url["port"], *(value for key, value in options if key == "port")) or ["5432"]
    for server in _split(url["host"], *(value for key, value in options if key == "host")):
        host, _, port = server.rpartition(":") if _WITH_PORT.fullmatch(server) else (server, "", "")
        if not trusted & {host, *(f"{host}:{each}" for each in ([port] if port else ports))}:
            raise StudyError(
                f"study.toml names the database server {host!a}, which would receive your database password; "
                f"if you trust it, set {HOSTS_VARIABLE}={host} in your environment"
            )


def _split(*values: str | None) -> list[str]:
    """Return what the values list; PostgreSQL's client takes several hosts and ports, with commas."""
    return [part.strip().casefold() for value in values for part in (value or "").split(",") if part.strip()]
