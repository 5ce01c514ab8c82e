"""The shapes in which servers of any dialect take a request: one judge's first, and the simpler ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from guard_eval.records import CHOICES
from guard_eval.rubric import CHOICE_LABELS
from guard_eval.study.judge_settings import Judge, ProviderName
from judge.prompts.prompt import RATIONALE, RATIONALE_WORDS

Dialect = Literal["chat", "responses", "messages", "generate"]
"""Which interface is spoken: one of OpenAI's two, Anthropic's messages, or Gemini's generateContent."""

NATIVE: dict[ProviderName, Dialect] = {"anthropic": "messages", "gemini": "generate"}
"""The dialects of providers that have one of their own."""

TAKES_SEED = {"chat", "generate"}
"""The dialects that have a seed."""

Output = Literal["json_schema", "json_object", "text"]
"""How the answer's form is asked for: by schema, by JSON mode, or by the prompt alone, as a verdict block."""

OUTPUTS: tuple[Output, ...] = ("json_schema", "json_object", "text")
"""From the strictest to the one that every server understands."""

Limit = Literal["max_tokens", "max_completion_tokens"]
"""What the token limit is called in the chat dialect: the old name, or the one that counts reasoning too."""

Parameter = Literal["reasoning_effort", "temperature", "top_p", "seed", "store", "system"]
"""What can be left out of a request; `system` is the system message, whose words the user's then has."""

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
    def named(cls, name: str) -> RequestShape | None:
        """Return the shape of that name, or None where it is none; a recording may hold any name.

        >>> RequestShape.named("chat/text/max_tokens/seed")
        RequestShape(dialect='chat', output='text', limit='max_tokens', without=('seed',))
        >>> RequestShape.named("chat/text/max_tokens/model"), RequestShape.named("")
        (None, None)
        """
        dialect, output, limit, *without = (*name.split("/"), "", "")
        left = tuple(each for each in without if each)
        if dialect not in get_args(Dialect) or output not in OUTPUTS or limit not in LIMITS:
            return None
        if not set(left) <= set(get_args(Parameter)):
            return None
        return cls(dialect=dialect, output=output, limit=limit, without=left)  # type: ignore[arg-type]

    @property
    def path(self) -> str:
        """Return where such a request is posted, after the server's base URL."""
        return path_of(self.name)


def path_of(shape: str) -> str:
    """Return where a request is posted, after the server's base URL, by the name of its shape."""
    return _PATHS[shape.partition("/")[0]]


_PATHS = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "messages": "/v1/messages",
    "generate": ":generateContent",  # after the model's name
}


def weaker(shape: RequestShape) -> Output:
    """Return the output mode less strict than a shape's; Anthropic's interface has no JSON mode."""
    return "text" if shape.dialect == "messages" else OUTPUTS[OUTPUTS.index(shape.output) + 1]


def first_shape(judge: Judge) -> RequestShape:
    """Return the shape in which `judge` is asked first: what study.toml fixes, else the strictest."""
    return RequestShape(
        dialect=NATIVE.get(judge.provider, "responses" if judge.style == "responses" else "chat"),
        output=OUTPUTS[0] if judge.output == "auto" else judge.output,
        limit="max_completion_tokens" if judge.is_reasoning and judge.provider == "openai" else "max_tokens",
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
    build = {"chat": _chat, "responses": _responses, "messages": _messages, "generate": _generate}
    return build[shape.dialect](judge, shape)


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


def _messages(judge: Judge, shape: RequestShape) -> dict[str, Any]:
    body: dict[str, Any] = {"model": judge.model, "max_tokens": judge.max_output_tokens}
    output: dict[str, Any] = {}
    if shape.output == "json_schema":
        output["format"] = {"type": "json_schema", "schema": schema_of(judge)}
    if judge.reasoning_effort == "none":
        body["thinking"] = {"type": "disabled"}
    elif judge.reasoning_effort is not None:
        body["thinking"] = {"type": "adaptive"}
        output["effort"] = judge.reasoning_effort
    return {**body, "output_config": output} if output else body


def _generate(judge: Judge, shape: RequestShape) -> dict[str, Any]:
    body: dict[str, Any] = {"maxOutputTokens": judge.max_output_tokens}
    if shape.output != "text":
        body["responseMimeType"] = "application/json"
    if shape.output == "json_schema":
        body["responseJsonSchema"] = schema_of(judge)
    if judge.reasoning_effort == "none":
        body["thinkingConfig"] = {"thinkingBudget": 0}
    elif judge.reasoning_effort is not None:
        body["thinkingConfig"] = {"thinkingLevel": judge.reasoning_effort}
    return body


Text = dict[str, str]
"""A message of a request: `role` and `content`."""


def with_texts(body: dict[str, Any], texts: Sequence[Text], shape: RequestShape) -> dict[str, Any]:
    """Return a request's body with its messages, as the shape's dialect has them.

    Args:
        body: The settings.
        texts: The messages; the first may be the system's.
        shape: The request's shape.
    """
    if shape.dialect in ("chat", "responses"):
        return {**body, "messages" if shape.dialect == "chat" else "input": list(texts)}
    system = [each for each in texts if each["role"] == "system"]
    rest = [each for each in texts if each["role"] != "system"]
    if shape.dialect == "generate":
        contents = [
            {"role": "user" if each["role"] == "user" else "model", "parts": [{"text": each["content"]}]}
            for each in rest
        ]
        instruction = {"parts": [{"text": each["content"]} for each in system]}
        return {
            **({"systemInstruction": instruction} if system else {}),
            **{name: value for name, value in body.items() if name in _BESIDE},
            "generationConfig": {
                _IN_GEMINI.get(name, name): value for name, value in body.items() if name not in _BESIDE
            },
            "contents": contents,
        }
    blocks = [{"type": "text", "text": each["content"]} for each in system]
    messages: list[dict[str, Any]] = [dict(each) for each in rest]
    # what all requests begin with is read from the cache: the instructions, and the examples, if any
    if len(messages) > 1:
        last = messages[-2]
        last["content"] = [{"type": "text", "text": last["content"], "cache_control": _CACHED}]
    elif blocks:
        blocks[-1]["cache_control"] = _CACHED  # type: ignore[assignment]
    return {**body, **({"system": blocks} if blocks else {}), "messages": messages}


_CACHED = {"type": "ephemeral"}

_BESIDE = {"safetySettings", "serviceTier", "labels"}
"""Fields of study.toml's extra_body that in Gemini's interface stand beside the settings, and not in them."""

_IN_GEMINI = {"top_p": "topP"}


def texts_of(body: Mapping[str, Any]) -> list[Text]:
    """Return the messages of a request in any dialect, the system's first."""
    if "contents" in body:
        parts = [("system", body.get("systemInstruction", {}).get("parts", []))]
        parts += [
            ("assistant" if each["role"] == "model" else "user", each["parts"]) for each in body["contents"]
        ]
        return [{"role": role, "content": part["text"]} for role, found in parts for part in found]
    texts = body["messages"] if "messages" in body else body["input"]
    system = [{"role": "system", "content": block["text"]} for block in body.get("system", ())]
    return system + [
        {"role": each["role"], "content": each["content"]}
        if isinstance(each["content"], str)
        else {"role": each["role"], "content": "".join(block["text"] for block in each["content"])}
        for each in texts
    ]


def settings_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request in any dialect says besides its messages."""
    texts = {"messages", "input", "system", "systemInstruction", "contents"}
    return {name: value for name, value in body.items() if name not in texts}
