"""A real HTTP server on this machine, in separate threads. Subclasses define the answers."""

import json
import socket
import struct
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Response:
    """A response, which is sent after a delay.

    If the response is a fault, the server does nothing else. With `late`, the server first does the request.
    With `drop`, the connection is then reset.
    """

    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    drop: bool = False
    late: bool = False
    delay: float = 0.0
    paid: bool = False


class _Server(ThreadingHTTPServer):
    request_queue_size = 512  # with the default of 5, a busy machine resets simultaneous connections
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_):
        pass


class LocalServer:
    """Serve from `serve` until `close`. `url` is the address of the API."""

    def handle(self, method, path, raw, headers):
        """Return the response to a request. The names of headers have small letters."""
        raise NotImplementedError

    def serve(self, tls=None):
        self._server = _Server(("127.0.0.1", 0), self._make_handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                out = outer.handle(self.command, self.path, raw, headers)
                if out.drop:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.connection.close()
                    return
                body = out.body if isinstance(out.body, bytes) else json.dumps(out.body).encode()
                self.send_response(out.status)
                usual = {"Content-Type": "application/json", "Content-Length": str(len(body))}
                for name, value in {**usual, **out.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_CONNECT = do_POST  # noqa: N815 (names of the standard library)

        return Handler
