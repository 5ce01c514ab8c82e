"""One browser's end of Streamlit's websocket: requests out, the page's elements in.

It sends what Streamlit's own JavaScript sends, and keeps what that would show: elements by their place, those
not sent again by a whole run taken away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ContextInfo
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

ANSWER_SECONDS = 30.0
_TRIGGERS = {"trigger_value", "string_trigger_value", "json_trigger_value", "chat_input_value"}


class LostError(Exception):
    """The connection is gone, or nobody answers at all."""


@dataclass
class Page:
    """What the browser would show.

    Attributes:
        elements: By place.
        raw: The messages that brought them, by place: whatever an element is, its texts stand there.
        sizes: Bytes of each message of the last request's answer.
    """

    elements: dict[tuple[int, ...], Element] = field(default_factory=dict)
    raw: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)


class Session:
    """A visitor: one address, one websocket at a time."""

    def __init__(self, url: str, query: str) -> None:
        self._url, self._query = url, query
        self._socket: ClientConnection | None = None
        self._script = self._session = ""
        self._cached: dict[str, bytes] = {}
        self.page = Page()
        self.options: dict[str, Any] = {}  # of the websocket's connection: cookies, TLS

    async def connect(self) -> None:
        """Open the websocket; a second time the server is told which session it was.

        Raises:
            LostError: Nobody is there.
        """
        tokens = ["streamlit", "PLACEHOLDER_AUTH_TOKEN", *([self._session] if self._session else [])]
        try:
            self._socket = await connect(
                f"ws{self._url.removeprefix('http')}/_stcore/stream",
                subprotocols=tokens,  # type: ignore[arg-type]
                origin=self._url,  # type: ignore[arg-type]
                max_size=None,
                proxy=None,
                open_timeout=ANSWER_SECONDS,
                **self.options,
            )
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            raise LostError(str(error)) from error

    async def close(self) -> None:
        """Leave, as a closed tab does."""
        if self._socket is not None:
            with suppress(OSError, WebSocketException):
                await self._socket.close()

    async def run(self, states: Sequence[WidgetState] = (), *, fragment: str = "") -> Page:
        """Send what a press sends, and return the page that came of it when it is whole.

        Args:
            states: Every widget's state, the pressed one's among them.
            fragment: Which fragment alone is to run.

        Raises:
            LostError: The connection broke, or no answer came.
        """
        message = BackMsg()
        script = message.rerun_script
        script.query_string, script.page_script_hash, script.fragment_id = self._query, self._script, fragment
        script.widget_states.widgets.extend(states)
        script.cached_message_hashes.extend(self._cached)
        script.context_info.CopyFrom(self._context())
        try:
            if self._socket is None:
                raise LostError("not connected")
            await self._socket.send(message.SerializeToString())
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(self._socket, fragment)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise LostError(str(error)) from error

    async def _answer(self, socket: ClientConnection, fragment: str) -> Page:
        fresh: set[tuple[int, ...]] = set()
        self.page.sizes = []
        while True:
            data = await socket.recv()
            assert isinstance(data, bytes)
            self.page.sizes.append(len(data))
            message = ForwardMsg.FromString(data)
            kind = message.WhichOneof("type")
            if kind in {"delta", "ref_hash"}:
                fresh.add(self._put(message, data))
            elif kind == "new_session":
                fresh.clear()
                self._script = message.new_session.page_script_hash
                self._session = message.new_session.initialize.session_id or self._session
            elif kind == "script_finished":
                # A run that asked for another one is not the answer.
                if message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    continue
                if not fragment:
                    self._keep(fresh)
                return self.page

    def _put(self, message: ForwardMsg, data: bytes) -> tuple[int, ...]:
        place = tuple(message.metadata.delta_path)
        if message.HasField("ref_hash"):
            data = self._cached[message.ref_hash]
            message = ForwardMsg.FromString(data)
        elif message.metadata.cacheable:
            self._cached[message.hash] = data
        if message.delta.HasField("new_element"):
            self.page.elements[place] = message.delta.new_element
            self.page.raw[place] = data
        else:
            self.page.elements.pop(place, None)
            self.page.raw.pop(place, None)
        return place

    def _keep(self, fresh: set[tuple[int, ...]]) -> None:
        for place in set(self.page.elements) - fresh:
            del self.page.elements[place], self.page.raw[place]

    def _context(self) -> ContextInfo:
        return ContextInfo(
            timezone="UTC",
            timezone_offset=0,
            locale="en-US",
            url=f"{self._url}/",
            is_embedded=False,
            color_scheme="light",
        )


def lasting(states: Sequence[WidgetState]) -> list[WidgetState]:
    """Return the states a browser sends again by itself: all but presses."""
    return [state for state in states if state.WhichOneof("value") not in _TRIGGERS]
