"""Which slots of a pair are free for a rater, and how one is taken from who left it.

A *slot* is a planned showing of a pair in a pool. Its holder is its one presentation that is neither
superseded nor withdrawn; an index of the database allows no second. A slot is free when it has no holder, or
when its holder is unrated and its lease is over; then the new presentation supersedes the old, whose verdict,
if it comes, is surplus. A slot that a roster keeps for a rater is free for that rater alone, until it is
revoked or excluded.

Slots 2k and 2k + 1 are a *couple*, one of either side: the first showing of either decides both for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, or_, select, true, update

from guard_eval.records import Plan, Rater
from guard_eval.store.handout.occupancy import HOLDS_SLOT, IS_OUT, PoolState
from guard_eval.store.handout.orders import First, Orders
from guard_eval.store.raters import pool_of
from guard_eval.store.schema import assignment, presentation, rater


class Turn(NamedTuple):
    """One rater's request for pairs, and what is known when it comes."""

    connection: Connection
    orders: Orders
    rater: Rater
    plan: Plan
    now: datetime
    state: PoolState

    @property
    def pool(self) -> str:
        """Return the pool whose slots the rater fills."""
        return pool_of(self.rater)

    @property
    def has_roster(self) -> bool:
        """Return whether slots of the rater's pool are kept for somebody; only people have a roster."""
        return self.state.roster and self.rater.kind == "person"

    @property
    def parameters(self) -> dict[str, object]:
        """Return the parameters of `KEEPS_SLOT` and of the statements of this module."""
        return {"param_pool": self.pool, "param_rater": self.rater.id, "param_now": self.now}


# built once: building a statement takes as long as running it
KEEPS_SLOT = and_(
    HOLDS_SLOT,
    or_(
        presentation.c.rated_at.is_not(None),
        presentation.c.leased_until > bindparam("param_now"),
        presentation.c.rater_id == bindparam("param_rater"),
    ),
)
"""True of presentations that keep their slot from a rater: rated, leased, or its own."""

_SHOWN = select(
    presentation.c.id,
    presentation.c.pair_id,
    presentation.c.slot,
    presentation.c.first,
    presentation.c.attempt,
    HOLDS_SLOT.label("holds"),
    KEEPS_SLOT.label("held"),
).where(
    presentation.c.pool == bindparam("param_pool"),
    presentation.c.pair_id.in_(bindparam("param_pairs", expanding=True)),
)

_KEPT = (
    select(assignment, IS_OUT.label("is_out"))
    .join(rater)
    .where(assignment.c.pair_id.in_(bindparam("param_pairs", expanding=True)))
)

_SHORTEN = (
    update(presentation)
    .where(
        presentation.c.pool == bindparam("param_pool"),
        HOLDS_SLOT,
        presentation.c.rated_at.is_(None),
        presentation.c.leased_until > bindparam("param_longest"),
    )
    .values(leased_until=bindparam("param_longest"))
)


_OTHER: dict[First | None, First] = {"a": "b", "b": "a"}


class FreeSlot(NamedTuple):
    """A free slot of a pair.

    Attributes:
        slot: Its number.
        first: Which text it shows as A; None while neither slot of its couple was shown.
        left_by: The presentation that left it unrated.
        attempt: How often it was given before.
        kept: It was kept for the rater whose turn it is.
    """

    slot: int
    first: First | None
    left_by: int | None
    attempt: int
    kept: bool = False


def free(turn: Turn, places: Iterable[str]) -> dict[str, list[FreeSlot]]:
    """Return the free slots of the pairs, lowest first; pairs without one are left out."""
    pair_ids = list(places)
    sides: dict[tuple[str, int], First] = {}
    left: dict[tuple[str, int], int] = {}
    attempts: dict[tuple[str, int], int] = {}
    held: set[tuple[str, int]] = set()
    for row in turn.connection.execute(_SHOWN, {**turn.parameters, "param_pairs": pair_ids}):
        seat = row.pair_id, row.slot
        sides[seat] = row.first
        attempts[seat] = max(attempts.get(seat, 0), row.attempt + 1)
        if row.held:
            held.add(seat)
        elif row.holds:
            left[seat] = row.id
    kept = _kept(turn, pair_ids)
    # a slot has the side that the roster planned even where its rater is out
    sides.update((seat, row.first) for seat, row in kept.items())
    found: dict[str, list[FreeSlot]] = {}
    for pair_id in pair_ids:
        mine = [slot for slot in range(turn.plan.slots) if _is_mine(turn, kept.get((pair_id, slot)))]
        for slot in mine or range(turn.plan.slots):
            seat = pair_id, slot
            planned = kept.get(seat)
            if seat not in held and (mine or planned is None or planned.is_out):
                first = sides.get(seat) or _OTHER.get(sides.get((pair_id, slot ^ 1)))
                is_kept = planned is not None and not planned.is_out
                slot_free = FreeSlot(slot, first, left.get(seat), attempts.get(seat, 0), is_kept)
                found.setdefault(pair_id, []).append(slot_free)
    return found


def take(turn: Turn, slot: FreeSlot) -> bool:
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
    turn.connection.execute(_SHORTEN, {"param_pool": turn.pool, "param_longest": longest})


def _kept(turn: Turn, pair_ids: Sequence[str]) -> dict[tuple[str, int], Row[tuple[object, ...]]]:
    """Return what a roster has of the pairs."""
    if not turn.has_roster:
        return {}
    rows = turn.connection.execute(_KEPT, {"param_pairs": pair_ids})
    return {(row.pair_id, row.slot): row for row in rows}


def _is_mine(turn: Turn, planned: Row[tuple[object, ...]] | None) -> bool:
    return planned is not None and planned.rater_id == turn.rater.id
