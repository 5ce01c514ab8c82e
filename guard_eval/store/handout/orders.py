"""The order in which raters see pairs, and where each pair stands in the study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from sqlalchemy import Connection, func, select

from guard_eval.records import content_id
from guard_eval.store.schema import gold, pair

First = Literal["a", "b"]

_COUNT = select(func.count()).select_from(pair)


class Place(NamedTuple):
    """Where a pair stands in the study."""

    position: int
    dataset: str
    method_a: str
    method_b: str

    @property
    def methods(self) -> tuple[str, str]:
        """Return the comparison that the pair belongs to."""
        return self.method_a, self.method_b


class KeptSlot(NamedTuple):
    """A slot that is kept for one rater, and which text it shows as A."""

    slot: int
    rater_id: int
    first: First


class Orders:
    """The pairs in the order a judge sees them, remembered as hashing takes time.

    What people are shown is found in the database (`occupancy`).

    Attributes:
        places: Where each of the study's pairs stands; `refresh` reads them.
    """

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self._known = 0
        self._order: dict[tuple[int, str], list[str]] = {}

    def refresh(self, connection: Connection) -> None:
        """Notice what was added; pairs are never changed or removed, so their number is enough."""
        known = connection.execute(_COUNT).scalar_one()
        if known == self._known:
            return
        columns = (pair.c.id, pair.c.position, pair.c.dataset, pair.c.method_a, pair.c.method_b)
        study = select(*columns).where(pair.c.id.not_in(select(gold.c.pair_id)))
        self.places = {number: Place(*rest) for number, *rest in connection.execute(study)}
        self._order = {}
        self._known = known

    def of(self, seed: int, rater: str) -> list[str]:
        """Return the pairs' ids, shuffled for one rater by the study's seed."""
        if (seed, rater) not in self._order:
            self._order[seed, rater] = shuffled(self.places, seed, rater)
        return self._order[seed, rater]

    def first(self, pair_id: str, slot: int) -> First:
        """Return which text of a pair a judge sees as A: its slots alternate, and so do pairs of a slot."""
        return "b" if (slot + self.places[pair_id].position) % 2 else "a"


def shuffled(pair_ids: Iterable[str], *key: object) -> list[str]:
    """Return the ids in the order of a hash of `key` and the id."""
    return sorted(pair_ids, key=lambda pair_id: content_id(*key, pair_id))
