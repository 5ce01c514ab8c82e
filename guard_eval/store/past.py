"""What a rater has been shown, as far as it decides what comes next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import bindparam, select

from guard_eval.records import Role
from guard_eval.store.orders import First
from guard_eval.store.schema import presentation
from guard_eval.store.sides import Sides
from guard_eval.store.slots import Turn

_MINE = (
    select(
        presentation.c.pair_id,
        presentation.c.first,
        presentation.c.role,
        presentation.c.rated_at.is_not(None),
        presentation.c.superseded,
    )
    .where(presentation.c.rater_id == bindparam("asked_rater"))
    .order_by(presentation.c.id)
)


@dataclass
class Past:
    """One rater's showings.

    Attributes:
        seen: The study's pairs it was ever shown.
        shown: How many of them count: rated, or still its own.
        rated: Those it rated and which text came first, oldest first.
        sides: On which sides it saw the methods in those that count.
        gold: The gold pairs it was shown.
        repeated: The pairs it was shown again.
    """

    seen: set[str] = field(default_factory=set)
    shown: int = 0
    rated: list[tuple[str, First]] = field(default_factory=list)
    sides: Sides = field(default_factory=Sides)
    gold: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, turn: Turn) -> Self:
        """Read the past of the rater whose turn it is."""
        past = cls()
        for pair_id, first, role, rated, superseded in turn.connection.execute(
            _MINE, {"asked_rater": turn.rater.id}
        ):
            past.add(turn, pair_id, first, role, counts=rated or not superseded)
            if rated and role == "study":
                past.rated.append((pair_id, first))
        return past

    def add(self, turn: Turn, pair_id: str, first: First, role: Role, *, counts: bool = True) -> None:
        """Count a showing; one of the study's that was left to somebody else was only seen."""
        if role != "study":
            (self.gold if role == "gold" else self.repeated).add(pair_id)
            return
        self.seen.add(pair_id)
        if counts:
            self.shown += 1
            self.sides.add(turn.orders.places[pair_id], first)
