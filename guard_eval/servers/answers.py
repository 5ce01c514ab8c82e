"""Read a server's answer: the text, the reason why the text ended, the token counts, and the thinking.

Servers return the thinking in separate fields or inside the text.
"""

import json
import re
from collections.abc import Mapping
from typing import Literal, cast, get_args

from guard_eval.records import JsonObject, Usage, record
from guard_eval.reporting.escaping import escape_invisible_characters

_DETAIL = 200
_MOST_CHARACTERS = 10_000


def shorten(text: str, longest: int = _DETAIL) -> str:
    """Shorten `text` to one printable line of at most `longest` characters."""
    line = " ".join(escape_invisible_characters(text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


Ending = Literal["stop", "length", "content_filter"]


@record
class Answer:
    """The model's answer: the text or the refusal, and how the answer ended."""

    text: str | None
    refusal: str | None
    ended: Ending


def load_json_or_none(body: bytes | str) -> object:
    """Return the JSON value in these bytes, or None if the bytes are not JSON."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value


def dump_shortened_json(value: object) -> str:
    """Return the beginning of a value's JSON text, or an empty text if the value is nested too deeply."""
    try:
        return json.dumps(value, default=str)[:_MOST_CHARACTERS]
    except RecursionError:
        return ""


def get_object_or_empty(value: object) -> JsonObject:
    """Return `value` if the value is a JSON object. For other values, return an empty object."""
    return value if isinstance(value, dict) else {}


def read_json_object(body: bytes) -> JsonObject:
    """Return the JSON object in a response, or in a line of a batch's results. For other bytes, return {}."""
    envelope = get_object_or_empty(load_json_or_none(body))
    if "custom_id" not in envelope:
        return envelope
    for name in ("result", "response", "body"):
        inner = envelope.get(name)
        if isinstance(inner, str):
            inner = load_json_or_none(inner)
        envelope = inner if isinstance(inner, dict) else envelope
    return envelope


def read_answer(body: bytes) -> Answer | None:
    """Return the model's answer; None if `body` is not an answer of a known interface."""
    envelope = read_json_object(body)
    reader = (
        _read_responses_answer
        if "output" in envelope and "choices" not in envelope
        else _read_completions_answer
    )
    try:
        return reader(envelope)
    except (TypeError, KeyError, IndexError, AttributeError):
        return None


_ENDINGS: Mapping[str, str] = {
    "error": r"error|abort|cancel|fail|insufficient",
    "content_filter": r"filter|safe|sensitive|prohibit|block|recitation|spii|guardrail|moderat|flag|policy",
    "refusal": r"refus|declin",
    "length": r"length|max|limit|context|truncat|incomplete",
}
"""For each ending of an answer, a pattern of the words that servers use. All other words mean `stop`."""


def classify_answer_ending(reason: object) -> str:
    """Return how an answer ended: stop, length, content_filter, refusal or error.

    >>> [classify_answer_ending(word) for word in ("MAX_TOKENS", "model_length", "SAFETY", "end_turn", None)]
    ['length', 'length', 'content_filter', 'stop', 'stop']
    """
    words = str(reason).lower()
    return next((ending for ending, pattern in _ENDINGS.items() if re.search(pattern, words)), "stop")


def _read_completions_answer(envelope: JsonObject) -> Answer | None:
    """Read an answer of the interface chat completions or completions."""
    choice = envelope["choices"][0]
    ending = classify_answer_ending(choice.get("finish_reason") or choice.get("stop_reason"))
    if envelope.get("error") or choice.get("error") or ending == "error":  # a router failed
        return None
    message = choice["message"] if "message" in choice else {"content": choice["text"]}
    text = message.get("content")
    if isinstance(text, list):  # Mistral's reasoning models return their thinking, then the text
        text = "".join(block["text"] for block in text if block.get("type") == "text") or None
    return _make_answer(text, message.get("refusal"), ending)


def _read_responses_answer(envelope: JsonObject) -> Answer | None:
    """Read an answer of the interface responses."""
    status = str(envelope.get("status", "completed")).lower()
    if status not in ("completed", "incomplete"):
        return None
    messages = [block["content"] for block in envelope["output"] if block.get("type") == "message"]
    parts = messages[-1] if messages else []
    reason = get_object_or_empty(envelope.get("incomplete_details")).get("reason") or "max_output_tokens"
    text = "".join(block["text"] for block in parts if block.get("type") == "output_text") or None
    refusal = next((block["refusal"] for block in parts if block.get("type") == "refusal"), None)
    return _make_answer(text, refusal, classify_answer_ending(reason) if status == "incomplete" else "stop")


def _make_answer(text: object, refusal: object, ending: str) -> Answer:
    """Make an answer; a model's refusal may be in a separate field or in the text."""
    if not isinstance(text, str | None):
        raise TypeError("the text is neither a string nor absent")
    if ending == "refusal":
        refusal = refusal or text or "the model declined"
    ended = cast("Ending", ending if ending in get_args(Ending) else "stop")
    return Answer(text=text, refusal=str(refusal) if refusal else None, ended=ended)


def read_usage(body: bytes) -> Usage:
    """Return the model, the fingerprint and the token counts in `body`, which may be any bytes.

    Some servers do not count thinking as tokens of the completion: then the total minus the prompt is used.
    Other servers write zero for unknown numbers. A zero therefore means unknown: every request and every
    answer has at least one token.
    """
    envelope = read_json_object(body)
    counts = get_object_or_empty(envelope.get("usage"))
    first, second = ("input", "output") if "input_tokens" in counts else ("prompt", "completion")
    first_details, second_details = (
        get_object_or_empty(counts.get(f"{name}_tokens_details")) for name in (first, second)
    )
    prompt = parse_token_count(counts.get(f"{first}_tokens"))
    output = parse_token_count(counts.get(f"{second}_tokens"))
    reasoning = parse_token_count(second_details.get("reasoning_tokens"))
    beyond_prompt = (parse_token_count(counts.get("total_tokens")) or 0) - (prompt or 0)
    if output is not None and prompt is not None and beyond_prompt > output:
        reasoning = reasoning or beyond_prompt - output
        output = beyond_prompt
    answer = read_answer(body)
    if output == 0 and (answer is None or answer.ended != "content_filter"):
        output = None
    if output is not None and reasoning is not None and reasoning > output:
        output = parse_token_count(output + reasoning)  # the sum may be too large to be a count
    return Usage(
        model=_read_text(envelope.get("model")),
        fingerprint=_read_text(envelope.get("system_fingerprint")),
        input_tokens=prompt or None,
        output_tokens=output,
        cached_tokens=parse_token_count(first_details.get("cached_tokens")),
        reasoning_tokens=reasoning,
    )


def _read_text(value: object) -> str | None:
    return shorten(value) if isinstance(value, str) else None


def parse_token_count(value: object) -> int | None:
    """Return a count, which may be written as a float or a string; None for all other values.

    >>> parse_token_count(100.0), parse_token_count("100"), parse_token_count(-1), parse_token_count(True)
    (100, 100, None, None)
    """
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        return parse_token_count(int(value))
    if isinstance(value, float) and value.is_integer():
        return parse_token_count(int(value))
    return value if type(value) is int and 0 <= value < 2**31 else None


_NAME = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_THINKING = re.compile(
    rf"<\s*+(?P<close>/)?+\s*+{_NAME}\b[^<>]*>"
    r"|\[(?P<close_square>/)?THINK\]"  # Mistral
    r"|◁(?P<close_kimi>/)?think▷"
    r"|<\|(?:(?P<close_bar>end)|begin)_of_(?:thought|thinking)\|>"
    r"|<\|(?:(?P<close_cohere>END)|START)_THINKING\|>"
    r"|<\|channel\|>\s*(?:(?P<close_channel>final)|\w+)\s*(?:<\|constrain\|>\s*\w+\s*)?(?:<\|message\|>)?"
    r"|assistant(?P<close_plain>final)",  # gpt-oss, whose control tokens some servers take out
    re.IGNORECASE,
)


def remove_thinking(content: str) -> str | None:
    """Return an answer without the model's thinking; None if the thinking never ends.

    If there is a closing tag without an opening tag, the text before the closing tag is also thinking,
    because the chat template may contain the opening tag.

    >>> remove_thinking("<think>B is better</think>A"), remove_thinking("B is better</think>A")
    ('A', 'A')
    >>> remove_thinking("A <think>or rather B")
    """
    visible: list[str] = []
    thinking = False
    start = 0
    for tag in _THINKING.finditer(content):
        if tag.lastgroup is None:
            if not thinking:
                visible.append(content[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                visible.clear()
            thinking = False
        start = tag.end()
    return None if thinking else "".join([*visible, content[start:]])


def has_model_reasoned(body: bytes) -> bool:
    """Return whether an answer counts reasoning tokens or contains thinking."""
    if read_usage(body).reasoning_tokens:
        return True
    answer = read_answer(body)
    if answer is not None and answer.text and _THINKING.search(answer.text):
        return True
    choices = read_json_object(body).get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = get_object_or_empty(get_object_or_empty(choice).get("message"))
    names: list[object] = [name for name, value in message.items() if value]
    content = message.get("content")
    if isinstance(content, list):
        names += [block.get("type") for block in map(get_object_or_empty, content)]
    return any(re.search("reason|think", str(name), re.IGNORECASE) for name in names)
