"""A server on 127.0.0.1 with OpenAI's interfaces: chat completions and responses, files and batches.

The server answers a request with the result of `act`. A step fails as long as `faults` has entries for it.
"""

import hashlib
import itertools
import json
import re
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from functools import cached_property

from local_server import LocalServer, Response

from guard_eval.rubric import CHOICE_LABELS

REASONS = 'The one is "better" than the other, as far as it goes.'
"""The rationale of every answer."""

KEY = "sk-proj-NeverToBeSeen0123456789abcdef"


class AnswerRequest(dict):
    """The body of a request for an answer."""

    @cached_property
    def digest(self):
        return hashlib.sha256(json.dumps(self, sort_keys=True).encode()).hexdigest()

    @cached_property
    def words(self):
        return "\n".join(entry["content"] for entry in self.get("messages") or self["input"])

    @property
    def form(self):
        """Return the requested form of the answer: json_schema, json_object or text."""
        return self.get("response_format", {"type": "text"})["type"]

    @property
    def criteria(self):
        listed = re.search(r"exactly these fields: (.*?)\. (?:Each|The first)", self.words)
        fields = json.loads(f"[{listed[1]}]") if listed else []
        return [name for name in fields if name != "rationale"]

    @property
    def rationale(self):
        """Return whether the request asks for a rationale."""
        return "words of plain text" in self.words

    @property
    def block(self):
        """Return the requested verdict block of plain text, with a line per criterion, or None for JSON."""
        _, tag, block = self.words.rpartition("<verdict-")
        is_last = re.fullmatch(r"\w+>\n.*\n</verdict-\w+>", block, re.DOTALL)
        return tag + block if tag and is_last else None

    @property
    def texts(self):
        return self._between("method-a"), self._between("method-b")

    def _between(self, tag):
        """Return the text between the last tags with this name. Earlier tags may belong to examples."""
        return re.search(rf".*<{tag}-(\w+)>\n(.*)\n</{tag}-\1>", self.words, re.DOTALL)[2]


@dataclass(frozen=True)
class ReceivedRequest:
    """One HTTP request, with its step: `chat`, `create` or another name in `STEPS`."""

    step: str
    path: str
    headers: dict
    raw: bytes


def make_error(status, message="no", *, code=None, param=None, kind=None, **more):
    return Response(
        {"error": {"message": message, "type": kind, "param": param, "code": code}}, status, **more
    )


def make_answer(ask, text, *, finish="stop", refusal=None, tokens=(100, 10), **more):
    """Return a complete answer with this text, in the dialect of the request."""
    chat = "input" not in ask
    first, second = ("prompt", "completion") if chat else ("input", "output")
    usage = {
        f"{first}_tokens": tokens[0],
        f"{second}_tokens": tokens[1],
        f"{first}_tokens_details": {"cached_tokens": 40},
        f"{second}_tokens_details": {"reasoning_tokens": 4},
    }
    if chat:
        message = {"role": "assistant", "content": text, "refusal": refusal}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        envelope = {"object": "chat.completion", "choices": [choice]}
    else:
        content = {"type": "output_text", "text": text, "annotations": []}
        output = [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "status": "completed", "content": [content]},
        ]
        envelope = {
            "object": "response",
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "output": output,
        }
    whole = {"id": "x-1", "model": "snapshot-1", "system_fingerprint": "fp_1", **envelope, "usage": usage}
    return Response(whole, paid=True, **more)


def make_chat_answer(text, **more):
    """Return a complete answer in the chat dialect."""
    return make_answer({"messages": []}, text, **more)


def make_verdict(ask, choice="A", **more):
    """Answer as a judge that always prefers one side, in the requested form."""
    if ask.block is not None:
        reasons = ask.block.replace("verdict-", "rationale-").splitlines()
        before = f"{reasons[0]}\n{REASONS}\n{reasons[-1]}\n\n" if ask.rationale else ""
        return make_answer(ask, before + ask.block.replace("…", CHOICE_LABELS[choice]), **more)
    fields = {"rationale": REASONS} if ask.rationale else {}
    return make_answer(ask, json.dumps({**fields, **dict.fromkeys(ask.criteria, choice)}), **more)


STEPS = {
    "chat": r"POST /chat/completions",
    "responses": r"POST /responses",
    "upload": r"POST /files",
    "download": r"GET /files/(\w+)/content",
    "create": r"POST /batches",
    "list": r"GET /batches(?:\?.*)?",
    "poll": r"GET /batches/(\w+)",
}


