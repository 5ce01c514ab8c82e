"""The URL of a study's database: it holds no password, and names no server but the user's own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from guard_eval.errors import StudyError

HOSTS_VARIABLE = "GUARD_EVAL_DATABASE_HOSTS"
"""The environment variable in which users name the database servers that a study.toml may use."""

_HARMLESS_OPTIONS = frozenset(
    {"host", "port", "options", "application_name", "client_encoding", "connect_timeout", "sslmode"}
    | {"tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"}
)
"""What a study's URL may set. Other options of PostgreSQL's client name files or weaken the connection."""

_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})

# Every parser reads such a URL in the same way: what is checked here is what is reached.
_PLAIN = re.compile(
    r"sqlite(\+pysqlite)?:///(?P<file>[^?#]*)|postgres(ql)?(\+psycopg)?://(([\w.+-]|%40)*@)?"
    r"(?P<host>[\w.-]*|\[[0-9a-f:]+\])(:(?P<port>\d+))?/(?P<database>[\w.+-]*)(\?(?P<options>[^#@]*))?",
    re.ASCII | re.IGNORECASE,
)

UNREADABLE = (
    "the database's URL cannot be read; write sqlite:///study.db or postgresql+psycopg://user@host/database, "
    "without a password: set PGPASSWORD in the environment"
)
"""The message for a text that is no URL. It does not repeat the text, which may hold a password anywhere."""


def check_url(text: str) -> str:
    """Return a database's URL if it is a plain one, which has no room for a password.

    >>> check_url("postgresql://me@host/db")
    'postgresql://me@host/db'

    Raises:
        ValueError: It is not plain.
    """
    url = _PLAIN.fullmatch(text)
    options = parse_qsl((url and url["options"]) or "", keep_blank_values=True)
    if url is None or any(decode(key) == "user" or "pass" in decode(key).lower() for key, _ in options):
        raise StudyError(UNREADABLE)
    return text


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
    url = _PLAIN.fullmatch(check_url(text))
    assert url is not None
    if url["file"] is not None:
        if not Path(url["file"] or "/").resolve().is_relative_to(folder.resolve()):
            raise StudyError(
                f"database in study.toml is a file outside {folder}; remove that line, and the study uses "
                "its own file, study.db"
            )
        return
    options = parse_qsl(url["options"] or "", keep_blank_values=True)
    refused = sorted({key for key, _ in options} - _HARMLESS_OPTIONS)
    if not {value for key, value in options if key == "sslmode"} <= _ENCRYPTED:
        refused.append(f"an sslmode other than {', '.join(sorted(_ENCRYPTED))}")
    if refused:
        raise StudyError(
            f"database in study.toml sets {' and '.join(refused)}, which only your own environment may set; "
            "remove it there, and use PostgreSQL's variables such as PGSSLMODE"
        )
    trusted = set(_split(os.environ.get(HOSTS_VARIABLE)))
    ports = _split(url["port"], *(value for key, value in options if key == "port")) or ["5432"]
    for server in _split(url["host"], *(value for key, value in options if key == "host")):
        host, _, port = server.rpartition(":") if re.fullmatch(r".*[^:]:\d+", server) else (server, "", "")
        if not trusted & {host, *(f"{host}:{each}" for each in ([port] if port else ports))}:
            raise StudyError(
                f"study.toml names the database server {host!a}, which would receive your database password; "
                f"if you trust it, set {HOSTS_VARIABLE}={host} in your environment"
            )


def _split(*values: str | None) -> list[str]:
    """Return what the values list; PostgreSQL's client takes several hosts and ports, with commas."""
    return [part.strip().casefold() for value in values for part in (value or "").split(",") if part.strip()]
