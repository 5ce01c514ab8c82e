"""A server on 127.0.0.1 that speaks OpenAI's interfaces: both dialects, models, files and batches.

It answers a request with what `act` says, and fails at a step for as long as `faults` has something for it.
"""

import hashlib
import itertools
import json
import re
import socket
import struct
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler

from local_server import LocalServer


@dataclass(frozen=True)
class Seen:
    """One request: its step, such as `chat` or `create`, and what it held."""

    step: str
    path: str
    body: object
    headers: dict


@dataclass
class Out:
    """What is sent back; `drop` resets the connection instead, after whatever was done."""

    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    drop: bool = False


def failure(status, message="no", *, code=None, param=None, **more):
    return Out({"error": {"message": message, "type": None, "param": param, "code": code}}, status, **more)


def usage(dialect, tokens=(100, 10)):
    first, second = ("prompt", "completion") if dialect == "chat" else ("input", "output")
    return {
        f"{first}_tokens": tokens[0],
        f"{second}_tokens": tokens[1],
        f"{first}_tokens_details": {"cached_tokens": 40},
        f"{second}_tokens_details": {"reasoning_tokens": 4},
    }


def said(request, text):
    """Return an answer that says `text`, in the dialect of the request."""
    if "messages" in request:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        envelope = {"object": "chat.completion", "choices": [choice], "usage": usage("chat")}
    else:
        part = {"type": "output_text", "text": text, "annotations": []}
        output = [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "status": "completed", "content": [part]},
        ]
        envelope = {
            "object": "response",
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": usage("responses"),
        }
    return {"id": "x-1", "model": "snapshot-1", "system_fingerprint": "fp_1", **envelope}


def asked(request):
    """Return the criteria that a request names, and the lines of its verdict block, if it wants one."""
    texts = [each["content"] for each in request.get("messages") or request["input"]]
    whole = "\n".join(texts)
    block = re.search(r"<verdict-\w+>\n.*\n</verdict-\w+>", whole, re.DOTALL)
    named = re.search(r"exactly these fields: (.*?)\. Each", whole)
    return json.loads(f"[{named[1]}]") if named else [], block and block[0]


def verdict(request, choice="A"):
    """Answer as a judge that always prefers one side, in the form asked for."""
    names, block = asked(request)
    if block is not None:
        return said(
            request, block.replace("…", {"A": "Method A is better", "B": "Method B is better"}[choice])
        )
    return said(request, json.dumps(dict.fromkeys(names, choice)))


class FakeOpenAI(LocalServer):
    """The server; `url` is its address and `seen` all that it was asked."""

    def __init__(self):
        self.act = verdict
        self.faults = defaultdict(list)
        self.models = [{"id": "gpt-4o-2024-11-20", "object": "model", "created": 1, "owned_by": "system"}]
        self.seen = []
        self.paid = Counter()
        self.files = {}
        self.batches = {}
        self.lag = 0  # how often a batch is looked at before it ends
        self.ends = "completed"
        self.shuffle = False
        self.on = {}  # called when a step is done, before the answer goes out
        self._names = itertools.count(1)
        self._lock = threading.RLock()
        self.serve(self._handler())

    def count(self, step):
        return sum(each.step == step for each in self.seen)

    def handle(self, method, path, raw, headers):
        step, call = self._route(method, path.removeprefix("/v1"))
        body = raw if step == "upload" else json.loads(raw or b"null")
        with self._lock:
            self.seen.append(Seen(step, path, body, headers))
            fault = self.faults[step].pop(0) if self.faults[step] else None
            if fault is not None and not fault.drop:
                return fault
            out = call(body, headers)
            if step in self.on:
                self.on[step]()
        return fault or out

    def _route(self, method, path):
        table = [
            ("POST", r"/chat/completions", "chat", lambda: self._complete),
            ("POST", r"/responses", "responses", lambda: self._complete),
            ("GET", r"/models", "models", lambda: lambda *_: Out({"object": "list", "data": self.models})),
            ("POST", r"/files", "upload", lambda: self._upload),
            ("GET", r"/files/(\w+)/content", "download", lambda name: lambda *_: self._content(name)),
            ("POST", r"/batches", "create", lambda: self._create),
            ("GET", r"/batches(?:\?(.*))?", "list", lambda _: lambda *__: self._listing()),
            ("GET", r"/batches/(\w+)", "poll", lambda name: lambda *_: self._poll(name)),
        ]
        for wanted, pattern, step, make in table:
            match = re.fullmatch(pattern, path)
            if match and method == wanted:
                return step, make(*match.groups())
        return "unknown", lambda *_: failure(404, f"no {path}")

    def _complete(self, body, _):
        out = self.act(body)
        if isinstance(out, Out):
            return out
        self._pay(body)
        return Out(out)

    def _pay(self, body):
        self.paid[hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()] += 1

    def _upload(self, raw, headers):
        message = BytesParser(policy=HTTP).parsebytes(
            b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + raw
        )
        held = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
        assert held["purpose"].get_content().strip() == "batch"
        name = f"file_{next(self._names)}"
        self.files[name] = held["file"].get_payload(decode=True)
        return Out({"id": name, "object": "file", "purpose": "batch"})

    def _content(self, name):
        return Out(self.files[name]) if name in self.files else failure(404, "no such file")

    def _create(self, body, _):
        assert (body["endpoint"], body["completion_window"]) in {
            ("/v1/chat/completions", "24h"),
            ("/v1/responses", "24h"),
        }
        name = f"batch_{next(self._names)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": body["endpoint"],
            "input_file_id": body["input_file_id"],
            "status": "validating",
            "created_at": 1000,
            "metadata": body.get("metadata"),
            "looks": 0,
        }
        return Out(self.batches[name])

    def _listing(self):
        return Out({"object": "list", "data": list(self.batches.values())[::-1], "has_more": False})

    def _poll(self, name):
        if name not in self.batches:
            return failure(404, "no such batch")
        batch = self.batches[name]
        batch["looks"] += 1
        if batch["looks"] > self.lag and "completed_at" not in batch:
            self._run(batch)
        return Out(batch)

    def _run(self, batch):
        answers, errors = [], []
        lines = self.files[batch["input_file_id"]].splitlines()
        for number, line in enumerate(map(json.loads, lines)):
            out = self.act(line["body"])
            frame = {"id": f"batch_req_{number}", "custom_id": line["custom_id"]}
            if out is None:  # its turn never came
                expired = {"code": "batch_expired", "message": "too late"}
                errors.append({**frame, "response": None, "error": expired})
            elif isinstance(out, Out):
                response = {"status_code": out.status, "request_id": "req-1", "body": out.body}
                errors.append({**frame, "response": response, "error": None})
            else:
                self._pay(line["body"])
                response = {"status_code": 200, "request_id": "req-1", "body": out}
                answers.append({**frame, "response": response, "error": None})
        for found, key in ((answers, "output_file_id"), (errors, "error_file_id")):
            if found:
                name = f"file_{next(self._names)}"
                ordered = found[::-1] if self.shuffle else found
                self.files[name] = "\n".join(map(json.dumps, ordered)).encode()
                batch[key] = name
        batch["status"] = self.ends
        batch["completed_at"] = 1060
        batch["request_counts"] = {"total": len(lines), "completed": len(answers), "failed": len(errors)}

    def _handler(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                out = outer.handle(self.command, self.path, raw, headers)
                if out.drop:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.connection.close()
                    return
                body = out.body if isinstance(out.body, bytes) else json.dumps(out.body).encode()
                self.send_response(out.status)
                for name, value in {"Content-Type": "application/json", **out.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.do_POST()

        return Handler
