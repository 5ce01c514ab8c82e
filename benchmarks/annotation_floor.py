"""What the transport alone costs: a websocket server that sends messages of given sizes, and no more.

The same server program as the app's (uvicorn), the same client library, the same sizes.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path

import uvicorn
from annotation_server import Server
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect

_PRESS = bytes(330)


def server(folder: Path, sizes: list[int]) -> Server:
    """Return the server, to be started."""
    command = [sys.executable, str(Path(__file__).resolve()), json.dumps(sizes)]
    return Server(folder, folder / "floor.log", command=command)


async def measure(url: str, *, clients: int, messages: int, think: float, seconds: float) -> list[float]:
    """Return the seconds from sending to the last message, of all exchanges of all clients."""
    until = time.perf_counter() + seconds
    took: list[float] = []

    async def work(number: int) -> None:
        dice = random.Random(number)
        async with connect(f"ws{url.removeprefix('http')}/", max_size=None, proxy=None) as socket:
            pause = dice.uniform(0, think)
            while time.perf_counter() + pause < until:
                await asyncio.sleep(pause)
                start = time.perf_counter()
                await socket.send(_PRESS)
                for _ in range(messages):
                    await socket.recv()
                took.append(time.perf_counter() - start)
                pause = dice.uniform(0.5 * think, 1.5 * think)

    await asyncio.gather(*(work(number) for number in range(clients)))
    return took


def main(sizes: list[int], port: int) -> None:
    """Serve."""
    answer = [bytes(size) for size in sizes]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (await receive())["type"] == "websocket.receive":
                for payload in answer:
                    await send({"type": "websocket.send", "bytes": payload})

    # As Streamlit runs it: no compression.
    uvicorn.run(app, port=port, log_level="warning", lifespan="off", ws_per_message_deflate=False)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
