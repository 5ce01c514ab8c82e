"""How one server is asked at present: begun strictly, and more simply wherever it refuses or does not listen.

What study.toml fixes is never given up in silence: then a refusal ends the run, and says what to change.
"""

from __future__ import annotations

import re
from dataclasses import replace

from guard_eval.errors import StudyError
from guard_eval.store import Showing
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest, ShapeChanged
from judge.errors import ServerError
from judge.parsing import Parsed, ParseError, Usage, parse, read_usage
from judge.prompt import OUTPUTS, PATHS, Output, Shape, code, first_shape, request, request_key, wire
from judge.retry import SAMPLES

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
    """Makes one judge's questions and reads its answers.

    Attributes:
        shape: In which shape a question is put from now on.
        notices: Messages for the user, in order.
    """

    def __init__(self, judge: Judge, *, seed: int) -> None:
        self.shape = first_shape(judge)
        self.notices: list[str] = []
        self._judge = judge
        self._seed = seed
        self._held: set[Shape] = set()
        self._tried: set[Shape] = set()
        self._missed = 0

    def key(self, showing: Showing, *, again: int = 0) -> str:
        """Return the name of the request about `showing`; see `judge.prompt.request_key`."""
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
            self._judge,
            showing.blind,
            self._seed,
            shape=self.shape,
            sample=sample,
            purpose=showing.purpose,
        )
        return JudgeRequest(
            key=self.key(showing, again=again),
            body=wire(body),
            shape=self.shape.name,
            code=code(showing.blind, self._seed),
            max_output_tokens=self._judge.max_output_tokens,
        )

    def path(self, question: JudgeRequest) -> str:
        """Return where the question is posted, after the server's base URL."""
        return PATHS["responses" if question.shape.startswith("responses/") else "chat"]

    def parse(self, body: bytes, *, code: str, shape: str | None) -> Parsed | ParseError:
        """Return the verdict in a response, or why there is none; learn whether the form is held to.

        Args:
            body: The response.
            code: What a verdict block must carry.
            shape: In which shape was asked; None where that is not known.
        """
        outcome = parse(body, self._judge.criteria, code=code)
        if shape == self.shape.name:
            self._learn(outcome)
        return outcome

    def usage(self, body: bytes) -> Usage:
        """Return what the server says of an answer."""
        return read_usage(body)

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
            raise ShapeChanged  # another question met the same, and the shape is another by now
        words = f"{refusal.param or ''} {refusal.said}"
        simpler, notice = self._simpler(refusal.status, words, refusal.detail)
        if simpler is None or simpler in self._tried:
            return
        self._tried.add(self.shape)
        self.shape = simpler
        self._missed = 0
        self.notices.append(f"{notice} ({refusal.detail})")
        raise ShapeChanged

    def _simpler(self, status: int, words: str, detail: str) -> tuple[Shape | None, str]:
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
            said = f"the server refuses {shape.output}; asking {_SIMPLER[output]}"
            return replace(shape, output=output), said
        if not _SAYS_UNKNOWN.search(words) or _SAYS_AMOUNT.search(words):
            return None, ""
        return self._without(words, detail)

    def _without(self, words: str, detail: str) -> tuple[Shape | None, str]:
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
        """See that study.toml leaves it open.

        Raises:
            StudyError: It does not.
        """
        if getattr(self._judge, name, None) not in (None, "auto"):
            raise StudyError(
                f"the server of the judge {self._judge.model!r} does not take {name} = {value!r}, which "
                f"study.toml asks for ({detail}); remove {name} there, or name another model"
            )

    def _learn(self, outcome: Parsed | ParseError) -> None:
        """Ask for plain text where a server takes a schema or JSON mode and then does not hold to it."""
        if self.shape in self._held or self.shape.output == "text":
            return
        if isinstance(outcome, Parsed):
            self._held.add(self.shape)
        elif outcome.kind in ("unparseable", "wrong_schema"):
            self._missed += 1
            if self._missed >= MISSES and self._judge.output == "auto":
                self.notices.append(
                    f"the server takes {self.shape.output} and does not hold to it: {self._missed} answers "
                    f"were something else, last {outcome.detail}; asking {_SIMPLER['text']}"
                )
                self.shape = replace(self.shape, output="text")
