"""Flatten nested records of texts: chats, answers of servers, and several systems in one record.

A chat is a list of turns such as `{"role": "user", "content": …}` or `{"from": "gpt", "value": …}`. Its text
is the model's last turn, and its prompt is all earlier turns.
"""

import ast
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from guard_eval.files.rows import flatten_objects

Row = Mapping[str, object]
Facts = dict[str, object]
"""What a nested value says about a text: `prompt`, `text`, `model` and `finish_reason`, as far as known."""

_ANSWERS = frozenset(
    {"body", "candidates", "choices", "completion", "completions", "generated_text", "message", "output"}
    | {"outputs", "request", "response", "result"}
)
"""Keys of what a server received or answered."""
_TEXTS = frozenset(
    {"completion", "content", "generated_text", "output", "parts", "response", "text", "turns"}
)
"""Keys of a text inside an answer."""
_MODELS = frozenset({"assistant", "model", "gpt", "chatgpt", "bot", "ai"})
"""The roles of turns that a model wrote."""
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_BY_SYSTEM = frozenset({"completions", "outputs", "responses"})
"""Keys of an object that may have a text for each system."""
_SYSTEMS = ("system", "model", "generator", "method", "strategy")
_FINISHES = ("finish_reason", "finishReason", "stop_reason")


def split_systems(row: Row) -> list[Row]:
    """Return a row for each system, if one key has the texts of several systems: a list or an object."""
    for key, value in row.items():
        items: list[Row] = []
        if isinstance(value, list) and all(
            isinstance(item, Mapping) and not _get_role(item) for item in value
        ):
            names = [next((str(item[name]) for name in _SYSTEMS if item.get(name)), "") for item in value]
            items = value if len({*names, ""}) > len(names) else []
        elif isinstance(value, Mapping) and key in _BY_SYSTEM:
            are_texts = all(
                isinstance(text, str) and not str(name).isdecimal() for name, text in value.items()
            )
            items = [{"system": name, "text": text} for name, text in value.items()] if are_texts else []
        if len(items) > 1:
            prompt = {name: cell for name, cell in row.items() if name != key}
            # An item's id is that of the text.
            texts = [{name: cell for name, cell in item.items() if name != "id"} for item in items]
            return [prompt | text for text in texts]
    return [row]


def flatten_record(row: Row, texts: Sequence[str], fields: Collection[str]) -> Row:
    """Return a record with the prompt and the text of a chat or of a server's answer at the top level.

    The values of other objects become columns such as `meta.id`, because they may name the prompt.

    Args:
        row: The record. Without nested values it is returned unchanged.
        texts: The possible keys of a text at the top level.
        fields: Keys of other values that must not be objects, such as `reference`.
    """
    cells = {key: value if key in texts else _unpack_chat(value) for key, value in row.items()}
    nested = {key: value for key, value in cells.items() if isinstance(value, list | Mapping)}
    if not nested:
        return row
    if "arguments" in row and ("filtered_resps" in row or "resps" in row):
        return _flatten_harness_sample(row)
    candidates = {key: value for key, value in nested.items() if key in _ANSWERS or _is_chat(value)}
    try:
        facts = {key: _read_facts(value) for key, value in candidates.items()}
        row = flatten_objects(row, {*facts, *texts, *fields})
    except RecursionError:  # the nesting is deeper than that of any answer
        return row
    facts = {key: fact for key, fact in facts.items() if not fact.keys().isdisjoint({"prompt", "text"})}
    # The context of Ollama's answers is a list of tokens, and no prompt.
    flat = {key: value for key, value in row.items() if key not in {*facts, *nested.keys() & {"context"}}}
    answers = {key: fact["text"] for key, fact in facts.items() if "text" in fact}
    for key in sorted(answers, key=lambda key: key not in texts):
        if answers[key] not in [flat[name] for name in texts if name in flat]:
            # Another text in the record is refused later.
            is_single = key not in texts and len(answers) == 1
            name = next(name for name in texts if not flat.get(name)) if is_single else key
            flat[name] = answers[key]
    for name in ("prompt", "model", "finish_reason"):
        values = [fact[name] for fact in facts.values() if name in fact]
        is_known = any(map(flat.get, _SYSTEMS if name == "model" else [name]))
        if values and not is_known and (name != "prompt" or len(set(values)) == 1):
            flat[name] = values[0]
    if "object" in flat:  # the id is that of a server's answer
        flat.pop("id", None)
    return flat


