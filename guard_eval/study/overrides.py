"""Settings changed for one run by `--set seed=2`, in the tables of study.toml before they are checked."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Sequence
from typing import Any

from guard_eval.errors import StudyError

_ASSIGNMENT = re.compile(r"\s*(?P<key>[\w-]+(\[\d+\])?(\.[\w-]+(\[\d+\])?)*)\s*=(?P<value>.*)", re.DOTALL)
_PART = re.compile(r"(?P<name>[\w-]+)(\[(?P<number>\d+)\])?")


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
        try:
            _assign(tables, match["key"], _value(match["value"]))
        except StudyError as error:
            problems.append(f"--set {text}: {error}")
    if problems:
        raise StudyError("\n  ".join(problems))
    return tables


def _assign(tables: dict[str, Any], key: str, value: object) -> None:
    *parents, last = [(match["name"], match["number"]) for match in _PART.finditer(key)]
    table: Any = tables
    for name, number in parents:
        table = _entry(table.setdefault(name, {}), name, number)
        if not isinstance(table, dict):
            raise StudyError(f"{name} is not a table; it has no {last[0]}")
    name, number = last
    if number is None:
        table[name] = value
    else:
        entries = table.get(name)
        _entry(entries, name, number)
        entries[int(number) - 1] = value


def _entry(value: Any, name: str, number: str | None) -> Any:  # noqa: ANN401 (a value of TOML)
    """Return a value of a table, or an entry of the list that the value is; entries count from 1."""
    if number is None and isinstance(value, list):
        raise StudyError(f"{name} is a list; name the entry, such as {name}[1]")
    if number is None:
        return value
    count = len(value) if isinstance(value, list) else 0
    if not 1 <= int(number) <= count:
        raise StudyError(f"there is no {name}[{number}]; {name} has {count} entries")
    return value[int(number) - 1]


def _value(text: str) -> object:
    """Return the value that a text is in TOML, or else the text."""
    try:
        read = tomllib.loads(f"value = {text.strip()}")
    except (ValueError, RecursionError):
        return text.strip()
    return read["value"] if read.keys() == {"value"} else text.strip()
