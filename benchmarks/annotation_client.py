"""A generated study, the server `guard-eval annotate`, and raters that are websocket clients of the server.

Every text of the study contains a mark such as `no17a`: in pair 17, the prompt has `p`, the first method's
text `a`, and the second method's text `b`. From the marks, a client knows the pair and the method on each
side. A client sends the same messages as Streamlit's JavaScript. A rating is acknowledged if the answer to
its Save is a page with another pair or with thanks. Any other answer is an error and ends the benchmark.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from common import environment, free_port, make_pair, wait_until
from sqlalchemy import text as sql
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import connect

import guard_eval
from guard_eval.records import Pair
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.study.folder import Study

METHODS = {"a": "top_k(k=50)", "b": "top_p(p=0.95)"}
CRITERIA = ("coherence", "fluency")
PATIENCE_SECONDS = 30.0
MOST_PAGES = 20
"""The largest number of pages before the first pair."""

_MARK = re.compile(rb"\bno(\d+)([pab])\b")
_THANKS = b"Thank you"
_GO_ON = ("start", "again", "more")
"""Keys of the buttons of pages without a pair."""

_EVENTS = "$$STREAMLIT_INTERNAL_KEY_"
"""The prefix of the names of a component's events in Streamlit."""

_TOML = """
name = "benchmark"
seed = 1
[model]
name = "bundled"
[generation]
strategies = ["{a}", "{b}"]
[pairs]
compare = [["{a}", "{b}"]]
[annotation]
criteria = {criteria}
raters_per_pair = {overlap}
"""

_VERDICTS = """
SELECT rater.name, presentation.pair_id, verdict.criterion,
       CASE WHEN verdict.choice = 'tie' THEN 'tie'
            WHEN (verdict.choice = 'A') = (presentation.first = 'a') THEN pair.method_a
            ELSE pair.method_b END
FROM verdict
JOIN presentation ON presentation.id = verdict.presentation_id
JOIN rater ON rater.id = presentation.rater_id
JOIN pair ON pair.id = presentation.pair_id
"""

Given = tuple[str, int, str, str]
"""A rater's name, the number of a pair, a criterion, and the better method or `tie`."""


@dataclass(frozen=True, kw_only=True)
class MadeStudy:
    """A study on disk: the folder, the pairs by the number in the marks, and the raters' tokens."""

    folder: Path
    pairs: list[Pair]
    tokens: dict[str, str]

    def count_wrong(self, ratings: Sequence[Given]) -> int:
        """Count the ratings that are lost, duplicated, changed, or stored although nobody gave them."""
        numbers = {pair.id: number for number, pair in enumerate(self.pairs)}
        with Store.open(Study.open(self.folder).database) as store, store.begin_read() as db:
            stored = Counter(
                (rater, numbers[pair_id], criterion, verdict)
                for rater, pair_id, criterion, verdict in db.execute(sql(_VERDICTS))
            )
        expected = Counter(ratings)
        return (stored - expected).total() + (expected - stored).total()


def make_study(folder: Path, *, raters: int, overlap: int, pairs: int = 150) -> MadeStudy:
    """Make a study for this number of raters; `overlap` raters rate each pair."""
    folder.mkdir()
    text = _TOML.format(**METHODS, criteria=json.dumps(CRITERIA), overlap=overlap)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    new_pairs = _make_pairs(pairs)
    with Store.open(Study.open(folder).database, create=True) as store:
        store_pairs.add_pairs(store, new_pairs)
        names = [f"rater-{number:03d}" for number in range(raters)]
        tokens = {name: store_raters.invite_rater(store, name)[1] for name in names}
    return MadeStudy(folder=folder, pairs=new_pairs, tokens=tokens)


