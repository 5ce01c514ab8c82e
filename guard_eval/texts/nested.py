"""Flatten nested records of texts: chats, answers of servers, and several systems in one record.

A chat is a list of turns such as `{"role": "user", "content": …}` or `{"from": "gpt", "value": …}`. Its text
is the model's last turn, and its prompt is all earlier turns.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, starmap

from guard_eval.files.headings import differ_only_in_side
from guard_eval.files.rows import flatten_objects, unpack_cell

Row = Mapping[str, object]
Facts = dict[str, object]
"""What a nested value says about a text: `prompt`, `text`, `model` and `finish_reason`, as far as known."""

_ANSWERS = frozenset(
    {"body", "candidates", "choices", "completion", "completions", "generated_text", "message", "output"}
    | {"model_input", "modelOutput", "outputs", "request", "response", "result"}
)
"""Keys of what a server received or answered."""
_INPUTS = frozenset({"input", "inputs", "prompt"})
_PROMPTS = _INPUTS | {"content", "instruction", "messages", "query", "question", "raw", "text"}
"""Keys of the prompt in an object. A value under another key, such as an id or a language, is no prompt."""
_TEXTS = frozenset(
    {"completion", "content", "generated_text", "output", "parts", "response", "text", "turns"}
)
"""Keys of a text inside an answer."""
_MODELS = frozenset({"assistant", "model", "gpt", "chatgpt", "bot", "ai"})
"""The roles of turns that a model wrote."""
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_BY_SYSTEM = frozenset({"completions", "outputs", "responses"})
"""Keys of an object that may have a text for each system."""
_CHAT = re.compile(r"""\[\{['"](role|from|content|value)['"]:""")
"""The beginning of a chat in the cell of a table."""
_SYSTEMS = ("system", "model", "generator", "method", "strategy")
_FINISHES = ("finish_reason", "finishReason", "stop_reason")
_SIGNS = frozenset({"index", "message", "content", "generated_text", "logprob", *_FINISHES})
"""Keys of an answer, if there are several answers in a list."""


def split_systems(row: Row, texts: Collection[str]) -> list[Row]:
    """Return a row for each system, if one key has the texts of several systems: a list or an object.

    In a record with a text, other objects with a model's name are something else, such as verdicts of judges.

    Args:
        row: The record.
        texts: The possible keys of a text.
    """
    if any(isinstance(row.get(key), str) for key in texts):
        return [row]
    groups: dict[str, list[Row]] = {}
    for key, value in row.items():
        if isinstance(value, list) and value and all(_has_text(item, texts) for item in value):
            groups[key] = value
        elif isinstance(value, dict) and key in _BY_SYSTEM and _are_systems(value, texts):
            groups[key] = [{"system": name, "text": text} for name, text in value.items()]
    if len(groups) != 1:
        return [row]
    (items,) = groups.values()
    names = {next((str(item[key]) for key in _SYSTEMS if item.get(key)), "") for item in items}
    if len(items) < 2 or len(names) < len(items) or "" in names:
        return [row]
    prompt = {key: cell for key, cell in row.items() if key not in groups}
    # An item's id is that of the text.
    return [prompt | {key: cell for key, cell in item.items() if key != "id"} for item in items]


def _has_text(item: object, texts: Collection[str]) -> bool:
    """Return whether an item of a list is an object with a text, a chat or an answer of a server."""
    keys = {*texts, *_ANSWERS, "messages", "conversations"}
    return isinstance(item, dict) and not _get_role(item) and not keys.isdisjoint(item)


def _are_systems(row: Row, texts: Collection[str]) -> bool:
    """Return whether an object has a text for each system, and not the facts of one text or two sides."""
    if not row.keys().isdisjoint(texts) or any(map(str.isdecimal, row)):
        return False
    names = [name for name in row if len(name) > 1]
    if any(starmap(differ_only_in_side, combinations(names, 2))):
        return False
    filled = [cell for cell in row.values() if cell not in (None, "")]
    return all(isinstance(cell, str) and any(map(str.isalpha, cell)) for cell in filled)


def flatten_record(row: Row, texts: Sequence[str], fields: Collection[str]) -> Row:
    """Return a record with the prompt and the text of a chat or of a server's answer at the top level.

    The values of other objects become columns such as `meta.id`, because they may name the prompt.

    Args:
        row: The record. Without nested values it is returned unchanged.
        texts: The possible keys of a text at the top level.
        fields: Keys of other values that must not be objects, such as `reference`.
    """
    row = {
        key: _unwrap_input(value) if key in {*_INPUTS, "turns"} else value
        for key, value in _unwrap_answer(row).items()
    }
    cells = {key: unpack_cell(value, _CHAT) for key, value in row.items()}
    nested = {key: value for key, value in cells.items() if isinstance(value, (list, dict))}
    if not nested:
        return row
    if "arguments" in row and ("filtered_resps" in row or "resps" in row):
        return _flatten_harness_sample(row)
    candidates = {key: value for key, value in nested.items() if key in _ANSWERS or _is_chat(value)}
    try:
        facts = {key: _read_facts(value) for key, value in candidates.items()}
        flat = dict(flatten_objects(row, {*facts, *texts, *fields}))
    except RecursionError:  # the nesting is deeper than that of any answer
        return row
    facts = {key: fact for key, fact in facts.items() if "prompt" in fact or "text" in fact}
    # The context of Ollama's answers is a list of tokens, and no prompt.
    for key in [*facts, *nested.keys() & {"context"}]:
        flat.pop(key, None)
    answers = {key: fact["text"] for key, fact in facts.items() if "text" in fact and key != "request"}
    if "custom_id" in flat and not answers and not isinstance(flat.get("response", {}), str):
        flat = {"text": None, **flat, "response": None}  # the request of a batch failed
    _add_texts(flat, answers, texts)
    _add_other_facts(flat, facts)
    return flat


def _add_texts(flat: dict[str, object], answers: Row, texts: Sequence[str]) -> None:
    """Add the texts of a record under keys of texts, or under their own if each system has a column of chats.

    Different texts of one record are refused later.
    """
    has_columns = len(answers) > 1 and _ANSWERS.isdisjoint(answers)
    for key in sorted(answers, key=lambda key: key not in texts):
        if answers[key] not in [flat[name] for name in texts if name in flat]:
            is_column = key in texts or has_columns
            name = key if is_column else next(name for name in texts if not flat.get(name))
            flat[name] = answers[key]


def _add_other_facts(flat: dict[str, object], facts: Mapping[str, Facts]) -> None:
    """Add a record's prompt, model and finish reason from its nested values, if no other key has them."""
    for name, keys in {"prompt": ("prompt",), "model": _SYSTEMS, "finish_reason": _FINISHES[:1]}.items():
        values = [fact[name] for fact in facts.values() if name in fact]
        is_known = any(flat.get(key) for key in keys)
        is_ambiguous = name == "prompt" and len({*values}) > 1
        if values and not is_known and not is_ambiguous:
            flat[name] = values[0]
    for key, fact in facts.items():  # the record's prompt may be only a part of the chat's
        if fact.get("prompt") not in (None, flat.get("prompt")):
            flat.setdefault(key, fact["prompt"])


def _unwrap_answer(row: Row) -> Row:
    """Return a server's answer that is the whole record without its id, which names no prompt."""
    if _get_role(row) in _MODELS and isinstance(row.get("content"), list):  # Anthropic
        row = {**row, "message": {key: row[key] for key in ("role", "content")}}
        return {key: value for key, value in row.items() if key not in {"id", "role", "content"}}
    if "object" not in row or row.keys().isdisjoint({"created", "created_at"}):
        return row
    # OpenAI: an object under `text` says how the text is formatted.
    return {
        key: value
        for key, value in row.items()
        if key != "id" and not (key == "text" and isinstance(value, dict))
    }


def _unwrap_input(value: object) -> object:
    """Return the prompt of an object that has nothing else, such as `question`, or `raw` of promptfoo.

    A list of FastChat's `turns` may have only one turn.
    """
    if isinstance(value, list) and len(value) == 1 and not _is_chat(value):
        value = value[0]
    if not isinstance(value, dict) or (len(value) > 1 and "raw" not in value):
        return value
    prompts = [value[key] for key in _PROMPTS.intersection(value)]
    return prompts[0] if len(prompts) == 1 and isinstance(prompts[0], str | list) else value


def _read_facts(value: object) -> Facts:
    """Return what a chat or an answer says about its text. Several texts are a list."""
    if isinstance(value, list):
        return _split_chat(value) if _is_chat(value) else _join_answers(value)
    if not isinstance(value, dict) or str(value.get("type")) in _THOUGHTS:
        return {}
    strings = {key: inner for key, inner in value.items() if isinstance(inner, str)}
    plain: Facts = {key: strings[key] for key in ("prompt", "model") if key in strings}
    if "input" in strings:
        plain["prompt"] = strings["input"]
    for key in _FINISHES:
        if key in strings:
            plain["finish_reason"] = strings[key].lower()
    if _is_chat(value):
        return _split_chat([value]) | plain
    facts: Facts = {}
    for key, inner in value.items():
        if key in _TEXTS and (text := _join_parts(inner)) is not None:
            facts.setdefault("text", text)
        elif key in _ANSWERS or key == "content" or _is_chat(inner):
            facts = _read_facts(inner) | facts
    return facts | plain


def _join_answers(values: Sequence[object]) -> Facts:
    """Return the facts of the first answer in a list, with the texts of all answers. A failure has no text.

    Several objects that have only a text are options of a question, or documents. Several turns of a model
    may be parts of one text.
    """
    answers = [facts for facts in map(_read_facts, values) if {"text", "finish_reason"} & facts.keys()]
    if len(answers) < 2:
        return answers[0] if answers else {}
    are_options = all(isinstance(value, dict) and _SIGNS.isdisjoint(value) for value in values)
    if are_options or any(map(_is_chat, values)):
        return {}
    return answers[0] | {"text": [facts.get("text") for facts in answers]}


def _is_chat(value: object) -> bool:
    """Return whether a value is a turn of a chat, or a list of turns."""
    turns = value if isinstance(value, list) else [value]
    return bool(turns) and all(isinstance(turn, dict) and _get_role(turn) for turn in turns)


def _get_role(turn: Row) -> str:
    role = turn.get("role", turn.get("from"))
    return role if isinstance(role, str) and not turn.keys().isdisjoint({"content", "value", "parts"}) else ""


def _split_chat(turns: Sequence[Row]) -> Facts:
    """Return the prompt and, if a model wrote the last turn, the text of a chat."""
    roles = [_get_role(turn) for turn in turns]
    contents = [_join_parts(turn.get("content", turn.get("value", turn.get("parts")))) for turn in turns]
    by_model = [role in _MODELS for role in roles]
    if by_model[-2:] == [True, True]:
        return {}  # two samples, or two parts of one text
    questions = contents[:-1] if by_model[-1] else contents
    is_unreadable = contents[-1] is None and turns[-1].get("content") is not None
    if None in questions or is_unreadable:  # such as an image
        return {}
    facts: Facts = {"text": contents[-1]} if by_model[-1] else {}
    filled = [(role, words) for role, words in zip(roles, questions, strict=False) if words]
    if len(filled) == 1:
        facts["prompt"] = filled[0][1]
    elif filled:
        facts["prompt"] = "\n\n".join(f"{role}: {words}" for role, words in filled)
    return facts


def _join_parts(content: object) -> str | None:
    """Return the text of a turn's content without thoughts. Return None if a part is no text."""
    if isinstance(content, dict):
        content = content.get("answer")
    if isinstance(content, list) and len(content) == 1:
        only = content[0]
        if isinstance(only, dict) and only.keys().isdisjoint({"role", "from", "type"}):
            only = only.get("content")
        if isinstance(only, str):
            content = only
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return None
    spoken = [
        block for block in content if not block.get("thought") and str(block.get("type")) not in _THOUGHTS
    ]
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
        if isinstance(value, dict):
            value = list(value.values())
        if not isinstance(value, list) or not value or not isinstance(value[0], (list, dict)):
            break
        value = value[0]
    values = value if isinstance(value, list) else [value]
    return values or [None]
