"""Raters: each reads a pair, thinks, answers, waits for the next, and keeps a log of what was acknowledged.

A rating is acknowledged when the answer to its own press is a page with another pair or with thanks. What was
pressed and never answered is in doubt: it may be in the database or not, but not twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field

import annotation_page
from annotation_page import NOTHING
from annotation_socket import LostError, Session, lasting
from annotation_study import CRITERIA, METHODS, Made
from streamlit.proto.WidgetStates_pb2 import WidgetState

Key = tuple[str, int, str]
"""Rater, number of the pair, criterion."""

_AWAY = 0.3
"""Seconds until a browser tries to connect again."""

_PAGES = 20
"""How many pages may come before the first pair."""


@dataclass
class Log:
    """What the clients know.

    Attributes:
        pressed: Every rating ever sent.
        acknowledged: The method, or `tie`, of those whose answer came.
        seconds: From press to the whole next page, of those.
        calm_seconds: From press to a page that says calmly that something does not work.
        counts: Of `calm` pages, `exception` pages, connections `lost`, and ratings `stuck` (nothing moved
            although nothing was said).
    """

    pressed: set[Key] = field(default_factory=set)
    acknowledged: dict[Key, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    calm_seconds: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def ratings(self) -> int:
        """Return how many ratings were acknowledged."""
        return len(self.acknowledged) // len(CRITERIA)


def opinion(rater: str, pair: int, criterion: str) -> str:
    """Return what a rater thinks of a pair, the same each time it is asked: a method's letter, or `tie`."""
    digest = hashlib.sha256(f"{rater} {pair} {criterion}".encode()).digest()
    return ("a", "tie", "b")[digest[0] % 3]


class Rater:
    """One rater at one browser.

    Args:
        study: What is rated.
        name: Who rates.
        url: Where.
        log: What is written to.

    Attributes:
        patience: Seconds that a page which asks for patience is believed; twice as many for a way back.
    """

    patience = 30.0

    def __init__(self, study: Made, name: str, url: str, log: Log) -> None:
        self.name, self.log = name, log
        self.session = Session(url, f"invite={study.tokens[name]}")
        self._dice = random.Random(name)
        self._states: list[WidgetState] = []
        self.view = NOTHING

    async def enter(self) -> None:
        """Open the link and leave every page before the first pair."""
        await self.session.connect()
        await self._send([])
        await self._arrive()

    async def _send(self, states: list[WidgetState]) -> None:
        self.view = annotation_page.read(await self.session.run(states))
        self.log.counts["exception"] += self.view.errors

    async def _arrive(self) -> None:
        pages, start = 0, time.perf_counter()
        while pages < _PAGES and time.perf_counter() - start < self.patience:
            view = self.view
            if view.pair is not None or view.ended:
                return
            if view.calm:
                self.log.counts["calm"] += 1
                await asyncio.sleep(_AWAY)
            else:
                pages += 1
            await self._send(annotation_page.go_on(self.session.page))
        raise RuntimeError(
            f"{self.name} finds no pair: the app does not work (start it by hand and look), or has pages "
            "before it that annotation_page.py does not know"
        )

    async def rate(self) -> bool:
        """Answer the pair shown and wait for the next; return whether there may be more.

        Raises:
            LostError: The connection broke.
        """
        view = self.view
        if view.pair is None:
            return not view.ended
        thought = {name: opinion(self.name, view.pair, name) for name in CRITERIA}
        keys: dict[str, Key] = {name: (self.name, view.pair, name) for name in CRITERIA}
        self.log.pressed.update(keys.values())
        self._states = annotation_page.answer(self.session.page, _letters(thought, view.first))
        start = time.perf_counter()
        await self._send(self._states)
        seconds = time.perf_counter() - start
        self._states = []
        after = self.view
        if after.calm:
            self.log.counts["calm"] += 1
            self.log.calm_seconds.append(seconds)
            await asyncio.sleep(_AWAY)
        elif after.pair == view.pair or (after.pair is None and not after.ended):
            self.log.counts["stuck"] += 1
        else:
            self.log.seconds.append(seconds)
            for name, key in keys.items():
                self.log.acknowledged[key] = METHODS.get(thought[name], "tie")
        await self._arrive()
        return not self.view.ended

    async def work(self, until: float, *, think: float) -> None:
        """Rate until the time has come, `think` seconds a pair on average; come back after every break.

        A `think` of 0 is without pause. Whoever thinks begins somewhere in the middle of a thought.
        """
        pause = self._dice.uniform(0, think)
        while True:
            # Who would press only after the end does not press.
            if time.perf_counter() + pause >= until:
                return
            await asyncio.sleep(pause)
            try:
                if not await self.rate():
                    return
            except LostError:
                self.log.counts["lost"] += 1
                await self.come_back()
            pause = self._dice.uniform(0.5 * think, 1.5 * think)

    async def come_back(self) -> None:
        """Connect again as a browser does: it asks again only if an answer was due when the line broke.

        Raises:
            LostError: Nobody was there for a minute.
        """
        start = time.perf_counter()
        while time.perf_counter() - start < 2 * self.patience:
            await self.session.close()
            await asyncio.sleep(self._dice.uniform(_AWAY, 2 * _AWAY))
            try:
                await self.session.connect()
                if self._states:
                    await self._send(lasting(self._states))
                    self._states = []
                await self._arrive()
            except LostError:
                continue
            return
        raise LostError(f"{self.name} cannot come back")


def _letters(thought: dict[str, str], first: str) -> dict[str, str]:
    """Return the answers by the sides shown."""
    return {
        name: "tie" if method == "tie" else "A" if method == first else "B"
        for name, method in thought.items()
    }


async def gather(study: Made, url: str, log: Log, count: int) -> list[Rater]:
    """Let raters in, eight at a time, and return them in front of their first pairs."""
    raters = [Rater(study, name, url, log) for name in list(study.tokens)[:count]]
    door = asyncio.Semaphore(8)

    async def enter(rater: Rater) -> None:
        async with door:
            await rater.enter()

    await asyncio.gather(*(enter(rater) for rater in raters))
    return raters


async def leave(raters: list[Rater]) -> None:
    """Close every tab."""
    await asyncio.gather(*(rater.session.close() for rater in raters))
