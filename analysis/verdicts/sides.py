"""The words that say which of two texts a rater prefers, and the fields that say which texts those were."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list

METHOD_FIELDS = (
    ("method_a", "method_b"),
    ("model_a", "model_b"),
    ("model_1", "model_2"),
    ("method_1", "method_2"),
    ("system_a", "system_b"),
    ("system_a_name", "system_b_name"),
    ("strategy_a", "strategy_b"),
    ("generator_1", "generator_2"),
)
"""Keys of the two methods that were compared, the first one's before the second's."""
SHOWN = ("left", "right")
"""Keys of the methods by the side on which a rater saw them."""
WORDS = "A, B, left, right, model_a, model_b or tie"
"""What `side_of` reads, for messages."""

_OF = ("", "model", "method", "system", "response", "text", "answer", "option", "output", "assistant", "side")
_FIRST = {f"{word}{letter}" for word in _OF for letter in "a1"} - {"1"} | {"left", "first"}
_SECOND = {f"{word}{letter}" for word in _OF for letter in "b2"} - {"2"} | {"right", "second"}
_TIE = {
    *("tie", "tied", "draw", "equal", "same", "both", "neither", "bothbad", "bothgood", "nopreference"),
    *("tiebothbad", "tieinconsistent", "comparable", "nodifference"),
}
_NAMED = re.compile(r"(model|method|system)[ab12]")
_CHANGED = re.compile(r"swap|flip|revers|switch", re.IGNORECASE)
_NO = {"", "0", "0.0", "false", "no", "n", "none", "nan", "original"}
_DROPPED = dict.fromkeys(map(ord, " _-.()[]"))


def side_of(word: str) -> int | None:
    """Return 1 for a word that means the first text, −1 for the second, 0 for a tie; None for any other.

    >>> side_of("A"), side_of("model_2"), side_of("tie (bothbad)"), side_of("C")
    (1, -1, 0, None)
    """
    plain = word.casefold().translate(_DROPPED)
    if plain in _FIRST:
        return 1
    if plain in _SECOND:
        return -1
    return 0 if plain in _TIE else None


def names_field(word: str) -> bool:
    """Return whether a word names a field such as model_a, and no side on which a text was seen."""
    return _NAMED.fullmatch(word.casefold().translate(_DROPPED)) is not None


def says_sides_changed(name: str, value: object) -> bool:
    """Return whether a field such as `swapped` says that a text was not seen on its usual side.

    >>> says_sides_changed("is_flipped", True), says_sides_changed("swapped", "0")
    (True, False)
    """
    return _CHANGED.search(name) is not None and str(value).strip().casefold() not in _NO


def is_missing(value: object) -> bool:
    """Return whether a value is JSON's null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def text_of(value: object, where: str, key: str) -> str:
    """Return a name or an id as text; whole numbers are names, too.

    Raises:
        StudyError: It is missing, or is no name.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    if is_missing(value) or value == "":
        raise StudyError(f"{where}: {key} is missing; fill it in, or remove the record")
    raise StudyError(f"{where}: {key} is {str(value)[:40]!r}; write a name")


def item_cells(data: Mapping[str, Any], where: str, *, pair_id: object, dataset: str) -> dict[str, str]:
    """Return what an annotation tool's record says of its item, as cells of a table.

    Args:
        data: The record's own fields: two methods; where known left and right, pair_id, dataset, prompt_id.
        where: Where they are, for messages.
        pair_id: The pair's id where the fields have none.
        dataset: The dataset where the fields have none.

    Raises:
        StudyError: The methods are missing, or are called as sides are.
    """
    named = [(a, b) for a, b in METHOD_FIELDS if a in data and b in data]
    if any((data[a], data[b]) != (data[named[0][0]], data[named[0][1]]) for a, b in named):
        listed = and_list([f"{a} and {b}" for a, b in named])
        raise StudyError(f"{where}: the methods could be {listed}; keep the fields method_a and method_b")
    is_shown = all(key in data for key in SHOWN)
    if not named and not is_shown:
        raise StudyError(
            f"{where}: nothing says which methods were compared; add the fields method_a and method_b "
            "(and left and right, where sides changed) to the items, or give a file that has them by id"
        )
    a, b = (text_of(data[key], where, key) for key in (named[0] if named else SHOWN))
    if any(side_of(name) is not None for name in (a, b)):
        raise StudyError(
            f"{where}: the methods {a!r} and {b!r} are called as sides are ({WORDS}), which could mean "
            "either; rename them"
        )
    ids = {"pair_id": pair_id, "dataset": dataset} | {
        key: data[key] for key in ("pair_id", "dataset", "prompt_id") if key in data
    }
    cells = {key: text_of(value, where, key) for key, value in ids.items()}
    cells |= {"method_a": a, "method_b": b}
    cells |= {key: str(value) for key, value in data.items() if says_sides_changed(key, value)}
    if not is_missing(data.get("rater_kind")):
        cells["rater_kind"] = str(data["rater_kind"])
    if is_shown:
        cells |= {key: text_of(data[key], where, key) for key in SHOWN}
        showing = data.get("showing")
        cells["presentation"] = f"{cells['left']} first"
        cells["presentation"] += "" if is_missing(showing) or str(showing) == "1" else f", {showing}"
    return cells


def is_verdict(word: object, cells: Mapping[str, str | None]) -> bool:
    """Return whether an answer means one of the methods of an item, or a tie."""
    return isinstance(word, str) and (
        word.strip() in {cells["method_a"], cells["method_b"]} or side_of(word) is not None
    )


def answer_text(word: object) -> str | None:
    """Return an answer as text, None for a missing one."""
    return None if is_missing(word) or word == "" else str(word).strip()
