"""One judge's requests: what identifies them, and how one server is asked at present.

It is asked strictly at first, and more simply wherever it refuses a form or does not hold to it. What
study.toml fixes is never given up in silence: then a refusal ends the run, and says what to change.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any, Literal

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair
from guard_eval.store import Showing
from guard_eval.study.judge_settings import Judge, reasons
from judge.backend import JudgeRequest, ShapeChanged
from judge.failures import SAMPLES, JudgeError
from judge.parsing import Choices, parse
from judge.prompt import code, prompt_of
from judge.providers.errors import ServerError
from judge.providers.shapes import OUTPUTS, Output, RequestShape, first_shape, settings_of

Purpose = Literal["study", "calibration"]
"""What a request is for; a calibration's is never the study's, even about the same texts."""

_LIMIT_DIGITS = 12


def request(
    judge: Judge,
    blind: BlindPair,
    seed: int,
    *,
    shape: RequestShape | None = None,
    sample: int = 0,
    purpose: Purpose = "study",
) -> dict[str, Any]:
    """Return the body of the request that asks `judge` about `blind`, in the order in which it is sent.

    Args:
        judge: The study's settings for this judge.
        blind: The two texts, in the order in which they are shown.
        seed: The study's seed.
        shape: In which shape it is put; the judge's first one by default.
        sample: 0 for the first time a pair is asked, 1 for the next, …; it changes the request's own seed.
        purpose: What it is for; it changes the request's own seed too.
    """
    shape = first_shape(judge) if shape is None else shape
    texts = prompt_of(judge).messages(blind, seed, lines=shape.output == "text")
    if "system" in shape.without:
        system, first, *rest = texts
        texts = [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
    body = settings_of(judge, shape)
    if shape.dialect == "chat":
        body["seed"] = _request_seed(seed, sample, purpose)
    if (temperature := _temperature(judge)) is not None:
        body["temperature"] = temperature
    for name in shape.without:
        body.pop(name, None)
    body["messages" if shape.dialect == "chat" else "input"] = texts  # last, as a dry run shows them
    return body


def _temperature(judge: Judge) -> float | None:
    """Return study.toml's, else 0 unless the model takes none or several samples are to differ."""
    if judge.temperature is not None:
        return judge.temperature
    return None if reasons(judge.model) or judge.samples > 1 else 0


def _request_seed(seed: int, sample: int, purpose: Purpose) -> int:
    name = f"{seed}:{sample}" if purpose == "study" else f"{seed}:{sample}:{purpose}"
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4]) >> 1  # servers take signed 32-bit seeds


