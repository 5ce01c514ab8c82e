"""Limit the connections, sessions and open files that strangers can use.

Every websocket with its Streamlit session uses four open files, and every other connection uses one. If
strangers could use all open files that the system allows, no rater could connect.
"""

import asyncio
import resource
import secrets
from contextlib import suppress
from pathlib import Path

import anyio
import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.session_manager import SessionInfo
from uvicorn.protocols.http.h11_impl import H11Protocol

from annotation_app import logs

MOST_FILES = 65_536
"""The limit of open files that is requested from the system. Most systems allow this number."""

HEADER = "x-guard-eval-connection"
"""The request header with the number of the visitor's websocket, which `main.py` reads."""

MOST_STRANGERS = 500
"""The most websockets of visitors who are not raters, if the limit of open files allows this number."""

SILENT_SECONDS = 20.0
"""Seconds that a connection without a request may stay open."""


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as the system allows, and return the new limit."""
    limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        raised = MOST_FILES if hard_limit == resource.RLIM_INFINITY else min(hard_limit, MOST_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard_limit))
        return raised
    return limit


def count_open_files() -> int:
    """Count the open files of this process; return 0 if the system does not give the number."""
    with suppress(OSError):
        return sum(1 for _ in Path("/dev/fd").iterdir())
    return 0


class Websockets:
    """The websockets of visitors who are not raters, oldest first. Only the newest `limit` stay open."""

    limit = MOST_STRANGERS

    def __init__(self) -> None:
        self._strangers: dict[str, anyio.CancelScope] = {}

    def exempt_rater_from_limit(self, number: str | None) -> None:
        """Exempt a rater's websocket from the limit on strangers. `number` is the value of its `HEADER`."""
        self._strangers.pop(number or "", None)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application serve a websocket. Too many websockets of strangers end the oldest of these."""
        number = secrets.token_hex()
        name = HEADER.encode()
        headers = [header for header in scope["headers"] if header[0] != name]
        scope["headers"] = [*headers, (name, number.encode())]
        with anyio.CancelScope() as ending:
            self._strangers[number] = ending
            for oldest in list(self._strangers)[: -self.limit]:
                logs.warn_once_a_minute(
                    "more than %d visitors have not signed in: the connections of the oldest are ended",
                    self.limit,
                )
                self._strangers.pop(oldest).cancel()
            try:
                await app(scope, receive, send)
            finally:
                self.exempt_rater_from_limit(number)
        if ending.cancelled_caught:
            await send({"type": "websocket.close", "code": 1013})  # try again later


websockets = Websockets()
"""The websockets of this process."""


class KeptSessions(MemorySessionStorage):
    """Sessions whose websocket broke. Only raters' sessions are kept; others end and close their files."""

    def save(self, session_info: SessionInfo) -> None:
        """Keep the session if it belongs to a rater; end it otherwise."""
        if "visit" in session_info.session.session_state:
            super().save(session_info)
        else:
            session_info.session.shutdown()


class Connection(H11Protocol):
    """A connection other than a websocket. Silent connections end, and old ones if there are too many."""

    limit = MOST_FILES
    _open: dict["Connection", None] = {}  # noqa: RUF012 (all connections of the process, oldest first)

    @property
    def is_idle(self) -> bool:
        """Return whether the connection has no request in progress."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Add a new connection. If there are too many, end the oldest idle one, or else the oldest one."""
        super().connection_made(transport)
        self._open[self] = None
        self._schedule_idle_check()
        if len(self._open) > self.limit:
            logs.warn_once_a_minute("more than %d connections are open: the oldest are ended", self.limit)
            oldest = next((other for other in self._open if other.is_idle), next(iter(self._open)))
            del self._open[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting a connection that ended."""
        self._open.pop(self, None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Stop counting a connection that becomes a websocket: `Websockets` counts it from now on."""
        self._open.pop(self, None)
        super().handle_websocket_upgrade(event)

    def _schedule_idle_check(self) -> None:
        """Check after a while whether the connection has sent a new request."""
        self.loop.call_later(SILENT_SECONDS, self._end_idle_connection, self.cycle)

    def _end_idle_connection(self, last_request: object) -> None:
        """End the connection if it has sent no request since `last_request`."""
        if self not in self._open:
            return
        if self.is_idle and self.cycle is last_request:
            self.transport.close()
        else:
            self._schedule_idle_check()
