"""Which slots are free for a rater: on the ring of pairs, where a lease is over, in its roster.

A *slot* is a planned showing of a pair in a pool. Its holder is its one presentation that is neither
superseded nor withdrawn; an index of the database allows no second. A slot is free when it has no holder, or
when its holder is unrated and its lease is over; then the new presentation supersedes the old, whose verdict,
if it comes, is surplus. A slot that a roster keeps for a rater is free for that rater alone, until it is
revoked or excluded.

Slots 2k and 2k + 1 are a *couple*, one of either side: the first showing of either decides both for good.

No statement reads many more rows than it returns, but for what the rater itself has seen: a hand-out is as
fast in a study of a million pairs as in one of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import cycle
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    String,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    union,
    union_all,
    update,
)

from guard_eval.records import Plan, Rater
from guard_eval.store.handout.occupancy import (
    IS_OUT,
    PEOPLE,
    RING,
    First,
    PoolState,
    place,
    shuffled,
)
from guard_eval.store.raters import pool_of
from guard_eval.store.schema import HOLDS_SLOT, assignment, occupancy, presentation, rater

WINDOW = 16
"""How many pairs with a free slot are looked up together; a rater's order is an order of these."""

TOGETHER = 8
"""Of how many pairs `free_slots` finds the free slots at once, at most."""

MOST_COUNTED = 10_000
"""Up to how many what a rater without a quota can still get is counted."""

Methods = tuple[str, str]
"""The comparison that a pair belongs to."""

_EVER = datetime(1, 1, 1, tzinfo=UTC)
_OTHER: dict[First | None, First] = {"a": "b", "b": "a"}


class Turn(NamedTuple):
    """One rater's request for pairs, and what is known when it comes."""

    connection: Connection
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
        """Return whether slots of the rater's pool are kept for raters; only people have a roster."""
        return self.state.roster and self.rater.kind == "person"

    @property
    def parameters(self) -> dict[str, object]:
        """Return the parameters that statements of this module share."""
        return {
            "param_pool": self.pool,
            "param_rater": self.rater.id,
            "param_slots": self.plan.slots,
            "param_now": self.now,
        }


class FreeSlot(NamedTuple):
    """A free slot of a pair.

    Attributes:
        slot: Its number.
        first: Which text it shows as A; None while neither slot of its couple was shown.
        left_by: The presentation that left it unrated.
        attempt: How often it was given before.
    """

    slot: int
    first: First | None
    left_by: int | None
    attempt: int


class _Shown(NamedTuple):
    """What is known of a slot: its side, who left it unrated, how often it was given, whether it is held."""

    first: First | None
    left_by: int | None
    attempts: int
    held: bool


