"""What a rater has been shown, as far as it decides what comes next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import copysign
from typing import Self

from sqlalchemy import and_, bindparam, case, false, func, null, or_, select

from guard_eval.store.handout.occupancy import First
from guard_eval.store.handout.slots import Methods, Turn
from guard_eval.store.schema import occupancy, presentation


class Sides:
    """One rater's sides: how often each method, and each comparison's first one, was A less how often B.

    A side is a fair coin up to an imbalance of 2, and the more likely to even things out beyond; at 5 it is
    sure to. Of the two methods and the comparison, that counts which is furthest from balance. The last
    showing counts half: otherwise the side before would say something of the next (ADR 10).
    """

    def __init__(self) -> None:
        self._lead: Counter[object] = Counter()
        self._last: dict[object, int] = {}

    def add(self, methods: Methods, first: First, *, times: int = 1) -> None:
        """Count showings of a comparison, several alike; call it in the order of the latest of each kind."""
        for key, sign in _signs(methods, first):
            self._lead[key] += times * sign
            self._last[key] = sign

    def first(self, methods: Methods, draw: float) -> First:
        """Return which method of a comparison is shown as A, by a draw from 0 to 1."""
        leads = (sign * (self._lead[key] - self._last.get(key, 0) / 2) for key, sign in _signs(methods, "a"))
        lead = max(leads, key=abs)
        pull = max(0.0, abs(lead) - 2) / 4
        return "a" if draw < 0.5 - copysign(pull, lead) else "b"


def _signs(methods: Methods, first: First) -> tuple[tuple[object, int], ...]:
    side = 1 if first == "a" else -1
    return (methods[0], side), (methods[1], -side), (methods, side)


_IS_STUDYS = presentation.c.role == "study"
_COUNTS = or_(presentation.c.rated_at.is_not(None), presentation.c.superseded == false())
_IS_OPEN = and_(presentation.c.rated_at.is_(None), presentation.c.superseded == false())
_check = case((_IS_STUDYS, null()), else_=presentation.c.pair_id)
_kinds = (
    presentation.c.role,
    _check.label("check_id"),
    presentation.c.first,
    occupancy.c.method_a,
    occupancy.c.method_b,
)
_MINE = (
    select(*_kinds, func.count().label("times"), func.max(case((_IS_OPEN, 1), else_=0)).label("opened"))
    .select_from(presentation)
    .outerjoin(
        occupancy,
        and_(
            _IS_STUDYS, occupancy.c.pool == presentation.c.pool, occupancy.c.pair_id == presentation.c.pair_id
        ),
    )
    .where(presentation.c.rater_id == bindparam("param_rater"), or_(~_IS_STUDYS, _COUNTS))
    .group_by(*_kinds)
    .order_by(func.max(presentation.c.id))
)

_RATED = (
    select(presentation.c.pair_id, presentation.c.first)
    .where(
        presentation.c.rater_id == bindparam("param_rater"), _IS_STUDYS, presentation.c.rated_at.is_not(None)
    )
    .order_by(presentation.c.id)
)


@dataclass
class RaterHistory:
    """One rater's showings.

    Attributes:
        opened: Whether it has pairs that it has not rated and no other rater has taken.
        shown: How many of the study's it was shown that count: rated, or still its own.
        sides: On which sides it saw the methods in those that count.
        gold: The gold pairs it was shown.
        repeated: The pairs it was shown again.
    """

    opened: bool = False
    shown: int = 0
    sides: Sides = field(default_factory=Sides)
    gold: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, turn: Turn) -> Self:
        """Read the history of the rater whose turn it is."""
        history = cls()
        for row in turn.connection.execute(_MINE, {"param_rater": turn.rater.id}):
            role, check_id, first, method_a, method_b, times, opened = row
            history.opened |= bool(opened)
            if role == "study":
                history.add_study((method_a, method_b), first, times=times)
            else:
                (history.gold if role == "gold" else history.repeated).add(check_id)
        return history

    def add_study(self, methods: Methods, first: First, *, times: int = 1) -> None:
        """Count showings of the study's that count."""
        self.shown += times
        self.sides.add(methods, first, times=times)


def rated(turn: Turn) -> list[tuple[str, First]]:
    """Return the study's pairs the rater has rated and which text came first, oldest first."""
    rows = turn.connection.execute(_RATED, {"param_rater": turn.rater.id})
    return [(row.pair_id, row.first) for row in rows]
