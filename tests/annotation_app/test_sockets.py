"""Small messages are not held back."""

from __future__ import annotations

import socket

from annotation_app import sockets


def test_connections_of_a_listening_socket_send_at_once():
    # As Streamlit binds it: without naming TCP, which is why asyncio leaves it alone.
    with socket.socket(socket.AF_INET) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        sockets.send_at_once()
        with socket.create_connection(listening.getsockname()) as client, listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0


def test_closed_and_unbound_sockets_do_no_harm():
    closed = socket.socket(socket.AF_INET)
    closed.close()
    with socket.socket(socket.AF_INET) as unbound:
        sockets.send_at_once()
        assert unbound.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
