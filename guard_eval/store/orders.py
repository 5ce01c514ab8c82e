"""What is remembered of the study's pairs: each rater's order, the sides, and for whom slots are kept."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sqlalchemy import Connection, func, select

from guard_eval.records import content_id
from guard_eval.store.schema import assignment, gold, pair

_COUNTS = select(*(select(func.count()).select_from(table).scalar_subquery() for table in (pair, assignment)))

First = Literal["a", "b"]


class Place(NamedTuple):
    """Where a pair stands in the study."""

    position: int
    dataset: str
    method_a: str
    method_b: str


class Kept(NamedTuple):
    """A slot that is kept for one rater, and which text it shows as A."""

    slot: int
    rater_id: int
    first: First


class Orders:
    """The pairs in the order a rater sees them, remembered because hashing the ids takes milliseconds.

    Attributes:
        places: Where each of the study's pairs stands.
        kept: The slots of a pair that a roster keeps for somebody, where there is a roster.
    """

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.kept: dict[str, list[Kept]] = {}
        self._gold: list[str] = []
        self._known = (0, 0)
        self._orders: dict[tuple[object, ...], list[str]] = {}

    def refresh(self, connection: Connection) -> None:
        """Notice what was added; pairs and assignments are never changed or removed: their number tells."""
        known = tuple(connection.execute(_COUNTS).one())
        if known == self._known:
            return
        self._gold = list(connection.execute(select(gold.c.pair_id).distinct()).scalars())
        columns = (pair.c.id, pair.c.position, pair.c.dataset, pair.c.method_a, pair.c.method_b)
        study = select(*columns).where(pair.c.id.not_in(select(gold.c.pair_id)))
        self.places = {number: Place(*rest) for number, *rest in connection.execute(study)}
        self.kept = {}
        for row in connection.execute(select(assignment)):
            self.kept.setdefault(row.pair_id, []).append(Kept(row.slot, row.rater_id, row.first))
        self._orders = {}
        self._known = (known[0], known[1])

    def of(self, seed: int, rater: str) -> list[str]:
        """Return the pairs' ids, shuffled for one rater by the study's seed."""
        return self._shuffled(self.places, seed, rater)

    def gold(self, seed: int, rater: str) -> list[str]:
        """Return the gold pairs' ids, likewise."""
        return self._shuffled(self._gold, seed, rater, "gold")

    def first(self, pair_id: str, slot: int) -> First:
        """Return which text is shown as A: slots of a pair alternate, and so do pairs of a slot."""
        return "b" if (slot + self.places[pair_id].position) % 2 else "a"

    def _shuffled(self, ids: dict[str, Place] | list[str], *key: object) -> list[str]:
        if key not in self._orders:
            self._orders[key] = sorted(ids, key=lambda pair_id: content_id(*key, pair_id))
        return self._orders[key]
