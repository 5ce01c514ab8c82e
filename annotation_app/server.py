"""Run Streamlit's application with request guards, safe settings, and a health check.

uvicorn runs the application in the process of `annotate`, on a socket that `annotate` has opened.
"""

import base64
import gc
import hashlib
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import anyio
import streamlit as st
import uvicorn
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit import file_util
from streamlit.runtime import Runtime
from streamlit.web import bootstrap
from websockets import http11

from annotation_app import logs, markup, state
from annotation_app.connections import (
    Connection,
    KeptSessions,
    count_open_files,
    raise_file_limit,
    websockets,
)
from annotation_app.sign_in import BROWSER_COOKIE
from guard_eval.errors import StudyError
from guard_eval.records import MESSAGE_BYTES
from guard_eval.store import settings
from guard_eval.study.wording import fill_placeholders

OPTIONS = {
    # Without these, Streamlit sends usage data home and asks the internet for this machine's address.
    "browser.gatherUsageStats": False,
    "browser.serverAddress": "localhost",
    # rich would print exceptions with their messages, which `logs.py` could not hide.
    "logger.enableRich": False,
    "server.fileWatcherType": "none",
    "server.runOnSave": False,
    # Raters see nothing about errors, files or the inside of the app.
    "client.showErrorDetails": "none",
    "client.showErrorLinks": False,
    "client.toolbarMode": "minimal",
    "client.showSidebarNavigation": False,
    "ui.hideTopBar": True,
    "server.maxMessageSize": MESSAGE_BYTES // 1_000_000,
    # A full garbage collection after every click costs more than the click.
    "runner.postScriptGC": False,
    "runner.magicEnabled": False,
    "theme.light.primaryColor": "#1f6f6b",
    "theme.dark.primaryColor": "#1f7f7a",
}
"""Streamlit's options. The theme has a light and a dark form; each browser uses the one it prefers."""

INCOMING_BYTES = 1_000_000
"""The largest message that a browser may send, in bytes."""

HEADER_BYTES = 128_000
"""The largest allowed size of a request's headers, in bytes. These include cookies of other programs."""

HEALTH_SECONDS = 5.0
"""Seconds that the health check waits for the database, and seconds for which the result is reused."""

STREAM = "/_stcore/stream"
"""The path of Streamlit's websocket."""

COOKIE_SECONDS = 70 * 24 * 3600


PATHS = {
    "/",
    "/favicon.png",
    "/manifest.json",
    "/health",
    "/empty-page",
    "/_stcore/health",
    "/_stcore/host-config",
    "/auth/login",
    "/auth/logout",
    "/oauth2callback",
}
"""The paths that raters' browsers, account providers and monitors may request, besides /static/."""


_SCRIPT = Path(__file__).with_name("main.py")


class RaterApp(st.App):
    """Streamlit's application, which keeps only the sessions of raters."""

    def _create_runtime(self) -> Runtime:
        runtime = super()._create_runtime()
        runtime._session_mgr._session_storage = KeptSessions()  # type: ignore[attr-defined]  # noqa: SLF001
        return runtime


def run_server(bound_socket: socket.socket) -> None:
    """Serve the study of `state.serve_study` on a bound socket until a signal ends it.

    Raises:
        StudyError: The server did not start; the log says why.
    """
    set_streamlit_options()
    files = raise_file_limit()
    websockets.limit = min(websockets.limit, files // 8)  # each has four files
    Connection.limit = files // 4
    http11.MAX_LINE_LENGTH = HEADER_BYTES

    @asynccontextmanager
    async def lifespan(_app: st.App) -> AsyncIterator[None]:
        logs.set_up_logging()  # by now, all loggers have their handlers
        # All objects loaded by now live as long as the process, so garbage collections can ignore them.
        gc.freeze()
        yield

    config = uvicorn.Config(
        RaterApp(
            _SCRIPT,
            lifespan=lifespan,
            routes=[
                Route("/", serve_first_page),
                Route("/health", check_health),
                Route("/empty-page", log_empty_page),
            ],
            middleware=[
                Middleware(RequestGuard),
                Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),
            ],
            on_script_error=show_error_page,
        ),
        http=Connection,
        backlog=64,  # asyncio takes three times as many before `Connection` can end others
        h11_max_incomplete_event_size=HEADER_BYTES,
        ws="websockets-sansio",
        ws_max_size=INCOMING_BYTES,
        ws_per_message_deflate=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[bound_socket])
    if not server.started:
        raise StudyError("the annotation server did not start; the log above says why")


