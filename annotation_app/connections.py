"""What strangers may hold of the server: connections, sessions and open files are few, and end.

Every websocket with Streamlit's session holds four open files, every other connection one. If strangers could
hold all that the system allows, no rater could come in.
"""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.runtime.session_manager import SessionInfo, SessionStorage
from uvicorn.protocols.http.h11_impl import H11Protocol

from annotation_app import logs

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

MOST_FILES = 65_536
"""The limit of open files that is asked for; most systems allow it."""

HEADER = "x-guard-eval-connection"
"""The header by which a page's script knows its websocket."""

SILENT_SECONDS = 20.0
"""How long a connection may be open and ask for nothing."""

KEPT_SECONDS = 120.0
"""How long a rater's session outlives its websocket, so that a short break loses nothing."""


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as the system allows, and return it."""
    if resource is None:
        return MOST_FILES
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)
    if limit < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            return wanted
    return limit


def count_open_files() -> int:
    """Return how many files this process has open; 0 where the system does not say."""
    with suppress(OSError):
        return sum(1 for _ in Path("/dev/fd").iterdir())
    return 0


@dataclass(eq=False)
class Websocket:
    """An open websocket. `is_raters` is set by the page's script once its visitor is signed in."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_raters: bool = False


class Websockets:
    """The open websockets by number, oldest first. Of those without a rater the newest `limit` stay."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: dict[str, Websocket] = {}
        self._numbers = itertools.count()

    def note_rater(self, number: str | None, *, is_raters: bool) -> None:
        """Note whether the visitor of a websocket is signed in, by the number in its header."""
        if websocket := self._open.get(number or ""):
            websocket.is_raters = is_raters

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application serve a websocket until either side ends it, or too many others came."""
        number, websocket = str(next(self._numbers)), Websocket()
        name = HEADER.encode()
        headers = [(key, value) for key, value in scope["headers"] if key != name]
        scope["headers"] = [*headers, (name, number.encode())]
        self._open[number] = websocket
        self._end_oldest()
        with websocket.scope:
            try:
                await app(scope, receive, send)
            finally:
                del self._open[number]
        if websocket.scope.cancelled_caught:
            await send({"type": "websocket.close", "code": 1013})  # try again later

    def _end_oldest(self) -> None:
        strangers = [websocket for websocket in self._open.values() if not websocket.is_raters]
        for websocket in strangers[: -self.limit]:
            logs.warn(
                "more than %d visitors who are no raters are connected: the oldest are let go", self.limit
            )
            websocket.scope.cancel()


class KeptSessions(SessionStorage):
    """The sessions of raters whose websocket broke. Others end at once, and with them their open files."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[float, SessionInfo]] = {}

    def get(self, session_id: str) -> SessionInfo | None:
        """Return a session that may go on."""
        return self._sessions.get(session_id, (0.0, None))[1]

    def save(self, session_info: SessionInfo) -> None:
        """Keep a rater's session; end all that are too old."""
        now = time.monotonic()
        self._sessions[session_info.session.id] = (now, session_info)
        for session_id, (since, info) in list(self._sessions.items()):
            if since < now - KEPT_SECONDS or "visit" not in info.session.session_state:
                del self._sessions[session_id]
                info.session.shutdown()

    def delete(self, session_id: str) -> None:
        """Forget a session that goes on elsewhere."""
        self._sessions.pop(session_id, None)

    def list(self) -> list[SessionInfo]:
        """Return all sessions that may go on."""
        return [info for _, info in self._sessions.values()]


class Connection(H11Protocol):
    """A connection that is no websocket. It ends if it asks for nothing, or if there are too many."""

    limit = MOST_FILES
    _open: dict[Connection, None] = {}  # noqa: RUF012 (all connections of the process, oldest first)

    @property
    def is_silent(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (asyncio's)
        """Note a new connection; with too many, end the oldest that is silent, or the oldest."""
        super().connection_made(transport)
        self._open[self] = None
        self._watch()
        if len(self._open) > self.limit:
            logs.warn("more than %d connections are open: the oldest are ended", self.limit)
            oldest = next((other for other in self._open if other.is_silent), next(iter(self._open)))
            del self._open[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that ended."""
        self._open.pop(self, None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:  # noqa: ANN401 (h11's)
        """Hand the connection over: `Websockets` counts it from now on."""
        self._open.pop(self, None)
        super().handle_websocket_upgrade(event)

    def _watch(self) -> None:
        self.loop.call_later(SILENT_SECONDS, self._end_if_silent, self.cycle)

    def _end_if_silent(self, last_request: object) -> None:
        if self not in self._open:
            return
        if self.is_silent and self.cycle is last_request:
            self.transport.close()
        else:
            self._watch()
