"""Raters as websocket clients: a made study, Streamlit's protocol, and a log of what was acknowledged.

Every text of the study carries a mark such as `no17a`: the prompt of pair 17 has `p`, the first method's text
`a`, the second's `b`. By the marks a client knows which pair it was shown and which side is whose. A client
sends what Streamlit's own JavaScript sends. A rating is acknowledged when the answer to its own press is a
page with another pair or with thanks.

When the rating page changes, `read`, `answer` and `go_on` are what to adapt.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import make_pair
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

import guard_eval
from guard_eval.records import Pair
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study.folder import Study

METHODS = {"a": "top_k(k=50)", "b": "top_p(p=0.95)"}
MARK = re.compile(rb"\bno(\d+)([pab])\b")
CRITERIA = ("coherence", "fluency")

_TOML = """
name = "benchmark"
seed = 1
{database}
[model]
name = "bundled"
[generation]
strategies = ["{a}", "{b}"]
[pairs]
compare = [["{a}", "{b}"]]
[annotation]
criteria = {criteria}
raters_per_pair = {overlap}
{more}
"""


@dataclass(frozen=True, kw_only=True)
class MadeStudy:
    """A study on disk: its folder, its pairs by the number in their marks, invites, raters of a pair."""

    folder: Path
    pairs: list[Pair]
    tokens: dict[str, str]
    overlap: int = 0

    def open(self) -> Store:
        """Return its store."""
        return Store.open(Study.open(self.folder).database)


def make(
    folder: Path, *, raters: int, overlap: int, pairs: int = 150, database: str | None = None, more: str = ""
) -> MadeStudy:
    """Make a study, on a database server's URL or its own SQLite file; `more` goes into `[annotation]`."""
    folder.mkdir(parents=True)
    url = f"database = {json.dumps(database)}" if database else ""
    text = _TOML.format(**METHODS, criteria=json.dumps(CRITERIA), overlap=overlap, database=url, more=more)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    pairs_made = _pairs(pairs)
    with Store.open(Study.open(folder).database, create=True) as store:
        store_pairs.add(store, pairs_made)
        names = [f"rater-{number:03d}" for number in range(raters)]
        tokens = {name: store_raters.invite(store, name)[1] for name in names}
    return MadeStudy(folder=folder, pairs=pairs_made, tokens=tokens, overlap=overlap)


