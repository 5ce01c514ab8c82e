"""A real nginx of our own in front of several servers, configured as docs/deployment.md shows."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from annotation_server import ROOT, free_port

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