def _unpack_chat(value: object) -> object:
    """Return the chat in a cell of a table, or any other value unchanged."""
    if isinstance(value, str) and value.startswith("[{"):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return parse_cell(value)
    return value


def parse_cell(text: str) -> Any:  # noqa: ANN401 (JSON)
    """Parse a cell that has JSON, or lists and objects as pandas writes them.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: The cell has something else.
    """
    return json.loads(text) if text.lstrip("[{ \t\r\n").startswith('"') else ast.literal_eval(text)


def _read_facts(value: object) -> Facts:
    """Return what a chat or an answer says about its text. Several texts are a list."""
    if isinstance(value, list):
        return _split_chat(value) if _is_chat(value) else _join_answers(value)
    if not isinstance(value, Mapping) or "label" in value:  # an option of a multiple-choice question
        return {}
    facts = _split_chat([value]) if _is_chat(value) else {}
    for key, inner in value.items():
        if key in {"prompt", "model"} and isinstance(inner, str):
            facts[key] = inner
        elif key in _FINISHES and isinstance(inner, str):
            facts["finish_reason"] = inner.lower()
        elif _is_chat(value):
            continue
        elif key in _TEXTS and (text := _join_parts(inner)) is not None:
            facts.setdefault("text", text)
        elif key in _ANSWERS or key == "content" or _is_chat(inner):
            facts = _read_facts(inner) | facts
    return facts


def _join_answers(values: Sequence[object]) -> Facts:
    """Return the facts of the first answer in a list, with the texts of all answers."""
    answers = [facts for facts in map(_read_facts, values) if "text" in facts]
    if len(answers) > 1:
        return answers[0] | {"text": [facts["text"] for facts in answers]}
    return answers[0] if answers else {}


def _is_chat(value: object) -> bool:
    """Return whether a value is a turn of a chat, or a list of turns."""
    turns = value if isinstance(value, list) else [value]
    return bool(turns) and all(isinstance(turn, Mapping) and _get_role(turn) for turn in turns)


def _get_role(turn: Row) -> str:
    role = turn.get("role", turn.get("from"))
    return role if isinstance(role, str) and not turn.keys().isdisjoint({"content", "value", "parts"}) else ""


def _split_chat(turns: Sequence[Row]) -> Facts:
    """Return the prompt and, if a model wrote the last turn, the text of a chat."""
    contents = [_join_parts(turn.get("content", turn.get("value", turn.get("parts")))) for turn in turns]
    is_answered = _get_role(turns[-1]) in _MODELS
    questions = contents[:-1] if is_answered else contents
    is_unreadable = contents[-1] is None and turns[-1].get("content") is not None
    if None in questions or is_unreadable:  # such as an image
        return {}
    facts: Facts = {"text": contents[-1]} if is_answered else {}
    lines = [f"{_get_role(turn)}: {words}" for turn, words in zip(turns, questions, strict=False) if words]
    if lines:
        facts["prompt"] = "\n\n".join(lines) if len(lines) > 1 else next(filter(None, questions))
    return facts


def _join_parts(content: object) -> str | None:
    """Return the text of a turn's content without thoughts. Return None if a part is no text."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], str):
        content = content[0]
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        return None
    spoken = [block for block in content if not block.get("thought") and block.get("type") not in _THOUGHTS]
    texts = [block.get("text") for block in spoken]
    return "".join(texts) if texts and all(isinstance(text, str) for text in texts) else None


def _flatten_harness_sample(row: Row) -> Row:
    """Return a sample of lm-evaluation-harness with the prompt and the text at the top level.

    `arguments` is `[[prompt, settings]]`, or in newer versions `{"gen_args_0": {"arg_0": prompt, …}}`.
    """
    plain = {key: row[key] for key in ("doc_id", "dataset", "strategy", "generator") if key in row}
    return plain | {
        "prompt": _find_innermost_list(row["arguments"])[0],
        "reference": row.get("target") if isinstance(row.get("target"), str) else None,
        # `filtered_resps` often has only the extracted answer, such as a number.
        "text": _find_innermost_list(row.get("resps") or row.get("filtered_resps")),
    }


def _find_innermost_list(value: object) -> list[object]:
    """Return the first list inside nested lists and objects that begins with a single value."""
    for _ in range(8):
        if isinstance(value, Mapping):
            value = list(value.values())
        if not isinstance(value, list) or not value or not isinstance(value[0], list | Mapping):
            break
        value = value[0]
    values = value if isinstance(value, list) else [value]
    return values or [None]
