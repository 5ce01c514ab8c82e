"""What a rater answered, un-blinded: a letter, a side or a name becomes a method or a tie."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import TIE
from guard_eval.reporting.words import and_list

SIDES = (
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
WORDS = "A, B, left, right, model_a, model_b or tie"
"""What `side_of` reads, for messages."""


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


def is_missing(value: object) -> bool:
    """Return whether a value is JSON's null or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Two texts that were compared, as a record names them.

    Attributes:
        first: The method on the first side.
        second: The method on the second side.
        fields: The names of the fields that say so.
        shown_first: The method whose text the rater saw first, where the record says so.
        known: Values of the columns pair_id, dataset, prompt_id, method_a and method_b, and others.
        by_side: An answer is a side, even where a method has the name of one.
    """

    first: str
    second: str
    fields: tuple[str, str]
    shown_first: str | None
    known: dict[str, str]
    by_side: bool = False

    def verdict(self, word: str) -> str | None:
        """Return the method that a word means, or a tie; None where it means neither.

        A method's own name goes before a letter, unless answers are sides.
        """
        if not self.by_side and word in {self.first, self.second}:
            return word
        side = side_of(word)
        if side is None or (names_field(word) and self.first != self.known["method_a"]):
            return None
        return (TIE, self.first, self.second)[side]


def item_of(data: Mapping[str, Any], where: str, *, pair_id: object, dataset: str) -> Item:
    """Return the item that an annotation tool's record describes in its own fields.

    Args:
        data: The fields: two methods (`SIDES`), and where known left and right, pair_id, dataset, prompt_id;
            with left and right, `answers` may be "sides".
        where: Where they are, for messages.
        pair_id: The pair's id where the fields have none.
        dataset: The dataset where the fields have none.

    Raises:
        StudyError: The methods are missing.
    """
    named = [(a, b) for a, b in SIDES if a in data and b in data]
    result = next(iter(named), None)
    if result and any((data[a], data[b]) != (data[result[0]], data[result[1]]) for a, b in named):
        listed = and_list([f"{a} and {b}" for a, b in named])
        raise StudyError(f"{where}: the methods could be {listed}; keep the fields method_a and method_b")
    shown = SHOWN if all(key in data for key in SHOWN) else None
    if (pairs := result or shown) is None:
        raise StudyError(
            f"{where}: nothing says which methods were compared; add the fields method_a and method_b "
            "(and left and right, where sides changed) to the items, or give a file that has them by id"
        )
    a, b = (text_of(data[key], where, key) for key in pairs)
    first, second = (text_of(data[key], where, key) for key in shown) if shown else (a, b)
    if {first, second} != {a, b}:
        raise StudyError(
            f"{where}: left and right are {first!r} and {second!r}, and the methods {a!r} and {b!r}; "
            "name the same"
        )
    if a == b:
        raise StudyError(f"{where}: both methods are {a!r}; name two")
    changed = None if shown else next((key for key in data if says_sides_changed(key, data[key])), None)
    if changed:
        raise StudyError(
            f"{where}: {changed} is {str(data[changed])[:40]!r}, and nothing says which text was on which "
            "side; add the fields left and right, with the methods as they were shown"
        )
    by_side = shown is not None and data.get("answers") == "sides"
    if not by_side and any(side_of(name) is not None for name in (a, b)):
        raise StudyError(
            f"{where}: the methods {a!r} and {b!r} are called as sides are ({WORDS}), which could mean "
            "either; rename them, or add the fields left, right and answers, which says: sides"
        )
    ids = {key: text_of(data[key], where, key) for key in ("pair_id", "dataset", "prompt_id") if key in data}
    optional = {key: str(data[key]) for key in ("rater_kind", "showing") if not is_missing(data.get(key))}
    known = {"pair_id": text_of(ids.get("pair_id", pair_id), where, "pair_id"), "dataset": dataset}
    return Item(
        first=first,
        second=second,
        fields=shown or pairs,
        shown_first=first if shown else None,
        known={**known, **ids, **optional, "method_a": a, "method_b": b},
        by_side=by_side,
    )


def words_in(value: object) -> Iterator[str]:
    """Yield the words of an answer that is a text, or a list of texts."""
    yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str))
