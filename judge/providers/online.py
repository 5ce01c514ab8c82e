"""One judge's server as a backend: asked as strictly as it allows."""

from __future__ import annotations

import asyncio
import contextlib

from guard_eval.store import Showing, Style
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest, Response
from judge.failures import JudgeError
from judge.parsing import Choices
from judge.providers.client import Client
from judge.providers.endpoint import Provider
from judge.providers.errors import ServerError
from judge.providers.probe import probe
from judge.providers.shapes import path_of
from judge.request import RequestBuilder


class OnlineBackend:
    """Asks a server, one request at a time; see `judge.backend.Backend`.

    Attributes:
        builder: Makes the requests, in the shape that the server takes.
        client: The connection.
        style: The dialect spoken at present.
        url: The server.
        notices: Messages for the user, in order.
    """

    style: Style

    def __init__(
        self,
        judge: Judge,
        provider: Provider,
        *,
        seed: int,
    ) -> None:
        self.builder = RequestBuilder(judge, seed=seed)
        self.client = Client(provider, concurrency=judge.concurrency)
        self.url = provider.url
        self.style = self.builder.shape.dialect
        self.notices = self.builder.notices
        self._probing: asyncio.Task[None] | None = None

    def build(self, showing: Showing, *, again: int = 0) -> JudgeRequest:
        """Return the request about `showing`, in the present shape."""
        return self.builder.build(showing, again=again)

    async def send(self, request: JudgeRequest) -> Response | JudgeError:
        """Send it once; before the first, begin to ask the server what it is."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe())

        def refused(error: ServerError) -> None:
            self.builder.refused(request.key, request.shape, error)

        try:
            result = await self.client.post(path_of(request.shape), request.body, on_error=refused)
            if isinstance(result, Response):
                self.builder.answered(request.shape)
        finally:
            self.style = self.builder.shape.dialect
        return result

    def parse(self, showing: Showing, body: bytes, *, shape: str | None) -> Choices | JudgeError:
        """Return the verdict in a response, or why there is none."""
        return self.builder.parse(showing, body, shape=shape)

    async def close(self) -> None:
        """Close the connections."""
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
        await self.client.close()

    async def _probe(self) -> None:
        if self.client.provider.name == "openai":  # the others are known
            self.notices.extend(await probe(self.client.sdk, self.client.provider.model))
