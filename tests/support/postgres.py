"""A private PostgreSQL server for tests, in a temporary folder, with a Unix socket and no network port."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def binaries():
    """Return the folder of the server's binaries: Debian's newest version, or else from the PATH."""
    debian = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if debian:
        return max(debian, key=lambda path: float(path.parent.name))
    result = shutil.which("initdb")
    return Path(result).parent if result else None


def can_run():
    """Return whether this machine has a user that may run the server."""
    if os.geteuid() != 0:
        return True
    return any(entry.pw_name == "postgres" for entry in pwd.getpwall())


def _unprivileged(command):
    # PostgreSQL refuses to run as root
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


def _run(*command):
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

    def __init__(self, binaries, folder):
        """Make the files of a server in a folder, which also gets the socket."""
        self.binaries = binaries
        self.socket = folder
        self._data = folder / "data"
        self._numbers = itertools.count()
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        _run(binaries / "initdb", "-D", self._data, *options)

    def start(self):
        """Start the server, and wait until it accepts connections."""
        options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        log = self.socket / "log"
        self._control("-l", log, "-o", f"-k {self.socket} {options}", "start")

    def stop(self):
        """Stop the server without a checkpoint."""
        self._control("-m", "immediate", "stop")

    def _control(self, *arguments):
        _run(self.binaries / "pg_ctl", "-D", self._data, "-w", *arguments)

    def url(self, database="postgres"):
        """Return the URL of a database on this server."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.socket}"

    def new_database(self, options=""):
        """Make an empty database, with `options` of CREATE DATABASE, and return its URL."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def drop_database(self, url):
        """Remove a database, and end all connections to it."""
        self._execute(f"DROP DATABASE {self.name_of(url)} WITH (FORCE)")

    def shut(self, url):
        """End all connections to a database, and refuse new ones."""
        self._execute(f"ALTER DATABASE {self.name_of(url)} ALLOW_CONNECTIONS false")
        self._execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            f"WHERE datname = '{self.name_of(url)}'"
        )

    def let_in(self, url):
        """Accept connections to a database again."""
        self._execute(f"ALTER DATABASE {self.name_of(url)} ALLOW_CONNECTIONS true")

    def make_role(self, url, *grants):
        """Make a role with these rights in a database, and return the URL by which this role connects."""
        role = f"role_{next(self._numbers)}"
        for statement in ("CREATE ROLE {role} LOGIN", *grants):
            self._execute(statement.format(role=role), self.name_of(url))
        return url.replace("postgres@", f"{role}@")

    @staticmethod
    def name_of(url):
        """Return the name of the database in a URL."""
        return url.split("@/", 1)[1].split("?", 1)[0]

    def _execute(self, statement, database="postgres"):
        import psycopg

        with psycopg.connect(
            host=str(self.socket), user="postgres", dbname=database, autocommit=True
        ) as connection:
            connection.execute(statement)


_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "200",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
}


@contextmanager
def running_server(binaries):
    """Start a server. At the end, stop it and remove its folder."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # a short path: a socket's path has at most 107 bytes
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = Server(binaries, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