def _pairs(count: int) -> list[Pair]:
    """Return pairs as long as the paper's: prompts of 35 to 200 words, continuations of about 190."""
    rng = np.random.default_rng(1)
    lines = (Path(guard_eval.__file__).parent / "demo" / "prompts.jsonl").read_text(encoding="utf-8")
    words = [word for line in lines.splitlines() for word in json.loads(line)["prompt"].split()]

    def text(number: int, letter: str, least: int, maximum: int) -> str:
        length = int(rng.integers(least, maximum))
        chosen = rng.choice(words, length).tolist()
        # A paragraph now and then, and the mark among the first words.
        chosen[0] = f"{chosen[0]} no{number}{letter}"
        chosen[length // 2] += ".\n\n"
        return " ".join(chosen)

    sizes = {"p": (35, 200), "a": (170, 210), "b": (170, 210)}
    return [
        make_pair(n, (METHODS["a"], METHODS["b"]), [text(n, letter, *size) for letter, size in sizes.items()])
        for n in range(count)
    ]


class LostError(Exception):
    """The connection broke, or nobody answers at all."""


class Session:
    """A visitor: one address, one websocket at a time.

    Attributes:
        elements: What the browser would show, by place.
        raw: The messages that brought the elements: whatever an element is, its texts stand there.
        fragments: The fragment that an element belongs to, by place: a press in it runs that fragment alone.
    """

    def __init__(self, url: str, query: str, *, patience: float) -> None:
        self._url, self._query, self._patience = url, query, patience
        self._socket: ClientConnection | None = None
        self._script = ""
        self._cached: dict[str, bytes] = {}
        self.elements: dict[tuple[int, ...], Element] = {}
        self.raw: dict[tuple[int, ...], bytes] = {}
        self.fragments: dict[tuple[int, ...], str] = {}

    async def connect(self) -> None:
        """Open the websocket.

        Raises:
            LostError: Nobody answers.
        """
        try:
            self._socket = await connect(
                f"ws{self._url.removeprefix('http')}/_stcore/stream",
                subprotocols=["streamlit", "PLACEHOLDER_AUTH_TOKEN"],  # type: ignore[arg-type]
                origin=self._url,  # type: ignore[arg-type]
                max_size=None,
                proxy=None,
                open_timeout=self._patience,
            )
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            raise LostError(str(error)) from error

    async def close(self) -> None:
        """Leave, as a closed tab does."""
        if self._socket is not None:
            with suppress(OSError, WebSocketException):
                await self._socket.close()

    async def run(self, states: Sequence[WidgetState] = ()) -> None:
        """Send what a press sends, every widget's state, and wait until the page that comes of it is whole.

        Raises:
            LostError: The connection broke, or no answer came.
        """
        message = BackMsg()
        script = message.rerun_script
        script.query_string, script.page_script_hash = self._query, self._script
        script.widget_states.widgets.extend(states)
        script.fragment_id = self._fragment_of(states)
        script.cached_message_hashes.extend(self._cached)
        script.context_info.timezone, script.context_info.locale = "UTC", "en-US"
        script.context_info.url, script.context_info.color_scheme = f"{self._url}/", "light"
        try:
            if self._socket is None:
                raise LostError("not connected")
            await self._socket.send(message.SerializeToString())
            async with asyncio.timeout(self._patience):
                await self._receive(self._socket)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise LostError(str(error)) from error

    def _fragment_of(self, states: Sequence[WidgetState]) -> str:
        """Return the fragment whose element was pressed; none for a press outside of fragments."""
        pressed = {state.id.removesuffix("__events").removeprefix(_EVENTS) for state in states}
        for index, element in self.elements.items():
            if {element.button.id, element.bidi_component.id} & pressed - {""}:
                return self.fragments[index]
        return ""

    async def _receive(self, socket: ClientConnection) -> None:
        fresh: set[tuple[int, ...]] = set()
        running: set[str] = set()
        while True:
            data = await socket.recv()
            assert isinstance(data, bytes)
            message = ForwardMsg.FromString(data)
            kind = message.WhichOneof("type")
            if kind in {"delta", "ref_hash"}:
                fresh.add(self._put(message, data))
            elif kind == "new_session":
                fresh.clear()
                # A run of fragments leaves the rest of the page as it is.
                running = set(message.metadata.run.fragment_ids)
                self._script = message.new_session.page_script_hash
            # A run that asked for another one is not the answer.
            elif kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                for index in self.elements.keys() - fresh:
                    if not running or self.fragments[index] in running:
                        del self.elements[index], self.raw[index], self.fragments[index]
                return

    def _put(self, message: ForwardMsg, data: bytes) -> tuple[int, ...]:
        index = tuple(message.metadata.delta_path)
        if message.HasField("ref_hash"):
            data = self._cached[message.ref_hash]
            message = ForwardMsg.FromString(data)
        elif message.metadata.cacheable:
            self._cached[message.hash] = data
        for positions in (self.elements, self.raw, self.fragments):
            positions.pop(index, None)
        if message.delta.HasField("new_element"):
            self.elements[index], self.raw[index] = message.delta.new_element, data
            self.fragments[index] = message.delta.fragment_id
        return index


_EVENTS = "$$STREAMLIT_INTERNAL_KEY_"
"""How Streamlit begins the name of a component's events."""


_ENDED = b"Thank you"
_CALM = (b"Please try again in a moment", b"could not be saved")
_GO_ON = ("start", "again", "more")
"""Keys of the buttons of pages without a pair."""


@dataclass(frozen=True)
class View:
    """What a page shows.

    Attributes:
        pair: The number of the pair shown; None on any other page.
        first: Whose text stands as A: `a` is the first method's.
        ended: The rater is thanked.
        calm: The page says that something does not work just now.
        errors: Exceptions shown as such: no rater should ever see one.
    """

    pair: int | None = None
    first: str = ""
    ended: bool = False
    calm: bool = False
    errors: int = 0


def read_view(page: Session) -> View:
    """Return what the page shows."""
    raw = b"\n".join(page.raw[index] for index in sorted(page.raw))
    marks = MARK.findall(raw)
    panel = _panel(page)
    return View(
        pair=int(marks[0][0]) if marks else None,
        first=next((letter.decode() for _, letter in marks if letter != b"p"), ""),
        ended=_ENDED in raw and not marks,
        # A panel holds all its sentences, whether it shows them or not.
        calm=bool(panel[1]["problem"]) if panel else any(words in raw for words in _CALM),
        errors=sum(element.WhichOneof("type") == "exception" for element in page.elements.values()),
    )


def answer(page: Session, choices: Mapping[str, str]) -> list[WidgetState]:
    """Return what the panel's Save sends when the choices (criterion → A, tie or B) are made."""
    panel = _panel(page)
    assert panel is not None
    submitted = {
        "pair": panel[1]["pair"],
        "press": secrets.token_hex(8),
        "choices": dict(choices),
        "comment": None,
        "problems": None,
        "seconds": 5.0,
        "active": 4.5,
    }
    events = json.dumps([{"event": "submit", "value": submitted}])
    return [WidgetState(id=f"{_EVENTS}{panel[0]}__events", json_trigger_value=events)]


def _panel(page: Session) -> tuple[str, dict[str, Any]] | None:
    """Return the id of the component that holds the pair, and what it was given."""
    for element in page.elements.values():
        component = element.bidi_component
        if element.WhichOneof("type") == "bidi_component" and component.component_name == "guard_eval_pair":
            (view,) = json.loads(component.json)
            return component.id, view
    return None


def go_on(page: Session) -> list[WidgetState]:
    """Return the press that leaves a page without a pair; nothing where there is no such button."""
    buttons = [element.button.id for element in page.elements.values() if element.HasField("button")]
    result = [button for button in buttons if button.rpartition("-")[2] in _GO_ON]
    return [WidgetState(id=button, trigger_value=True) for button in result[:1]]


Key = tuple[str, int, str]
"""Rater, number of the pair, criterion."""

_AWAY = 0.3
"""Seconds until a browser tries to connect again."""
_PAGES = 20
"""How many pages may come before the first pair."""


@dataclass
class Log:
    """What the clients did and saw.

    Attributes:
        pressed: Every rating ever sent.
        acknowledged: The method, or `tie`, of those whose answer came.
        seconds: From press to the whole next page, of those.
        counts: Of `calm` pages, `exception` pages, connections `lost`, and ratings `stuck` (nothing moved
            although no page reported it).
    """

    pressed: set[Key] = field(default_factory=set)
    acknowledged: dict[Key, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def ratings(self) -> int:
        """Return how many ratings were acknowledged."""
        return len(self.acknowledged) // len(CRITERIA)


class Rater:
    """One rater at one browser.

    Args:
        study: What is rated.
        name: Who rates.
        url: Where.
        log: What is written to.
        patience: Seconds without an answer after which the connection counts as broken, and for which a page
            that asks for patience is believed.
    """

    def __init__(self, study: MadeStudy, name: str, url: str, log: Log, *, patience: float = 30.0) -> None:
        self.name, self.log, self._patience = name, log, patience
        self.session = Session(url, f"invite={study.tokens[name]}", patience=patience)
        self._dice = random.Random(name)
        self.view = View()

    async def enter(self) -> None:
        """Open the link and leave every page before the first pair."""
        await self.session.connect()
        await self._send([])
        await self._arrive()

    async def _send(self, states: list[WidgetState]) -> None:
        await self.session.run(states)
        self.view = read_view(self.session)
        self.log.counts["exception"] += self.view.errors

    async def _arrive(self) -> None:
        pages, start = 0, time.perf_counter()
        while pages < _PAGES and time.perf_counter() - start < self._patience:
            if self.view.pair is not None or self.view.ended:
                return
            if self.view.calm:
                self.log.counts["calm"] += 1
                await asyncio.sleep(_AWAY)
            else:
                pages += 1
            await self._send(go_on(self.session))
        raise RuntimeError(
            f"{self.name} finds no pair: the app does not work (start it by hand and see), or has pages "
            "before it that annotation_client.py does not handle"
        )

    async def rate(self) -> bool:
        """Answer the pair shown and wait for the next; return whether there may be more.

        Opinions are a function of rater and pair, so that a second press says the same.

        Raises:
            LostError: The connection broke.
        """
        view = self.view
        if view.pair is None:
            return not view.ended
        opinions, choices = dict[Key, str](), dict[str, str]()
        for criterion in CRITERIA:
            digest = hashlib.sha256(f"{self.name} {view.pair} {criterion}".encode()).digest()
            letter = ("a", "tie", "b")[digest[0] % 3]
            opinions[self.name, view.pair, criterion] = METHODS.get(letter, "tie")
            choices[criterion] = letter if letter == "tie" else "A" if letter == view.first else "B"
        self.log.pressed.update(opinions)
        states = answer(self.session, choices)
        start = time.perf_counter()
        await self._send(states)
        seconds = time.perf_counter() - start
        after = self.view
        if after.calm:
            self.log.counts["calm"] += 1
            await asyncio.sleep(_AWAY)
        elif after.pair == view.pair or (after.pair is None and not after.ended):
            self.log.counts["stuck"] += 1
        else:
            self.log.seconds.append(seconds)
            self.log.acknowledged |= opinions
        await self._arrive()
        return not self.view.ended

    async def work(self, until: float, *, think: float) -> None:
        """Rate until the time has come, `think` seconds a pair on average, or until the connection breaks.

        A `think` of 0 is without pause. Whoever thinks begins somewhere in the middle of a thought, and does
        not press after the end.
        """
        pause = self._dice.uniform(0, think)
        while time.perf_counter() + pause < until:
            await asyncio.sleep(pause)
            try:
                if not await self.rate():
                    return
            except LostError:
                self.log.counts["lost"] += 1
                return
            pause = self._dice.uniform(0.5 * think, 1.5 * think)


async def enter(raters: Sequence[Rater]) -> None:
    """Let raters in, eight at a time, to their first pairs."""
    door = asyncio.Semaphore(8)

    async def send_one(rater: Rater) -> None:
        async with door:
            await rater.enter()

    await asyncio.gather(*map(send_one, raters))


async def leave(raters: Sequence[Rater]) -> None:
    """Close every tab."""
    await asyncio.gather(*(rater.session.close() for rater in raters))
