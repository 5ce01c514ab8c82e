"""The forms in which servers take a request: the strictest first, and the simpler ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES
from guard_eval.rubric import CHOICE_LABELS
from guard_eval.study.judge_settings import Judge
from judge.failures import Change, Omittable
from judge.prompts.prompt import RATIONALE, RATIONALE_WORDS

Interface = Literal["chat", "responses"]
Output = Literal["json_schema", "text"]
"""How the answer's form is asked for: by a schema, or by the prompt alone as a verdict block."""

Limit = Literal["max_tokens", "max_completion_tokens"]
"""The name of the token limit in chat completions: the old one, or the one that counts reasoning too."""

PATHS: Mapping[str, str] = {"chat": "/chat/completions", "responses": "/responses"}
"""Where a request is posted, below the server's address."""

OMITTABLE = get_args(Omittable)
_OPTIONAL = {"seed", "system", "temperature"}
_OPEN = (None, "auto", "default")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """The form of a request.

    Attributes:
        interface: Chat completions or responses.
        output: How the answer's form is asked for.
        limit: The name of the token limit; responses have one name only.
        without: What is left out because the server does not take it, sorted.
    """

    interface: Interface = "chat"
    output: Output = "json_schema"
    limit: Limit = "max_tokens"
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the form in one word: interface, output, the token limit's name, and what is left out.

        >>> Form(without=("seed",)).name
        'chat/json_schema/max_tokens/seed'
        """
        return "/".join((self.interface, self.output, self.limit, *self.without))

    @classmethod
    def first(cls, judge: Judge) -> Form:
        """Return the form in which `judge` is asked first: what study.toml fixes, else the strictest."""
        return cls(
            interface="responses" if judge.style == "responses" else "chat",
            output="text" if judge.output == "text" else "json_schema",
            limit="max_completion_tokens" if judge.is_reasoning else "max_tokens",
        )

    def simpler(self, change: Change, judge: Judge, detail: str) -> Form | None:
        """Return the form with a change that may help against a refusal; None if there is none.

        Raises:
            StudyError: study.toml fixes what would be changed.
        """
        fixed = {name for name in (*OMITTABLE, "output") if getattr(judge, name, None) not in _OPEN}
        if change in fixed and not (change == "output" and self.output == "text"):
            raise StudyError(
                f"the server of the judge {judge.model!r} does not take {change} = {getattr(judge, change)!r}"
                f", which study.toml asks for ({detail}); remove {change} there, or name another model"
            )
        form = self
        if change == "responses" and judge.style == "auto":
            form = replace(self, interface="responses")
        elif change == "limit" and self.interface == "chat":
            other: Limit = "max_tokens" if self.limit == "max_completion_tokens" else "max_completion_tokens"
            form = replace(self, limit=other)
        elif change == "output" or (change == "guess" and self.output != "text" and "output" not in fixed):
            form = replace(self, output="text")
        elif change in OMITTABLE or change == "guess":
            names = {change} if change in OMITTABLE else _OPTIONAL - fixed
            form = replace(self, without=tuple(sorted({*self.without, *names})))
        return None if form == self else form


def make_schema(judge: Judge) -> dict[str, Any]:
    """Return the JSON schema of this judge's answers: a field per criterion, each one of A, tie, B."""
    labels = "; ".join(f"{choice}: {CHOICE_LABELS[choice]}" for choice in CHOICES)
    field = {"type": "string", "enum": list(CHOICES), "description": labels}
    reasons = {"type": "string", "description": f"Your reasons, in at most {RATIONALE_WORDS} words"}
    rationale = {RATIONALE: reasons} if judge.rationale else {}
    properties = rationale | dict.fromkeys(judge.criteria, field)
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def temperature_of(judge: Judge) -> float | None:
    """Return study.toml's temperature, else 0 unless the model takes none or samples are to differ."""
    if judge.temperature is not None:
        return None if judge.temperature == "default" else judge.temperature
    return None if judge.is_reasoning or judge.samples > 1 else 0.0


def build_request(judge: Judge, messages: Sequence[Mapping[str, str]], form: Form, *, seed: int) -> bytes:
    """Return the JSON of a request, without spaces and with its messages last.

    Args:
        judge: The study's settings for this judge.
        messages: What the judge reads, the system's message first.
        form: The form that the server takes.
        seed: The request's own seed.
    """
    chat = form.interface == "chat"
    body: dict[str, Any] = {"model": judge.model}
    if chat:
        body[form.limit] = judge.max_output_tokens
    else:
        body |= {"max_output_tokens": judge.max_output_tokens, "store": False}  # the texts are the study's
    if form.output == "json_schema":
        schema = {"name": "verdict", "strict": True, "schema": make_schema(judge)}
        if chat:
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            body["text"] = {"format": {"type": "json_schema", **schema}}
    if judge.reasoning_effort and "reasoning_effort" not in form.without:
        effort = judge.reasoning_effort
        body |= {"reasoning_effort": effort} if chat else {"reasoning": {"effort": effort}}
    optional = {"seed": seed if chat else None, "temperature": temperature_of(judge)}
    body |= {name: value for name, value in optional.items() if value is not None}
    body |= judge.extra_body
    for name in form.without:
        body.pop(name, None)
    texts = [dict(each) for each in messages]
    if "system" in form.without:
        system, first, *rest = texts
        texts = [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
    body["messages" if chat else "input"] = texts
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def show_request(sent: bytes) -> str:
    """Return a request in words: its settings, a line each, and its messages by role."""
    body = json.loads(sent)
    messages = body.pop("messages", None) or body.pop("input", [])
    settings = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in body.items())
    return "\n\n".join([settings, *(f"[{each['role']}]\n{each['content']}" for each in messages)])
