"""A private PostgreSQL server for tests, in a temporary folder, with a Unix socket and no network port."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def binaries() -> Path | None:
    """Return the folder of the server's binaries: Debian's newest version, or else from the PATH."""
    debian = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if debian:
        return max(debian, key=lambda path: float(path.parent.name))
    result = shutil.which("initdb")
    return Path(result).parent if result else None


def can_run() -> bool:
    """Return whether this machine has a user that may run the server."""
    if os.geteuid() != 0:
        return True
    return any(entry.pw_name == "postgres" for entry in pwd.getpwall())


def _unprivileged(command: list[str]) -> list[str]:
    # PostgreSQL refuses to run as root
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


def _run(*command: object) -> None:
    done = subprocess.run(
        _unprivileged([str(word) for word in command]),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr or done.stdout}")


class Server:
    """A running server. Each test gets its own database."""

    def __init__(self, binaries: Path, folder: Path, settings: Mapping[str, str]) -> None:
        """Make the files of a server in a folder, which also gets the socket."""
        self.binaries = binaries
        self.socket = folder
        self._data = folder / "data"
        self._settings = {"listen_addresses": "''", "max_connections": "200", **settings}
        self._numbers = itertools.count()
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        _run(binaries / "initdb", "-D", self._data, *options)

    def start(self) -> None:
        """Start the server, also after a kill, and wait until it accepts connections."""
        options = " ".join(f"-c {name}={value}" for name, value in self._settings.items())
        log = self.socket / "log"
        self._control("-l", log, "-o", f"-k {self.socket} {options}", "start")

    def stop(self) -> None:
        """Stop the server without a checkpoint."""
        self._control("-m", "immediate", "stop")

    def kill(self) -> None:
        """End all processes of the server with SIGKILL."""
        pid = int((self._data / "postmaster.pid").read_text(encoding="ascii").split()[0])
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        # The server can start again only after the last process has released the shared memory.
        psutil.wait_procs(family)

    def _control(self, *arguments: object) -> None:
        _run(self.binaries / "pg_ctl", "-D", self._data, "-w", *arguments)

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database on this server."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.socket}"

    def new_database(self, options: str = "") -> str:
        """Make an empty database, with `options` of CREATE DATABASE, and return its URL."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database, and end all connections to it."""
        self._execute(f"DROP DATABASE {self.name_of(url)} WITH (FORCE)")

    def shut(self, url: str) -> None:
        """End all connections to a database, and refuse new ones."""
        self._execute(f"ALTER DATABASE {self.name_of(url)} ALLOW_CONNECTIONS false")
        self._execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            f"WHERE datname = '{self.name_of(url)}'"
        )

    def let_in(self, url: str) -> None:
        """Accept connections to a database again."""
        self._execute(f"ALTER DATABASE {self.name_of(url)} ALLOW_CONNECTIONS true")

    def make_role(self, url: str, *grants: str) -> str:
        """Make a role with these rights in a database, and return the URL by which this role connects."""
        role = f"role_{next(self._numbers)}"
        for statement in ("CREATE ROLE {role} LOGIN", *grants):
            self._execute(statement.format(role=role), self.name_of(url))
        return url.replace("postgres@", f"{role}@")

    def clear(self, url: str) -> None:
        """Remove everything in a database."""
        self._execute("DROP SCHEMA public CASCADE", self.name_of(url))
        self._execute("CREATE SCHEMA public", self.name_of(url))

    @staticmethod
    def name_of(url: str) -> str:
        """Return the name of the database in a URL."""
        return url.split("@/", 1)[1].split("?", 1)[0]

    def _execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.socket), user="postgres", dbname=database, autocommit=True
        ) as connection:
            connection.execute(statement)


_QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
}
_DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


@contextmanager
def running_server(binaries: Path, *, durable: bool = False) -> Iterator[Server]:
    """Start a server. At the end, stop it and remove its folder. `durable` makes commits survive a crash."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a short path: a socket's path has at most 107 bytes
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = Server(binaries, folder, _DURABLE if durable else _QUICK)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
