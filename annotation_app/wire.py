"""What leaves the server, checked once more: response headers, and what a browser could learn of the inside.

ASGI middlewares around Streamlit's own application. They hold whatever page is shown, and whatever
Streamlit puts into its messages by itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def _own_scripts() -> str:
    """Return the hashes that allow the scripts inside Streamlit's index.html, and no other inline script."""
    index = Path(streamlit.__file__).with_name("static") / "index.html"
    scripts = _INLINE.findall(index.read_text(encoding="utf-8"))
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
        # blob: is how Streamlit loads a component's script (assist.py).
        f"script-src 'self' blob: {_own_scripts()}",
        "connect-src 'self' ws: wss:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""The Content-Security-Policy: even a text that slipped through as HTML could run nothing and call nobody."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    # The invite stands in the page's address; no other site may learn it.
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


INTERNALS = ("/_stcore/metrics", "/_stcore/agent/")
"""What Streamlit answers besides what a page needs: counters that name our functions, and a protocol for
programs, which is off."""


class HideInternals:
    """Answer `INTERNALS` with 404."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, but for what is hidden."""
        hidden = scope["type"] == "http" and scope["path"].startswith(INTERNALS)
        await (PlainTextResponse("Not Found", status_code=404) if hidden else self._app)(scope, receive, send)


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
            transport = getattr(getattr(receive, "__self__", None), "transport", None)
            found = transport.get_extra_info("socket") if transport is not None else None
            if found is not None and found.family in {socket.AF_INET, socket.AF_INET6}:
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._app(scope, receive, send)