def _make_pairs(count: int) -> list[Pair]:
    """Return pairs as long as the paper's: prompts of 35 to 200 words, continuations of about 190."""
    rng = np.random.default_rng(1)
    lines = (Path(guard_eval.__file__).parent / "demo" / "prompts.jsonl").read_text(encoding="utf-8")
    words = [word for line in lines.splitlines() for word in json.loads(line)["prompt"].split()]

    def write_text(number: int, letter: str, fewest: int, longest: int) -> str:
        chosen = rng.choice(words, int(rng.integers(fewest, longest))).tolist()
        chosen[0] += f" no{number}{letter}"
        chosen[len(chosen) // 2] += ".\n\n"
        return " ".join(chosen)

    sizes = (("p", 35, 200), ("a", 170, 210), ("b", 170, 210))
    return [
        make_pair(number, list(METHODS.values()), [write_text(number, *size) for size in sizes])
        for number in range(count)
    ]


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running `guard-eval annotate`: the address, the processes, and the log."""

    url: str
    processes: list[psutil.Process]
    log: Path

    def cpu(self) -> float:
        """Return the CPU time of all processes of the server, in seconds."""
        return sum(cpu_of(process) for process in self.processes)

    def memory(self) -> float:
        """Return the resident memory of the serving process (the newest one), in MB."""
        return float(self.processes[-1].memory_info().rss / 1e6)

    def count_defects(self) -> int:
        """Return the number of tracebacks in the log."""
        return self.log.read_text(encoding="utf-8", errors="replace").count("Traceback")


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU time of a process, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def serve(folder: Path, *, raters: int, overlap: int, pairs: int = 150) -> Iterator[tuple[MadeStudy, Server]]:
    """Make a study in a subfolder, and serve this study."""
    study = make_study(folder / "study", raters=raters, overlap=overlap, pairs=pairs)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-P", "-m", "guard_eval", "annotate", str(study.folder), "--port", str(port)]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended at once: {log.read_text()[-2000:]}")
        with suppress(OSError):
            opener.open(f"{url}/_stcore/health", timeout=2).close()
            return True
        return False

    try:
        wait_until(answers, seconds=60, what="the server's start")
        started = psutil.Process(process.pid)
        yield study, Server(url=url, processes=[started, *started.children(recursive=True)], log=log)
    finally:
        process.terminate()
        process.wait(30)


class Shown(NamedTuple):
    """An element of a page, with the message that contained it and the fragment that it belongs to."""

    element: Element
    message: bytes
    fragment: str


class Page:
    """A visitor's page, which speaks Streamlit's protocol.

    Attributes:
        shown: The elements that a browser would show, by their place on the page.
    """

    def __init__(self, url: str, token: str) -> None:
        self.shown: dict[tuple[int, ...], Shown] = {}
        self._url = url
        self._query = f"invite={token}"
        self._script = ""
        self._cached: dict[str, bytes] = {}

    async def open(self) -> None:
        """Connect, and load the page."""
        self._socket = await connect(
            f"ws{self._url.removeprefix('http')}/_stcore/stream",
            subprotocols=["streamlit", "PLACEHOLDER_AUTH_TOKEN"],  # type: ignore[arg-type]
            origin=self._url,  # type: ignore[arg-type]
            max_size=None,
            proxy=None,
        )
        await self.run()

    async def close(self) -> None:
        """Leave, as a closed tab does."""
        await self._socket.close()

    async def run(self, pressed: str = "", **state: Any) -> None:
        """Send the press of an element, and wait until the page that follows is whole."""
        request = BackMsg()
        script = request.rerun_script
        script.query_string = self._query
        script.page_script_hash = self._script
        script.cached_message_hashes.extend(self._cached)
        script.context_info.timezone = "UTC"
        script.context_info.locale = "en-US"
        script.context_info.url = f"{self._url}/"
        script.context_info.color_scheme = "light"
        if pressed:
            script.widget_states.widgets.append(WidgetState(**state))
            # a press in a fragment runs only this fragment
            script.fragment_id = next(
                item.fragment
                for item in self.shown.values()
                if pressed in {item.element.button.id, item.element.bidi_component.id}
            )
        await self._socket.send(request.SerializeToString())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._receive()

    async def press_button(self) -> None:
        """Press the button that leads on, if there is one."""
        buttons = [item.element.button.id for item in self.shown.values()]
        button = next((button for button in buttons if button.rpartition("-")[2] in _GO_ON), "")
        await self.run(button, id=button, trigger_value=True)

    async def save(self, choices: dict[str, str]) -> None:
        """Press Save on the panel with these choices (criterion → A, tie or B)."""
        panel = next(
            item.element.bidi_component
            for item in self.shown.values()
            if item.element.bidi_component.component_name == "guard_eval_pair"
        )
        (view,) = json.loads(panel.json)
        submission = {"pair": view["pair"], "press": secrets.token_hex(8), "choices": choices, "seconds": 5.0}
        events = json.dumps([{"event": "submit", "value": submission}])
        await self.run(panel.id, id=f"{_EVENTS}{panel.id}__events", json_trigger_value=events)

    async def _receive(self) -> None:
        fresh: set[tuple[int, ...]] = set()
        running: set[str] = set()
        while True:
            data = bytes(await self._socket.recv())
            message = ForwardMsg.FromString(data)
            kind = message.WhichOneof("type")
            if kind in {"delta", "ref_hash"}:
                fresh.add(self._put(message, data))
            elif kind == "new_session":
                fresh.clear()
                # a run of fragments does not change the rest of the page
                running = set(message.metadata.run.fragment_ids)
                self._script = message.new_session.page_script_hash
            # a run that requested another run is not the answer
            elif kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                for position in self.shown.keys() - fresh:
                    if not running or self.shown[position].fragment in running:
                        del self.shown[position]
                return

    def _put(self, message: ForwardMsg, data: bytes) -> tuple[int, ...]:
        position = tuple(message.metadata.delta_path)
        if message.HasField("ref_hash"):
            data = self._cached[message.ref_hash]
            message = ForwardMsg.FromString(data)
        elif message.metadata.cacheable:
            self._cached[message.hash] = data
        self.shown.pop(position, None)
        if message.delta.HasField("new_element"):
            self.shown[position] = Shown(message.delta.new_element, data, message.delta.fragment_id)
        return position


class Rater:
    """One rater with one browser.

    Attributes:
        ratings: The ratings that were acknowledged.
        seconds: The seconds from each press to the complete next page.
        pair: The number of the pair on the page; None on any other page.
    """

    def __init__(self, study: MadeStudy, name: str, url: str) -> None:
        self.name = name
        self.page = Page(url, study.tokens[name])
        self.ratings: list[Given] = []
        self.seconds: list[float] = []
        self.pair: int | None = None
        self._first = ""  # the text shown as A: `a` is the first method's text
        self._is_thanked = False
        self._dice = random.Random(name)

    async def enter(self) -> None:
        """Open the link, and leave every page before the first pair."""
        await self.page.open()
        for _ in range(MOST_PAGES):
            self._look()
            if self.pair is not None:
                return
            await self.page.press_button()
        raise RuntimeError(f"{self.name} finds no pair: the app does not work, or has pages of a new kind")

    def _look(self) -> None:
        """Read the page. The marks show the pair and the method of the first text."""
        data = b"\n".join(item.message for _, item in sorted(self.page.shown.items()))
        marks = _MARK.findall(data)
        self.pair = int(marks[0][0]) if marks else None
        self._first = next((letter.decode() for _, letter in marks if letter != b"p"), "")
        self._is_thanked = _THANKS in data and not marks
        if any(item.element.WhichOneof("type") == "exception" for item in self.page.shown.values()):
            raise RuntimeError(f"{self.name} sees an exception")

    async def rate(self) -> bool:
        """Rate the pair on the page, and wait for the next one; return False if none is left."""
        pair = self.pair
        assert pair is not None
        ratings: list[Given] = []
        choices = {}
        for criterion in CRITERIA:
            digest = hashlib.sha256(f"{self.name} {pair} {criterion}".encode()).digest()
            letter = ("a", "tie", "b")[digest[0] % 3]
            ratings.append((self.name, pair, criterion, METHODS.get(letter, "tie")))
            choices[criterion] = {"tie": "tie", self._first: "A"}.get(letter, "B")
        start = time.perf_counter()
        await self.page.save(choices)
        seconds = time.perf_counter() - start
        self._look()
        if self.pair == pair or (self.pair is None and not self._is_thanked):
            raise RuntimeError(f"the page did not take {self.name}'s rating of pair {pair}")
        self.seconds.append(seconds)
        self.ratings += ratings
        return not self._is_thanked

    async def work(self, until: float, *, think: float) -> None:
        """Rate until the time has come, `think` seconds a pair on average (0: without pause)."""
        pause = self._dice.uniform(0, think)  # raters start at different times within a pause
        while time.perf_counter() + pause < until:
            await asyncio.sleep(pause)
            if not await self.rate():
                return
            pause = self._dice.uniform(0.5 * think, 1.5 * think)


async def enter(raters: Sequence[Rater]) -> None:
    """Let raters in, eight at a time, to their first pairs."""
    door = asyncio.Semaphore(8)

    async def enter_one(rater: Rater) -> None:
        async with door:
            await rater.enter()

    await asyncio.gather(*map(enter_one, raters))


async def leave(raters: Sequence[Rater]) -> None:
    """Close every tab."""
    await asyncio.gather(*(rater.page.close() for rater in raters))
