"""The server around the page: whether it is well, what it tells nobody, and what a stranger can do to it."""

import asyncio
import gzip
import http.client
import json
import re
import resource
import socket
import sqlite3
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import streamlit
from app_browser import serving
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from annotation_app import server

pytestmark = pytest.mark.slow

STATIC = Path(streamlit.__file__).with_name("static")


@pytest.fixture
def health(monkeypatch):
    """Ask whether a rating could be saved; no answer is remembered."""
    monkeypatch.setattr(server, "HEALTH_SECONDS", 1.0)

    def ask():
        monkeypatch.setattr(server, "_last_check", [(-9e9, 0)])
        answer = asyncio.run(server.health(None))
        return answer.status_code, json.loads(answer.body)

    return ask


@pytest.mark.both_databases
def test_health_is_the_databases(study, databases, health):
    built = study()
    assert health() == (200, {"status": "ok"})
    with databases.away(built.database):
        assert health() == (503, {"status": "unavailable"})
    assert health() == (200, {"status": "ok"})


def test_a_locked_database_is_not_well(study, health):
    built = study()
    with sqlite3.connect(built.folder / "study.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert health() == (503, {"status": "unavailable"})
        other.execute("ROLLBACK")
    assert health()[0] == 200


def test_a_server_whose_disk_is_full_is_not_well(study, tmp_path):
    """The kernel lets the process write nothing, as where no space is left; then there is space again."""
    with serving(study().folder, tmp_path / "log") as url:

        def wait_for(status):
            end = time.monotonic() + 30
            while (answer := request(url, "GET", "/health")[0]) != status and time.monotonic() < end:
                time.sleep(0.5)
            return answer

        assert wait_for(200) == 200
        soft, hard = resource.prlimit(listener(url), resource.RLIMIT_FSIZE)
        resource.prlimit(listener(url), resource.RLIMIT_FSIZE, (1, hard))
        assert wait_for(503) == 503
        resource.prlimit(listener(url), resource.RLIMIT_FSIZE, (soft, hard))
        assert wait_for(200) == 200


def handshake(url, *headers, path="/_stcore/stream"):
    """Return how a server answers a websocket's first request, sent as it is here."""
    address = urlsplit(url)
    lines = (
        f"GET {path} HTTP/1.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *(header.format(url=url, host=address.netloc, port=address.port) for header in headers),
    )
    with socket.create_connection((address.hostname, address.port), timeout=30) as made:
        made.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return int(made.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (101, ["Host: {host}", "Origin: {url}"]),
        (101, ["Host: {host}"]),  # no browser leaves the origin out
        (101, ["Host: rate.example.org", "Origin: https://rate.example.org"]),
        (101, ["Host: [::1]:{port}", "Origin: http://[::1]:{port}"]),
        (403, ["Host: {host}", "Origin: http://stranger.example"]),
        (403, ["Host: {host}", "Origin: null"]),
        (403, ["Host: {host}", "Origin: "]),
        # Streamlit lets in whatever this machine serves.
        (403, ["Host: {host}", "Origin: http://127.0.0.1:1"]),
        (403, ["Host: {host}", "Origin: http://localhost:{port}"]),
        (403, ["Host: {host}", "Origin: file://{host}"]),
        (403, ["Host: {host}", "Origin: http://[::1"]),
        (403, ["Host: {host}", "Origin: http://{host}.stranger.example"]),
        (403, ["Host: {host}", "Origin: http://stranger.example@{host}"]),
        (400, ["Host: {host}", "Origin: {url}", "Origin: http://stranger.example"]),
        (403, ["Host: {host}", "Origin: http://stranger.example", "X-Forwarded-Host: stranger.example"]),
        (403, ["Host: rate.example.org:80", "Origin: https://rate.example.org"]),
    ],
)
def test_a_websocket_is_for_pages_of_this_server(served, status, headers):
    assert handshake(served.url, *headers) == status


def test_there_is_nothing_where_raters_have_no_business(served):
    paths = (
        "/_stcore/upload_file/session/file",
        "/_stcore//upload_file/session/file",
        "//_stcore/upload_file/session/file",
        "/%5Fstcore/upload%5Ffile/session/file",
        "/_stcore%2Fupload_file/session/file",
        "/x/_stcore/upload_file/session/file",
        "/static/../_stcore/upload_file/session/file",
        "/media/file",
        "/component/name/file",
        "/_stcore/bidi-components/name/file",
        "/_stcore/metrics",
        "/_stcore/script-health-check",
        "/_stcore/agent/mcp",
        "/_stcore/agent/openapi.json",
        "/app/static/file",
    )
    for path in paths:
        for method in ("PUT", "POST", "DELETE", "OPTIONS", "PATCH", "GET", "TRACE"):
            status = request(served.url, method, path, body=b"x")[0]
            assert status in {400, 404, 405}, (method, path, status)


