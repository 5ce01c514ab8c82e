"""A judge asked online: at any server that speaks chat completions, or OpenAI's responses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from guard_eval.judge_settings import Judge
from guard_eval.records import BlindPair
from guard_eval.store import Style
from judge.asking import Asking
from judge.backend import Question, Reply, Trouble
from judge.client import TIMEOUT, Client
from judge.parsing import Parsed, Problem, Usage
from judge.probe import probe
from judge.refusals import Refusal


class Online:
    """Asks as strictly as the server allows; see `judge.backend.Backend`.

    Attributes:
        style: The dialect spoken at present.
        url: The server.
        notices: What the user should be told, in order.
    """

    style: Style

    def __init__(
        self,
        judge: Judge,
        *,
        seed: int,
        environ: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self._asking = Asking(judge, seed=seed)
        self._client = Client(judge, environ=environ, timeout=timeout)
        self._model = judge.model
        self._probing: asyncio.Task[None] | None = None
        self.url = self._client.url
        self.style = self._asking.shape.dialect
        self.notices = self._asking.notices

    def question(self, blind: BlindPair, *, sample: int) -> Question:
        """Return the request about `blind`, in the present shape."""
        return self._asking.question(blind, sample=sample)

    def others(self, blind: BlindPair, *, sample: int) -> Sequence[Question]:
        """Return the same request in the other shapes in which its answer may be journalled."""
        return self._asking.others(blind, sample=sample)

    async def send(self, question: Question) -> Reply | Trouble:
        """Send it once; before the first, begin to ask the server what it is."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe())
        return await self._client.post(
            self._asking.path(question), question.body, look=lambda refusal: self._look(question, refusal)
        )

    def _look(self, question: Question, refusal: Refusal) -> None:
        """Raise where the refusal is of the question's shape; see `Asking.refused`."""
        try:
            self._asking.refused(question.form, refusal)
        finally:
            self.style = self._asking.shape.dialect

    def parse(self, body: bytes, form: str) -> Parsed | Problem:
        """Return the verdict in an answer, or why there is none."""
        return self._asking.parse(body, form)

    def usage(self, body: bytes) -> Usage:
        """Return what the server says of an answer."""
        return self._asking.usage(body)

    async def close(self) -> None:
        """Close the connections."""
        if self._probing is not None:
            self._probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probing
        await self._client.close()

    async def _probe(self) -> None:
        self.notices.extend((await probe(self._client.sdk, self._model)).notices)
