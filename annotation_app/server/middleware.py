"""What reaches Streamlit, and what leaves the server: few addresses, one origin, no paths of this machine.

ASGI middlewares around Streamlit's own application. They hold whatever page is shown, and whatever
Streamlit answers or puts into its messages by itself.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import ipaddress
import re
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

_FILES = Path(streamlit.__file__).with_name("static")
_INDEX = _FILES / "index.html"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def _own_scripts() -> str:
    """Return the hashes that allow the scripts inside Streamlit's index.html, and no other inline script."""
    scripts = _INLINE.findall(_INDEX.read_text(encoding="utf-8"))
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


POLICY = "; ".join(
    (
        "default-src 'self'",
        # Streamlit's styles are injected, and its favicon may be a data URL; nothing is fetched from
        # elsewhere.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        # blob: is how Streamlit loads a component's script (pages/page.js).
        f"script-src 'self' blob: {_own_scripts()}",
        "connect-src 'self' ws: wss:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""The Content-Security-Policy: a text that slipped through as HTML could run nothing and reach no server."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    # The invite is in the page's address; no other site may learn it.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class SecurityHeaders:
    """Add `HEADERS` to every HTTP response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, with the headers added."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, add if scope["type"] == "http" else send)


METHODS = ("GET", "HEAD")
ADDRESSES = frozenset(
    {
        *("/", "/favicon.png", "/manifest.json", "/health", "/_stcore/health", "/_stcore/host-config"),
        *("/auth/login", "/auth/logout", "/oauth2callback"),
    }
)
"""What a rater's browser, a provider of accounts or whatever watches the server asks for, and `STATIC`."""
STATIC = "/static/"
STREAM = "/_stcore/stream"
"""The page's websocket."""


class AddressFilter:
    """Let through `METHODS` at `ADDRESSES`, and our own page's websocket; Streamlit never sees the rest.

    Streamlit accepts uploads without an invite, and shows details of its program. It compares the origin of a
    foreign websocket with this machine's addresses, for which it asks the internet while everybody waits.
    """

    def __init__(self, app: ASGIApp, proxies: str = "") -> None:
        """Take `proxies`, addresses or networks with commas: only their X-Forwarded-Host is believed."""
        self._app = app
        self._proxies = [ipaddress.ip_network(part, strict=False) for part in proxies.split(",") if part]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, but for what is refused."""
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            path = scope["path"]
            if path not in ADDRESSES and not path.startswith(STATIC):
                answer = PlainTextResponse("Not Found", status_code=404)
            elif scope["method"] not in METHODS:
                answer = PlainTextResponse("Method Not Allowed", 405, headers={"Allow": ", ".join(METHODS)})
        elif scope["type"] == "websocket":
            host = self._own_host(scope, receive) if scope["path"] == STREAM else None
            if host is None:
                answer = WebSocketClose(code=1008)  # a policy was broken
            else:
                # Streamlit compares letter by letter: a host written otherwise would be foreign to it.
                headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
                scope = {**scope, "headers": [*headers, (b"host", host.encode("latin-1"))]}
        await answer(scope, receive, send)

    def _own_host(self, scope: Scope, receive: Receive) -> str | None:
        """Return the page's host as its origin has it; None for an origin that is not ours.

        A program sends no origin, and a browser always does.
        """
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if not origins:
            return hosts[0] if len(hosts) == 1 else None
        if self._is_proxy(_peer(scope, receive)):
            # the last one is the proxy's own
            hosts += [value.rpartition(",")[2].strip() for value in headers.getlist("x-forwarded-host")[-1:]]
        same = len(origins) == 1 and any(_same_host(origins[0], host) for host in hosts)
        return urlsplit(origins[0]).netloc if same else None

    def _is_proxy(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        plain = getattr(address, "ipv4_mapped", None) or address
        return any(plain in network for network in self._proxies)


def _same_host(origin: str, host: str) -> bool:
    """Return whether a page of `origin` is one of `host`, in any case, with or without its port."""
    try:
        page, own = urlsplit(origin), urlsplit(f"//{host}")
        usual = {"http": 80, "https": 443}[page.scheme]
        return (
            bool(page.hostname)
            and origin.lower() == f"{page.scheme}://{page.netloc}".lower()
            and (page.username, own.username, own.path) == (None, None, "")
            and (page.hostname, page.port or usual) == (own.hostname, own.port or usual)
        )
    except (KeyError, ValueError):
        return False


_COMPRESSIBLE = {".css", ".html", ".js", ".json", ".svg"}
"""Fonts and pictures are compressed as they are."""
_SMALLEST = 1000
"""Bytes below which a file is sent in one packet anyway."""


class CompressFiles:
    """Send Streamlit's own files compressed, which Streamlit leaves to a proxy: each is compressed once.

    They are the same for everybody, whatever the request says: no secret is compressed with a stranger's
    input. All else passes unchanged, so does a request for a part of a file, which is a part of the file as
    it is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        files = [path for path in _FILES.rglob("*") if path.suffix in _COMPRESSIBLE]
        large = [path for path in files if path.stat().st_size >= _SMALLEST]
        self._files = {f"/{path.relative_to(_FILES).as_posix()}": path for path in large} | {"/": _INDEX}
        self._compressed: dict[Path, bytes] = {}
        self._compressing = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, with the file's content compressed."""
        file = self._files.get(scope["path"]) if scope["type"] == "http" else None
        if file is None or scope["method"] not in METHODS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        body = None
        if "range" not in headers and _takes_gzip(headers):
            body = await to_thread.run_sync(self._compress, file)
        # The application then says all of the file but its content.
        inner = scope if body is None else {**scope, "method": "HEAD"}
        found = False

        async def compress(message: Message) -> None:
            nonlocal found
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.add_vary_header("Accept-Encoding")
                found = body is not None and message["status"] == 200
                if body is not None and found:
                    answer["Content-Encoding"] = "gzip"
                    answer["Content-Length"] = str(len(body))
                    # Other bytes than the plain file's, and the same meaning.
                    answer["ETag"] = f"W/{answer['ETag']}"
            elif found and scope["method"] == "GET":
                message = {**message, "body": body}
            await send(message)

        await self._app(inner, receive, compress)

    def _compress(self, file: Path) -> bytes:
        with self._compressing:
            if file not in self._compressed:
                self._compressed[file] = gzip.compress(file.read_bytes(), mtime=0)
            return self._compressed[file]


def _takes_gzip(headers: Headers) -> bool:
    """Return whether the client accepts gzip: `gzip;q=0` refuses it."""
    weights = {}
    for value in headers.getlist("accept-encoding"):
        for part in value.lower().split(","):
            name, _, weight = part.partition(";")
            weights[name.strip()] = weight.replace(" ", "")
    given = weights.get("gzip", weights.get("*", "q=0"))
    return re.fullmatch(r"q=0(\.0*)?", given) is None


class HidePath:
    """Replace the absolute path of `page`, which Streamlit sends to every browser, by its file name."""

    def __init__(self, app: ASGIApp, page: Path) -> None:
        self._app = app
        self._name = page.name
        self._needle = str(page).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, without the path."""

        async def hide(message: Message) -> None:
            data = message.get("bytes")
            # Only the first message of a run carries the path: the others cost one search.
            if data and self._needle in data:
                message = {**message, "bytes": self._without_path(data)}
            await send(message)

        await self._app(scope, receive, hide if scope["type"] == "websocket" else send)

    def _without_path(self, data: bytes) -> bytes:
        forward = ForwardMsg.FromString(data)
        forward.new_session.main_script_path = self._name
        return bytes(forward.SerializeToString())


class SendAtOnce:
    """Let the system send every message at once.

    Streamlit opens its port in a way in which asyncio does not recognise TCP, and leaves Nagle's algorithm
    on: the end of a page then waits for the browser to acknowledge its beginning, which takes some 40 ms.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, without the delay."""
        if scope["type"] == "websocket":
            found = _connection_info(receive, "socket")
            if found is not None and found.family in {socket.AF_INET, socket.AF_INET6}:
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._app(scope, receive, send)


def _connection_info(receive: Receive, what: str) -> Any:  # noqa: ANN401 (asyncio has it so)
    """Return a property of uvicorn's connection, before any proxy is believed; None in a test."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    return None if transport is None else transport.get_extra_info(what)


def _peer(scope: Scope, receive: Receive) -> str:
    """Return the address that the connection comes from: a rater's, or a proxy's."""
    return str((_connection_info(receive, "peername") or scope.get("client") or [""])[0])
