"""What the server gives every browser, and what it takes of its websocket."""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from annotation_app.pages.sign_in import BROWSER_COOKIE

_TEN_WEEKS = 70 * 24 * 3600


class BrowserCookie:
    """Give a random secret to a browser that has none, by which an id from Prolific is bound to it.

    It identifies no one and no script can read it. `Lax`: it is sent after a link from another site, too.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does; with the page comes the cookie."""

        async def give(message: Message) -> None:
            if message["type"] == "http.response.start":
                secure = "; Secure" if scope["scheme"] == "https" else ""
                MutableHeaders(scope=message).append(
                    "Set-Cookie",
                    f"{BROWSER_COOKIE}{secrets.token_hex(4)}={secrets.token_urlsafe()}; Path=/; "
                    f"Max-Age={_TEN_WEEKS}; HttpOnly; SameSite=Lax{secure}",
                )
            await send(message)

        is_page = scope["type"] == "http" and scope["path"] == "/"
        is_new = is_page and not any(
            name.startswith(BROWSER_COOKIE) for name in HTTPConnection(scope).cookies
        )
        await self._app(scope, receive, give if is_new else send)


class BytesOnly:
    """Close a websocket on which text comes: Streamlit reads bytes, and fails on anything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does; for it, text is the end of the connection."""

        async def read() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive" and message.get("bytes") is None:
                await send({"type": "websocket.close", "code": 1003})
                return {"type": "websocket.disconnect", "code": 1003}
            return message

        await self._app(scope, read if scope["type"] == "websocket" else receive, send)
