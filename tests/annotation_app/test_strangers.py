"""What somebody without an invite can do to a server: be refused, and nothing that others would notice."""

import asyncio
import http.client
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from app_browser import serving
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from annotation_app.server.middleware import AddressFilter

pytestmark = pytest.mark.slow


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
        (101, ["Host: RATE.example.org:{port}", "Origin: http://rate.Example.org:{port}"]),
        (101, ["Host: rate.example.org", "Origin: https://rate.example.org"]),
        (101, ["Host: rate.example.org:443", "Origin: https://rate.example.org"]),
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


def test_only_the_pages_own_websocket_exists(served):
    for path in ("/", "/stream", "/x/_stcore/stream", "/_stcore/stream/", "//_stcore/stream"):
        assert handshake(served.url, "Host: {host}", "Origin: {url}", path=path) == 403


def passed_on(proxies, peer, **headers):
    """Return the host that Streamlit would see; None for a websocket that it does not see at all."""
    seen: list[dict[bytes, bytes]] = []

    async def streamlit(scope, receive, send):
        seen.append(dict(scope["headers"]))

    async def send(message):
        assert message == {"type": "websocket.close", "code": 1008, "reason": ""}

    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": "/_stcore/stream", "headers": pairs, "client": (peer, 4711)}
    asyncio.run(AddressFilter(streamlit, proxies=proxies)(scope, None, send))
    return seen[0][b"host"].decode() if seen else None


@pytest.mark.parametrize(
    ("proxies", "peer", "believed"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("10.0.0.0/8,::1", "10.1.2.3", True),
        ("10.0.0.0/8,::1", "::1", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("127.0.0.1", "", False),
    ],
)
def test_only_a_named_proxy_is_believed_which_host_was_asked(proxies, peer, believed):
    headers = {"host": "app:8501", "origin": "https://rate.example.org"}
    seen = passed_on(proxies, peer, **headers, x_forwarded_host="stranger.example, Rate.Example.org")
    assert seen == ("rate.example.org" if believed else None)
    # What was written before the proxy's own word is anybody's.
    assert passed_on(proxies, peer, **headers, x_forwarded_host="rate.example.org, app:8501") is None


def test_streamlit_never_compares_an_origin_with_this_machines_addresses():
    from streamlit.web.server.starlette.starlette_websocket import _is_origin_allowed

    for host, origin in (("RATE.example.org:443", "https://rate.example.org"), ("[::1]:80", "http://[::1]")):
        assert _is_origin_allowed(origin, passed_on("", "", host=host, origin=origin))


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "OPTIONS", "PATCH", "GET", "TRACE"])
@pytest.mark.parametrize(
    "path",
    [
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
        "/app/static/file",
    ],
)
def test_there_is_nothing_where_raters_have_no_business(served, method, path):
    assert request(served.url, method, path, body=b"x")[0] in {400, 404, 405}


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "OPTIONS", "PATCH"])
def test_no_address_takes_anything(served, method):
    for path in ("/", "/health", "/_stcore/health", "/_stcore/host-config", "/static/x"):
        assert request(served.url, method, path, body=b"x")[0] == 405


def request(url, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    connection.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def memory(process):
    """Return the bytes of memory a process has at most had."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def listener(url):
    """Return the process that listens on a port of this machine."""
    psutil = pytest.importorskip("psutil")
    port = urlsplit(url).port
    return next(
        found.pid
        for found in psutil.net_connections("tcp")
        if found.status == "LISTEN" and found.laddr.port == port
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


def test_a_page_larger_than_what_may_come_in_is_sent(build_study, tmp_path):
    """Streamlit has one limit for both directions."""
    long = " ".join(["word"] * 300_000)
    names = ("ann", "ben", "cas", "dan", "eve", "fay")
    built = build_study(tmp_path / "study", number=1, hostile=(long, long), raters=names, slots=len(names))
    with built.open() as store:
        for name in names:
            rater = store.sign_in(built.tokens[name])
            pair = store.hand_out(rater, built.plan)[0]
            if len(pair.text_a) < len(long):
                break
        # Who has rated once is shown the next pair at once.
        store.save(pair.presentation, {"coherence": "A", "fluency": "A"}, rater=rater)
    received = b""
    with serving(built.folder, tmp_path / "log") as url:
        stream = f"ws{url.removeprefix('http')}/_stcore/stream"
        with connect(stream, origin=url, max_size=None) as page:
            page.send(
                BackMsg(rerun_script={"query_string": f"invite={built.tokens[name]}"}).SerializeToString()
            )
            while b"word word" not in received:
                received = page.recv(60)
    assert received.count(b"word ") == 2 * 299_999


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
