"""A server on 127.0.0.1 that speaks Gemini's interface: generateContent, files and batches.

It follows https://ai.google.dev/api/generate-content, …/api/files and …/api/batch-api. What it answers is
what `act` of the server that speaks OpenAI's interface answers, put into Gemini's form.
"""

import json
from datetime import UTC, datetime

from fake_openai import Ask, FakeOpenAI, Out, failure

_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_FIELDS = {"contents", "generationConfig", "systemInstruction"}
_REASONS = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


class GeminiAsk(Ask):
    """A request for content, read as one for a completion is."""

    @property
    def words(self):
        texts = [self.get("systemInstruction", {"parts": []}), *self["contents"]]
        return "\n".join(part["text"] for each in texts for part in each["parts"])

    @property
    def form(self):
        return "json_schema" if "responseJsonSchema" in self.get("generationConfig", {}) else "text"


class FakeGemini(FakeOpenAI):
    """The server; `batches` by name."""

    def __init__(self):
        super().__init__()
        self.refuses = {}  # the sentences with which fields of the settings are refused, by the field's name
        self.base = self.url.removesuffix("/v1")
        self._sizes = {}

    def _route(self, method, path):
        return super()._route(method, path.removeprefix("beta"))  # of v1beta, whose v1 is off

    def _table(self):
        return [
            ("POST", r"/models/([\w.-]+):generateContent", "chat", lambda _: None),
            ("POST", r"/upload/v1(?:beta)?/files", "begin", lambda: self._begin),
            ("POST", r"/upload/session/(\w+)", "upload", lambda name: lambda *rest: self._put(name, *rest)),
            ("POST", r"/models/([\w.-]+):batchGenerateContent", "create", lambda _: self._make),
            ("GET", r"/batches(?:\?.*)?", "list", lambda: lambda *_: self._list()),
            ("GET", r"/batches/(\w+)", "poll", lambda name: lambda *_: self._poll(name)),
            (
                "GET",
                r"/files/(\w+):download\?alt=media",
                "download",
                lambda name: lambda *_: self._content(name),
            ),
        ]

    def handle(self, method, path, raw, headers):
        out = super().handle(method, path, raw, headers)
        if out.status >= 400 and isinstance(out.body, dict) and "error" in out.body:
            return Out({"error": _error(out)}, out.status, out.headers, drop=out.drop)
        return out

    def _complete(self, ask):
        return self._content_of(super()._complete(GeminiAsk(ask, ask.headers)))

    def _checked(self, body):
        """Return why a request's body is refused, if it is."""
        if unknown := set(body) - _FIELDS:
            return failure(400, f'Unknown name "{min(unknown)}": Cannot find field.')
        for name, words in self.refuses.items():
            if name in body.get("generationConfig", {}):
                return failure(400, words)
        return None

    def _content_of(self, out):
        """Return an answer in Gemini's form; what is none stays as it is."""
        if not out.paid or not isinstance(out.body, dict) or "choices" not in out.body:
            return out
        choice, usage = out.body["choices"][0], out.body["usage"]
        thought = {"text": "B seems better", "thought": True}
        parts = [thought, {"text": choice["message"]["content"]}]
        reason = _REASONS[choice["finish_reason"]]
        body = {
            "candidates": [
                {"content": {"parts": parts, "role": "model"}, "finishReason": reason, "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": usage["prompt_tokens"],
                "cachedContentTokenCount": usage["prompt_tokens_details"]["cached_tokens"],
                "candidatesTokenCount": usage["completion_tokens"] - 4,
                "thoughtsTokenCount": 4,
                "totalTokenCount": usage["prompt_tokens"] + usage["completion_tokens"],
            },
            "modelVersion": out.body["model"],
            "responseId": "r-1",
        }
        return Out(body, out.status, out.headers, drop=out.drop, paid=True)

    def _begin(self, body, headers):
        assert headers["x-goog-upload-protocol"] == "resumable"
        assert headers["x-goog-upload-command"] == "start"
        name = f"file_{next(self._names)}"
        self._sizes[name] = int(headers["x-goog-upload-header-content-length"])
        return Out({}, headers={"X-Goog-Upload-URL": f"{self.base}/upload/session/{name}"})

    def _put(self, name, raw, headers):
        assert headers["x-goog-upload-command"] == "upload, finalize"
        assert len(raw) == self._sizes[name]
        self.files[name] = raw
        file = {"name": f"files/{name}", "mimeType": "application/jsonl", "sizeBytes": str(len(raw))}
        return Out({"file": file}, headers={"X-Goog-Upload-Status": "final"})

    def _make(self, body, _):
        name = f"batch_{next(self._names)}"
        file = body["batch"]["inputConfig"]["fileName"].removeprefix("files/")
        assert file in self.files
        self.batches[name] = {
            "name": name,
            "input_file_id": file,
            "displayName": body["batch"]["displayName"],
            "state": "BATCH_STATE_PENDING",
            "createTime": datetime.now(UTC).isoformat(),
            "polls": 0,
        }
        return Out(_operation(self.batches[name]))

    def _list(self):
        return Out({"operations": [_operation(each) for each in self.batches.values()][::-1]})

    def _poll(self, name):
        found = super()._poll(name)
        return found if found.status == 404 else Out(_operation(found.body))

    def _run(self, batch):
        results = []
        for line in map(json.loads, self.files[batch["input_file_id"]].splitlines()):
            ask = GeminiAsk(line["request"])
            out = self._checked(ask) or self.act(ask)
            if out is not None and out.paid:
                results.append({"key": line["key"], "response": self._content_of(out).body})
                self.paid[ask.digest] += 1
            elif out is not None:
                results.append({"key": line["key"], "error": _error(out)})
        name = f"file_{next(self._names)}"
        self.files[name] = "\n".join(map(json.dumps, results[::-1] if self.shuffle else results)).encode()
        batch["output"] = {"responsesFile": f"files/{name}"}
        batch["state"] = "BATCH_STATE_SUCCEEDED"
        batch["endTime"] = batch["completed_at"] = datetime.now(UTC).isoformat()


def _error(out):
    error = out.body["error"] if isinstance(out.body, dict) else {"message": str(out.body)}
    status = _STATES.get(out.status, "UNKNOWN")
    return {"code": out.status, "message": error["message"], "status": status}


def _operation(batch):
    kept = ("displayName", "state", "createTime", "endTime", "output")
    kind = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
    metadata = {"@type": kind, **{name: batch[name] for name in kept if name in batch}}
    return {"name": f"batches/{batch['name']}", "metadata": metadata, "done": "endTime" in batch}
