"""A server like a chat completions API that answers late, sometimes fails, and counts requests.

The server runs as a separate process and needs only Python. A seed decides all random choices.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import socket
import struct
import subprocess
import sys
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

FAULTS = {"rate": 0.10, "error": 0.05, "prose": 0.05, "truncated": 0.02, "reset": 0.02}
"""Shares of requests with a fault: status 429, status 500, a prose answer, a cut answer, a reset."""

MODEL = "gpt-4o-2024-11-20"
CRITERIA = ("fluency", "coherence", "factuality", "informativeness", "interestingness", "story_development")
VERDICTS = json.dumps(dict.fromkeys(CRITERIA, "A"))
PRICES = 2.5e-6, 10e-6
"""US dollars per token of the prompt and of the answer, the same as in the benchmark's studies."""
TOKENS = 900, 50
"""The number of tokens of each prompt and of each answer."""
LATENCY = 0.05
"""Seconds until an answer."""
_TEXTS = {"prose": "Method A is better overall.", "truncated": VERDICTS[:24]}
_ERRORS = {
    "rate": (429, {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}),
    "error": (500, {"message": "an error of ours", "type": "server_error", "code": None}),
}


@dataclass(kw_only=True)
class Log:
    """The server's counts of requests and responses.

    Attributes:
        requests: Number of requests.
        did: Number of requests by outcome: the name of the fault, or `ok`.
        paid: Number of complete 200 responses, by the hash of the request.
        usd: Cost of all 200 responses in US dollars.
    """

    requests: int = 0
    did: dict[str, int] = field(default_factory=Counter)
    paid: dict[str, int] = field(default_factory=Counter)
    usd: float = 0.0

    @property
    def twice(self) -> int:
        """Return the number of repeated complete 200 responses to the same request."""
        return sum(times - 1 for times in self.paid.values())


class State:
    """The data that all connections share: the settings, the random generator and the log."""

    def __init__(self, faults: Mapping[str, float], *, slots: int | None, seconds: float) -> None:
        self.random, self.faults, self.seconds = random.Random(5), faults, seconds
        self.log = Log()
        self._free = slots
        self._waiting: deque[Callable[[], None]] = deque()

    def serve(self, answer: Callable[[], None]) -> None:
        """Answer with a delay. If all slots are in use, the request waits, even if the client gives up."""
        self._waiting.append(answer)
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._free != 0:
            self._free = None if self._free is None else self._free - 1
            asyncio.get_running_loop().call_later(self.seconds, self._end, self._waiting.popleft())

    def _end(self, answer: Callable[[], None]) -> None:
        self._free = None if self._free is None else self._free + 1
        answer()
        self._begin()

    def fault(self) -> str:
        """Draw the outcome of a request."""
        shares = {**self.faults, "ok": 1 - sum(self.faults.values())}
        return self.random.choices(list(shares), list(shares.values()))[0]


class Connection(asyncio.Protocol):
    """One connection, which sends requests with a content length, one after the other."""

    def __init__(self, state: State) -> None:
        self._state, self._read = state, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """Handle a request when it is complete."""
        self._read += data
        head, result, body = self._read.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length:")
        size = int(length.split(b"\r\n")[0] or 0) if length else 0
        if not result or len(body) < size:
            return
        self._read = body[size:]
        log = self._state.log
        if head.startswith(b"GET /log"):
            self._send(200, vars(log))
        elif head.startswith(b"GET"):
            self._send(404, {"error": {"message": "not found"}})
        else:
            log.requests += 1
            self._state.serve(partial(self._answer, body[:size]))

    def _answer(self, body: bytes) -> None:
        log, drawn = self._state.log, self._state.fault()
        log.did[drawn] += 1
        if drawn in _ERRORS:
            status, error = _ERRORS[drawn]
            self._send(status, {"error": error}, b"retry-after-ms: 100\r\n" if status == 429 else b"")
        elif drawn == "reset":
            with suppress(OSError):
                connection = self._transport.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        elif self._send(200, completion(drawn)):
            log.paid[hashlib.sha256(body).hexdigest()] += 1
            log.usd += TOKENS[0] * PRICES[0] + TOKENS[1] * PRICES[1]

    def _send(self, status: int, content: Mapping[str, Any], more: bytes = b"") -> bool:
        if self._transport.is_closing():
            return False
        body = json.dumps(content).encode()
        head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n"
        self._transport.write(head % (status, more, len(body)) + b"\r\n" + body)
        return True


def completion(kind: str) -> dict[str, Any]:
    """Return a chat completion."""
    message = {"role": "assistant", "content": _TEXTS.get(kind, VERDICTS), "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "length" if kind == "truncated" else "stop"}
    usage = {"prompt_tokens": TOKENS[0], "completion_tokens": TOKENS[1], "total_tokens": sum(TOKENS)}
    envelope = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
    return {**envelope, "system_fingerprint": "fp", "choices": [choice], "usage": usage}


@dataclass(frozen=True)
class Server:
    """A running server, with its address."""

    url: str

    def log(self) -> Log:
        """Request the server's log."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/log", timeout=30) as reply:
            return Log(**json.load(reply))


@contextmanager
def serving(
    faults: Mapping[str, float] | None = None, *, slots: int | None = None, seconds: float = LATENCY
) -> Iterator[Server]:
    """Start a server and stop it at the end. With `slots`, it answers this number of requests at once."""
    state = {"faults": faults or {}, "slots": slots, "seconds": seconds}
    command = [sys.executable, "-P", __file__, json.dumps(state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline() if process.stdout else 0)
            yield Server(f"http://127.0.0.1:{port}/v1")
        finally:
            process.kill()


async def serve(state: State) -> None:
    """Serve at a free port, and print it."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(state), "127.0.0.1", 0, backlog=500)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(State(**json.loads(sys.argv[1]))))
