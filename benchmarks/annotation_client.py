"""Raters as websocket clients: a made study, Streamlit's protocol, and a log of what was acknowledged.

Every text of the study carries a mark such as `no17a`: the prompt of pair 17 has `p`, the first method's text
`a`, the second's `b`. By the marks a client knows which pair it was shown and which side is whose, whatever
the page is made of; a rater's page would of course never say. A client sends what Streamlit's own JavaScript
sends. A rating is acknowledged when the answer to its own press is a page with another pair or with thanks.
What was pressed and never answered is in doubt: it may be in the database or not, but not twice.

When the rating page changes, `read`, `answer`, `go_on` and the `browser_` functions are what to adapt.
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
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.proto.ClientState_pb2 import ContextInfo
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

import guard_eval
from guard_eval.records import Pair
from guard_eval.store import Store
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
    """A study on disk.

    Attributes:
        folder: Where `guard-eval annotate` finds it.
        pairs: Its pairs, by the number in their marks.
        tokens: The invites, by rater.
        overlap: How many raters each pair is to have.
    """

    folder: Path
    pairs: list[Pair]
    tokens: dict[str, str]
    overlap: int = 0

    def open(self) -> Store:
        """Return its store."""
        return Store.open(Study.open(self.folder).database)


def make(
    folder: Path,
    *,
    raters: int,
    overlap: int,
    pairs: int = 150,
    database: str | None = None,
    settings: str = "",
) -> MadeStudy:
    """Make a study.

    Args:
        folder: Where; it is made.
        raters: How many are invited.
        overlap: How many of them rate each pair.
        pairs: How many pairs there are.
        database: A server's URL; default: the study's own SQLite file.
        settings: More lines for the end of study.toml, in its table `[annotation]`.
    """
    folder.mkdir(parents=True)
    url = f"database = {json.dumps(database)}" if database else ""
    text = _TOML.format(
        **METHODS, criteria=json.dumps(CRITERIA), overlap=overlap, database=url, more=settings
    )
    (folder / "study.toml").write_text(text, encoding="utf-8")
    made = _pairs(pairs)
    with Store.open(Study.open(folder).database, create=True) as store:
        store.add_pairs(made)
        names = [f"rater-{number:03d}" for number in range(raters)]
        tokens = {name: store.invite(name)[1] for name in names}
    return MadeStudy(folder=folder, pairs=made, tokens=tokens, overlap=overlap)


def _pairs(count: int) -> list[Pair]:
    """Return pairs as long as the paper's: prompts of 35 to 200 words, continuations of about 190."""
    rng = np.random.default_rng(1)
    lines = (Path(guard_eval.__file__).parent / "demo" / "prompts.jsonl").read_text(encoding="utf-8")
    words = [word for line in lines.splitlines() for word in json.loads(line)["prompt"].split()]

    def text(number: int, letter: str, length: int) -> str:
        chosen = rng.choice(words, length).tolist()
        # A paragraph now and then, and the mark among the first words.
        chosen[0] = f"{chosen[0]} no{number}{letter}"
        chosen[length // 2] += ".\n\n"
        return " ".join(chosen)

    return [
        Pair(
            id=Pair.make_id(METHODS["a"], METHODS["b"], f"made-{number}-a", f"made-{number}-b"),
            dataset="made",
            prompt_id=f"made-{number}",
            prompt=text(number, "p", int(rng.integers(35, 200))),
            method_a=METHODS["a"],
            method_b=METHODS["b"],
            continuation_a=f"made-{number}-a",
            continuation_b=f"made-{number}-b",
            text_a=text(number, "a", int(rng.integers(170, 210))),
            text_b=text(number, "b", int(rng.integers(170, 210))),
            position=number,
        )
        for number in range(count)
    ]


ANSWER_SECONDS = 30.0
_TRIGGERS = {"trigger_value", "string_trigger_value", "json_trigger_value", "chat_input_value"}


class LostError(Exception):
    """The connection is gone, or nobody answers at all."""


@dataclass
class Page:
    """What the browser would show.

    Attributes:
        elements: By place.
        raw: The messages that brought them, by place: whatever an element is, its texts stand there.
        sizes: Bytes of each message of the last request's answer.
    """

    elements: dict[tuple[int, ...], Element] = field(default_factory=dict)
    raw: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)


