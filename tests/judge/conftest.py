"""A server of chat completions on 127.0.0.1 that misbehaves as a test tells it, and a study to judge."""

import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest
from local_server import LocalServer

from guard_eval.records import BlindPair, Pair
from guard_eval.rubric import CHOICE_LABELS
from guard_eval.store import Store
from guard_eval.study.settings import Judge
from judge.prompt import request_key

KEY = "sk-proj-NeverToBeSeen0123456789abcdef"


@dataclass(frozen=True)
class Ask:
    """One request as the server saw it."""

    body: dict
    digest: str
    number: int
    """How often this very body had come before."""
    headers: dict

    @property
    def criteria(self):
        listed = re.search(r"exactly these fields: (.*?)\. Each", self.body["messages"][0]["content"])
        return json.loads(f"[{listed[1]}]")

    @property
    def block(self):
        """The verdict block asked for in plain text, one line per criterion; None where JSON is."""
        return re.search(
            r"<verdict-\w+>\n(.*)\n</verdict-\w+>\Z", self.body["messages"][1]["content"], re.DOTALL
        )

    @property
    def texts(self):
        return self._between("method-a"), self._between("method-b")

    def key(self, judge, *, seed=11):
        """Return the journal's name for this request, where it is for a first sample."""
        text_a, text_b = self.texts
        blind = BlindPair(presentation=0, prompt=self._between("prompt"), text_a=text_a, text_b=text_b)
        return request_key(judge, blind, seed)

    def _between(self, tag):
        user = self.body["messages"][1]["content"]
        return re.search(rf"<{tag}-(\w+)>\n(.*)\n</{tag}-\1>", user, re.DOTALL)[2]


@dataclass
class Act:
    """What the server does with it."""

    status: int = 200
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    reset: bool = False
    delay: float = 0.0
    paid: bool = False


def completion(content, *, finish="stop", refusal=None, tokens=(100, 10), **more):
    message = {"role": "assistant", "content": content, "refusal": refusal}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "snapshot-1",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }
    return Act(body=json.dumps(body).encode(), paid=True, **more)


def error(status, *, message="no", code=None, kind=None, param=None, **more):
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return Act(status=status, body=json.dumps(body).encode(), **more)


def verdict(ask, choice="A"):
    if ask.block:
        return completion(ask.block[0].replace("…", CHOICE_LABELS[choice]))
    return completion(json.dumps(dict.fromkeys(ask.criteria, choice)))


class FakeServer(LocalServer):
    """Answers every request with what `act` says; counts what it answered in full."""

    def __init__(self):
        self.act: Callable[[Ask], Act] = verdict
        self.asks: list[Ask] = []
        self.paid: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        self.serve(self._handler())

    def _take(self, raw, headers):
        body = json.loads(raw)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._lock:
            ask = Ask(body, digest, sum(each.digest == digest for each in self.asks), headers)
            self.asks.append(ask)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        return ask

    def _handler(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                ask = outer._take(raw, {name.lower(): value for name, value in self.headers.items()})
                act = outer.act(ask)
                time.sleep(act.delay)
                with outer._lock:
                    outer._now -= 1
                    (outer.unseen if act.reset else outer.paid)[ask.digest] += act.paid
                if act.reset:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(act.status)
                for name, value in {
                    "Content-Type": "application/json",
                    "x-request-id": "req-1",
                    **act.headers,
                }.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(act.body)))
                self.end_headers()
                self.wfile.write(act.body)

        return Handler


@pytest.fixture
def server():
    made = FakeServer()
    yield made
    made.close()


@pytest.fixture
def fake():
    """Give tests what the server can be told to do."""

    class Fake:
        KEY = KEY

    Fake.completion = staticmethod(completion)
    Fake.error = staticmethod(error)
    Fake.verdict = staticmethod(verdict)
    Fake.Act = Act
    return Fake


@pytest.fixture
def environ():
    """Hold the key that `judge` names."""
    return {"JUDGE_KEY": KEY}


@pytest.fixture
def judge(server):
    return Judge(
        model="gpt-4o-2024-11-20",
        base_url=server.url,
        api_key_env="JUDGE_KEY",
        criteria=["fluency", "coherence"],
        concurrency=4,
        usd_per_million_input_tokens=2.0,
        usd_per_million_output_tokens=8.0,
    )


def make_pair(number, *, text_a=None, text_b=None):
    text_a = f"first text number {number}" if text_a is None else text_a
    text_b = f"second text number {number}" if text_b is None else text_b
    first, second = f"ca{number}", f"cb{number}"
    return Pair(
        id=Pair.make_id("guard", "top_k(k=50)", first, second),
        dataset="wikitext",
        prompt_id=f"p{number}",
        prompt=f"prompt number {number}",
        method_a="guard",
        method_b="top_k(k=50)",
        continuation_a=first,
        continuation_b=second,
        text_a=text_a,
        text_b=text_b,
        position=number,
    )


@pytest.fixture
def pair():
    return make_pair


@pytest.fixture
def blind():
    def make(text_a="one text", text_b="another text", prompt="a prompt", presentation=1):
        return BlindPair(presentation=presentation, prompt=prompt, text_a=text_a, text_b=text_b)

    return make


@pytest.fixture
def database(new_database, tmp_path):
    return new_database(tmp_path)


@pytest.fixture
def store(database):
    with Store.open(database) as opened:
        yield opened


@pytest.fixture
def lease():
    return timedelta(minutes=30)
