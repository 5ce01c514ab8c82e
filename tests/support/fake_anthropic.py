"""A server on 127.0.0.1 that speaks Anthropic's interface: messages and their batches.

It follows https://platform.claude.com/docs/en/api/messages and …/messages/batches. What it answers is what
`act` of the server that speaks OpenAI's interface answers, put into Anthropic's form.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

from fake_openai import Ask, FakeOpenAI, Out, failure

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_FIELDS = {"model", "max_tokens", "messages", "system", "temperature", "output_config", "thinking"}
_REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


class AnthropicAsk(Ask):
    """A request for a message, read as one for a completion is."""

    @property
    def words(self):
        blocks = [*self.get("system", ()), *(each for one in self["messages"] for each in _blocks(one))]
        return "\n".join(each["text"] for each in blocks)

    @property
    def form(self):
        return self.get("output_config", {}).get("format", {"type": "text"})["type"]


def _blocks(message):
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else content


class FakeAnthropic(FakeOpenAI):
    """The server; `batches` by name, each with its requests and its results."""

    def __init__(self):
        super().__init__()
        self.refuses = {}  # the sentences with which fields are refused, by the field's name

    def _table(self):
        return [
            ("POST", r"/messages", "chat", lambda: None),
            ("POST", r"/messages/batches", "create", lambda: self._make),
            ("GET", r"/messages/batches(?:\?(.*))?", "list", lambda query: lambda *_: self._list(query)),
            ("GET", r"/messages/batches/(\w+)", "poll", lambda name: lambda *_: self._poll(name)),
            (
                "GET",
                r"/messages/batches/(\w+)/results",
                "download",
                lambda name: lambda *_: self._rows(name),
            ),
        ]

    def handle(self, method, path, raw, headers):
        out = super().handle(method, path, raw, headers)
        if out.status >= 400 and isinstance(out.body, dict) and "type" not in out.body:
            out = Out(_error(out), out.status, out.headers, drop=out.drop)
        return out

    def _complete(self, ask):
        return self._message(super()._complete(AnthropicAsk(ask, ask.headers)))

    def _checked(self, body):
        """Return why a request's body is refused, if it is."""
        if unknown := set(body) - _FIELDS:
            return failure(400, f"{min(unknown)}: Extra inputs are not permitted")
        for name, words in self.refuses.items():
            if name in body:
                return failure(400, words)
        return None

    def _message(self, out):
        """Return an answer in Anthropic's form; what is none stays as it is."""
        if not out.paid or not isinstance(out.body, dict) or "choices" not in out.body:
            return out
        choice, usage = out.body["choices"][0], out.body["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        refused = choice["message"]["refusal"]
        reason = "refusal" if refused else _REASONS[choice["finish_reason"]]
        text = {"type": "text", "text": choice["message"]["content"]}
        body = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": out.body["model"],
            "content": [{"type": "thinking", "thinking": "", "signature": "x"}, *([] if refused else [text])],
            "stop_reason": reason,
            "stop_details": {"type": "refusal", "category": None, "explanation": refused}
            if refused
            else None,
            "usage": {
                "input_tokens": usage["prompt_tokens"] - cached - 20,
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": 20,
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": {"thinking_tokens": 4},
            },
        }
        return Out(body, out.status, {"request-id": "req-1", **out.headers}, drop=out.drop, paid=True)

    def make(self, requests, *, made_at=None, ended=False):
        """Make a batch of these requests, as another program of the same account may."""
        name = f"msgbatch_{next(self._names)}"
        made_at = made_at or datetime.now(UTC)
        self.batches[name] = {
            "id": name,
            "type": "message_batch",
            "processing_status": "in_progress",
            "request_counts": _counts(processing=len(requests)),
            "created_at": made_at.isoformat(),
            "expires_at": (made_at + timedelta(days=1)).isoformat(),
            "ended_at": None,
            "results_url": None,
        }
        self.files[name] = requests
        self.batches[name]["polls"] = 0
        if ended:
            self._run(self.batches[name])
        return self.batches[name]

    def _make(self, body, _):
        names = [each["custom_id"] for each in body["requests"]]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
        return Out(_public(self.make(body["requests"])))

    def _list(self, query):
        asked = parse_qs(query or "")
        newest = [_public(each) for each in self.batches.values()][::-1]
        if "after_id" in asked:
            newest = newest[[each["id"] for each in newest].index(asked["after_id"][0]) + 1 :]
        page = newest[: self.page]
        return Out({"data": page, "has_more": len(newest) > len(page), "first_id": None, "last_id": None})

    page = 100

    def _poll(self, name):
        found = super()._poll(name)
        return found if found.status == 404 else Out(_public(found.body))

    def _rows(self, name):
        if name not in self.batches or not self.batches[name]["results_url"]:
            return failure(404, "no results")
        return Out(self.files[f"{name}/results"], headers={"Content-Type": "application/x-jsonl"})

    def _run(self, batch):
        results, counts = [], dict.fromkeys(("succeeded", "errored", "expired"), 0)
        for request in self.files[batch["id"]]:
            ask = AnthropicAsk(request["params"])
            out = self._checked(ask) or self.act(ask)
            if out is None:
                kind, result = "expired", {}
            elif out.paid:
                kind, result = "succeeded", {"message": self._message(out).body}
                self.paid[ask.digest] += 1
            else:
                kind, result = "errored", {"error": _error(out)}
            counts[kind] += 1
            results.append({"custom_id": request["custom_id"], "result": {"type": kind, **result}})
        ordered = results[::-1] if self.shuffle else results
        self.files[f"{batch['id']}/results"] = "\n".join(map(json.dumps, ordered)).encode()
        batch["processing_status"] = "ended"
        batch["ended_at"] = batch["completed_at"] = datetime.now(UTC).isoformat()
        batch["results_url"] = f"https://api.anthropic.com/v1/messages/batches/{batch['id']}/results"
        batch["request_counts"] = _counts(**counts)


def _error(out):
    error = (
        out.body["error"]
        if isinstance(out.body, dict) and "error" in out.body
        else {"message": str(out.body)}
    )
    inner = {"type": _TYPES.get(out.status, "api_error"), "message": error["message"]}
    return {"type": "error", "error": inner, "request_id": "req-1"}


def _counts(**known):
    return {**dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0), **known}


def _public(batch):
    return {name: value for name, value in batch.items() if name not in ("polls", "completed_at")}
