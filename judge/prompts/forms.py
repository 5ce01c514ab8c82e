"""The forms in which servers take a request: the strictest first, and the simpler ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from guard_eval.records import CHOICES
from guard_eval.reporting.words import and_list
from guard_eval.rubric import CHOICE_LABELS
from guard_eval.servers.failures import Change, Omittable
from guard_eval.study.judge_settings import Judge
from judge.prompts.prompt import RATIONALE, RATIONALE_WORDS

Interface = Literal["chat", "responses"]
Output = Literal["json_schema", "text"]
"""How the answer's form is asked for: by a schema, or by the prompt alone as a verdict block."""

Limit = Literal["max_tokens", "max_completion_tokens"]
"""The name of the token limit in chat completions: the old one, or the one that counts reasoning too."""

PATHS: Mapping[str, str] = {"chat": "/chat/completions", "responses": "/responses"}
"""Where a request is posted, below the server's address."""

OMITTABLE = get_args(Omittable)
_GUESSES = ("seed", "temperature", "system")
"""Parts that a server may refuse without a word of them, the least important first."""

_OPEN = (None, "auto", "default")


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """The form of a request.

    Attributes:
        interface: Chat completions or responses.
        output: How the answer's form is asked for.
        limit: The name of the token limit; responses have one name only.
        without: The parts that are left out because the server does not take them, sorted.
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
    def parse(cls, name: str) -> Form:
        """Return the form of a name.

        >>> Form.parse("responses/text/max_tokens/seed").without
        ('seed',)
        """
        interface, output, limit, *without = name.split("/")
        fields: dict[str, Any] = {"interface": interface, "output": output, "limit": limit}
        return cls(**fields, without=tuple(without))

    @classmethod
    def first(cls, judge: Judge) -> Form:
        """Return the form in which `judge` is asked first: what study.toml fixes, else the strictest."""
        return cls(
            interface="responses" if judge.style == "responses" else "chat",
            output="text" if judge.output == "text" else "json_schema",
            limit="max_completion_tokens" if judge.asks_to_reason else "max_tokens",
        )

    def describe(self) -> str:
        """Describe how answers are asked for, and what is left out.

        >>> Form(output="text", without=("seed", "system")).describe()
        'answers in plain text, without seed and system message'
        """
        output = "a JSON schema" if self.output == "json_schema" else "plain text"
        names = ["system message" if name == "system" else name for name in self.without]
        dropped = f", without {and_list(names)}" if names else ""
        return f"answers in {output}{dropped}"

    def drop(self, *names: str) -> Form:
        """Return the form without these parts of a request."""
        return replace(self, without=tuple(sorted({*self.without, *names})))

    def change(self, change: Change, judge: Judge) -> Form:
        """Return the form with one change that a server asks for; the same form if nothing changes."""
        if change == "responses" and judge.style == "auto":
            return replace(self, interface="responses")
        if change == "limit" and self.interface == "chat":
            is_old = self.limit == "max_tokens"
            return replace(self, limit="max_completion_tokens" if is_old else "max_tokens")
        if change == "output":
            return replace(self, output="text")
        return self.drop(change) if change in OMITTABLE else self

    def simplify(self, judge: Judge) -> Iterator[Form]:
        """Yield simpler forms for a server that does not say what it refuses.

        One part is dropped at a time. Only then are several dropped together.
        """
        fixed = fixed_parts(judge)
        unsent = {"seed"} if self.interface == "responses" else set()
        unsent |= {"temperature"} if temperature_of(judge) is None else set()
        names = [name for name in _GUESSES if name not in fixed | unsent | {*self.without}]
        text = self if "output" in fixed else replace(self, output="text")
        yield text
        yield from (self.drop(name) for name in names)
        yield from (text.drop(*names[:count]) for count in range(1, len(names) + 1))


def fixed_parts(judge: Judge) -> set[str]:
    """Return the parts of a request that study.toml fixes, so that no form goes without them."""
    return {name for name in (*OMITTABLE, "output") if getattr(judge, name, None) not in _OPEN}


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
    """Return study.toml's temperature, else 0 unless the model shall reason or samples are to differ."""
    if judge.temperature is not None:
        return None if judge.temperature == "default" else judge.temperature
    return None if judge.asks_to_reason or judge.samples > 1 else 0.0


def build_request(
    judge: Judge, messages: Sequence[Mapping[str, str]], form: Form, *, seed: int, max_output_tokens: int
) -> bytes:
    """Return the JSON of a request, without spaces and with its messages last.

    Args:
        judge: The study's settings for this judge.
        messages: What the judge reads, the system's message first.
        form: The form that the server takes.
        seed: The request's own seed.
        max_output_tokens: The longest answer.
    """
    chat = form.interface == "chat"
    body: dict[str, Any] = {"model": judge.model}
    if chat:
        body[form.limit] = max_output_tokens
    else:
        body |= {"max_output_tokens": max_output_tokens, "store": False}  # the texts are the study's
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
        system, first, *others = texts
        first = {"role": "user", "content": f"{system['content']}\n\n{first['content']}"}
        texts = [first, *others]
    body["messages" if chat else "input"] = texts
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def show_request(sent: bytes) -> str:
    """Return a request in words: its settings, a line each, and its messages by role."""
    body = json.loads(sent)
    messages = body.pop("messages", None) or body.pop("input", [])
    settings = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in body.items())
    return "\n\n".join([settings, *(f"[{each['role']}]\n{each['content']}" for each in messages)])
