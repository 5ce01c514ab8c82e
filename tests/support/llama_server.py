"""A stand-in for llama.cpp's server: both kinds of completions, and sampling with `top_n_sigma`."""

import json
import random
import threading
import time

from local_server import LocalServer, Response

STORY = "the old river ran past houses where nobody had lived for many years and still lights burned"
WORDS = STORY.split()


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
        self.serve()

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

    def handle(self, _method, path, raw, headers):
        body = json.loads(raw)
        with self._lock:
            number = len(self.bodies)
            self.bodies.append((path, headers, body))
        time.sleep(self.delay)
        status, content = self.act(number, body) or (200, self.answer(body, path))
        return Response(content, status, drop=content is None)
