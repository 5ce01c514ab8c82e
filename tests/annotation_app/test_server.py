"""The server around the page: health check, secrets, and limits for strangers."""

import asyncio
import gzip
import http.client
import json
import resource
import socket
import sqlite3
import time
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import streamlit
import uvicorn
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import annotation_app
from annotation_app import connections, logs, server, state

pytestmark = pytest.mark.slow

STATIC = Path(streamlit.__file__).with_name("static")


@pytest.fixture
def health(monkeypatch):
    """Return a function that runs the health check without its memory."""
    monkeypatch.setattr(server, "HEALTH_SECONDS", 1.0)

    def ask():
        monkeypatch.setattr(server, "_last_check", [(-9e9, 0)])
        answer = asyncio.run(server.check_health(None))
        return answer.status_code, json.loads(answer.body)

    return ask


@pytest.mark.both_databases
def test_health_reports_the_state_of_the_database(study, databases, health):
    built = study()
    assert health() == (200, {"status": "ok"})
    with databases.away(built.database):
        assert health() == (503, {"status": "unavailable", "cause": "database"})
    assert health() == (200, {"status": "ok"})


def test_health_fails_if_the_database_does_not_answer(study, health, monkeypatch):
    with closing(sqlite3.connect(study().folder / "study.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert health()[0] == 503
        other.execute("ROLLBACK")
    assert health()[0] == 200
    # Nor one on a network's disk that hangs: whoever rates meanwhile is served.
    monkeypatch.setattr(state.App, "check_database_file_unchanged", lambda _app: time.sleep(4))
    begin = time.monotonic()
    assert health()[0] == 503
    assert time.monotonic() - begin < 3


def test_health_fails_if_the_disk_is_full(serve):
    """A limit of the kernel stops all writing, as on a full disk, and is removed again."""
    url = serve().url
    soft, hard = resource.prlimit(find_server_process(url), resource.RLIMIT_FSIZE)
    for limit, status in ((soft, 200), (1, 503), (soft, 200)):
        resource.prlimit(find_server_process(url), resource.RLIMIT_FSIZE, (limit, hard))
        end = time.monotonic() + 30
        while send_request(url, "GET", "/health")[0] != status:
            assert time.monotonic() < end
            time.sleep(0.5)


def make_websocket_options(url):
    """Return the arguments that open the page's websocket."""
    return {
        "uri": f"ws{url.removeprefix('http')}/_stcore/stream",
        "origin": url,
        "max_size": None,
        "compression": None,
    }


def run_page(url, query):
    """Run the page as a browser does, and return all received messages."""
    messages = []
    with connect(**make_websocket_options(url)) as page:
        page.send(BackMsg(rerun_script={"query_string": query}).SerializeToString())
        while not messages or ForwardMsg.FromString(messages[-1]).WhichOneof("type") != "script_finished":
            messages.append(page.recv(30))
    return messages


# Strangers, who hold what they can and say nothing.


def test_idle_visitors_cannot_use_up_open_files(serve, tmp_path):
    """There are more visitors than the limit of files allows. No file stays open after they leave."""
    served = serve(most_files=400)
    process = pytest.importorskip("psutil").Process(find_server_process(served.url))
    before = process.num_fds()
    with ExitStack() as strangers:
        for _ in range(110):
            strangers.enter_context(connect(**make_websocket_options(served.url)))
        assert process.num_fds() < 300
        assert send_request(served.url, "GET", "/health")[0] == 200
        token = served.built.tokens["ann"]
        assert b"What to judge" in b"".join(run_page(served.url, f"invite={token}"))
    end = time.monotonic() + 30
    while process.num_fds() > before + 10:
        assert time.monotonic() < end
        time.sleep(0.2)
    named = [
        line for line in (tmp_path / "log").read_text().splitlines() if "visitors have not signed in" in line
    ]
    assert len(named) == 1


def test_idle_connections_cannot_use_up_open_files(serve, tmp_path):
    served = serve(most_files=400)
    address = urlsplit(served.url)
    with ExitStack() as strangers:
        for _ in range(450):
            strangers.enter_context(socket.create_connection((address.hostname, address.port)))
        assert send_request(served.url, "GET", "/health")[0] == 200
    assert "connections are open: the oldest are ended" in (tmp_path / "log").read_text()


def test_a_connection_without_a_request_is_closed(monkeypatch):
    """The connection is silent at once, after a part of a request, or after a whole one."""
    monkeypatch.setattr(connections, "SILENT_SECONDS", 0.3)

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    async def wait_for_ends():
        config = uvicorn.Config(app, http=connections.Connection, lifespan="off", timeout_keep_alive=60)
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: connections.Connection(config, state, {}), "127.0.0.1", 0
        )
        port = listening.sockets[0].getsockname()[1]
        for sent in (
            b"",
            b"GET / HT",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            async with asyncio.timeout(10):
                await reader.read()
            writer.close()
        listening.close()

    asyncio.run(wait_for_ends())


def test_the_health_page_reports_too_many_open_files(study, health, monkeypatch):
    study()
    monkeypatch.setattr(connections.Connection, "limit", connections.count_open_files() // 4)
    assert health() == (503, {"status": "unavailable", "cause": "open files"})


def test_the_limit_of_open_files_is_raised(serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("the system allows few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        limit = resource.prlimit(find_server_process(serve().url), resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert limit > 1024


def test_no_response_reveals_the_folder_of_the_server(served):
    folder = str(Path(annotation_app.__file__).parent)
    for token in ("", "x"):
        received = b"".join(run_page(served.url, f"invite={token}"))
        assert b"Open the invite link" in received
        assert folder.encode() not in received


# An empty page has a cause, which is in the log.


def test_the_cause_of_an_empty_page_is_logged_once_a_minute(serve, tmp_path):
    url = serve().url
    for _ in range(3):
        send_handshake(url, "Host: 10.0.0.5:8501", "Origin: https://rate.example.org")
        send_request(url, "GET", "/_stcore/stream")
        for cause in ("websocket", "page", "nonsense"):
            assert send_request(url, "GET", f"/empty-page?cause={cause}")[0] == 204
    log = (tmp_path / "log").read_text()
    for words in (
        "a page at 'https://rate.example.org' was refused, because it was sent to '10.0.0.5:8501'",
        "/_stcore/stream was requested without Upgrade",
        "no websocket reaches /_stcore/stream",
        "though its websocket works",
    ):
        assert log.count(words) == 1, words


def test_a_new_cause_of_an_empty_page_is_logged_at_once(caplog, monkeypatch):
    monkeypatch.setattr(logs, "_last_warnings", {})
    for values in (("a", 1), ("a", 2), ("b", 1)):
        logs.warn_once_a_minute(f"{values[0]} %d", values[1])
    assert caplog.messages == ["a 1", "b 1"]


def test_the_first_page_has_the_language_of_the_study(serve):
    text = send_request(serve(more='language = "de"').url, "GET", "/")[1].decode()
    assert '<html lang="de" dir="ltr" translate="no" class="notranslate">' in text
    for name in ("google", "format-detection", "darkreader-lock"):
        assert f'<meta name="{name}"' in text
    assert '<noscript><p class="ge-start">Diese Seite braucht JavaScript.' in text


def send_handshake(url, *headers, path="/_stcore/stream"):
    """Send a websocket's first request with these headers, and return the status of the answer."""
    address = urlsplit(url)
    lines = (
        f"GET {path} HTTP/1.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *(header.format(url=url, host=address.netloc, port=address.port) for header in headers),
    )
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (101, ["Host: {host}", "Origin: {url}"]),
        (101, ["Host: {host}"]),  # no browser leaves the origin out
        (101, ["Host: rate.example.org", "Origin: https://rate.example.org"]),
        # A browser sends all cookies of the host, other programs' too.
        (101, ["Host: {host}", "Origin: {url}", f"Cookie: other={'x' * 60_000}"]),
        (101, ["Host: [::1]:{port}", "Origin: http://[::1]:{port}"]),
        (403, ["Host: {host}", "Origin: http://stranger.example"]),
        (403, ["Host: {host}", "Origin: null"]),
        # Streamlit lets in whatever this machine serves.
        (403, ["Host: {host}", "Origin: http://127.0.0.1:1"]),
        (403, ["Host: {host}", "Origin: http://localhost:{port}"]),
        (403, ["Host: {host}", "Origin: http://{host}.stranger.example"]),
        (403, ["Host: {host}", "Origin: http://stranger.example@{host}"]),
        (400, ["Host: {host}", "Origin: {url}", "Origin: http://stranger.example"]),
        (403, ["Host: {host}", "Origin: http://stranger.example", "X-Forwarded-Host: stranger.example"]),
    ],
)
def test_websockets_accept_only_pages_of_this_server(served, status, headers):
    assert send_handshake(served.url, *headers) == status


def test_paths_that_raters_do_not_need_are_not_found(served):
    upload = "upload_file/session/file"
    refused = [
        *(f"{start}/{upload}" for start in ("/_stcore", "/_stcore/", "//_stcore", "/x/_stcore")),
        *("/%5Fstcore/upload%5Ffile/session/file", f"/_stcore%2F{upload}", f"/static/../_stcore/{upload}"),
        *("/app/static/file", "/media/file", "/component/name/file", "/_stcore/bidi-components/name/file"),
        *("/_stcore/metrics", "/_stcore/script-health-check"),
        *("/_stcore/agent/mcp", "/_stcore/agent/openapi.json"),
    ]
    read_only = server.PATHS - {"/auth/login", "/auth/logout", "/oauth2callback"}
    changes = ("PUT", "POST", "DELETE", "PATCH", "TRACE")
    requests = [*product(refused, (*changes, "GET", "OPTIONS")), *product(read_only, changes)]
    for path, method in requests:
        assert send_request(served.url, method, path, body=b"x")[0] in {400, 404, 405}, (method, path)


def send_request(url, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
    answer = connection.getresponse()
    result = answer.status, answer.read()
    connection.close()
    return result


def read_peak_memory(process):
    """Return the peak memory of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def find_server_process(url):
    """Return the id of the process that listens on the port of a URL."""
    psutil = pytest.importorskip("psutil")
    port = urlsplit(url).port
    return next(
        result.pid
        for result in psutil.net_connections("tcp")
        if result.status == "LISTEN" and result.laddr.port == port
    )


def make_widget_message(size):
    message = BackMsg()
    state = message.rerun_script.widget_states.widgets.add()
    state.id, state.string_value = "stranger", "x" * size
    return message.SerializeToString()


def send_and_listen(page, message):
    page.send(message)
    while True:
        page.recv(30)


def test_large_messages_are_refused_before_they_are_read(served):
    process = find_server_process(served.url)
    before = read_peak_memory(process)
    pieces = (make_widget_message(40_000_000)[at : at + 2**19] for at in range(0, 40_000_000, 2**19))
    for message in (make_widget_message(1_200_000), pieces):
        with connect(**make_websocket_options(served.url)) as page:
            with pytest.raises(ConnectionClosed) as closed:
                send_and_listen(page, message)
            assert closed.value.rcvd.code == 1009  # too big
    assert read_peak_memory(process) - before < 40_000_000


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


def test_server_opens_no_connection_and_refuses_text_messages(serve, tmp_path, monkeypatch):
    """Streamlit would log a traceback for each text message, which `serve` would find."""
    calls = tmp_path / "calls"
    (tmp_path / "sitecustomize.py").write_text(WATCH % str(calls))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    served = serve()
    for origin in (served.url, "http://stranger.example", "null", "http://127.0.0.1:1"):
        send_handshake(served.url, "Host: {host}", f"Origin: {origin}")
        for path in ("/", "/health", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics"):
            send_request(served.url, "GET", path, Origin=origin)
    invite = f"invite={served.built.tokens['ann']}"
    with connect(**make_websocket_options(served.url)) as page:
        page.send(BackMsg(rerun_script={"query_string": invite}).SerializeToString())
        assert page.recv(30)
        with pytest.raises(ConnectionClosed):
            send_and_listen(page, "text")
    assert not calls.exists(), calls.read_text()


def test_the_first_files_arrive_compressed_and_complete(served):
    script = max((STATIC / "static" / "js").glob("*.js"), key=lambda path: path.stat().st_size)
    body = send_request(served.url, "GET", f"/static/js/{script.name}", **{"Accept-Encoding": "gzip"})[1]
    assert gzip.decompress(body) == script.read_bytes()
    assert len(body) < script.stat().st_size / 2