class FakeOpenAI(LocalServer):
    """The server. `url` is its address, `seen` has all requests, `asks` only the requests for an answer."""

    def __init__(self, tls=None):
        self.act = make_verdict
        self.faults = defaultdict(list)
        self.seen = []
        self.asks = []
        self.paid = Counter()  # complete answers by the digest of their request
        self.unseen = Counter()  # complete answers that were lost on the way
        self.files = {}
        self.batches = {}
        self.lag = 0  # the number of polls before a batch ends
        self.ends = "completed"
        self.forgets = False  # whether a batch ends without results
        self.queue = float("inf")  # the largest number of requests in all unfinished batches
        self.overfull = None  # the answer to a batch that is too large; None makes a batch that fails
        self.batched = []  # the requests in batches
        self.rewrite = lambda line: None  # changes a line of a batch's results before it is written
        self.on = {}  # functions by step, called after the step and before its answer is sent
        self._names = itertools.count(1)
        self._lock = threading.RLock()
        self.serve(tls)

    @property
    def times_paid(self):
        return set(self.paid.values())

    def count(self, step):
        return sum(entry.step == step for entry in self.seen)

    def handle(self, method, path, raw, headers):
        step, *parts = self.step(method, path)
        with self._lock:
            self.seen.append(ReceivedRequest(step, path, headers, raw))
            fault = self.faults[step].pop(0) if self.faults[step] else None
        if fault is not None and not (fault.drop or fault.late):
            return fault
        if step in ("chat", "responses"):
            out = self._complete(AnswerRequest(json.loads(raw)))
        elif step == "unknown":
            out = make_error(404, f"no {path}")
        else:
            with self._lock:
                out = getattr(self, f"_{step}")(*parts or (raw, headers))
        if step in self.on:
            self.on[step]()
        return fault or out

    def step(self, method, path):
        """Return the step of a request, and the name in the request's path."""
        for step, pattern in STEPS.items():
            if match := re.fullmatch(pattern, f"{method} {path.removeprefix('/v1')}"):
                return step, *match.groups()
        return ("unknown",)

    def _complete(self, ask):
        with self._lock:
            self.asks.append(ask)
        out = self.act(ask)
        time.sleep(out.delay)
        with self._lock:
            if out.paid:
                (self.unseen if out.drop else self.paid)[ask.digest] += 1
        return out

    def _upload(self, raw, headers):
        message = BytesParser(policy=HTTP).parsebytes(
            b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + raw
        )
        held = {
            content.get_param("name", header="content-disposition"): content
            for content in message.iter_parts()
        }
        assert held["purpose"].get_content().strip() == "batch"
        name = f"file_{next(self._names)}"
        self.files[name] = held["file"].get_payload(decode=True)
        return Response({"id": name, "object": "file", "purpose": "batch"})

    def _download(self, name):
        return Response(self.files[name])

    def _create(self, raw, _):
        body = json.loads(raw)
        assert body["endpoint"] in {"/v1/chat/completions", "/v1/responses"}
        assert body["completion_window"] == "24h"
        waiting = [entry for entry in self.batches.values() if entry["status"] == "validating"]
        names = [body["input_file_id"], *(entry["input_file_id"] for entry in waiting)]
        is_overfull = sum(self.files[entry].count(b"\n") for entry in names) > self.queue
        if is_overfull and self.overfull is not None:
            return self.overfull
        name = f"batch_{next(self._names)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": body["endpoint"],
            "input_file_id": body["input_file_id"],
            "status": "validating",
            "metadata": body["metadata"],
        }
        if is_overfull:
            error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached for gpt-4o."}
            self.batches[name] |= {"status": "failed", "errors": {"object": "list", "data": [error]}}
        return Response(self.batches[name])

    def _list(self, *_):
        return Response({"object": "list", "data": list(self.batches.values())[::-1], "has_more": False})

    def _poll(self, name):
        if self.count("poll") > self.lag and self.batches[name]["status"] == "validating":
            self._run(self.batches[name])
        return Response(self.batches[name])

    def _run(self, batch):
        answers, errors = [], []
        lines = self.files[batch["input_file_id"]].splitlines()
        for number, line in enumerate(map(json.loads, lines)):
            ask = AnswerRequest(line["body"])
            self.batched.append(ask)
            out = self.act(ask)
            frame = {"id": f"batch_req_{number}", "custom_id": line["custom_id"]}
            if out is None:  # this request was never processed
                expired = {"code": "batch_expired", "message": "too late"}
                errors.append({**frame, "response": None, "error": expired})
                continue
            response = {"status_code": out.status, "request_id": "req-1", "body": out.body}
            result = {**frame, "response": response, "error": None}
            self.rewrite(result)
            (answers if out.paid else errors).append(result)
            self.paid[ask.digest] += out.paid
        for result, key in ((answers, "output_file_id"), (errors, "error_file_id")):
            if result and not self.forgets:
                name = f"file_{next(self._names)}"
                self.files[name] = "\n".join(map(json.dumps, result[::-1])).encode()  # in any order
                batch[key] = name
        batch["status"] = self.ends
        count = 0 if self.forgets else len(answers)
        batch["request_counts"] = {"total": len(lines), "completed": count, "failed": len(errors)}
        self.paid += Counter()  # removes counts of 0
