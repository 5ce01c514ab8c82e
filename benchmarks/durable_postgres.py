"""A private PostgreSQL server that keeps its promises (fsync on) and can be killed like any other program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common import descendants

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "200"}


def binaries() -> Path | None:
    """Return the newest folder of PostgreSQL's server programs on Debian, or the one on the PATH."""
    debian = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    found = shutil.which("initdb")
    if debian:
        return max(debian, key=lambda path: float(path.parent.name))
    return Path(found).parent if found else None


class Postgres:
    """A server in a folder of its own, at a unix socket."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._data = folder / "data"
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")

    @property
    def url(self) -> str:
        """Return the URL of its database."""
        return f"postgresql+psycopg://postgres@/postgres?host={self._folder}"

    def start(self) -> None:
        """Start it, after whatever end, and wait until it takes connections."""
        options = " ".join(f"-c {name}={value}" for name, value in DURABLE.items())
        options = f"-k {self._folder} -c listen_addresses='' {options}"
        self._run("pg_ctl", "-D", self._data, "-l", self._folder / "log", "-w", "-o", options, "start")

    def stop(self) -> None:
        """End it without a checkpoint, as `pg_ctl -m immediate` does."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """End all its processes with SIGKILL."""
        root = int((self._data / "postmaster.pid").read_text(encoding="ascii").split()[0])
        family = descendants(root)
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # It starts again only when the last of them has let go of the shared memory.
        while any(Path(f"/proc/{pid}").exists() for pid in family):
            time.sleep(0.01)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        if os.geteuid() == 0:  # it refuses to run as root
            command = ["runuser", "-u", "postgres", "--", *command]
        # Not captured: the server would hold the pipe open for ever.
        quiet = subprocess.DEVNULL
        done = subprocess.run(command, stdout=quiet, stderr=quiet, check=False)  # noqa: S603 (found above)
        if done.returncode:
            raise RuntimeError(f"{program} ended with code {done.returncode}; see {self._folder / 'log'}")


@contextmanager
def running(programs: Path) -> Iterator[Postgres]:
    """Make a server, start it, and remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path has at most 107 bytes
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        postgres = Postgres(programs, folder)
        postgres.start()
        try:
            yield postgres
        finally:
            with suppress(RuntimeError):
                postgres.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
