"""The server under test, `guard-eval annotate`, as a process; nginx before several; what the database holds.

Linux only: processes are weighed by /proc.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from annotation_client import CRITERIA, Key, Log, MadeStudy
from common import ROOT, descendants, environment, free_port
from sqlalchemy import create_engine
from sqlalchemy import text as sql

from guard_eval.study.folder import Study

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_HEAVY = ("torch", "transformers", "scipy", "statsmodels", "pandas")


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
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 (our own interpreter)
                self._command, stdout=log, stderr=log, env=environment()
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


USER = "www-data"
"""As whom it runs where this program runs as root: Debian's user for it."""

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
    text, found = _SERVER.subn(lambda line: "\n".join(f"{line[1]}{own}{line[2]}" for own in servers), shown)
    for pattern, ours in (
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (r"listen 80;", f"listen 127.0.0.1:{free_port()};"),
        (r"/etc/letsencrypt/live/rate\.example\.org/", f"{folder}/"),
        (r"/var/log/nginx/", f"{folder}/"),
    ):
        text, times = re.subn(pattern, ours, text)
        found = min(found, times)
    if not found:
        raise RuntimeError("docs/deployment.md's nginx configuration is not the one this program knows")
    return text


def missing() -> str:
    """Return which program is not installed, if one is."""
    return next((name for name in ("nginx", "openssl") if shutil.which(name) is None), "")


class Proxy:
    """A running nginx; `url` is where raters go."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"https://127.0.0.1:{port}"
        self.tls = ssl.create_default_context(cafile=folder / "fullchain.pem")

    def cookie(self) -> str:
        """Visit the page as a browser does at first; return the cookie that it sets."""
        reply = self._get("/")
        return str(reply.headers["Set-Cookie"]).partition(";")[0]

    def said(self) -> str:
        """Return its logs."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.log")))

    def wait(self) -> None:
        """Wait until it passes on what a server answers."""
        for _ in range(200):
            try:
                self._get("/_stcore/health")
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"nginx passes nothing on: {self.said()[-2000:]}")

    def _get(self, path: str) -> urllib.request.addinfourl:
        handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.tls)
        with urllib.request.build_opener(*handlers).open(self.url + path, timeout=10) as reply:
            reply.read()
            return reply  # type: ignore[no-any-return]


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
        process = subprocess.Popen(started, stderr=errors)  # noqa: S603 (found by name, its arguments ours)
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
    subprocess.run(made, check=True, capture_output=True)  # noqa: S603 (as above)


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
_QUOTAS = """
SELECT pairs, count(*) FROM (
    SELECT rater.id, count(presentation.rated_at) AS pairs
    FROM rater LEFT JOIN presentation ON presentation.rater_id = rater.id GROUP BY rater.id
) AS each_rater GROUP BY pairs ORDER BY pairs
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
        lost: Of these, how many are not there, or not as they were given.
        doubled: Ratings there more than once.
        unasked: Ratings there that nobody sent.
        in_doubt: Ratings there whose answer never came.
        half: Showings with a verdict on some criteria only, or marked as rated without one.
        overlap: Raters of a pair → pairs.
        quotas: Pairs of a rater → raters.
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
    quotas: Mapping[int, int]
    pair_sides: Mapping[int, int]
    rater_sides: Mapping[int, int]

    @property
    def wrong(self) -> int:
        """Return how many ratings are lost, doubled, or from nobody."""
        return self.lost + self.doubled + self.unasked


def compare(study: MadeStudy, log: Log) -> Comparison:
    """Compare the raters' log with the study's database, in SQL of its own."""
    number = {pair.id: place for place, pair in enumerate(study.pairs)}
    found: dict[Key, list[str]] = {}
    engine = create_engine(Study.open(study.folder).database)
    with engine.connect() as connection:
        for rater, pair_id, criterion, verdict in connection.execute(sql(_VERDICTS)):
            found.setdefault((rater, number[pair_id], criterion), []).append(verdict)
        half = connection.execute(sql(_HALF), {"criteria": len(CRITERIA)}).scalar_one()
        overlap, quotas, pair_sides, rater_sides = (
            {int(row[0]): int(row[1]) for row in connection.execute(sql(statement))}
            for statement in (_OVERLAP, _QUOTAS, _SIDES.format(of="pair_id"), _SIDES.format(of="rater_id"))
        )
    engine.dispose()
    return Comparison(
        acknowledged=len(_ratings(log.acknowledged)),
        lost=len(
            _ratings(key for key, verdict in log.acknowledged.items() if set(found.get(key, ())) != {verdict})
        ),
        doubled=len(_ratings(key for key, verdicts in found.items() if len(verdicts) > 1)),
        unasked=len(_ratings(found.keys() - log.pressed)),
        in_doubt=len(_ratings(found) - _ratings(log.acknowledged)),
        half=half,
        overlap=overlap,
        quotas=quotas,
        pair_sides=pair_sides,
        rater_sides=rater_sides,
    )


def _ratings(keys: Iterable[Key]) -> set[tuple[str, int]]:
    return {(rater, pair) for rater, pair, _ in keys}
