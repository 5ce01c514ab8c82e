"""The shapes in which servers of either dialect take a request: one judge's first, and the simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.records import CHOICES
from guard_eval.rubric import CHOICE_LABELS
from guard_eval.study.judge_settings import Judge
from judge.prompt import RATIONALE, RATIONALE_WORDS

Dialect = Literal["chat", "responses"]
"""Which of OpenAI's two interfaces is spoken."""

Output = Literal["json_schema", "json_object", "text"]
"""How the answer's form is asked for: by schema, by JSON mode, or by the prompt alone, as a verdict block."""

OUTPUTS: tuple[Output, ...] = ("json_schema", "json_object", "text")
"""From the strictest to the one that every server understands."""

Limit = Literal["max_tokens", "max_completion_tokens"]
"""What the token limit is called in the chat dialect: the old name, or the one that counts reasoning too."""

LIMITS: tuple[Limit, ...] = ("max_tokens", "max_completion_tokens")
"""Both of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestShape:
    """In which shape a request is put.

    Attributes:
        dialect: Which interface is spoken.
        output: How the answer's form is asked for.
        limit: What the token limit is called; in the responses dialect it has one name only.
        without: What is left out because the server does not take it, sorted: names of parameters, or
            `system` where every word must be the user's.
    """

    dialect: Dialect = "chat"
    output: Output = "json_schema"
    limit: Limit = "max_tokens"
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the shape in one word."""
        return "/".join((self.dialect, self.output, self.limit, *self.without))

    @classmethod
    def named(cls, name: str) -> RequestShape:
        """Return the shape of that name.

        >>> RequestShape.named("chat/text/max_tokens/seed").without
        ('seed',)
        """
        dialect, output, limit, *without = name.split("/")
        return cls(dialect=dialect, output=output, limit=limit, without=tuple(without))  # type: ignore[arg-type]

    @property
    def path(self) -> str:
        """Return where such a request is posted, after the server's base URL."""
        return path_of(self.name)


def path_of(shape: str) -> str:
    """Return where a request is posted, after the server's base URL, by the name of its shape."""
    return "/responses" if shape.startswith("responses/") else "/chat/completions"


def first_shape(judge: Judge) -> RequestShape:
    """Return the shape in which `judge` is asked first: what study.toml fixes, else the strictest."""
    return RequestShape(
        dialect="responses" if judge.style == "responses" else "chat",
        output=OUTPUTS[0] if judge.output == "auto" else judge.output,
        limit="max_completion_tokens" if judge.is_reasoning else "max_tokens",
    )


def schema(names: Sequence[str], *, rationale: bool = False) -> dict[str, Any]:
    """Return the JSON schema of the answer: one field per criterion, each one of A, tie, B.

    Args:
        names: The criteria, in the order in which they are asked.
        rationale: Whether the first field is a rationale.
    """
    labels = "; ".join(f"{choice}: {CHOICE_LABELS[choice]}" for choice in CHOICES)
    field = {"type": "string", "enum": list(CHOICES), "description": labels}
    reasons = {"type": "string", "description": f"Your reasons, in at most {RATIONALE_WORDS} words"}
    properties = {**({RATIONALE: reasons} if rationale else {}), **{name: dict(field) for name in names}}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def schema_of(judge: Judge) -> dict[str, Any]:
    """Return the JSON schema of this judge's answers."""
    return schema(judge.criteria, rationale=judge.rationale)


def settings_of(judge: Judge, shape: RequestShape) -> dict[str, Any]:
    """Return what the body of a request says besides messages, seed and temperature."""
    return _chat(judge, shape) if shape.dialect == "chat" else _responses(judge, shape)


def _chat(judge: Judge, shape: RequestShape) -> dict[str, Any]:
    body: dict[str, Any] = {"model": judge.model, shape.limit: judge.max_output_tokens}
    if shape.output == "json_schema":
        named = {"name": "verdict", "strict": True, "schema": schema_of(judge)}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif shape.output == "json_object":
        body["response_format"] = {"type": "json_object"}
    if judge.reasoning_effort is not None:
        body["reasoning_effort"] = judge.reasoning_effort
    return body


def _responses(judge: Judge, shape: RequestShape) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": judge.model,
        "max_output_tokens": judge.max_output_tokens,
        "store": False,  # the texts are the study's: the server need not keep them
    }
    if shape.output == "json_schema":
        named = {"name": "verdict", "strict": True, "schema": schema_of(judge)}
        body["text"] = {"format": {"type": "json_schema", **named}}
    elif shape.output == "json_object":
        body["text"] = {"format": {"type": "json_object"}}
    if judge.reasoning_effort is not None:
        body["reasoning"] = {"effort": judge.reasoning_effort}
    return body
