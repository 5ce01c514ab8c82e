"""In which shape a server is asked: dialect, form of the answer, and the parameters it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from guard_eval.judge_settings import Judge, reasons

Dialect = Literal["chat", "responses"]
"""Which of OpenAI's two interfaces is spoken."""

Output = Literal["json_schema", "json_object", "text"]
"""How the answer's form is asked for: by schema, by JSON mode, or by the prompt alone, as a verdict block."""

OUTPUTS: tuple[Output, ...] = ("json_schema", "json_object", "text")
"""From the strictest to the one that every server understands."""

PATHS: dict[Dialect, str] = {"chat": "/chat/completions", "responses": "/responses"}

Limit = Literal["max_tokens", "max_completion_tokens"]
"""What the token limit is called in the chat dialect: the old name, or the one that counts reasoning too."""

_FALLBACKS: dict[Dialect, Dialect] = {"chat": "responses", "responses": "chat"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """In which shape a question is put.

    Attributes:
        dialect: Which interface is spoken.
        output: How the answer's form is asked for.
        limit: What the token limit is called; in the responses dialect it has one name only.
        without: What is left out because the server does not take it, sorted: names of parameters, or
            `system` where all that is said must be the user's.
    """

    dialect: Dialect = "chat"
    output: Output = "json_schema"
    limit: Limit = "max_tokens"
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the shape in one word."""
        return "/".join((self.dialect, self.output, self.limit, *self.without))

    @property
    def path(self) -> str:
        """Return where such a request is posted, after the server's base URL."""
        return PATHS[self.dialect]


def first_shape(judge: Judge) -> Shape:
    """Return the shape in which `judge` is asked first: what study.toml fixes, else the strictest."""
    return Shape(
        dialect="responses" if judge.style == "responses" else "chat",
        output=OUTPUTS[0] if judge.output == "auto" else judge.output,
        limit="max_completion_tokens" if reasons(judge.model) else "max_tokens",
    )


def shapes(judge: Judge) -> Iterator[Shape]:
    """Yield every shape in which `judge` may have been asked, those most likely first."""
    first = first_shape(judge)
    limits: tuple[Limit, ...] = ("max_tokens", "max_completion_tokens")
    for dialect in (first.dialect, _FALLBACKS[first.dialect]):
        for without in ((), ("temperature",), ("seed",), ("seed", "temperature")):
            for limit, output in product(sorted(limits, key=lambda name: name != first.limit), OUTPUTS):
                if dialect == "chat" or (limit == first.limit and "seed" not in without):
                    yield replace(first, dialect=dialect, output=output, limit=limit, without=without)