def set_streamlit_options() -> None:
    """Set Streamlit's options. A folder `.streamlit` is read only from the user's home.

    Streamlit would also read `.streamlit` in the current folder, which a stranger may have written.
    """
    file_util.get_project_streamlit_file_path = file_util.get_streamlit_file_path
    bootstrap.load_config_options(OPTIONS)


def show_error_page(_error: Exception) -> bool:
    """Show raters the same reassuring page for every unexpected error, which Streamlit has already logged."""
    markup.show_study_unavailable(state.app.words)
    return True


_last_check: list[tuple[float, str]] = [(-HEALTH_SECONDS, "")]


async def check_health(_request: Request) -> JSONResponse:
    """Answer 200 if a rating could be saved now, and otherwise 503 with the cause. The log says more."""
    checked, cause = _last_check[0]
    if time.monotonic() - checked >= HEALTH_SECONDS:
        # Other requests get the last answer, so strangers cannot make the server write more often.
        _last_check[0] = (time.monotonic(), cause)
        cause = await _find_health_problem()
        _last_check[0] = (time.monotonic(), cause)
    answer = {"status": "unavailable", "cause": cause} if cause else {"status": "ok"}
    return JSONResponse(answer, status_code=503 if cause else 200, headers={"Cache-Control": "no-store"})


async def _find_health_problem() -> str:
    """Return why no rating can be saved now, such as "open files"; an empty text if ratings can be saved."""
    files = count_open_files()
    file_limit = Connection.limit * 4
    if files > 0.9 * file_limit:
        logs.warn_once_a_minute(
            "%d of at most %d files are open; raise the limit (LimitNOFILE= of a systemd service)",
            files,
            file_limit,
        )
        return "open files"
    try:
        with anyio.fail_after(HEALTH_SECONDS):
            await to_thread.run_sync(state.app.check_database_file_unchanged, abandon_on_cancel=True)
            await to_thread.run_sync(
                settings.store_setting,
                state.app.store,
                "last check",
                str(time.monotonic()),
                abandon_on_cancel=True,
            )
    except state.STUDY_ERRORS as error:  # TimeoutError is an OSError
        slow = f"the database did not answer within {HEALTH_SECONDS:.0f} s"
        state.log_error(StudyError(str(error) or slow), "the health check")
        return "database"
    return ""


# The first file that is sent to a browser.

_EMPTY_PAGES = {
    "websocket": (
        "a rater's browser shows an empty page: no websocket reaches /_stcore/stream. A proxy or a firewall "
        "must pass on Upgrade, Connection and Host; see docs/deployment.md"
    ),
    "page": (
        "a rater's browser shows an empty page, though its websocket works: the browser is too old, or a "
        "proxy blocks files below /static/ or blob: scripts"
    ),
}


async def log_empty_page(request: Request) -> Response:
    """Log the reason for an empty page that `shell.html` reports."""
    if message := _EMPTY_PAGES.get(request.query_params.get("cause", "")):
        logs.warn_once_a_minute(message)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