def test_what_is_only_read_takes_nothing(served):
    for path in ("/", "/health", "/favicon.png", "/manifest.json", "/_stcore/health", "/_stcore/host-config"):
        for method in ("PUT", "POST", "DELETE", "PATCH"):
            assert request(served.url, method, path, body=b"x")[0] == 405, (method, path)


def request(url, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
    answer = connection.getresponse()
    result = answer.status, answer.read()
    connection.close()
    return result


def memory(process):
    """Return the bytes of memory a process has at most had."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def listener(url):
    """Return the process that listens on a port of this machine."""
    psutil = pytest.importorskip("psutil")
    port = urlsplit(url).port
    return next(
        result.pid
        for result in psutil.net_connections("tcp")
        if result.status == "LISTEN" and result.laddr.port == port
    )


def widget(size):
    message = BackMsg()
    state = message.rerun_script.widget_states.widgets.add()
    state.id, state.string_value = "stranger", "x" * size
    return message.SerializeToString()


def send_and_listen(page, message):
    page.send(message)
    while True:
        page.recv(30)


def test_large_messages_are_refused_before_they_fill_the_memory(served):
    process = listener(served.url)
    before = memory(process)
    piece = b"x" * 2**20
    chunked = {"Transfer-Encoding": "chunked"}
    assert request(served.url, "POST", "/", (piece for _ in range(100)), **chunked)[0] == 405
    assert (
        request(served.url, "GET", "/health", (piece for _ in range(100)), **chunked)[0] == 200
    )  # read by nobody
    stream = f"ws{served.url.removeprefix('http')}/_stcore/stream"
    for message in (
        widget(1_200_000),
        (widget(40_000_000)[at : at + 2**19] for at in range(0, 40_000_000, 2**19)),
    ):
        with connect(stream, origin=served.url, max_size=None, compression=None) as page:
            with pytest.raises(ConnectionClosed) as closed:
                send_and_listen(page, message)
            assert closed.value.rcvd.code == 1009  # too big
    with connect(stream, origin=served.url, max_size=None) as page:
        page.send(widget(900_000))
        assert page.recv(30)
    assert memory(process) - before < 40_000_000


WATCH = """
import sys

def watch(event, arguments):
    if event in {"socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"}:
        address = arguments[0] if isinstance(arguments[0], (str, bytes)) else arguments[1]
        host = address[0] if isinstance(address, tuple) else address
        if host not in {None, "127.0.0.1", "::1", "localhost"}:
            with open(%r, "a") as log:
                log.write(f"{event} {host}\\n")

sys.addaudithook(watch)
"""


def test_the_server_calls_nobody(build_study, tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    (tmp_path / "sitecustomize.py").write_text(WATCH % str(calls))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    built = build_study(tmp_path / "study", number=1, hostile=("a", "b"))
    with serving(built.folder, tmp_path / "log") as url:
        for origin in (url, "http://stranger.example", "null", "http://127.0.0.1:1"):
            handshake(url, "Host: {host}", f"Origin: {origin}")
            for path in ("/", "/health", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics"):
                request(url, "GET", path, Origin=origin)
        with connect(f"ws{url.removeprefix('http')}/_stcore/stream", origin=url) as page:
            page.send(
                BackMsg(rerun_script={"query_string": f"invite={built.tokens['ann']}"}).SerializeToString()
            )
            assert page.recv(30)
    assert not calls.exists(), calls.read_text()


def test_everything_the_page_begins_with_arrives_compressed_and_whole(served):
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    address = urlsplit(served.url)
    plain = compressed = 0
    for path in ("/", *re.findall(r'(?:src|href)="\.(/static/[^"]+)"', index)):
        content = (STATIC / ("index.html" if path == "/" else path[1:])).read_bytes()
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        plain, compressed = plain + len(content), compressed + len(body)
        assert (gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body) == content
        connection.close()
    assert compressed < 1_000_000 < plain / 2  # at 100 kB a second a first visit takes at most ten
