"""What is wrong with a TOML file, all of it at once: place, value and remedy of what pydantic found."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from guard_eval.errors import StudyError

LARGEST = 2**20
"""Characters of a file of settings."""

_SHOWN = 200
"""Characters of a value, or of a key, that a message repeats."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file has, which may be a stranger's; some editors begin it with a mark.

    Raises:
        StudyError: It cannot be read, or is no TOML.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}; fix that, or name another file") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    if len(text) > LARGEST:
        raise StudyError(f"{path} has more than {LARGEST:,} characters; shorten it")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path} is not valid TOML: {error}; fix that line") from None
    except (ValueError, RecursionError):
        raise StudyError(f"{path} has a number of too many digits, or nests too deeply; shorten it") from None


def explain(path: Path, problems: Sequence[str]) -> str:
    """Return the message that names all problems of a file."""
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return "\n  ".join((f"{path} has {count}:", *problems))


def problems_of(
    error: ValidationError,
    table: type[BaseModel],
    *,
    key: str = "setting",
    hidden: Sequence[str] = (),
    plainly: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what is wrong with a file, a line each.

    Args:
        error: What pydantic found.
        table: The model of the whole file.
        key: What a key of the file is called.
        hidden: Keys at the top whose values are not repeated.
        plainly: Other words for pydantic's, by its type of error.
    """
    lines = []
    for found in error.errors(include_url=False):
        if found["type"] == "default_factory_not_called":
            continue  # the value that it would follow from is wrong, and is named itself
        if found["type"] == "missing":
            remedy = "is missing; add it"
        elif found["type"] == "extra_forbidden":
            *tables, name = found["loc"]
            near = difflib.get_close_matches(str(name), _keys(table, tables), n=1)
            remedy = f"is not a {key}; " + (f"did you mean {near[0]!r}?" if near else "remove it")
        else:
            remedy = (plainly or {}).get(found["type"], message_of(found))
            value = found["input"]
            if not isinstance(value, dict | tuple) and found["loc"][:1] not in [(name,) for name in hidden]:
                remedy = f"{_short(repr(value))}: {remedy}"
        lines.append(f"{_where(found['loc'])}: {remedy}")
    return lines


def message_of(found: ErrorDetails) -> str:
    """Return what pydantic found wrong with a value, to follow a colon."""
    message = _short(str(found["msg"]).removeprefix("Value error, "), 5 * _SHOWN)
    return message[:1].lower() + message[1:]


def _short(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _where(location: tuple[int | str, ...]) -> str:
    place = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location)
    return _short(place.removeprefix(".")) or "the file"


def _keys(kind: Any, tables: Sequence[int | str]) -> list[str]:  # noqa: ANN401 (a model or a hint)
    """Return the keys that the table at this place can have."""
    for name in tables:
        if _is_table(kind):
            kind = kind.model_fields[name].annotation
        else:  # a list or a table of tables: whatever number or name it is
            kind = next(inner for inner in reversed(get_args(kind)) if inner is not Ellipsis)
    fields = kind.model_fields if _is_table(kind) else {}
    return [field.alias or name for name, field in fields.items()]


def _is_table(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
