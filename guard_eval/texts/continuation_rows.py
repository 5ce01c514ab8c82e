"""A continuation as a flat row: what a line of JSONL and a row of Parquet hold, under the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Recipe, content_id

ALWAYS = tuple(field.name for field in fields(Recipe) if field.default is MISSING)
"""Keys of the recipe that every row has."""
RARE = {field.name: field.default for field in fields(Recipe) if field.default is not MISSING}
"""Keys of the recipe that a row has where they are not as usual, and what is usual."""
OWN = tuple(field.name for field in fields(Continuation) if field.name != "recipe")
"""Keys of the continuation itself."""
HASH = "text_hash"
"""The key by which a text that was edited later is noticed."""


def text_hash(row: Mapping[str, Any]) -> str:
    """Return what stands for a row's text, its length and its end, under its id."""
    return content_id(row["id"], row["text"], row["new_tokens"], row["finish"])


def row_of(continuation: Continuation) -> dict[str, Any]:
    """Return a continuation with its recipe laid flat."""
    row = asdict(continuation)
    recipe = row.pop("recipe")
    rare = {name: recipe[name] for name, default in RARE.items() if recipe[name] != default}
    return {**row, HASH: text_hash(row), **{name: recipe[name] for name in ALWAYS}, **rare}


def differing_field(one: Recipe, other: Recipe) -> str | None:
    """Return the first field in which two recipes differ."""
    names = (field.name for field in fields(Recipe))
    return next((name for name in names if getattr(one, name) != getattr(other, name)), None)


def continuation_of(row: dict[str, Any], where: str) -> Continuation:
    """Return the continuation of a row.

    Args:
        row: As `row_of` makes it; of a table, what is usual may be None.
        where: Where it stands, for messages.

    Raises:
        StudyError: A key is missing, it is no object, or its text was edited.
    """
    try:
        rare = {name: default if row.get(name) is None else row[name] for name, default in RARE.items()}
        recipe = Recipe(**{name: row[name] for name in ALWAYS}, **rare)
        made = Continuation(recipe=recipe, **{name: row[name] for name in OWN})
        intact = row[HASH] == text_hash(row)
    except KeyError as error:
        raise StudyError(
            f"{where}: has no key {error}; was it written by this version of guard-eval generate? Remove the "
            "line, and it makes the text again"
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise StudyError(
            f"{where}: not a continuation ({error}); remove the line, and guard-eval generate makes it again"
        ) from error
    if not intact:
        raise StudyError(
            f"{where}: the text of {made.id} (prompt {made.prompt_id!r}) is not the one that was made: its "
            f"{HASH} is that of another text, length or end; restore the line, or remove it, and guard-eval "
            "generate makes it again"
        )
    return made