def wire(body: dict[str, Any]) -> bytes:
    """Return a request as it is sent: JSON in UTF-8, keys in the body's own order, no spaces."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def request_key(
    judge: Judge, blind: BlindPair, seed: int, *, sample: int = 0, purpose: Purpose = "study"
) -> str:
    """Return the 64 hexadecimal digits that name a request, and its response in the journal.

    They are a SHA-256 of everything that the study decides about it: the purpose, the prompt's version (of
    instructions, definitions and examples), the judge's settings that can change the response, the seed, the
    texts in their order, and the sample. The server is one of these settings, since another may serve the
    same model in another precision: study.toml's `base_url` counts, and not OPENAI_BASE_URL, which is no part
    of the study. What a server makes us change on the wire is recorded with the response and is no part of
    it: the dialect, the output mode that follows from `output = "auto"`, the name of the token limit,
    parameters left out. The token limit is hashed apart, into the last digits; see `asks_the_same`.
    """
    temperature = _temperature(judge)
    settings = [
        judge.model,
        judge.criteria,
        None if temperature is None else float(temperature),
        judge.reasoning_effort,
        judge.output,
        None if judge.base_url is None else judge.base_url.rstrip("/"),
    ]
    texts = [blind.prompt, blind.text_a, blind.text_b]
    whole = _digest([purpose, prompt_of(judge).version, settings, seed, texts, sample])
    return whole[:-_LIMIT_DIGITS] + _digest(judge.max_output_tokens)[:_LIMIT_DIGITS]


def asks_the_same(one: str, other: str) -> bool:
    """Return whether the requests of two keys differ in nothing but the token limit."""
    return one[:-_LIMIT_DIGITS] == other[:-_LIMIT_DIGITS]


def _digest(part: object) -> str:
    return hashlib.sha256(json.dumps(part, separators=(",", ":")).encode()).hexdigest()


def parse_answer(judge: Judge, blind: BlindPair, body: bytes, *, seed: int) -> Choices | JudgeError:
    """Return the verdict in a response to a question of `judge` about `blind`, or why there is none."""
    titles = {each.name: each.title for each in judge.rubric}
    return parse(body, judge.criteria, code=code(blind, seed), titles=titles)


MISSES = 3
"""So many answers that are not of the form asked, and none that is: the server does not hold to it."""

_MAY_BE_SHAPE = {400, 404, 405, 415, 422, 501}
_SAYS_OUTPUT = re.compile(
    r"response_format|text\.format|json_schema|json_object|json mode|structured.?output|guided.?decoding",
    re.IGNORECASE,
)
_SAYS_UNKNOWN = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|extra (?:field|input)|not (?:permitted|allowed|available)",
    re.IGNORECASE,
)
_SAYS_RESPONSES = re.compile(r"/responses\b|not a chat model", re.IGNORECASE)
_SAYS_AMOUNT = re.compile(r"too (?:large|small|high|low)|at (?:most|least)", re.IGNORECASE)
_SAYS_LIMIT = re.compile(r"\bmax_(?:completion_)?tokens\b")
_LEAVES_OUT = {
    "temperature": re.compile(r"\btemperature\b"),
    "seed": re.compile(r"\bseed\b"),
    "store": re.compile(r"\bstore\b"),
    "system": re.compile(r"\bsystem (?:role|message|prompt)|\brole\W{1,3}system", re.IGNORECASE),
}

_SIMPLER: dict[Output, str] = {
    "json_object": "in JSON mode",
    "text": "for a verdict block in plain text",
}


class RequestBuilder:
    """Makes one judge's requests and reads the answers.

    Attributes:
        shape: In which shape a request is put from now on.
        notices: Messages for the user, in order.
    """

    def __init__(self, judge: Judge, *, seed: int) -> None:
        self.shape = first_shape(judge)
        self.notices: list[str] = []
        self._judge = judge
        self._seed = seed
        self._held: set[RequestShape] = set()
        self._tried: set[RequestShape] = set()
        self._missed = 0

    def key(self, showing: Showing, *, again: int = 0) -> str:
        """Return the name of the request about `showing`; see `request_key`."""
        sample = showing.sample * SAMPLES + again
        return request_key(self._judge, showing.blind, self._seed, sample=sample, purpose=showing.purpose)

    def build(self, showing: Showing, *, again: int = 0) -> JudgeRequest:
        """Return the request about `showing`, in the present shape.

        Args:
            showing: The pair as it is shown.
            again: How often it was asked before, because a response could not be read.
        """
        sample = showing.sample * SAMPLES + again
        body = request(
            self._judge, showing.blind, self._seed, shape=self.shape, sample=sample, purpose=showing.purpose
        )
        return JudgeRequest(
            key=self.key(showing, again=again),
            body=wire(body),
            shape=self.shape.name,
            max_output_tokens=self._judge.max_output_tokens,
        )

    def parse(self, showing: Showing, body: bytes, *, shape: str | None) -> Choices | JudgeError:
        """Return the verdict in a response, or why there is none; learn whether the form is held to.

        Args:
            showing: The pair as it was shown.
            body: The response.
            shape: In which shape was asked; None where that is not known.
        """
        outcome = parse_answer(self._judge, showing.blind, body, seed=self._seed)
        if shape == self.shape.name:
            self._learn(outcome)
        return outcome

    def refused(self, shape: str | None, refusal: ServerError) -> None:
        """Find out whether a refusal is of the shape, and ask in another one from now on.

        Args:
            shape: The shape of the request that was refused; None where that is not known.
            refusal: What the server says of it.

        Raises:
            ShapeChanged: It is, and another shape is chosen.
            StudyError: It is, and study.toml fixes what the server does not take.
        """
        if refusal.status not in _MAY_BE_SHAPE:
            return
        if shape != self.shape.name:
            raise ShapeChanged  # another request met the same, and the shape is another by now
        words = f"{refusal.param or ''} {refusal.message}"
        simpler, notice = self._simpler(refusal.status, words, refusal.detail)
        if simpler is None or simpler in self._tried:
            return
        self._tried.add(self.shape)
        self.shape = simpler
        self._missed = 0
        self.notices.append(f"{notice} ({refusal.detail})")
        raise ShapeChanged

    def _simpler(self, status: int, words: str, detail: str) -> tuple[RequestShape | None, str]:
        shape = self.shape
        if shape.dialect == "chat" and _SAYS_RESPONSES.search(words):
            if self._judge.style in ("auto", "batch"):
                return replace(shape, dialect="responses"), "asking at /responses, as the server wants"
            return None, ""
        if status in (404, 405):
            return None, ""
        if shape.output != "text" and _SAYS_OUTPUT.search(words):
            self._not_fixed("output", shape.output, detail)
            output = OUTPUTS[OUTPUTS.index(shape.output) + 1]
            notice = f"the server refuses {shape.output}; asking {_SIMPLER[output]}"
            return replace(shape, output=output), notice
        if not _SAYS_UNKNOWN.search(words) or _SAYS_AMOUNT.search(words):
            return None, ""
        return self._without(words, detail)

    def _without(self, words: str, detail: str) -> tuple[RequestShape | None, str]:
        """Return the shape without the parameter that the server does not take."""
        shape = self.shape
        named = _SAYS_LIMIT.search(words)
        if shape.dialect == "chat" and named is not None and named.group() == shape.limit:
            if shape.limit == "max_tokens":
                return replace(shape, limit="max_completion_tokens"), "asking with max_completion_tokens"
            return replace(shape, limit="max_tokens"), "asking with max_tokens"
        if re.search(r"\breasoning(?:_effort|\.effort)?\b", words):
            self._not_fixed("reasoning_effort", self._judge.reasoning_effort, detail)
        for name, words_for_it in _LEAVES_OUT.items():
            if name not in shape.without and words_for_it.search(words):
                if name == "temperature":
                    self._not_fixed(name, self._judge.temperature, detail)
                without = tuple(sorted({*shape.without, name}))
                named_so = "a system message" if name == "system" else name
                return replace(shape, without=without), f"asking without {named_so}"
        return None, ""

    def _not_fixed(self, name: str, value: object, detail: str) -> None:
        """Check that study.toml leaves it open.

        Raises:
            StudyError: It does not.
        """
        if getattr(self._judge, name, None) not in (None, "auto"):
            raise StudyError(
                f"the server of the judge {self._judge.model!r} does not take {name} = {value!r}, which "
                f"study.toml asks for ({detail}); remove {name} there, or name another model"
            )

    def _learn(self, outcome: Choices | JudgeError) -> None:
        """Ask for plain text where a server takes a schema or JSON mode and then does not hold to it."""
        if self.shape in self._held or self.shape.output == "text":
            return
        if not isinstance(outcome, JudgeError):
            self._held.add(self.shape)
        elif outcome.kind in ("unparseable", "wrong_schema"):
            self._missed += 1
            if self._missed >= MISSES and self._judge.output == "auto":
                self.notices.append(
                    f"the server takes {self.shape.output} and does not hold to it: {self._missed} answers "
                    f"were something else, last {outcome.detail}; asking {_SIMPLER['text']}"
                )
                self.shape = replace(self.shape, output="text")
