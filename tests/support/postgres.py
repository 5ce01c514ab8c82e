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
        self._execute(f"DROP DATABASE {self.name_of(url)} WITH (FORCE)")

    def shut(self, url: str) -> None:
        """End every connection to a database, and take no new one."""
        self._execute(f"ALTER DATABASE {self.name_of(url)} ALLOW_CONNECTIONS false")
        self._execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            f"WHERE datname = '{self.name_of(url)}'"
        )

    def let_in(self, url: str) -> None:
        """Take connections to a database again."""
        self._execute(f"ALTER DATABASE {self.name_of(url)} ALLOW_CONNECTIONS true")

    def clear(self, url: str) -> None:
        """Remove all that is in a database."""
        self._execute("DROP SCHEMA public CASCADE", self.name_of(url))
        self._execute("CREATE SCHEMA public", self.name_of(url))

    @staticmethod
    def name_of(url: str) -> str:
        """Return the name of a URL's database."""
        return url.split("@/", 1)[1].split("?", 1)[0]

    def _execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.socket), user="postgres", dbname=database, autocommit=True
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
        options = (
            f"-k {folder} -c listen_addresses='' -c fsync=off -c full_page_writes=off -c wal_level=minimal "
            "-c max_wal_senders=0 -c max_wal_size=256MB -c max_connections=200"
        )
        _run(binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield Server(binaries, folder)
        finally:
            _run(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
