"""Answers from a recording: the same study judged again without a key and without a network.

A recording is a JSONL file, one answer per line under its request's key, or the journal of a study.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Self

from guard_eval.errors import StudyError
from guard_eval.store import Answer, Judgment, Showing, Store, Style
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest, Response
from judge.checks import check_criteria
from judge.orders import rater_name
from judge.parsing import ErrorKind, Parsed, ParseError, RequestError, Usage, parse
from judge.prompt import asks_the_same, code
from judge.request import RequestBuilder
from judge.retry import SAMPLES


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """One answer as it was received."""

    body: bytes
    request_id: str | None
    seconds: float
    at: datetime
    shape: str | None


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

    The recording may have been made with any server, and in any shape.
    """

    style: Style = "replay"

    def __init__(self, judge: Judge, recording: Recording, *, seed: int) -> None:
        self.url = recording.name
        self.notices: list[str] = []
        self._builder = RequestBuilder(judge, seed=seed)
        self._recording = recording

    def build(self, showing: Showing, *, again: int = 0) -> JudgeRequest:
        """Return the request about `showing`, in the shape in which it was recorded, where it was."""
        question = self._builder.build(showing, again=again)
        recorded = self._recording.get(question.key)
        return question if recorded is None else replace(question, shape=recorded.shape or "")

    async def send(self, question: JudgeRequest) -> Response | RequestError:
        """Return the recorded answer, or that there is none."""
        recorded = self._recording.get(question.key)
        if recorded is None:
            detail = (
                f"{self.url} has no answer to this request: it was recorded with another model, seed, "
                "wording, criteria or texts"
            )
            return RequestError(kind="unrecorded", detail=detail)
        return Response(
            status=200,
            body=recorded.body,
            request_id=recorded.request_id,
            seconds=recorded.seconds,
            at=recorded.at,
        )

    def parse(self, body: bytes, *, code: str, shape: str | None) -> Parsed | ParseError:
        """Return the verdict in a response, or why there is none."""
        return self._builder.parse(body, code=code, shape=shape)

    def usage(self, body: bytes) -> Usage:
        """Return what the server said of an answer, but for its tokens: they are not paid again."""
        said = self._builder.usage(body)
        return Usage(model=said.model, fingerprint=said.fingerprint, input_tokens=0, output_tokens=0)

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


def _recorded(entry: Mapping[str, Any]) -> Recorded:
    raw = entry.get("body_base64")
    body = base64.b64decode(raw, validate=True) if raw is not None else entry["body"].encode()
    at = datetime.fromisoformat(entry["at"])
    name, shape = entry.get("request_id"), entry.get("shape")
    return Recorded(
        body=body,
        request_id=None if name is None else str(name),
        seconds=float(entry["seconds"]),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
        shape=None if shape is None else str(shape),
    )


def _of(answer: Answer) -> Recorded:
    return Recorded(
        body=answer.body,
        request_id=answer.request_id,
        seconds=answer.seconds,
        at=answer.at,
        shape=answer.shape,
    )


_PART = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Reparsed:
    """What came of reading the journal again.

    Attributes:
        answers: Answers read.
        presentations: Of so many showings of pairs.
        changed: How many of them have a new verdict, or another than before.
        unread: How many give none, by kind of failure.
    """

    answers: int
    presentations: int
    changed: int
    unread: dict[ErrorKind, int]


def reparse(store: Store, judge: Judge, *, seed: int) -> Reparsed:
    """Read the judge's answers again, and save what they say; nothing is sent.

    Raises:
        StudyError: The judge is asked on other criteria by now, or is revoked.
    """
    rater = store.rater(rater_name(judge), "model")
    check_criteria(store, judge, rater)
    unread: Counter[ErrorKind] = Counter()
    answers = presentations = changed = 0
    groups = _groups(store, rater.name)
    while part := list(islice(groups, _PART)):
        shown = store.shown([presentation for presentation, _ in part])
        judgments = []
        for (presentation, bodies), showing in zip(part, shown, strict=True):
            answers += len(bodies)
            presentations += 1
            outcome = _read(bodies, judge, code(showing.blind, seed))
            if isinstance(outcome, Parsed):
                judgments.append(Judgment(presentation=presentation, choices=outcome.choices))
            else:
                unread[outcome.kind] += 1
        changed += store.judge_again(rater, judgments)
    return Reparsed(answers=answers, presentations=presentations, changed=changed, unread=dict(unread))


def _groups(store: Store, name: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield each presentation with its answers, the oldest first."""

    def of(answer: Answer) -> int:
        return answer.presentation or 0

    for presentation, answers in groupby(store.answers_of(name), key=of):
        yield presentation, [answer.body for answer in answers]


def _read(bodies: list[bytes], judge: Judge, expected: str) -> Parsed | ParseError:
    """Return the first verdict in the answers, as a run would have taken it, or what the last one is."""
    outcome: Parsed | ParseError | None = None
    for body in bodies:
        outcome = parse(body, judge.criteria, code=expected)
        if isinstance(outcome, Parsed):
            break
    assert outcome is not None
    return outcome


LOOKED_AT = 5
"""So many of a judge's answers are looked at."""


def asked_otherwise(store: Store, judge: Judge, *, seed: int) -> bool:
    """Return whether none of the judge's first answers is to a request as it would be put today.

    An answer is journalled under the hash of its request, so this finds a changed prompt, seed or
    temperature, and so on; a changed token limit is none of these. Nothing is found where there is no answer.
    """
    answers = [each for each in islice(store.answers_of(rater_name(judge)), LOOKED_AT) if each.presentation]
    if not answers:
        return False
    builder = RequestBuilder(judge, seed=seed)
    shown = store.shown([each.presentation for each in answers if each.presentation])
    return not any(
        asks_the_same(answer.key, builder.key(showing, again=again))
        for answer, showing in zip(answers, shown, strict=True)
        for again in range(SAMPLES)
    )