class Session:
    """A visitor: one address, one websocket at a time."""

    def __init__(self, url: str, query: str) -> None:
        self._url, self._query = url, query
        self._socket: ClientConnection | None = None
        self._script = self._session = ""
        self._cached: dict[str, bytes] = {}
        self.page = Page()
        self.options: dict[str, Any] = {}  # of the websocket's connection: cookies, TLS

    async def connect(self) -> None:
        """Open the websocket; a second time the server is told which session it was.

        Raises:
            LostError: Nobody is there.
        """
        tokens = ["streamlit", "PLACEHOLDER_AUTH_TOKEN", *([self._session] if self._session else [])]
        try:
            self._socket = await connect(
                f"ws{self._url.removeprefix('http')}/_stcore/stream",
                subprotocols=tokens,  # type: ignore[arg-type]
                origin=self._url,  # type: ignore[arg-type]
                max_size=None,
                proxy=None,
                open_timeout=ANSWER_SECONDS,
                **self.options,
            )
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            raise LostError(str(error)) from error

    async def close(self) -> None:
        """Leave, as a closed tab does."""
        if self._socket is not None:
            with suppress(OSError, WebSocketException):
                await self._socket.close()

    async def run(self, states: Sequence[WidgetState] = (), *, fragment: str = "") -> Page:
        """Send what a press sends, and return the page that came of it when it is whole.

        Args:
            states: Every widget's state, the pressed one's among them.
            fragment: Which fragment alone is to run.

        Raises:
            LostError: The connection broke, or no answer came.
        """
        message = BackMsg()
        script = message.rerun_script
        script.query_string, script.page_script_hash, script.fragment_id = self._query, self._script, fragment
        script.widget_states.widgets.extend(states)
        script.cached_message_hashes.extend(self._cached)
        script.context_info.CopyFrom(self._context())
        try:
            if self._socket is None:
                raise LostError("not connected")
            await self._socket.send(message.SerializeToString())
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(self._socket, fragment)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise LostError(str(error)) from error

    async def _answer(self, socket: ClientConnection, fragment: str) -> Page:
        fresh: set[tuple[int, ...]] = set()
        self.page.sizes = []
        while True:
            data = await socket.recv()
            assert isinstance(data, bytes)
            self.page.sizes.append(len(data))
            message = ForwardMsg.FromString(data)
            kind = message.WhichOneof("type")
            if kind in {"delta", "ref_hash"}:
                fresh.add(self._put(message, data))
            elif kind == "new_session":
                fresh.clear()
                self._script = message.new_session.page_script_hash
                self._session = message.new_session.initialize.session_id or self._session
            elif kind == "script_finished":
                # A run that asked for another one is not the answer.
                if message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    continue
                if not fragment:
                    self._keep(fresh)
                return self.page

    def _put(self, message: ForwardMsg, data: bytes) -> tuple[int, ...]:
        place = tuple(message.metadata.delta_path)
        if message.HasField("ref_hash"):
            data = self._cached[message.ref_hash]
            message = ForwardMsg.FromString(data)
        elif message.metadata.cacheable:
            self._cached[message.hash] = data
        if message.delta.HasField("new_element"):
            self.page.elements[place] = message.delta.new_element
            self.page.raw[place] = data
        else:
            self.page.elements.pop(place, None)
            self.page.raw.pop(place, None)
        return place

    def _keep(self, fresh: set[tuple[int, ...]]) -> None:
        for place in set(self.page.elements) - fresh:
            del self.page.elements[place], self.page.raw[place]

    def _context(self) -> ContextInfo:
        return ContextInfo(
            timezone="UTC",
            timezone_offset=0,
            locale="en-US",
            url=f"{self._url}/",
            is_embedded=False,
            color_scheme="light",
        )


def lasting(states: Sequence[WidgetState]) -> list[WidgetState]:
    """Return the states a browser sends again by itself: all but presses."""
    return [state for state in states if state.WhichOneof("value") not in _TRIGGERS]


_LETTERS = ("A", "tie", "B")
_ENDED = b"Thank you"
_CALM = (b"Please try again in a moment", b"could not be saved")
_GO_ON = ("start", "again", "more")
"""Keys of the buttons of pages without a pair."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What a page shows.

    Attributes:
        pair: The number of the pair shown; None on any other page.
        first: Whose text stands as A: `a` is the first method's.
        ended: The rater is thanked.
        calm: The rater is told that something does not work just now.
        errors: Exceptions shown as such: no rater should ever see one.
    """

    pair: int | None
    first: str
    ended: bool
    calm: bool
    errors: int


