"""Check the URL of a study's database: no password, and no server but the user's own."""

import os
import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from guard_eval.errors import StudyError

HOSTS_VARIABLE = "GUARD_EVAL_DATABASE_HOSTS"
"""The environment variable in which users name the database servers that a study.toml may use."""

_OPTION = (
    "(?:(?:host|port|options|application_name|client_encoding|connect_timeout|tcp_user_timeout"
    "|keepalives(?:_idle|_interval|_count)?)=[^&#@]*|sslmode=(?:require|verify-ca|verify-full))"
)
"""A pattern for the options that a database's URL may have. Others name files or weaken security."""

# Every parser reads a plain URL in the same way, so the checked server is the server that is reached.
_PLAIN = re.compile(
    r"sqlite(?:\+pysqlite)?:///(?P<file>[^?#]*)|postgres(?:ql)?(?:\+psycopg)?://(?:(?:[\w.+-]|%40)*@)?"
    r"(?P<host>[\w.-]*|\[[0-9A-Fa-f:]+\])(?::(?P<port>\d+))?/[\w.+-]*"
    rf"(?:\?(?P<options>{_OPTION}(?:&{_OPTION})*))?",
    re.ASCII,
)

UNREADABLE = (
    "the database's URL cannot be read; write sqlite:///study.db or postgresql+psycopg://user@host/database, "
    "without a password; set PGPASSWORD and other options, such as PGSSLMODE, in the environment"
)
"""The message for a text that is not a URL. The message omits the text, which may contain a password."""


def make_sqlite_url(file: Path) -> str:
    """Return the URL of an SQLite file. Characters that have a meaning in URLs are percent-encoded.

    >>> make_sqlite_url(Path("/studies/run #2/study.db"))
    'sqlite:////studies/run %232/study.db'
    """
    return "sqlite:///" + re.sub("[%?#]", lambda sign: f"%{ord(sign[0]):02X}", str(file))


def check_database_url(url: str) -> str:
    """Return a database's URL unchanged, or refuse a URL that could contain a password.

    Raises:
        StudyError: The URL is not a plain address, or has other options.

    >>> check_database_url("postgresql://me@host/db")
    'postgresql://me@host/db'
    """
    if _PLAIN.fullmatch(url) is None:
        raise StudyError(UNREADABLE)
    return url


def locate_database(url: str, study_folder: Path) -> str:
    """Return the URL of a study's database: a file in the study's folder, or a server that the user names.

    Relative names of files start at the study's folder. The author of study.toml chose the server. The first
    connection would send the user's PGPASSWORD, .pgpass entries and client certificates to this server.

    Raises:
        StudyError: The URL is not plain, or names another place.
    """
    parts = _PLAIN.fullmatch(check_database_url(url))
    assert parts is not None
    if parts["file"] is not None:
        path = (study_folder / (unquote(parts["file"]) or "/")).resolve()
        if not path.is_relative_to(study_folder.resolve()):
            raise StudyError(f"database in study.toml is a file outside {study_folder}; remove that line")
        return make_sqlite_url(path)
    pairs = parse_qsl(parts["options"] or "")
    options = dict(pairs)
    host, port = options.get("host") or parts["host"] or "", options.get("port", parts["port"] or "5432")
    if len(options) < len(pairs) or (parts["host"] and "host" in options):
        raise StudyError(UNREADABLE)
    trusted = {name.strip().casefold() for name in os.environ.get(HOSTS_VARIABLE, "").split(",")}
    if host and not trusted & {host.casefold(), f"{host}:{port}".casefold()}:
        raise StudyError(
            f"the database server {host!a} in study.toml would receive your database password; "
            f"if you trust this server, set {HOSTS_VARIABLE}={host} in your environment"
        )
    return url
