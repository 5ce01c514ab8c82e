"""Which slots of a pair are free for a rater, and how one is taken from who left it.

A *slot* is a planned showing of a pair in a pool. Its holder is its one presentation that is neither
superseded nor withdrawn; an index of the database allows no second. A slot is free when it has no holder, or
when its holder is unrated and its lease is over; then the new presentation supersedes the old, whose verdict,
if it comes, is surplus. A slot that a roster keeps for a rater is free for that rater alone, until it is
revoked or excluded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, or_, select, true, update

from guard_eval.records import Rater
from guard_eval.store.occupancy import GONE, HOLDS, Known
from guard_eval.store.orders import First, Orders, Place
from guard_eval.store.raters import pool_of
from guard_eval.store.schema import assignment, presentation, rater
from guard_eval.store.values import Plan


class Turn(NamedTuple):
    """One rater asking, once."""

    connection: Connection
    orders: Orders
    rater: Rater
    plan: Plan
    now: datetime
    known: Known

    @property
    def pool(self) -> str:
        """Return the pool whose slots the rater fills."""
        return pool_of(self.rater)

    @property
    def has_roster(self) -> bool:
        """Return whether slots of the rater's pool are kept for somebody; only people have a roster."""
        return self.known.roster and self.rater.kind == "person"

    @property
    def asked(self) -> dict[str, object]:
        """Return what `HELD` and the statements of this module are asked with."""
        return {"asked_pool": self.pool, "asked_rater": self.rater.id, "asked_now": self.now}


# built once: building a statement takes as long as running it
HELD = and_(
    HOLDS,
    or_(
        presentation.c.rated_at.is_not(None),
        presentation.c.leased_until > bindparam("asked_now"),
        presentation.c.rater_id == bindparam("asked_rater"),
    ),
)
"""True of presentations that keep their slot from a rater: rated, leased, or its own."""

_SHOWN = select(
    presentation.c.id,
    presentation.c.pair_id,
    presentation.c.slot,
    presentation.c.attempt,
    HOLDS.label("holds"),
    HELD.label("held"),
).where(
    presentation.c.pool == bindparam("asked_pool"),
    presentation.c.pair_id.in_(bindparam("asked_pairs", expanding=True)),
)

_KEPT = (
    select(assignment, GONE.label("gone"))
    .join(rater)
    .where(assignment.c.pair_id.in_(bindparam("asked_pairs", expanding=True)))
)

_SHORTEN = (
    update(presentation)
    .where(
        presentation.c.pool == bindparam("asked_pool"),
        HOLDS,
        presentation.c.rated_at.is_(None),
        presentation.c.leased_until > bindparam("asked_longest"),
    )
    .values(leased_until=bindparam("asked_longest"))
)


class Free(NamedTuple):
    """A free slot of a pair.

    Attributes:
        slot: Its number.
        first: Which text it shows as A.
        left_by: The presentation that left it unrated.
        attempt: How often it was given before.
        kept: It was kept for the rater who asks.
    """

    slot: int
    first: First
    left_by: int | None
    attempt: int
    kept: bool = False


def free(turn: Turn, places: Mapping[str, Place]) -> dict[str, list[Free]]:
    """Return the free slots of the pairs, lowest first; pairs without one are left out."""
    left: dict[tuple[str, int], Row[tuple[object, ...]]] = {}
    attempts: dict[tuple[str, int], int] = {}
    held: set[tuple[str, int]] = set()
    for row in turn.connection.execute(_SHOWN, {**turn.asked, "asked_pairs": list(places)}):
        seat = row.pair_id, row.slot
        attempts[seat] = max(attempts.get(seat, 0), row.attempt + 1)
        if row.held:
            held.add(seat)
        elif row.holds:
            left[seat] = row
    kept = _kept(turn, list(places))
    found: dict[str, list[Free]] = {}
    for pair_id, place in places.items():
        for slot, first, mine in _open(turn, place, kept.get(pair_id, ())):
            if (pair_id, slot) not in held:
                holder = left.get((pair_id, slot))
                left_by = None if holder is None else holder.id
                free_slot = Free(slot, first, left_by, attempts.get((pair_id, slot), 0), mine)
                found.setdefault(pair_id, []).append(free_slot)
    return found


def take(turn: Turn, slot: Free) -> bool:
    """Take a slot from who left it, if anybody did, unless that has been rated this moment."""
    if slot.left_by is None:
        return True
    unrated = (presentation.c.id == slot.left_by, presentation.c.rated_at.is_(None))
    done = turn.connection.execute(update(presentation).where(*unrated).values(superseded=true()))
    return done.rowcount == 1


def shorten_leases(turn: Turn) -> None:
    """See that no lease in the pool outlasts one given now.

    A lease can end later than that only because the clock was set back, or the study's lease was longer then;
    whoever holds it keeps a whole lease from now, and a slot that was left is not lost for as long as the
    clock went back.
    """
    longest = turn.now + turn.plan.lease
    turn.connection.execute(_SHORTEN, {"asked_pool": turn.pool, "asked_longest": longest})


def _kept(turn: Turn, pair_ids: Sequence[str]) -> dict[str, list[Row[tuple[object, ...]]]]:
    """Return what a roster has of the pairs."""
    kept: dict[str, list[Row[tuple[object, ...]]]] = {}
    if turn.has_roster:
        for row in turn.connection.execute(_KEPT, {"asked_pairs": pair_ids}):
            kept.setdefault(row.pair_id, []).append(row)
    return kept


def _open(
    turn: Turn, place: Place, kept: Sequence[Row[tuple[object, ...]]]
) -> Iterator[tuple[int, First, bool]]:
    """Yield the slots of a pair that are for this rater: the one kept for it, or those kept for nobody.

    With each come its side, which the roster planned even where its rater is gone, and whether it is kept.
    """
    planned = {row.slot: row for row in kept if row.slot < turn.plan.slots}
    mine = [slot for slot, row in planned.items() if row.rater_id == turn.rater.id]
    for slot in mine or range(turn.plan.slots):
        row = planned.get(slot)
        if row is None:
            yield slot, place.first(slot), False
        elif mine or row.gone:
            yield slot, row.first, bool(mine) and not row.gone
