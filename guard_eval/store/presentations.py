"""What a rater is shown, or was: two texts and a number, without names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from sqlalchemy import Connection, bindparam, select

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Rater
from guard_eval.store.schema import pair, presentation

_BATCH = 500
"""How many ids one statement lists; both databases limit its parameters."""

_LARGEST = 2**31 - 1

_TEXTS = (
    select(presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    .join(pair)
    .where(presentation.c.id.in_(bindparam("param_id", expanding=True)))
)

_CLAIM = select(presentation.c.rater_id, presentation.c.superseded).where(
    presentation.c.id == bindparam("param_id")
)
_CLAIM_LOCKED = _CLAIM.with_for_update()

_Item = TypeVar("_Item")


def claim(connection: Connection, number: int, rater: Rater, *, lock: bool = False) -> bool:
    """Return whether a presentation of this rater is superseded; with `lock`, it stays so to the end."""
    row = None
    if 0 < number <= _LARGEST:
        row = connection.execute(_CLAIM_LOCKED if lock else _CLAIM, {"param_id": number}).one_or_none()
    if row is None:
        raise StudyError(f"there is no presentation {number}; ask for the next pair")
    if row.rater_id != rater.id:
        raise StudyError(
            f"presentation {number} was not handed to the rater {rater.name!r}; ask for the next pair"
        )
    return bool(row.superseded)


def trail(connection: Connection, rater: Rater) -> list[int]:
    """Return the rater's rated presentations in the order they were shown: `rated_at` may have gone back."""
    mine = (presentation.c.rater_id == rater.id, presentation.c.rated_at.is_not(None))
    return list(
        connection.execute(select(presentation.c.id).where(*mine).order_by(presentation.c.id)).scalars()
    )


def blind(connection: Connection, numbers: Sequence[int]) -> list[BlindPair]:
    """Return the presentations as they are shown, in the order of `numbers`."""
    found: dict[int, BlindPair] = {}
    for ids in batches(numbers):
        for row in connection.execute(_TEXTS, {"param_id": ids}):
            left, right = (row.text_a, row.text_b) if row.first == "a" else (row.text_b, row.text_a)
            found[row.id] = BlindPair.of(row.id, row.prompt, left, right)
    return [found[number] for number in numbers]


def batches(items: Sequence[_Item]) -> Iterable[Sequence[_Item]]:
    """Return `items` in parts that one statement can list."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))