_NOT_SHOWN = _Shown(None, None, 0, held=False)

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
    # so many, some perhaps twice: a list of any length would be put into the statement's text each time
    presentation.c.pair_id.in_([bindparam(f"param_pair_{number}") for number in range(TOGETHER)]),
)
_ROSTER = (
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

_METHODS = (occupancy.c.pair_id, occupancy.c.method_a, occupancy.c.method_b)
_seen = presentation.alias("seen")
# the index of what a rater has seen is of these pools, which SQLite knows only if they are written out
_ONCE = literal_column("seen.pool", String).in_([literal_column("'people'"), literal_column("'simulated'")])


def _unseen(pair_id: ColumnElement[str]) -> ColumnElement[bool]:
    mine = (_seen.c.rater_id == bindparam("param_rater"), _seen.c.pair_id == pair_id, _ONCE)
    return ~exists().where(*mine).correlate(occupancy, presentation, assignment)


# the ring is searched from a place to its end, then from its beginning to that place
_PARTS = union_all(
    *(
        select(*_METHODS, occupancy.c.ring, literal_column(f"{part}", Integer).label("part"))
        .where(
            occupancy.c.pool == bindparam("param_pool"),
            occupancy.c.vacant == true(),
            _unseen(occupancy.c.pair_id),
            occupancy.c.ring >= bindparam(f"param_begin_{part}"),
            occupancy.c.ring < bindparam(f"param_end_{part}"),
        )
        .order_by(occupancy.c.ring)
        .limit(bindparam("param_limit"))
        .subquery()
        .select()
        for part in (1, 2)
    )
).subquery()
_RING = select(_PARTS).order_by(_PARTS.c.part, _PARTS.c.ring).limit(bindparam("param_limit"))
# a slot kept for another rater is free for no one else
_IS_KEPT = (
    exists()
    .where(
        presentation.c.pool == PEOPLE,
        assignment.c.pair_id == presentation.c.pair_id,
        assignment.c.slot == presentation.c.slot,
        assignment.c.rater_id != bindparam("param_rater"),
        rater.c.id == assignment.c.rater_id,
        ~IS_OUT,
    )
    .correlate(presentation)
)
_LEFT = (
    presentation.c.pool == bindparam("param_pool"),
    HOLDS_SLOT,
    presentation.c.rated_at.is_(None),
    presentation.c.leased_until <= bindparam("param_now"),
    presentation.c.slot < bindparam("param_slots"),
    _unseen(presentation.c.pair_id),
    ~_IS_KEPT,
)
_SAME_PAIR = and_(occupancy.c.pool == presentation.c.pool, occupancy.c.pair_id == presentation.c.pair_id)
_NEXT_LEFT = (
    select(*_METHODS, presentation.c.leased_until, presentation.c.id)
    .join(presentation, _SAME_PAIR)
    .where(
        *_LEFT,
        presentation.c.leased_until >= bindparam("param_since"),
        or_(
            presentation.c.leased_until > bindparam("param_since"),
            presentation.c.id > bindparam("param_after"),
        ),
    )
    .order_by(presentation.c.leased_until, presentation.c.id)
    .limit(bindparam("param_limit"))
)
_MINE = (
    assignment.c.rater_id == bindparam("param_rater"),
    assignment.c.slot < bindparam("param_slots"),
    _unseen(assignment.c.pair_id),
)
_MINE_KEPT = (
    select(*_METHODS)
    .join(assignment, assignment.c.pair_id == occupancy.c.pair_id)
    .where(*_MINE, occupancy.c.pool == bindparam("param_pool"))
)
_MINE_FREE = (
    *_MINE,
    ~exists()
    .where(
        presentation.c.pool == bindparam("param_pool"),
        presentation.c.pair_id == assignment.c.pair_id,
        presentation.c.slot == assignment.c.slot,
        HOLDS_SLOT,
    )
    .correlate(assignment),
)
# an expression is in no index: these go from what is few, a rater's showings or leases, to the pairs
_HAS_ROOM = case((occupancy.c.vacant == true(), 1), else_=0) == 1
_COUNT_SEEN = (
    select(func.count())
    .select_from(presentation)
    .join(occupancy, _SAME_PAIR)
    .where(
        presentation.c.rater_id == bindparam("param_rater"),
        presentation.c.pool == bindparam("param_pool"),
        _HAS_ROOM,
    )
)
_COUNT_VACANT = select(func.count()).select_from(
    select(occupancy.c.ring)
    .where(occupancy.c.pool == bindparam("param_pool"), occupancy.c.vacant == true())
    .limit(bindparam("param_limit"))
    .subquery()
)
_COUNT_FULL = select(func.count()).select_from(
    union(
        select(presentation.c.pair_id).join(occupancy, _SAME_PAIR).where(*_LEFT, ~_HAS_ROOM),
        select(assignment.c.pair_id)
        .join(occupancy, occupancy.c.pair_id == assignment.c.pair_id)
        .where(*_MINE_FREE, occupancy.c.pool == bindparam("param_pool"), ~_HAS_ROOM),
    ).subquery()
)


def next_lease_end(turn: Turn) -> datetime | None:
    """Return when the first lease ends on a pair that the rater has not seen; None where there is none."""
    leased = select(func.min(presentation.c.leased_until)).where(
        presentation.c.pool == turn.pool,
        HOLDS_SLOT,
        presentation.c.rated_at.is_(None),
        presentation.c.leased_until > turn.now,
        presentation.c.slot < turn.plan.slots,
        _unseen(presentation.c.pair_id),
        ~_IS_KEPT,
    )
    found: datetime | None = turn.connection.execute(leased, turn.parameters).scalar_one()
    return found


def count_vacant_slots(connection: Connection, slots: int) -> int:
    """Return how many slots of the pool of people are free and not kept for a rater."""
    vacant = (occupancy.c.pool == PEOPLE, occupancy.c.vacant == true())
    statement = select(func.coalesce(func.sum(slots - occupancy.c.held), 0)).where(*vacant)
    return int(connection.execute(statement).scalar_one())


def kept_pairs(turn: Turn) -> Iterator[dict[str, Methods]]:
    """Yield the pairs that a roster keeps for the rater and that it has not seen, in the rater's order."""
    yield _in_order(turn, turn.connection.execute(_MINE_KEPT, turn.parameters))


def free_pairs(turn: Turn, shown: int) -> Iterator[dict[str, Methods]]:
    """Yield pairs with a free slot that the rater has not seen, some at a time, each part in its order.

    Where all fit into one part, that is the order of all; otherwise rater and seed decide for each of its
    showings where on the ring the search begins. Of leases that are over the oldest come first.
    """
    start = place(turn.plan.seed, turn.rater.name, shown)
    reached = {"param_begin_1": start, "param_end_1": RING, "param_begin_2": 0, "param_end_2": start}
    since, after = _EVER, 0
    has_left = turn.state.earliest_lease is not None and turn.state.earliest_lease <= turn.now
    while True:
        parameters = {**turn.parameters, **reached, "param_limit": WINDOW}
        ring = turn.connection.execute(_RING, parameters).all()
        left: Sequence[Row[*tuple[Any, ...]]] = ()
        if has_left:
            parameters |= {"param_since": since, "param_after": after}
            left = turn.connection.execute(_NEXT_LEFT, parameters).all()
        yield _in_order(turn, (*ring, *left))
        if max(len(left), len(ring)) < WINDOW:
            return
        if left:
            since, after = left[-1].leased_until, left[-1].id
        if ring:
            _advance(reached, ring[-1].ring, start)


def _advance(reached: dict[str, int], last: int, start: int) -> None:
    """Go on at the place of the last pair, where others may lie too; behind it if that was searched again."""
    if last < start:
        reached["param_begin_1"] = RING
    begin = "param_begin_2" if last < start else "param_begin_1"
    reached[begin] = last + (last == reached[begin])


def count_free(turn: Turn, most: int) -> int:
    """Return how many pairs the rater can still be shown, `most` where there are more.

    Its open ones do not count.
    """
    parameters = turn.parameters
    seen: int = turn.connection.execute(_COUNT_SEEN, parameters).scalar_one()
    vacant: int = turn.connection.execute(
        _COUNT_VACANT, {**parameters, "param_limit": most + seen}
    ).scalar_one()
    total = vacant - seen
    if total < most:
        # of pairs that are full: where a lease is over, and what is kept for the rater
        total += turn.connection.execute(_COUNT_FULL, parameters).scalar_one()
    return min(total, most)


def free_slots(turn: Turn, pair_ids: Iterable[str]) -> dict[str, list[FreeSlot]]:
    """Return the free slots of each pair's first couple that has one; pairs without one are left out.

    Couples are of one side each: a pair is even whenever all its couples are full. `pair_ids` are 1 to
    `TOGETHER`.
    """
    pair_ids = list(pair_ids)
    shown: dict[str, dict[int, _Shown]] = {pair_id: {} for pair_id in pair_ids}
    listed = zip(range(TOGETHER), cycle(pair_ids))
    asked = {f"param_pair_{number}": pair_id for number, pair_id in listed}
    rows = turn.connection.execute(_SHOWN, {**turn.parameters, **asked})
    # the rows grow with the overlap, and their attributes' names would cost as much as all the rest
    for number, pair_id, slot, first, attempt, holds, held in rows:
        before = shown[pair_id].get(slot, _NOT_SHOWN)
        left_by = number if holds and not held else before.left_by
        shown[pair_id][slot] = _Shown(first, left_by, max(before.attempts, attempt + 1), before.held or held)
    kept: dict[str, dict[int, Row[Any]]] = {pair_id: {} for pair_id in pair_ids}
    if turn.has_roster:
        for row in turn.connection.execute(_ROSTER, {"param_pairs": pair_ids}):
            kept[row.pair_id][row.slot] = row
    found = {pair_id: _first_couple(turn, shown[pair_id], kept[pair_id]) for pair_id in pair_ids}
    return {pair_id: free for pair_id, free in found.items() if free}


def _first_couple(turn: Turn, shown: Mapping[int, _Shown], kept: Mapping[int, Row[Any]]) -> list[FreeSlot]:
    """Return the free slots of a pair's first couple that has one, lowest first."""
    mine = sorted(
        slot for slot, row in kept.items() if row.rater_id == turn.rater.id and slot < turn.plan.slots
    )
    found: list[FreeSlot] = []
    for slot in mine or range(turn.plan.slots):
        if found and found[0].slot // 2 != slot // 2:
            break
        here = shown.get(slot, _NOT_SHOWN)
        if not here.held and (slot in mine or slot not in kept or kept[slot].is_out):
            first = _side(slot, shown, kept) or _OTHER.get(_side(slot ^ 1, shown, kept))
            found.append(FreeSlot(slot, first, here.left_by, here.attempts))
    return found


def _side(slot: int, shown: Mapping[int, _Shown], kept: Mapping[int, Row[Any]]) -> First | None:
    """Return which text a slot shows as A: as the roster planned it even where its rater is out."""
    planned: First | None = kept[slot].first if slot in kept else None
    return planned or shown.get(slot, _NOT_SHOWN).first


def take(turn: Turn, slot: FreeSlot) -> None:
    """Take a slot from who left it, if anybody did."""
    if slot.left_by is not None:
        left = update(presentation).where(presentation.c.id == slot.left_by)
        turn.connection.execute(left.values(superseded=true()))


def shorten_leases(turn: Turn) -> None:
    """Let no lease in the pool outlast one given now.

    A lease can end later than that only because the clock was set back, or the study's lease was longer then;
    its holder keeps a whole lease from now, and a slot that was left is not lost for as long as the
    clock went back.
    """
    longest = turn.now + turn.plan.lease
    if turn.state.latest_lease is not None and turn.state.latest_lease > longest:
        turn.connection.execute(_SHORTEN, {"param_pool": turn.pool, "param_longest": longest})


def _in_order(turn: Turn, rows: Iterable[Row[*tuple[Any, ...]]]) -> dict[str, Methods]:
    methods = {pair_id: (method_a, method_b) for pair_id, method_a, method_b, *_ in rows}
    return {pair_id: methods[pair_id] for pair_id in shuffled(methods, turn.plan.seed, turn.rater.name)}
