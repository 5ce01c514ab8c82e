"""What is wrong with a TOML file, all of it at once: place, value and remedy of what pydantic found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from guard_eval.errors import nearest

_SHOWN_CHARACTERS = 200
"""So much of a value, or of a key, a message repeats."""

_SHOWN_PROBLEMS = 50

_HIDDEN_SETTING = "database"
"""The setting whose value is not repeated: what is wrong with a database's URL may be its password."""


def explain(path: Path, problems: Sequence[str], overrides: Sequence[str] = ()) -> str:
    """Return the message that names all problems of a file, read with the settings of `--set`."""
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    shown = (
        f"{_HIDDEN_SETTING}=…" if each.lstrip().startswith(_HIDDEN_SETTING) else each for each in overrides
    )
    changed = "".join(f" --set {assignment}" for assignment in shown)
    more = [f"and {len(problems) - _SHOWN_PROBLEMS} more"] if len(problems) > _SHOWN_PROBLEMS else []
    head = f"{path}{changed and f' with{changed}'} has {count}:"
    return "\n  ".join((head, *problems[:_SHOWN_PROBLEMS], *more))


def problems_of(error: ValidationError, table: type[BaseModel], data: object) -> list[str]:
    """Return what is wrong with a file, a line for each place.

    Args:
        error: What pydantic found.
        table: The model of the whole file.
        data: What was checked.
    """
    places: dict[tuple[int | str, ...], list[str]] = {}
    for detail in error.errors(include_url=False):
        path = _find_place(detail, data)
        if detail["type"] == "default_factory_not_called":
            continue  # the value that it would follow from is wrong, and is named itself
        if detail["type"] == "missing":
            words = ["is missing; add it"]
        elif detail["type"] == "extra_forbidden":
            words = [f"is not a setting; {nearest(str(path[-1]), _known_keys(table, path))}"]
        else:
            words = [message_of(detail)]
            if not isinstance(detail["input"], dict | tuple | BaseModel) and path[:1] != (_HIDDEN_SETTING,):
                words.insert(0, _short(repr(detail["input"])))
        # Each kind of value that a place takes has a message of its own: "…, or 'auto'".
        known = places.setdefault(path, words)
        if known is not words:
            known[-1] += f", or {words[-1].removeprefix('input should be ')}"
    lines = ((path, [*words, line]) for path, (*words, last) in places.items() for line in last.split("\n"))
    return [": ".join([_name(path), *words] if path else words) for path, words in lines]


def message_of(detail: ErrorDetails) -> str:
    """Return what pydantic found wrong with a value, to follow a colon."""
    lines = str(detail["msg"]).removeprefix("Value error, ").split("\n")
    message = "\n".join(_short(line, 5 * _SHOWN_CHARACTERS) for line in lines)
    return message if message[:2].isupper() else message[:1].lower() + message[1:]


def _short(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _name(path: tuple[int | str, ...]) -> str:
    name = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path)
    return _short(name.removeprefix("."))


def _find_place(detail: ErrorDetails, data: Any) -> tuple[int | str, ...]:  # noqa: ANN401 (a value of TOML)
    """Return the keys of a problem's place, without the types that pydantic names among them."""
    path: list[int | str] = []
    for part in detail["loc"]:
        known = range(len(data)) if isinstance(data, list) else data if isinstance(data, dict) else ()
        if part in known:
            data = data[part]
            path.append(part)
    return (*path, detail["loc"][-1]) if detail["type"] == "missing" else tuple(path)


def _known_keys(table: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table at a place."""
    for part in path[:-1]:
        if field := table.model_fields.get(str(part)):
            table = next(_tables_in(field.annotation), table)
    return list(table.model_fields)


def _tables_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the tables in the type of a setting, such as those of a list of tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _tables_in(inner)
