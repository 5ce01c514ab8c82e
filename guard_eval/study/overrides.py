"""Settings changed for one run by `--set seed=2`, in the tables of study.toml before they are checked."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from guard_eval.errors import StudyError

_ASSIGNMENT = re.compile(r"\s*([\w-]+(?:\.[\w-]+|\[\d+\])*)\s*=(.*)", re.DOTALL)


def with_overrides(tables: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return the tables of a TOML file with some values replaced.

    Args:
        tables: The file's tables; they stay as they are.
        assignments: Each `table.key=value`, or `judge[2].key=value` for the second table of a list. The value
            is TOML; what is no TOML is a text, so that texts need no quotation marks.

    Raises:
        StudyError: Assignments cannot be read; all of these are named.

    >>> with_overrides({"seed": 1}, ["seed=2", "model.name=gpt2", "pairs.run = 3"])
    {'seed': 2, 'model': {'name': 'gpt2'}, 'pairs': {'run': 3}}
    """
    tables, problems = copy.deepcopy(tables), []
    for text in assignments:
        match = _ASSIGNMENT.fullmatch(text)
        if match is None:
            problems.append(f"--set {text}: write it as table.key=value, such as --set generation.runs=2")
            continue
        *parents, last = re.findall(r"[\w-]+|\[\d+", match[1])
        try:
            table: Any = tables
            for name in parents:
                key = _key(table, name)
                table = table.setdefault(key, {}) if isinstance(table, dict) else table[key]
            table[_key(table, last)] = _value(match[2].strip())
        except StudyError as error:
            problems.append(f"--set {text}: {error}")
    if problems:
        raise StudyError("\n  ".join(problems))
    return tables


def _key(parent: object, name: str) -> str | int:
    """Return a name as the key of a table, or `[1`, `[2`, … as the position in a list."""
    number = name.removeprefix("[")
    if isinstance(parent, dict) and number == name:
        return name
    count = len(parent) if isinstance(parent, list) else 0
    if count and number.isdecimal() and len(number) < 10 and 1 <= int(number) <= count:
        return int(number) - 1
    if number == name and not isinstance(parent, list):
        raise StudyError(f"what should hold {name!r} is neither a table nor a list of tables")
    raise StudyError(f"there is no entry {number:.20} in a list of {count}; write such as judge[1].model")


def _value(text: str) -> object:
    """Return the value that a text is in TOML, or else the text."""
    try:
        tables = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return tables["value"] if tables.keys() == {"value"} else text
