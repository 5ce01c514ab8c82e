"""Which slots of a pair are free for a rater, and how one is taken from who left it.

A *slot* is a planned showing of a pair in a pool. Its holder is its one presentation that is neither
superseded nor withdrawn; an index of the database allows no second. A slot is free when it has no holder, or
when its holder is unrated and its lease is over; then the new presentation supersedes the old, whose verdict,
if it comes, is surplus. A slot that a roster keeps for a rater is free for that rater alone, until it is
revoked or excluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, false, func, or_, select, true, update

from guard_eval.records import Rater
from guard_eval.store.orders import First, Orders
from guard_eval.store.raters import pool_of
from guard_eval.store.schema import presentation, rater
from guard_eval.store.values import Plan


class Turn(NamedTuple):
    """One rater asking, once."""

    connection: Connection
    orders: Orders
    rater: Rater
    plan: Plan
    now: datetime

    @property
    def pool(self) -> str:
        """Return the pool whose slots the rater fills."""
        return pool_of(self.rater)

    @property
    def sees_once(self) -> bool:
        """Return whether the rater sees a pair once: people and simulations do, models see every slot."""
        return self.rater.kind != "model"

    @property
    def has_roster(self) -> bool:
        """Return whether slots of the rater's pool are kept for somebody; only people have a roster."""
        return bool(self.orders.kept) and self.rater.kind == "person"

    @property
    def asked(self) -> dict[str, object]:
        """Return what `HELD` and the statements of this module are asked with."""
        return {
            "asked_pool": self.pool,
            "asked_rater": self.rater.id,
            "asked_now": self.now,
            "asked_longest": self.now + self.plan.lease,
            "asked_slots": self.plan.slots,
        }


# built once: building a statement takes as long as running it
_HOLDS = and_(presentation.c.superseded == false(), presentation.c.withdrawn == false())

HELD = and_(
    presentation.c.pool == bindparam("asked_pool"),
    _HOLDS,
    or_(
        presentation.c.rated_at.is_not(None),
        presentation.c.leased_until > bindparam("asked_now"),
        presentation.c.rater_id == bindparam("asked_rater"),
    ),
)
"""True of presentations that keep their slot from a rater: rated, leased, or its own."""

_UNRATED = and_(presentation.c.rated_at.is_(None), presentation.c.superseded == false())

_SHOWN = select(
    presentation.c.id,
    presentation.c.pair_id,
    presentation.c.slot,
    presentation.c.attempt,
    _HOLDS.label("holds"),
    HELD.label("held"),
    and_(_UNRATED, presentation.c.leased_until > bindparam("asked_longest")).label("too_long"),
).where(
    presentation.c.pool == bindparam("asked_pool"),
    presentation.c.pair_id.in_(bindparam("asked_pairs", expanding=True)),
)

_FULL = (
    select(presentation.c.pair_id)
    .where(HELD, presentation.c.slot < bindparam("asked_slots"))
    .group_by(presentation.c.pair_id)
    .having(func.count() >= bindparam("asked_slots"))
)

_TAKEN = select(presentation.c.pair_id, presentation.c.slot).where(HELD)


class Free(NamedTuple):
    """A free slot of a pair: which text it shows as A, who left it unrated, and how often it was given."""

    slot: int
    first: First
    left_by: int | None
    attempt: int


def free(turn: Turn, pair_ids: Sequence[str]) -> dict[str, list[Free]]:
    """Return the free slots of the pairs, lowest first; pairs without one are left out."""
    left: dict[tuple[str, int], Row[tuple[object, ...]]] = {}
    attempts: dict[tuple[str, int], int] = {}
    held: set[tuple[str, int]] = set()
    for row in _shown(turn, pair_ids):
        place = row.pair_id, row.slot
        attempts[place] = max(attempts.get(place, 0), row.attempt + 1)
        if row.held:
            held.add(place)
        elif row.holds:
            left[place] = row
    gone = _gone(turn)
    found: dict[str, list[Free]] = {}
    for pair_id in pair_ids:
        for slot in _open(turn, pair_id, gone):
            if (pair_id, slot) not in held:
                holder = left.get((pair_id, slot))
                found.setdefault(pair_id, []).append(
                    Free(
                        slot,
                        _first(turn, pair_id, slot),
                        None if holder is None else holder.id,
                        attempts.get((pair_id, slot), 0),
                    )
                )
    return found


def take(turn: Turn, slot: Free) -> bool:
    """Take a slot from who left it, if anybody did, unless that has been rated this moment."""
    if slot.left_by is None:
        return True
    unrated = (presentation.c.id == slot.left_by, presentation.c.rated_at.is_(None))
    done = turn.connection.execute(update(presentation).where(*unrated).values(superseded=true()))
    return done.rowcount == 1


def unavailable(turn: Turn) -> set[str]:
    """Return the pairs with no slot for this rater, whether or not it has seen them."""
    if not turn.has_roster:
        return set(turn.connection.execute(_FULL, turn.asked).scalars())
    gone = _gone(turn)
    taken = {tuple(row) for row in turn.connection.execute(_TAKEN, turn.asked)}
    return {
        pair_id
        for pair_id in turn.orders.places
        if all((pair_id, slot) in taken for slot in _open(turn, pair_id, gone))
    }


def _shown(turn: Turn, pair_ids: Sequence[str]) -> list[Row[tuple[object, ...]]]:
    """Return all showings of the pairs in the pool, and see that no lease outlasts one given now.

    A lease can end later than that only because the clock was set back, or the study's lease was longer then;
    whoever holds it keeps a whole lease from now, and a slot that was left is not lost for as long as the
    clock went back.
    """
    rows = list(turn.connection.execute(_SHOWN, {**turn.asked, "asked_pairs": list(pair_ids)}))
    if late := [row.id for row in rows if row.too_long]:
        shortened = update(presentation).where(presentation.c.id.in_(late), _UNRATED)
        turn.connection.execute(shortened.values(leased_until=turn.now + turn.plan.lease))
    return rows


def _gone(turn: Turn) -> frozenset[int]:
    """Return the raters for whom no slot is kept any more."""
    if not turn.has_roster:
        return frozenset()
    left = or_(rater.c.revoked_at.is_not(None), rater.c.excluded_at.is_not(None))
    return frozenset(turn.connection.execute(select(rater.c.id).where(left)).scalars())


def _open(turn: Turn, pair_id: str, gone: frozenset[int]) -> Sequence[int]:
    """Return the slots of a pair that are for this rater: the one kept for it, or those kept for nobody."""
    every = range(turn.plan.slots)
    kept = turn.orders.kept.get(pair_id)
    if not kept or not turn.has_roster:
        return every
    mine = [slot.slot for slot in kept if slot.rater_id == turn.rater.id and slot.slot in every]
    others = {slot.slot for slot in kept if slot.rater_id not in gone}
    return mine or [slot for slot in every if slot not in others]


def _first(turn: Turn, pair_id: str, slot: int) -> First:
    kept = turn.orders.kept.get(pair_id, ()) if turn.has_roster else ()
    return next((k.first for k in kept if k.slot == slot), turn.orders.first(pair_id, slot))
