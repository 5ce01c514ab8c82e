"""What is wrong with a TOML file, all of it at once: place, value and remedy of what pydantic found."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_SHOWN = 200
"""Characters of a value, or of a key, that a message repeats."""

_MOST_PROBLEMS = 50
"""Problems of one file that a message names."""


def explain(path: Path, problems: Sequence[str], overrides: Sequence[str] = ()) -> str:
    """Return the message that names all problems of a file, read with the settings of `--set`."""
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    shown = ("database=…" if each.lstrip().startswith("database") else each for each in overrides)
    changed = "".join(f" --set {assignment}" for assignment in shown)
    more = [f"and {len(problems) - _MOST_PROBLEMS} more"] if len(problems) > _MOST_PROBLEMS else []
    head = f"{path}{changed and f' with{changed}'} has {count}:"
    return "\n  ".join((head, *problems[:_MOST_PROBLEMS], *more))


def problems_of(error: ValidationError, table: type[BaseModel], *, hidden: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with a file, a line for each place.

    Args:
        error: What pydantic found.
        table: The model of the whole file.
        hidden: Keys at the top whose values are not repeated.
    """
    places: dict[tuple[int | str, ...], list[str]] = {}
    for detail in error.errors(include_url=False):
        path, known = _locate(table, detail["loc"])
        if detail["type"] == "default_factory_not_called":
            continue  # the value that it would follow from is wrong, and is named itself
        if detail["type"] == "missing":
            words = ["is missing; add it"]
        elif detail["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(path[-1]), known, n=1)
            words = ["is not a setting; " + (f"did you mean {near[0]!r}?" if near else "remove it")]
        else:
            words = [message_of(detail)]
            value = detail["input"]
            if not isinstance(value, dict | tuple) and path[:1] not in [(name,) for name in hidden]:
                words.insert(0, _short(repr(value)))
        # Each kind of value that a place takes has a message of its own: "…, or 'auto'".
        known_words = places.setdefault(path, words)
        if known_words is not words:
            known_words[-1] += f", or {words[-1].removeprefix('input should be ')}"
    return [line for path, words in places.items() for line in _lines(path, words)]


def _lines(path: tuple[int | str, ...], words: list[str]) -> list[str]:
    """Return the problems of one path; those of the whole file name their keys themselves."""
    if not path and len(words) == 1:
        return words[0].split("\n  ")
    return [": ".join([_where(path), *words])]


def message_of(detail: ErrorDetails) -> str:
    """Return what pydantic found wrong with a value, to follow a colon."""
    message = _short(str(detail["msg"]).removeprefix("Value error, "), 5 * _SHOWN)
    return message if message[:2].isupper() else message[:1].lower() + message[1:]


def _short(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _where(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location)
    return _short(path.removeprefix(".")) or "the file"


def _locate(
    table: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[tuple[int | str, ...], list[str]]:
    """Return the keys of a location, without pydantic's names of types, and the keys of the last table."""
    path: list[int | str] = []
    kind: Any = table
    known: list[str] = []
    for part in location:
        kind = _without_none(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
            known, kind = list(fields), fields.get(str(part))
        elif get_origin(kind) in {list, dict, tuple}:
            kind = next(inner for inner in reversed(get_args(kind)) if inner is not Ellipsis)
        else:
            break
        path.append(part)
    return tuple(path), known


def _without_none(kind: Any) -> Any:  # noqa: ANN401 (a type)
    """Return a type without `None` and without what `Annotated` says of it."""
    if get_origin(kind) is Annotated:
        return _without_none(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        others = [inner for inner in get_args(kind) if inner is not NoneType]
        return _without_none(others[0]) if len(others) == 1 else kind
    return kind