NOTHING = View(pair=None, first="", ended=False, calm=False, errors=0)
"""A page that is not there yet."""


def read(page: Page) -> View:
    """Return what the page shows."""
    raw = b"\n".join(page.raw[place] for place in sorted(page.raw))
    marks = MARK.findall(raw)
    letters = [letter.decode() for _, letter in marks if letter != b"p"]
    panel = _panel(page)
    return View(
        pair=int(marks[0][0]) if marks else None,
        first=letters[0] if letters else "",
        ended=_ENDED in raw and not marks,
        # A panel holds all its sentences, whether it says them or not.
        calm=bool(panel[1]["problem"]) if panel else any(words in raw for words in _CALM),
        errors=sum(element.WhichOneof("type") == "exception" for element in page.elements.values()),
    )


def answer(page: Page, choices: Mapping[str, str]) -> list[WidgetState]:
    """Return what a browser sends when the choices (criterion → A, tie or B) are made and saved."""
    panel = _panel(page)
    if panel:
        return [_press(*panel, choices)]
    states = []
    for element in page.elements.values():
        kind = element.WhichOneof("type")
        if kind == "button_group":
            criterion = element.button_group.id.rpartition("-")[2]
            option = element.button_group.options[_LETTERS.index(choices[criterion])]
            state = WidgetState(id=element.button_group.id)
            state.string_array_value.data.append(option.content)
            states.append(state)
        elif kind == "button" and element.button.id.endswith("-save"):
            states.append(WidgetState(id=element.button.id, trigger_value=True))
    return states


def _panel(page: Page) -> tuple[BidiComponent, dict[str, Any]] | None:
    """Return the component that holds the pair, and what it was given."""
    for element in page.elements.values():
        if element.WhichOneof("type") == "bidi_component":
            component = element.bidi_component
            given = json.loads(component.json or component.mixed.json or "null")
            # Bare, or wrapped in a list or a mapping of one.
            for view in (given, *(given.values() if isinstance(given, dict) else given or ())):
                if isinstance(view, dict) and "prompt" in view:
                    return component, view
    return None


def _press(panel: BidiComponent, view: dict[str, Any], choices: Mapping[str, str]) -> WidgetState:
    """Return what the panel's Save sends."""
    submitted = {
        "pair": view["pair"],
        "press": secrets.token_hex(8),
        "choices": dict(choices),
        "comment": None,
        "problems": None,
        "breaks": [],
        "seconds": 5.0,
        "active": 4.5,
    }
    events = [{"event": "submit", "value": submitted}]
    return WidgetState(
        id=f"$$STREAMLIT_INTERNAL_KEY_{panel.id}__events", json_trigger_value=json.dumps(events)
    )


def go_on(page: Page) -> list[WidgetState]:
    """Return the press that leaves a page without a pair; nothing where there is no such button."""
    buttons = [element.button for element in page.elements.values() if element.HasField("button")]
    for button in buttons:
        if button.id.rpartition("-")[2] in _GO_ON:
            return [WidgetState(id=button.id, trigger_value=True)]
    return []


# The same in a browser. `page` is Playwright's, which may be missing: hence no type.


def browser_enter(page: Any) -> None:  # noqa: ANN401
    """Leave the pages before the first pair."""
    page.get_by_role("button", name="Start").click()
    browser_save(page).wait_for()


def browser_save(page: Any) -> Any:  # noqa: ANN401
    """Return the button that sends the answers."""
    return page.get_by_role("button", name="Save and continue")


def browser_choose(page: Any, criterion: str, letter: str) -> None:  # noqa: ANN401
    """Click an answer."""
    answers = {"A": "A is better", "tie": "Similar", "B": "B is better"}
    group = page.get_by_role("radiogroup", name=criterion.title())
    group.get_by_role("radio", name=answers[letter]).click()


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

    def __init__(self, study: MadeStudy, name: str, url: str, log: Log) -> None:
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
        self.view = read(await self.session.run(states))
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
            await self._send(go_on(self.session.page))
        raise RuntimeError(
            f"{self.name} finds no pair: the app does not work (start it by hand and look), or has pages "
            "before it that annotation_client.py does not know"
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
        self._states = answer(self.session.page, _letters(thought, view.first))
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


async def gather(study: MadeStudy, url: str, log: Log, count: int) -> list[Rater]:
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
