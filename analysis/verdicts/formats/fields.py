"""The fields of other programs' records: names, items with their methods, and answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from analysis.verdicts.columns import HEADINGS, plain_heading
from analysis.verdicts.draft import SHOWN
from analysis.verdicts.shapes import TEXTS, couples_of
from analysis.verdicts.words import meaning
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list

Items = Mapping[str, Mapping[str, str]]
"""What a file says of items, by their ids."""
_KEPT = ("rater_kind", "showing")


def is_missing(value: object) -> bool:
    """Return whether a value is JSON's null or NaN, or an empty cell."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


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
    if is_missing(value):
        raise StudyError(f"{where}: {key} is missing; fill it in, or remove the record")
    raise StudyError(f"{where}: {key} is {str(value)[:40]!r}; write a name")


def item_cells(data: Mapping[str, Any], where: str, *, pair_id: object) -> dict[str, str]:
    """Return what a record says of its item, as cells of a table.

    Args:
        data: The record's fields: two methods; where known left and right, pair_id, dataset, prompt_id.
        where: Where they are, for messages.
        pair_id: The pair's id where the fields have none.

    Raises:
        StudyError: The methods are missing, or are called as sides are.
    """
    couples = item_couples(data)
    named = [couple for couple, is_shown in couples if not is_shown]
    shown = next((couple for couple, is_shown in couples if is_shown), None)
    if any((data[a], data[b]) != (data[named[0][0]], data[named[0][1]]) for a, b in named):
        listed = and_list([f"{a} and {b}" for a, b in named])
        raise StudyError(f"{where}: the methods could be {listed}; keep the fields method_a and method_b")
    if not couples:
        raise StudyError(
            f"{where}: nothing says which methods were compared; add the fields method_a and method_b "
            "(and left and right, where sides changed) to the items, or give a file that has them by id"
        )
    a, b = (text_of(data[key], where, key) for key in (*named, shown or ())[0])
    if any(meaning(name) is not None for name in (a, b)):
        raise StudyError(
            f"{where}: the methods {a!r} and {b!r} are called as sides are (A, left, tie); rename them"
        )
    ids = {"pair_id": pair_id, "dataset": "all"} | {
        key: data[key] for key in ("pair_id", "dataset", "prompt_id") if key in data
    }
    cells = {key: text_of(value, where, key) for key, value in ids.items()}
    used = {key for couple, _ in couples for key in couple}
    cells |= {
        key: str(value)
        for key, value in data.items()
        if key not in used and not isinstance(value, str | dict | list)
    }
    cells |= {"method_a": a, "method_b": b}
    if not is_missing(data.get("rater_kind")):
        cells["rater_kind"] = str(data["rater_kind"])
    if shown is not None:
        cells |= {side: text_of(data[key], where, key) for side, key in zip(SHOWN, shown, strict=True)}
        showing = data.get("showing")
        cells["presentation"] = f"{cells['left']} first"
        cells["presentation"] += "" if is_missing(showing) or str(showing) == "1" else f", {showing}"
    return cells


def item_couples(record: Mapping[str, Any]) -> list[tuple[tuple[str, str], bool]]:
    """Return the keys of an item that can be those of its methods (`couples_of`)."""
    return couples_of(list(record)) or couples_of(list(record), TEXTS)


def id_key(record: Mapping[str, Any], headings: Iterable[str] = ()) -> str | None:
    """Return the key of an item's id: one that another file has as a heading, and the commonest of these."""
    ranks = {name: rank for rank, name in enumerate(("pairid", *HEADINGS["pair"], *HEADINGS["prompt"]))}
    others = {plain_heading(name) for name in headings}
    used = {key for couple, _ in item_couples(record) for key in couple}
    keys = {key: plain_heading(key) for key in record if key not in used}
    known = [key for key, name in keys.items() if name in ranks or name in others]

    def rank(key: str) -> tuple[bool, int]:
        return keys[key] not in others, ranks.get(keys[key], len(ranks))

    return min(known, key=rank, default=None)


def read_items(records: Iterable[tuple[str, Mapping[str, Any]]], key: str) -> dict[str, dict[str, str]]:
    """Return the items of a data file by the id under `key`; each record comes with where it is.

    Raises:
        StudyError: Two items have one id, or an item names no methods.
    """
    items: dict[str, dict[str, str]] = {}
    for where, record in records:
        name = text_of(record.get(key), where, key)
        if name in items:
            raise StudyError(f"{where}: two items have the id {name!r}; give each item an id of its own")
        items[name] = item_cells(record, where, pair_id=name)
    return items


def is_verdict(word: object, cells: Mapping[str, str | None]) -> bool:
    """Return whether an answer means one of the methods of an item, or a tie."""
    return isinstance(word, str) and (
        word.strip() in {cells["method_a"], cells["method_b"]} or meaning(word) is not None
    )


def answer_text(word: object) -> str | None:
    """Return an answer as text, None for a missing one."""
    return None if is_missing(word) else str(word).strip()
