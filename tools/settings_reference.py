"""Write the reference of study.toml from the classes that check it: `python tools/settings_reference.py`.

A test checks that docs/study_toml.md is current.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from wrap_markdown import wrap

from guard_eval.study.criteria_settings import SettingsTable, StudyFile
from guard_eval.study.judge_settings import Judge
from guard_eval.study.schema import build_schema
from guard_eval.study.served_model import ServerSettings
from guard_eval.study.settings import Settings
from guard_eval.study.system_settings import System

DOCS = Path(__file__).resolve().parents[1] / "docs"

HEAD = """# study.toml, key by key

This page lists every table of `study.toml`, its keys, their values and their defaults. A key without
values takes a text.
`guard-eval new NAME` writes a file with the usual keys, and `study.schema.json`, by which editors
complete and check it. Paths start at the study's folder. An unknown key or a wrong value is refused
before anything starts, with its place and the nearest name that exists. The hash of all settings is
stored with the first verdict, and the report says if they changed afterwards.

<!-- Made by tools/settings_reference.py from guard_eval/study; do not edit. -->
"""

HUGE = 100_000
"""Limits of this size or more are not shown, because they only exclude absurd values."""
MODEL_OF_SYSTEM = "[system].model"

OF_SERVERS = "Keys of `[[system]]` and `[[judge]]` for servers"
"""The heading of the keys that all models behind servers share."""


def tables(kind: type[SettingsTable] = Settings, name: str = "") -> Iterator[tuple[str, type[SettingsTable]]]:
    """Yield each table with its heading in study.toml, in the order of the file."""
    yield name, kind
    for key, field in kind.model_fields.items():
        for inner, heading in _inner(field.annotation, f"{name}.{key}".removeprefix(".")):
            if heading != MODEL_OF_SYSTEM:  # this table has the keys of [model]
                yield from tables(inner, heading)


def _inner(annotation: object, heading: str) -> Iterator[tuple[type[SettingsTable], str]]:
    """Yield the table in a key, if there is one. A list is [[heading]]; a table of tables is heading.NAME."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, SettingsTable):
        if not issubclass(annotation, StudyFile):  # study.toml has a file's name instead
            yield annotation, heading
    elif origin is list:
        yield from ((table, f"[{name}]") for table, name in _inner(inside[0], heading))
    elif origin is dict:
        yield from _inner(inside[1], f"{heading}.NAME")
    else:
        for argument in inside:
            yield from _inner(argument, heading)


def _values(schema: dict[str, Any]) -> str:
    """Describe the possible values of a key."""
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if "$ref" in schema:
        return "text"  # a file's name: other tables have their own headings
    if "anyOf" in schema:
        some = [_values(choice) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(word for word in some if word))
    limits = [
        f"{words} {schema[key]}"
        for key, words in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if key in schema and abs(schema[key]) < HUGE
    ]
    kind = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    name = "" if limits else kind.get(str(schema.get("type")), "")
    if schema.get("type") == "array":
        name = f"list of {_values(schema.get('items', {})) or 'values'}"
    if schema.get("type") == "object":
        name = "table"
    return " ".join([name, *limits]).strip()


def _default(schema: dict[str, Any], *, required: bool) -> str:
    """Return a sentence on the default, or nothing if the meaning of the key already says it."""
    if required:
        return "Required."
    if schema.get("default") in (None, [], {}) or "Default: " in schema.get("description", ""):
        return ""
    return f"Default: `{json.dumps(schema['default'], ensure_ascii=False)}`."


def page() -> str:
    """Return the page, in Markdown."""
    result = build_schema(Settings, "study.toml")
    parts = [wrap(HEAD)]
    for heading, table in tables():
        schema = result if table is Settings else result["$defs"][table.__name__]
        title = f"`[{heading}]`" if heading else "At the top"
        parts.append(f"## {title}\n\n{wrap(schema['description'])}\n")
        shared = set(ServerSettings.model_fields) if issubclass(table, ServerSettings) else set()
        if shared:
            anchor = OF_SERVERS.lower().replace(" ", "-").translate({ord(sign): None for sign in "`[]"})
            parts.append(f"The keys for its server are [below](#{anchor}).\n")
        parts += _rows(table, schema, [key for key in schema["properties"] if key not in shared])
    servers = result["$defs"][Judge.__name__]
    parts.append(f"## {OF_SERVERS}\n\n{inspect.getdoc(ServerSettings).partition(chr(10))[0]}\n")
    parts += _rows(Judge, servers, list(ServerSettings.model_fields))
    return "\n".join(parts)


def _rows(table: type[BaseModel], schema: dict[str, Any], keys: Sequence[str]) -> list[str]:
    """Return a list of some keys of a table, with values, meanings and defaults. Leave out inner tables."""
    rows = []
    for key in keys:
        value = schema["properties"][key]
        inner = {heading for _, heading in _inner(table.model_fields[key].annotation, key)}
        if inner and (table, key) != (System, "model"):
            continue  # an inner table
        values = "text or table" if inner else _values(value)
        default = _default(value, required=key in schema.get("required", ()))
        words = " ".join(filter(None, [value.get("description", ""), default]))
        kind = "" if values == "text" else f" ({values})"
        rows.append(wrap(f"- `{key}`{kind}: {words}"))
    return ["\n".join([*rows, ""])] if rows else []


if __name__ == "__main__":
    (DOCS / "study_toml.md").write_text(page(), encoding="utf-8")
