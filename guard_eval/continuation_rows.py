"""A continuation as a flat row: what a line of JSONL and a row of Parquet hold, under the same keys."""

from __future__ import annotations

from dataclasses import MISSING, asdict, fields
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Recipe

ALWAYS = tuple(field.name for field in fields(Recipe) if field.default is MISSING)
"""Keys of the recipe that every row has."""
RARE = {field.name: field.default for field in fields(Recipe) if field.default is not MISSING}
"""Keys of the recipe that a row has where they are not as usual, and what is usual."""
OWN = tuple(field.name for field in fields(Continuation) if field.name != "recipe")
"""Keys of the continuation itself."""


def row_of(continuation: Continuation) -> dict[str, Any]:
    """Return a continuation with its recipe laid flat."""
    row = asdict(continuation)
    recipe = row.pop("recipe")
    rare = {name: recipe[name] for name, default in RARE.items() if recipe[name] != default}
    return {**row, **{name: recipe[name] for name in ALWAYS}, **rare}


def continuation_of(row: dict[str, Any], where: str) -> Continuation:
    """Return the continuation of a row.

    Args:
        row: As `row_of` makes it; of a table, what is usual may be None.
        where: Where it stands, for messages.

    Raises:
        StudyError: A key is missing, or it is no object.
    """
    try:
        rare = {
            name: default if row.get(name) is None else row[name] for name, default in RARE.items()
        }  # fmt: skip
        recipe = Recipe(**{name: row[name] for name in ALWAYS}, **rare)
        return Continuation(recipe=recipe, **{name: row[name] for name in OWN})
    except KeyError as error:
        raise StudyError(f"{where}: has no key {error}; was it written by guard-eval generate?") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise StudyError(f"{where}: not a continuation ({error}); remove the line to make it anew") from error
