"""How the server's sockets send: at once."""

from __future__ import annotations

import gc
import socket

_TCP = {socket.AF_INET, socket.AF_INET6}


def send_at_once() -> None:
    """Let small messages go out without waiting for the receipt of the last one (Nagle 1984).

    asyncio asks for this on sockets that say they are TCP. Streamlit binds its own without saying so, and a
    browser that takes 40 ms for a receipt (RFC 1122, 4.2.3.2) waited as long for every pair. What a listening
    socket is told, the connections it accepts are told too. To be called while it listens.
    """
    for thing in gc.get_objects():
        if isinstance(thing, socket.socket) and thing.family in _TCP and _listens(thing):
            thing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _listens(candidate: socket.socket) -> bool:
    # Closed sockets are still objects; and not every system answers the question.
    try:
        return candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    except OSError:
        return False
