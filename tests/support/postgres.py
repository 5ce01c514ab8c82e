"""A private PostgreSQL server for tests: in a temporary folder, at a unix socket, without a network port."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    """Return the newest folder of server binaries, Debian's versioned ones or those on the PATH."""
    debian = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if debian:
        return max(debian, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return Path(found).parent if found else None


def can_run() -> bool:
    """Return whether there is a user the server can run as."""
    if os.geteuid() != 0:
        return True
    return any(entry.pw_name == "postgres" for entry in pwd.getpwall())


def _unprivileged(command: list[str]) -> list[str]:
    # PostgreSQL refuses to run as root
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


def _run(*command: object) -> None:
    done = subprocess.run(
        _unprivileged([str(part) for part in command]),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr or done.stdout}")


class Server:
    """A running server; each test gets a schema, or where it must a database, of its own."""

    def __init__(self, binaries: Path, socket: Path) -> None:
        self.binaries = binaries
        self.socket = socket
        self._numbers = itertools.count()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of one of its databases."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.socket}"

    def new_schema(self) -> str:
        """Make an empty schema, faster than a database; return a URL that sees nothing else."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE SCHEMA {name}")
        return f"{self.url()}&options=-csearch_path%3D{name}"

    def drop_schema(self, url: str) -> None:
        """Remove what `new_schema` made."""
        self._execute(f"DROP SCHEMA {url.rpartition('%3D')[2]} CASCADE")

    def new_database(self, options: str = "") -> str:
        """Make an empty database, with `options` of CREATE DATABASE; return its URL."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, ending whatever is still connected."""
        self._execute(f"DROP DATABASE {url.split('@/', 1)[1].split('?', 1)[0]} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.socket), user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement)


@contextmanager
def running_server(binaries: Path) -> Iterator[Server]:
    """Start a server; stop it and remove its folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path has at most 107 bytes
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"
        _run(
            binaries / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "-N",
        )
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=200"
        _run(binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield Server(binaries, folder)
        finally:
            _run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