async def serve_first_page(request: Request) -> HTMLResponse:
    """Answer with the file that loads the page, in the study's language.

    Each browser gets a cookie with a random secret. An id from Prolific works only with its browser's secret.
    The cookie identifies nobody, and no script can read the cookie. With `lax`, a browser that follows a link
    from another site sends the cookie, too.
    """
    words = state.app.words
    texts = words.start.model_dump() | {
        "language": words.language,
        "direction": words.direction,
        "title": words.instructions.title,
    }
    escaped = {name: escape(text) for name, text in texts.items()}
    page = fill_placeholders(markup.read_asset("shell.html"), assets=_read_streamlit_script_tags(), **escaped)
    response = HTMLResponse(page, headers={"Cache-Control": "no-cache"})
    if not any(name.startswith(BROWSER_COOKIE) for name in request.cookies):
        response.set_cookie(
            f"{BROWSER_COOKIE}{secrets.token_hex(4)}",
            secrets.token_urlsafe(),
            max_age=COOKIE_SECONDS,
            secure=request.url.scheme == "https",
            httponly=True,
        )
    return response


@cache
def _read_streamlit_script_tags() -> str:
    """Return the elements of Streamlit's own index.html that load its scripts and styles."""
    index = Path(st.__file__).with_name("static") / "index.html"
    elements = r'<(?:script|link)\b[^>]*"\./static/[^>]*>(?:</script>)?'
    return "\n".join(re.findall(elements, index.read_text(encoding="utf-8")))


def _hash_shell_script() -> str:
    """Return the hash that allows the script inside `shell.html`. No other inline script is allowed."""
    script = re.findall(r"<script>(.*?)</script>", markup.read_asset("shell.html"), re.DOTALL)[0]
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


HEADERS = {
    # With these rules, a text that is shown as HTML by mistake cannot run scripts or reach a server. Styles
    # may be inline and scripts may be blobs, because Streamlit loads them in this way.
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        f"font-src 'self' data:; script-src 'self' blob: 'sha256-{_hash_shell_script()}'; "
        "connect-src 'self' ws: wss:; object-src 'none'; base-uri 'self'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    # The page's address contains the invite, which no other site may learn.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class RequestGuard:
    """Pass on only the page's own requests, and add `HEADERS` to the responses.

    Streamlit never sees other requests. Otherwise it would accept uploads without an invite, show details of
    the program, and ask the internet for this machine's address if another origin connects.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, or refuse it."""
        if scope["type"] == "http":
            await self._serve_file(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif _comes_from_own_page(scope):
            await websockets.serve(self.app, scope, _refuse_text_messages(receive), _hide_script_path(send))
        else:
            await WebSocketClose(code=1008)(scope, receive, send)  # policy violation

    async def _serve_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        path = scope["path"]
        answer = self.app
        if path == STREAM:
            logs.warn_once_a_minute(
                "%s was requested without Upgrade: the proxy must pass on Upgrade and Connection", path
            )
        if path not in PATHS and not path.startswith("/static/"):
            answer = PlainTextResponse("Not Found", status_code=404)
        await answer(scope, receive, add_headers)


def _comes_from_own_page(scope: Scope) -> bool:
    """Return whether our own page opens the websocket. Browsers send the page's origin; programs do not."""
    headers = Headers(scope=scope)
    origins = headers.getlist("origin")
    host = headers.get("host")
    is_own = not origins or origins in ([f"http://{host}"], [f"https://{host}"])
    if not is_own:
        logs.warn_once_a_minute(
            "a websocket of a page at %.100r was refused, because it was sent to %.100r. If that page is "
            "yours, let the proxy pass on Host; see docs/deployment.md",
            ", ".join(origins),
            host,
        )
    return is_own and scope["path"] == STREAM


def _hide_script_path(send: Send) -> Send:
    """Wrap `send` to remove the path of the page's script, because raters should not see folder names."""
    path = str(_SCRIPT).encode()

    async def send_message(message: Message) -> None:
        if path in (message.get("bytes") or b""):  # the message contains the path's length
            message["bytes"] = message["bytes"].replace(path, b"-" * len(path))
        await send(message)

    return send_message


def _refuse_text_messages(receive: Receive) -> Receive:
    """Wrap `receive` to close a websocket that gets a text: Streamlit would log a traceback for each one."""

    async def receive_bytes() -> Message:
        message = await receive()
        is_text = message["type"] == "websocket.receive" and message.get("bytes") is None
        return {"type": "websocket.disconnect", "code": 1003} if is_text else message

    return receive_bytes
