"""The server under test, `guard-eval annotate`; nginx before several of them; what the database holds."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from annotation_client import Key, Log, MadeStudy
from common import ROOT, environment, free_port, wait_until
from sqlalchemy import create_engine
from sqlalchemy import text as sql

from guard_eval.study.folder import Study


class Server:
    """`guard-eval annotate`, or another program that takes a port and answers at its health address."""

    def __init__(self, folder: Path, log: Path, *, command: Sequence[str] = ()) -> None:
        self._log = log
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        default_command = [sys.executable, "-P", "-m", "guard_eval", "annotate", str(folder), "--port"]
        self._command = [*(command or default_command), str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None
        self._family: list[psutil.Process] = []

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def answers() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended at once: {self._log.read_text()[-2000:]}")
            with suppress(OSError):
                opener.open(f"{self.url}/_stcore/health", timeout=2).close()
                return True
            return False

        wait_until(answers, seconds=60, what="the server's start")
        server_process = psutil.Process(process.pid)
        self._process, self._family = process, [server_process, *server_process.children(recursive=True)]

    def stop(self) -> None:
        """Stop it as a service manager does."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    def cpu(self) -> float:
        """Return the seconds of CPU its processes have used."""
        return sum(map(cpu_of, self._family))

    def memory(self) -> float:
        """Return the resident memory of the serving process, the last it started, in MB."""
        return float(self._family[-1].memory_info().rss / 1e6)

    def tracebacks(self) -> int:
        """Return how many defects are in its log."""
        return self._log.read_text(encoding="utf-8", errors="replace").count("Traceback")


def cpu_of(process: psutil.Process) -> float:
    """Return the seconds of CPU a process has used, its threads' included."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Load:
    """How many cores other programs keep busy, since it was made."""

    def __init__(self) -> None:
        self._start, self._all, self._own = time.perf_counter(), self._busy(), time.process_time()

    @staticmethod
    def _busy() -> float:
        times = psutil.cpu_times()
        return float(sum(times) - times.idle - getattr(times, "iowait", 0) - getattr(times, "guest", 0))

    @property
    def seconds(self) -> float:
        """Return the seconds since it was made."""
        return time.perf_counter() - self._start

    def others(self, used: float = 0.0) -> float:
        """Return the cores of programs other than this one and those that used so many seconds."""
        return (self._busy() - self._all - (time.process_time() - self._own) - used) / self.seconds


_FENCE = re.compile(r"```nginx\n(.*?)```", re.DOTALL)
_SERVER = re.compile(r"^( *server 127\.0\.0\.1:)8501(.*;)$", re.MULTILINE)
_AROUND = """\
pid {folder}/pid;
events {{ worker_connections 4096; }}
http {{
{paths}
{documented}
}}
"""
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def documented(folder: Path, *, port: int, servers: Sequence[int]) -> str:
    """Return the documentation's configuration; only ports and paths are changed."""
    (example,) = _FENCE.findall((ROOT / "docs" / "deployment.md").read_text(encoding="utf-8"))
    text, result = _SERVER.subn(
        lambda line: "\n".join(f"{line[1]}{server_address}{line[2]}" for server_address in servers), example
    )
    for pattern, ours in (
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (r"listen 80;", f"listen 127.0.0.1:{free_port()};"),
        (r"/etc/letsencrypt/live/rate\.example\.org/", f"{folder}/"),
        (r"/var/log/nginx/", f"{folder}/"),
    ):
        text, times = re.subn(pattern, ours, text)
        result = min(result, times)
    if not result:
        raise RuntimeError(
            "docs/deployment.md's nginx configuration is not the one that this program expects"
        )
    return text


def configure(folder: Path, *, port: int, servers: Sequence[int]) -> None:
    """Write all that nginx needs into a folder: its configuration, and a certificate."""
    _certify(folder)
    paths = "\n".join(f"{name}_temp_path {folder}/{name};" for name in _TEMPORARY)
    example = documented(folder, port=port, servers=servers)
    text = _AROUND.format(folder=folder, paths=paths, documented=example)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")


def command(folder: Path) -> list[str]:
    """Return nginx's command line for such a folder."""
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;"]


def _certify(folder: Path) -> None:
    """Make a certificate for 127.0.0.1 that nobody else has signed."""
    about = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *about, *files]
    subprocess.run(command, check=True, capture_output=True)


_VERDICTS = """
SELECT rater.name, presentation.pair_id, verdict.criterion,
       CASE WHEN verdict.choice = 'tie' THEN 'tie'
            WHEN (verdict.choice = 'A') = (presentation.first = 'a') THEN pair.method_a
            ELSE pair.method_b END
FROM verdict
JOIN presentation ON presentation.id = verdict.presentation_id
JOIN rater ON rater.id = presentation.rater_id
JOIN pair ON pair.id = presentation.pair_id
"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is in the database, beside the raters' own log.

    Attributes:
        acknowledged: Ratings (a pair by a rater) that a page called saved.
        lost: Of these, how many are not stored, or not as they were given.
        doubled: Ratings stored more than once.
        unasked: Ratings stored that nobody sent.
    """

    acknowledged: int
    lost: int
    doubled: int
    unasked: int

    @property
    def wrong(self) -> int:
        """Return how many ratings are lost, doubled, or from nobody."""
        return self.lost + self.doubled + self.unasked


def compare(study: MadeStudy, log: Log) -> Comparison:
    """Compare the raters' log with the study's database, in SQL of its own."""
    number = {pair.id: index for index, pair in enumerate(study.pairs)}
    result: dict[Key, list[str]] = {}
    engine = create_engine(Study.open(study.folder).database)
    with engine.connect() as connection:
        for rater, pair_id, criterion, verdict in connection.execute(sql(_VERDICTS)):
            result.setdefault((rater, number[pair_id], criterion), []).append(verdict)
    engine.dispose()
    return Comparison(
        acknowledged=len(_ratings(log.acknowledged)),
        lost=len(
            _ratings(
                key for key, verdict in log.acknowledged.items() if set(result.get(key, ())) != {verdict}
            )
        ),
        doubled=len(_ratings(key for key, verdicts in result.items() if len(verdicts) > 1)),
        unasked=len(_ratings(result.keys() - log.pressed)),
    )


def _ratings(keys: Iterable[Key]) -> set[tuple[str, int]]:
    return {(rater, pair) for rater, pair, _ in keys}
