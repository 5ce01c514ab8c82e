"""What a rater has been shown, as far as it decides what comes next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import and_, bindparam, case, false, func, null, or_, select

from guard_eval.store.orders import First, Place
from guard_eval.store.schema import occupancy, presentation
from guard_eval.store.sides import Sides
from guard_eval.store.slots import Turn

_IS_STUDYS = presentation.c.role == "study"
_COUNTS = or_(presentation.c.rated_at.is_not(None), presentation.c.superseded == false())
_check = case((_IS_STUDYS, null()), else_=presentation.c.pair_id)
_kinds = (
    presentation.c.role,
    _check.label("check_id"),
    presentation.c.first,
    occupancy.c.dataset,
    occupancy.c.method_a,
    occupancy.c.method_b,
)
_MINE = (
    select(*_kinds, func.count().label("times"))
    .select_from(presentation)
    .outerjoin(
        occupancy,
        and_(
            _IS_STUDYS, occupancy.c.pool == presentation.c.pool, occupancy.c.pair_id == presentation.c.pair_id
        ),
    )
    .where(presentation.c.rater_id == bindparam("asked_rater"), or_(~_IS_STUDYS, _COUNTS))
    .group_by(*_kinds)
)

_RATED = (
    select(presentation.c.pair_id, presentation.c.first)
    .where(
        presentation.c.rater_id == bindparam("asked_rater"), _IS_STUDYS, presentation.c.rated_at.is_not(None)
    )
    .order_by(presentation.c.id)
)


@dataclass
class Past:
    """One rater's showings.

    Attributes:
        shown: How many of the study's it was shown that count: rated, or still its own.
        sides: On which sides it saw the methods in those that count.
        gold: The gold pairs it was shown.
        repeated: The pairs it was shown again.
    """

    shown: int = 0
    sides: Sides = field(default_factory=Sides)
    gold: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, turn: Turn) -> Self:
        """Read the past of the rater whose turn it is."""
        past = cls()
        for row in turn.connection.execute(_MINE, {"asked_rater": turn.rater.id}):
            if row.role == "study":
                past.add_study(Place(0, row.dataset, row.method_a, row.method_b), row.first, times=row.times)
            else:
                (past.gold if row.role == "gold" else past.repeated).add(row.check_id)
        return past

    def add_study(self, place: Place, first: First, *, times: int = 1) -> None:
        """Count showings of the study's that count."""
        self.shown += times
        self.sides.add(place, first, times=times)


def rated(turn: Turn) -> list[tuple[str, First]]:
    """Return the study's pairs the rater has rated and which text came first, oldest first."""
    rows = turn.connection.execute(_RATED, {"asked_rater": turn.rater.id})
    return [(row.pair_id, row.first) for row in rows]
