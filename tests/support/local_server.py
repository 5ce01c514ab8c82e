"""A real HTTP server on this machine, in separate threads. Subclasses define the answers."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    request_queue_size = 512  # with the default of 5, a busy machine resets simultaneous connections


class LocalServer:
    """Serve from `serve` until `close`. `url` is the address of the API."""

    def serve(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._server.handle_error = lambda *_: None
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
