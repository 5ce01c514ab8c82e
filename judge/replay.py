"""Answers from a recording: the same study judged again without a key and without a network.

A recording is a JSONL file, one answer per line under its request's key, or the journal of a study.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from guard_eval.errors import StudyError
from guard_eval.judge_settings import Judge
from guard_eval.records import BlindPair
from guard_eval.store import Answer, Store, Style
from judge.asking import Asking
from judge.backend import Question, Reply, Trouble
from judge.orders import rater_name
from judge.parsing import Parsed, Problem, Usage
from judge.prompt import canonical, key_of, request
from judge.shape import shapes


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One answer as it was received."""

    body: bytes
    request_id: str | None
    seconds: float
    at: datetime


class Recording(Mapping[str, Recorded]):
    """Answers by the keys of their requests; `name` says where they are from."""

    def __init__(self, answers: Mapping[str, Recorded], *, name: str) -> None:
        self._answers = dict(answers)
        self.name = name

    def __getitem__(self, key: str) -> Recorded:
        return self._answers[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a recording that `save` has written.

        Raises:
            StudyError: It cannot be read, or a line is none of a recording's.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"{path} cannot be read as a recording: {type(error).__name__}") from None
        answers = {}
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                answers[str(entry["key"])] = _recorded(entry)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise StudyError(
                    f"line {number} of {path} is no answer of a recording; make one with --record FILE"
                ) from None
        return cls(answers, name=str(path))

    @classmethod
    def of(cls, store: Store, judge: Judge) -> Self:
        """Take the answers to this judge in a study's journal."""
        name = rater_name(judge)
        answers = {each.key: _of(each) for each in store.answers_of(name)}
        return cls(answers, name=f"the journal of {name}")


def save(path: Path, answers: Iterable[Answer]) -> int:
    """Write answers as a recording, one line each, and return how many; a key's last answer counts.

    Raises:
        StudyError: The file cannot be written.
    """
    count = 0
    try:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for answer in answers:
                file.write(json.dumps(_entry(answer), ensure_ascii=False, sort_keys=True) + "\n")
                count += 1
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror}") from None
    return count


class Replay:
    """Answers from a recording; see `judge.backend.Backend`.

    The recording may have been made with any server; a question is looked up in every shape in which it may
    have been put.
    """

    style: Style = "replay"

    def __init__(self, judge: Judge, recording: Recording, *, seed: int) -> None:
        self.url = recording.name
        self.notices: list[str] = []
        self._asking = Asking(judge, seed=seed)
        self._judge = judge
        self._recording = recording
        self._seed = seed

    def question(self, blind: BlindPair, *, sample: int) -> Question:
        """Return the request about `blind` in the shape in which it was recorded, where it was."""
        first: Question | None = None
        for shape in shapes(self._judge):
            body = canonical(request(self._judge, blind, self._seed, shape=shape, sample=sample))
            key = key_of(body, sample)
            if first is None or key in self._recording:
                first = self._asking.named(key, body, blind, shape)
            if key in self._recording:
                break
        assert first is not None
        return first

    def others(self, blind: BlindPair, *, sample: int) -> Sequence[Question]:
        """Return the same request in the shapes in which the study's own journal may have it."""
        return self._asking.others(blind, sample=sample)

    async def send(self, question: Question) -> Reply | Trouble:
        """Return the recorded answer, or that there is none."""
        recorded = self._recording.get(question.key)
        if recorded is None:
            detail = (
                f"{self.url} has no answer to this request: it was recorded with another model, seed, "
                "wording, criteria or texts"
            )
            return Trouble(problem=Problem(kind="unrecorded", detail=detail))
        return Reply(
            status=200,
            body=recorded.body,
            request_id=recorded.request_id,
            seconds=recorded.seconds,
            at=recorded.at,
        )

    def parse(self, body: bytes, form: str) -> Parsed | Problem:
        """Return the verdict in an answer, or why there is none."""
        return self._asking.parse(body, form)

    def usage(self, body: bytes) -> Usage:
        """Return what the server said of an answer, but for its tokens: they are not paid again."""
        said = self._asking.usage(body)
        return Usage(model=said.model, fingerprint=said.fingerprint, input_tokens=0, output_tokens=0)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _entry(answer: Answer) -> dict[str, object]:
    entry: dict[str, object] = {
        "key": answer.key,
        "request_id": answer.request_id,
        "seconds": answer.seconds,
        "at": answer.at.isoformat(),
    }
    try:
        entry["body"] = answer.body.decode("utf-8")
    except UnicodeDecodeError:
        entry["body_base64"] = base64.b64encode(answer.body).decode("ascii")
    return entry


def _recorded(entry: Mapping[str, Any]) -> Recorded:
    raw = entry.get("body_base64")
    body = base64.b64decode(raw, validate=True) if raw is not None else entry["body"].encode()
    at = datetime.fromisoformat(entry["at"])
    name = entry.get("request_id")
    return Recorded(
        body=body,
        request_id=None if name is None else str(name),
        seconds=float(entry["seconds"]),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
    )


def _of(answer: Answer) -> Recorded:
    return Recorded(body=answer.body, request_id=answer.request_id, seconds=answer.seconds, at=answer.at)
