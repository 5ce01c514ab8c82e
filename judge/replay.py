"""Answers from a recording: the same study judged again without a key and without a network.

A recording is a JSONL file, one answer per line under its request's key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.store import Answer, Showing, Style
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest, Response
from judge.failures import JudgeError
from judge.parsing import Choices
from judge.providers.envelopes import read_usage
from judge.request import RequestBuilder


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """Recorded responses, and the shapes in which they were asked for, by the keys of their requests.

    Attributes:
        name: Where they are from.
        responses: The responses.
        shapes: In which shape was asked, where that is recorded.
    """

    name: str
    responses: Mapping[str, Response]
    shapes: Mapping[str, str]


def load_recording(path: Path) -> Recording:
    """Read a recording that `save_recording` has written.

    Raises:
        StudyError: It cannot be read, or a line is none of a recording's.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read as a recording: {type(error).__name__}") from None
    responses, shapes = {}, {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            responses[str(entry["key"])] = _response(entry)
            shapes[str(entry["key"])] = str(entry.get("shape") or "")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StudyError(
                f"line {number} of {path} is no answer of a recording; make one with --record FILE"
            ) from None
    return Recording(name=str(path), responses=responses, shapes=shapes)


def save_recording(path: Path, answers: Iterable[Answer]) -> int:
    """Write answers as a recording, one line each, and return how many; a key's last answer counts.

    Raises:
        StudyError: The file cannot be written.
    """
    count = 0
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for count, answer in enumerate(answers, start=1):  # noqa: B007 (the count is returned)
                file.write(json.dumps(_entry(answer), ensure_ascii=False, sort_keys=True) + "\n")
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror}") from None
    return count


class Replay:
    """Answers from a recording; see `judge.backend.Backend`.

    The recording may have been made in any shape.
    """

    style: Style = "replay"

    def __init__(self, judge: Judge, recording: Recording, *, seed: int) -> None:
        self.url = recording.name
        self.notices: list[str] = []
        self._builder = RequestBuilder(judge, seed=seed)
        self._recording = recording

    def build(self, showing: Showing, *, again: int = 0) -> JudgeRequest:
        """Return the request about `showing`, in the shape in which it was recorded, where it was."""
        request = self._builder.build(showing, again=again)
        return replace(request, shape=self._recording.shapes.get(request.key, request.shape))

    async def send(self, request: JudgeRequest) -> Response | JudgeError:
        """Return the recorded answer, or that there is none."""
        response = self._recording.responses.get(request.key)
        if response is None:
            detail = (
                f"{self.url} has no answer to this request: it was recorded with another model, server, "
                "seed, wording, criteria or texts"
            )
            return JudgeError(kind="unrecorded", detail=detail)
        return response

    def parse(self, showing: Showing, body: bytes, *, shape: str | None) -> Choices | JudgeError:
        """Return the verdict in a response, or why there is none."""
        return self._builder.parse(showing, body, shape=shape)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _entry(answer: Answer) -> dict[str, object]:
    entry: dict[str, object] = {
        "key": answer.key,
        "request_id": answer.request_id,
        "seconds": answer.seconds,
        "at": answer.at.isoformat(),
        "shape": answer.shape,
    }
    try:
        entry["body"] = answer.body.decode("utf-8")
    except UnicodeDecodeError:
        entry["body_base64"] = base64.b64encode(answer.body).decode("ascii")
    return entry


def _response(entry: Mapping[str, Any]) -> Response:
    raw = entry.get("body_base64")
    body = base64.b64decode(raw, validate=True) if raw is not None else entry["body"].encode()
    at = datetime.fromisoformat(entry["at"])
    name = entry.get("request_id")
    return Response(
        body=body,
        usage=replace(  # its tokens are not paid again
            read_usage(body),
            input_tokens=0,
            cached_tokens=None,
            written_tokens=None,
            output_tokens=0,
            reasoning_tokens=None,
        ),
        request_id=None if name is None else str(name),
        seconds=float(entry["seconds"]),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
    )
