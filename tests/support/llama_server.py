"""A stand-in for llama.cpp's server: both kinds of completions, and sampling with `top_n_sigma`."""

import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler

from local_server import LocalServer

WORDS = [
    "the",
    "old",
    "river",
    "ran",
    "past",
    "houses",
    "where",
    "nobody",
    "had",
    "lived",
    "for",
    "many",
    "years",
    "and",
    "still",
    "lights",
    "burned",
]


class LlamaServer(LocalServer):
    """Write texts of words drawn by the seed from the words that `top_n_sigma` keeps.

    Attributes:
        bodies: All requests, with their paths and headers.
        act: Returns an answer in place of a text, as (status, body or None to drop), or None for a text.
        model: The name of the model in answers.
        ignores: Fields of requests that are ignored.
        prefix: The beginning of each text.
    """

    def __init__(self):
        self.bodies = []
        self.act = lambda _number, _body: None
        self.model = "qwen2.5-7b"
        self.ignores = set()
        self.prefix = ""
        self.delay = 0.0
        self._lock = threading.Lock()
        self.serve(self._handler())

    def text(self, body):
        """Return a text. With a small top_n_sigma, it has only a few different words."""
        sigma = None if "top_n_sigma" in self.ignores else body.get("top_n_sigma")
        words = WORDS if sigma is None else WORDS[: 3 * sigma]
        prompt = body.get("prompt") or body["messages"][-1]["content"]
        draw = random.Random(f"{body.get('seed')} {prompt}")
        return f"{self.prefix} {' '.join(draw.choices(words, k=12))}."

    def answer(self, body, path):
        text = self.text(body)
        choice = {"index": 0, "finish_reason": "stop"}
        if path.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        usage = {"prompt_tokens": 10, "completion_tokens": 12, "total_tokens": 22}
        return {"object": "text_completion", "model": self.model, "choices": [choice], "usage": usage}

    def _handler(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(raw)
                with outer._lock:
                    number = len(outer.bodies)
                    outer.bodies.append((self.path, dict(self.headers), body))
                time.sleep(outer.delay)
                status, content = outer.act(number, body) or (200, outer.answer(body, self.path))
                if content is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler
