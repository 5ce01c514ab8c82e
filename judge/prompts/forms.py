"""The forms of a request that servers may accept: the strictest form first, then simpler forms."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from guard_eval.records import CHOICES, JsonObject
from guard_eval.rubric import CHOICE_LABELS
from guard_eval.servers.form import OMITTABLE, Form
from guard_eval.study.judge_settings import Judge
from judge.prompts.prompt import RATIONALE, RATIONALE_WORDS

_GUESSES = ("seed", "temperature", "system")
"""Parts of a request that a server may refuse without naming them. The least important part is first."""

_OPEN = (None, "auto", "default")


def choose_first_request_form(judge: Judge) -> Form:
    """Return the first form of a judge's requests: the strictest form that study.toml allows."""
    return Form(
        interface="responses" if judge.style == "responses" else "chat",
        output="text" if judge.output == "text" else "json_schema",
        limit="max_completion_tokens" if judge.asks_to_reason else "max_tokens",
    )


def list_simpler_request_forms(form: Form, judge: Judge) -> Iterator[Form]:
    """Yield simpler forms of a request, for a server that refuses a part without naming the part.

    First, one part is left out at a time. Then several parts are left out together.
    """
    fixed = find_fixed_request_parts(judge)
    unsent = {"seed"} if form.interface == "responses" else set()
    unsent |= {"temperature"} if choose_temperature(judge) is None else set()
    names = [name for name in _GUESSES if name not in fixed | unsent | {*form.without}]
    text = form if "output" in fixed else replace(form, output="text")
    yield text
    yield from (form.omit_parts(name) for name in names)
    yield from (text.omit_parts(*names[:count]) for count in range(1, len(names) + 1))


def find_fixed_request_parts(judge: Judge) -> set[str]:
    """Return the names of the parts of a request that study.toml sets, so that no form may omit them."""
    return {name for name in (*OMITTABLE, "output") if getattr(judge, name, None) not in _OPEN}


def make_answer_schema(judge: Judge) -> JsonObject:
    """Return the JSON schema of a judge's answers, with a field for each criterion: `A`, `tie` or `B`."""
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


def choose_temperature(judge: Judge) -> float | None:
    """Return the temperature in study.toml, or the default: 0, or None for reasoning or several samples."""
    if judge.temperature is not None:
        return None if judge.temperature == "default" else judge.temperature
    return None if judge.asks_to_reason or judge.samples > 1 else 0.0


def build_request(
    judge: Judge, messages: Sequence[Mapping[str, str]], form: Form, *, seed: int, max_output_tokens: int
) -> bytes:
    """Return the JSON body of a request, without spaces. The messages are the last field.

    Args:
        judge: The study's settings for this judge.
        messages: The messages to the judge, the system message first.
        form: The form of the request.
        seed: The seed for the model's sampling.
        max_output_tokens: The token limit of the answer.
    """
    chat = form.interface == "chat"
    body: JsonObject = {"model": judge.model}
    if chat:
        body[form.limit] = max_output_tokens
    else:
        # The server should not keep the study's texts.
        body |= {"max_output_tokens": max_output_tokens, "store": False}
    if form.output == "json_schema":
        schema = {"name": "verdict", "strict": True, "schema": make_answer_schema(judge)}
        if chat:
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            body["text"] = {"format": {"type": "json_schema", **schema}}
    if judge.reasoning_effort and "reasoning_effort" not in form.without:
        effort = judge.reasoning_effort
        body |= {"reasoning_effort": effort} if chat else {"reasoning": {"effort": effort}}
    optional = {"seed": seed if chat else None, "temperature": choose_temperature(judge)}
    body |= {name: value for name, value in optional.items() if value is not None}
    body |= judge.extra_body
    for name in form.without:
        body.pop(name, None)
    if "system" in form.without:
        system, first, *others = messages
        content = f"{system['content']}\n\n{first['content']}"
        messages = [{"role": "user", "content": content}, *others]
    body["messages" if chat else "input"] = messages
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def format_request(request_body: bytes) -> str:
    """Return a request as text to read: a line for each setting, then each message with its role."""
    body = json.loads(request_body)
    messages = body.pop("messages", None) or body.pop("input", [])
    settings = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in body.items())
    return "\n\n".join([settings, *(f"[{message['role']}]\n{message['content']}" for message in messages)])
