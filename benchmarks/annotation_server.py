"""The server under test, `guard-eval annotate`; nginx before several of them; what the database holds."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from annotation_client import CRITERIA, Key, Log, MadeStudy
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
        own = [sys.executable, "-P", "-m", "guard_eval", "annotate", str(folder), "--port"]
        self._command = [*(command or own), str(self.port)]
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
        own = psutil.Process(process.pid)
        self._process, self._family = process, [own, *own.children(recursive=True)]

    def kill(self) -> None:
        """End it at once, with SIGKILL: all its processes, the serving one first."""
        assert self._process is not None
        for process in reversed(self._family):
            process.kill()
        self._process.wait()

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


USER = "www-data"
"""Debian's user for nginx, where this program runs as root."""

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
    (shown,) = _FENCE.findall((ROOT / "docs" / "deployment.md").read_text(encoding="utf-8"))
    text, result = _SERVER.subn(lambda line: "\n".join(f"{line[1]}{own}{line[2]}" for own in servers), shown)
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


class Proxy:
    """A running nginx; `url` is where raters go."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"https://127.0.0.1:{port}"
        self.tls = ssl.create_default_context(cafile=folder / "fullchain.pem")

    def cookie(self) -> str:
        """Visit the page as a browser does at first; return the cookie that it sets."""
        reply = self._get("/")
        return str(reply.headers["Set-Cookie"]).partition(";")[0]

    def logs(self) -> str:
        """Return its logs."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.log")))

    def wait(self) -> None:
        """Wait until it passes on what a server answers."""

        def passes() -> bool:
            with suppress(OSError):
                self._get("/_stcore/health")
                return True
            return False

        wait_until(passes, seconds=10, what="nginx's first answer")

    def _get(self, path: str) -> urllib.request.addinfourl:
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls)
        with urllib.request.build_opener(*handlers).open(self.url + path, timeout=10) as reply:
            reply.read()
            return reply


def configure(folder: Path, *, port: int, servers: Sequence[int]) -> None:
    """Write all that nginx needs into a folder: its configuration, and a certificate."""
    _certify(folder)
    paths = "\n".join(f"{name}_temp_path {folder}/{name};" for name in _TEMPORARY)
    shown = documented(folder, port=port, servers=servers)
    text = _AROUND.format(folder=folder, paths=paths, documented=shown)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")


def command(folder: Path) -> list[str]:
    """Return nginx's command line for such a folder."""
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;"]


@contextmanager
def proxied(servers: Sequence[int]) -> Iterator[Proxy]:
    """Start nginx in front of the servers at these ports, and end it."""
    folder, port = Path(tempfile.mkdtemp(prefix="nginx")), free_port()
    configure(folder, port=port, servers=servers)
    started = command(folder)
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, USER, USER)
        started = ["runuser", "-u", USER, "--", *started]
    with (folder / "stderr.log").open("wb") as errors:
        process = subprocess.Popen(started, stderr=errors)
    try:
        proxy = Proxy(folder, port)
        proxy.wait()
        yield proxy
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _certify(folder: Path) -> None:
    """Make a certificate for 127.0.0.1 that nobody else has signed."""
    about = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    files = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *about, *files]
    subprocess.run(made, check=True, capture_output=True)


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
_OVERLAP = """
SELECT raters, count(*) FROM (
    SELECT pair.id, count(DISTINCT presentation.rater_id) AS raters
    FROM pair
    LEFT JOIN presentation ON presentation.pair_id = pair.id AND presentation.rated_at IS NOT NULL
    GROUP BY pair.id
) AS each_pair GROUP BY raters ORDER BY raters
"""
_SIDES = """
SELECT difference, count(*) FROM (
    SELECT abs(sum(CASE first WHEN 'a' THEN 1 ELSE -1 END)) AS difference
    FROM presentation WHERE rated_at IS NOT NULL GROUP BY {of}
) AS each_one GROUP BY difference ORDER BY difference
"""
_HALF = """
SELECT count(*) FROM presentation WHERE (rated_at IS NOT NULL) <> (
    (SELECT count(*) FROM verdict WHERE presentation_id = presentation.id) > 0
) OR (SELECT count(*) FROM verdict WHERE presentation_id = presentation.id) NOT IN (0, :criteria)
"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is in the database, beside the raters' own log.

    Attributes:
        acknowledged: Ratings (a pair by a rater) that a page called saved.
        lost: Of these, how many are not stored, or not as they were given.
        doubled: Ratings stored more than once.
        unasked: Ratings stored that nobody sent.
        in_doubt: Ratings stored whose answer never came.
        half: Showings with a verdict on some criteria only, or marked as rated without one.
        overlap: Raters of a pair → pairs.
        pair_sides: Showings of a pair with its first text as A less those with its second → pairs.
        rater_sides: Likewise of a rater → raters.
    """

    acknowledged: int
    lost: int
    doubled: int
    unasked: int
    in_doubt: int
    half: int
    overlap: Mapping[int, int]
    pair_sides: Mapping[int, int]
    rater_sides: Mapping[int, int]

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
        half = connection.execute(sql(_HALF), {"criteria": len(CRITERIA)}).scalar_one()
        overlap, pair_sides, rater_sides = (
            {int(row[0]): int(row[1]) for row in connection.execute(sql(statement))}
            for statement in (_OVERLAP, _SIDES.format(of="pair_id"), _SIDES.format(of="rater_id"))
        )
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
        in_doubt=len(_ratings(result) - _ratings(log.acknowledged)),
        half=half,
        overlap=overlap,
        pair_sides=pair_sides,
        rater_sides=rater_sides,
    )


def _ratings(keys: Iterable[Key]) -> set[tuple[str, int]]:
    return {(rater, pair) for rater, pair, _ in keys}
