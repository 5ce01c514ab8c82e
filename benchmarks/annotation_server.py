"""The server under test, `guard-eval annotate`, as a process: started, killed, weighed (Linux)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_HEAVY = ("torch", "transformers", "scipy", "statsmodels", "pandas")


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """`guard-eval annotate FOLDER`, or another program that answers on the same health address."""

    def __init__(self, folder: Path, log: Path, *, command: list[str] | None = None) -> None:
        self._log = log
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        own = [sys.executable, "-P", "-m", "guard_eval", "annotate", str(folder), "--port", str(self.port)]
        self._command = [*command, str(self.port)] if command else own
        self._process: subprocess.Popen[bytes] | None = None
        self.pids: list[int] = []

    def start(self) -> None:
        """Start it and wait until it answers."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter)
                self._command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": path}
            )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at once: {self._log.read_text()[-2000:]}")
            try:
                opener.open(f"{self.url}/_stcore/health", timeout=2).close()
            except OSError:
                time.sleep(0.05)
            else:
                self.pids = descendants(self._process.pid)
                return
        raise RuntimeError(f"the server did not answer: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it at once, with SIGKILL: all its processes, the serving one first."""
        assert self._process is not None
        for pid in reversed(self.pids):
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Stop it as a service manager does: Ctrl-C does not reach what a shell runs in the background."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def cpu(self) -> float:
        """Return the seconds of CPU its processes have used."""
        return sum(cpu_of(pid) for pid in self.pids)

    def memory(self) -> float:
        """Return the resident memory of the serving process, the last it started, in MB."""
        return int(Path(f"/proc/{self.pids[-1]}/statm").read_text(encoding="ascii").split()[1]) * _PAGE / 1e6

    def loaded(self) -> set[str]:
        """Return which of the libraries a rater's process must not hold its compiled parts show it holds."""
        maps = Path(f"/proc/{self.pids[-1]}/maps").read_text(encoding="utf-8", errors="replace")
        return {name for name in _HEAVY if f"/site-packages/{name}/" in maps}

    def tracebacks(self) -> int:
        """Return how many defects its log tells of."""
        return self._log.read_text(encoding="utf-8", errors="replace").count("Traceback")


def descendants(root: int) -> list[int]:
    """Return a process and all it started, parents first."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                stat = (path / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU a process has used, its threads' included."""
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / _TICK


@dataclass(frozen=True)
class Moment:
    """How much CPU everything and this program had used when."""

    at: float
    all: float
    own: float

    @classmethod
    def now(cls) -> Moment:
        """Look at the clock and at the machine's counters."""
        first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
        busy = [int(first[place]) for place in (1, 2, 3, 6, 7, 8)]  # not idle, nor waiting for a disk
        return cls(time.perf_counter(), sum(busy) / _TICK, time.process_time())


def wait_for_quiet(*, within: float, cores: float = 0.3) -> float:
    """Wait until other programs keep fewer than `cores` busy for two seconds; return how many they do."""
    deadline = time.perf_counter() + within
    while True:
        before = Moment.now()
        time.sleep(2)
        after = Moment.now()
        others = (after.all - before.all - (after.own - before.own)) / (after.at - before.at)
        if others < cores or time.perf_counter() > deadline:
            return others
