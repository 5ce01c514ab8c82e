"""Read TOML files, change them for one run by `--set`, and check them. A file may come from a stranger."""

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from guard_eval.errors import StudyError, format_count, suggest_nearest_word
from guard_eval.files.opening import read_text
from guard_eval.records import JsonObject

Table = TypeVar("Table", bound=BaseModel)

_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\(?:.|$))*+(?:"|$)|'[^'\n]*+(?:'|$))"""
_DOT = r"[ \t]*+\.[ \t]*+"
_TOKEN = re.compile(
    rf"""
    \"{{3}}(?:[^"\\]|\\[\s\S]|"(?!""))*+(?:\"{{3}}|\Z)
    |'{{3}}(?:[^']|'(?!''))*+(?:'{{3}}|\Z)
    |(?P<deep>{_PART}(?:{_DOT}{_PART}){{64}})
    |{_PART}(?:{_DOT}{_PART})*+
    |\#.*+
    |[^\w"'\#-]++
    """,
    re.ASCII | re.MULTILINE | re.VERBOSE,
)
"""A pattern for the next part of a TOML file: a string, a key, a comment, or the characters between them.

The pattern reads each character once. The group `deep` is a key with more than 64 parts, which is refused
because tomllib would take quadratic time.
"""

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ASSIGNMENT = re.compile(rf"\s*([\w-]+(?:\.[\w-]+|\.{_QUOTED}|\[[1-9]\d{{0,8}}\])*)\s*=(.*)", re.DOTALL)
_TEXT_TABLES = frozenset({"columns", "verdicts"})
"""Tables whose values are texts: `columns.method_a=1` is the heading 1."""

_SHOWN_CHARACTERS = 200
_SHOWN_PROBLEMS = 50

_NEEDS_NO_TABLE = {"literal_error", "string_type"}
"""pydantic's names of the errors for a table in place of a word or a text."""


def read_toml(path: Path) -> JsonObject:
    """Return the tables of a TOML file. For errors, see `read_text` and `parse_toml`."""
    return parse_toml(read_text(path), path)


def parse_toml(text: str, source: Path | str) -> JsonObject:
    """Return the tables of a TOML text, in a time proportional to the text's length.

    Raises:
        StudyError: The text is not TOML, or a key, a number or the nesting exceeds the limits.
    """
    try:
        if any(token["deep"] for token in _TOKEN.finditer(text)):
            raise ValueError("a key has more than 64 parts")  # noqa: TRY301 (worded below)
        tables = tomllib.loads(text)
        json.dumps(tables, default=str)  # fails for values that a message could not show
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{source} is not valid TOML: {error}; fix that line") from None
    return tables


def apply_overrides(tables: JsonObject, assignments: Sequence[str]) -> JsonObject:
    """Return the tables of a TOML file with some values replaced.

    Args:
        tables: The file's tables; they are not changed.
        assignments: Each `table.key=value`, or `judge[2].key=value` for the second table of a list. The value
            is TOML. A value that is not TOML is a text, so texts need no quotation marks.

    Raises:
        StudyError: Assignments cannot be read. The message names all of them.

    >>> apply_overrides({"seed": 1}, ["seed=2", "model.name=gpt2", "pairs.per_dataset = 3"])
    {'seed': 2, 'model': {'name': 'gpt2'}, 'pairs': {'per_dataset': 3}}
    """
    tables = copy.deepcopy(tables)
    problems = []
    for text in assignments:
        try:
            _apply_assignment(tables, text)
        except (LookupError, TypeError):
            problems.append(
                f"--set {text}: this is not a setting; write table.key=value or judge[1].key=value"
            )
    if problems:
        raise StudyError("\n  ".join(problems))
    return tables


def _apply_assignment(table: Any, assignment: str) -> None:  # noqa: ANN401 (tables, lists and values of TOML)
    """Set a value in a table, or raise a `LookupError` or `TypeError`, as Python does for a wrong key."""
    match = _ASSIGNMENT.fullmatch(assignment)
    if match is None:
        raise LookupError
    segments = re.findall(rf"{_QUOTED}|\[?[\w-]+", match[1])
    for segment in segments:
        key: str | int = int(segment[1:]) - 1 if segment.startswith("[") else _unquote_key(segment)
        if isinstance(key, str) != isinstance(table, dict):
            raise TypeError
        parent = table
        table = table.setdefault(key, {}) if isinstance(key, str) else table[key]
    text = match[2].strip()
    try:
        [(_, parent[key])] = parse_toml(f"value = {text}", "--set").items()
    except ValueError:  # this is not TOML, or more than one value
        parent[key] = text
    if segments[0] in _TEXT_TABLES and not isinstance(parent[key], str):
        parent[key] = text


def _unquote_key(key: str) -> str:
    """Return a key without quotation marks and escapes. A backslash that starts no escape stays."""
    try:
        return str(json.loads(key)) if key.startswith('"') else key
    except ValueError:
        return key[1:-1]


def validate_toml_tables(
    table: type[Table], data: Mapping[str, object], source: Path | str, context: object = None
) -> Table:
    """Check the tables of a file, and return them as an instance of `table`.

    Raises:
        StudyError: Settings are wrong. The message names all problems and the nearest valid names.
    """
    try:
        return table.model_validate(data, context=context)
    except ValidationError as error:
        problems = format_validation_problems(error, table, data)
    if (count := len(problems)) > _SHOWN_PROBLEMS:
        problems[_SHOWN_PROBLEMS:] = [f"and {count - _SHOWN_PROBLEMS} more"]
    raise StudyError("\n  ".join([f"{source} has {format_count(count, 'problem')}:", *problems]))


def format_validation_problems(error: ValidationError, table: type[BaseModel], data: object) -> list[str]:
    """Return the problems that pydantic found, one line for each."""
    places: dict[str, tuple[str, str]] = {}
    refused_tables: set[str] = set()
    for detail in error.errors(include_url=False):
        name, valid_keys = _find_key_of_problem(detail, table, data)
        value = ""
        if detail["type"] == "default_factory_not_called":
            continue  # this problem follows from another wrong value, which is reported
        message = _describe_problem(detail, name, valid_keys)
        is_table = isinstance(detail["input"], dict | tuple | BaseModel)
        # The wrong part of a database's URL may be a password, so do not show the URL.
        if not (is_table or detail["type"] == "extra_forbidden" or name.startswith("database")):
            value = repr(detail["input"])[:_SHOWN_CHARACTERS]
        if isinstance(detail["input"], dict) and detail["type"] in _NEEDS_NO_TABLE:
            refused_tables.add(name)
        message = message if message[:2].isupper() else message[:1].lower() + message[1:]
        if name in places:  # pydantic gives one message for each type that a key may have
            value, before = places[name]
            message = f"{before}, or {message.removeprefix('input should be ')}"
        places[name] = value, message
    for name in refused_tables:
        # If the setting may also be a table, the problems inside this table are reported.
        if any(other.startswith((f"{name}.", f"{name}[")) for other in places):
            del places[name]
    return [
        ": ".join(filter(None, (name[:_SHOWN_CHARACTERS], value, line[: 5 * _SHOWN_CHARACTERS])))
        for name, (value, message) in places.items()
        for line in message.split("\n")
    ]


def _describe_problem(detail: ErrorDetails, name: str, valid_keys: list[str]) -> str:
    """Say in TOML's words what is wrong with the setting `name`."""
    match detail["type"]:
        case "missing":
            return "is missing; add it"
        case "extra_forbidden":
            return f"is not a setting; {suggest_nearest_word(str(detail['loc'][-1]), valid_keys)}"
        case "dict_type":
            return "input should be a table, such as {key = value}"
        case "model_type":
            return f"input should be a table with the keys {', '.join(valid_keys)}"
        case "list_type":
            # A list of tables has the keys of its tables, and not its own name, as valid keys.
            has_tables = name not in valid_keys and "." not in name
            form = f", whose tables begin with [[{name}]]" if has_tables else " in square brackets"
            return f"input should be a list{form}"
    return detail["msg"].removeprefix("Value error, ").replace(" after validation", "")


def _find_key_of_problem(detail: ErrorDetails, table: type[BaseModel], data: Any) -> tuple[str, list[str]]:  # noqa: ANN401
    """Return a problem's key, without pydantic's names of types, and the valid keys of its table."""
    name = ""
    for segment in detail["loc"]:
        try:
            data = data[segment]
        except (LookupError, TypeError):  # pydantic's name of a type, or a missing key
            if detail["type"] != "missing":
                continue
        name += f"[{segment + 1}]" if isinstance(segment, int) else f".{segment}"
        if field := table.model_fields.get(str(segment)):
            table = next(_find_table_classes(field.annotation), table)
    return name.removeprefix("."), list(table.model_fields)


def _find_table_classes(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the classes of tables in the type of a setting, for example in a list of tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _find_table_classes(inner)
